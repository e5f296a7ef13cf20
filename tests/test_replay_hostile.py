"""Logs made to exhaust memory or time: one line reports the problem, and valid data in them are read."""

import io
import json
import resource
import struct
import zlib

import lz4.frame
import pytest
import zstandard
from mcap.data_stream import RecordBuilder
from mcap.records import Chunk

from drivers.can import CanOptions, CanSignal
from drivers.nmea import NmeaOptions
from replay.blf_check import check_blf
from replay.can_log import CanLog
from replay.csv_log import CsvLog, read_estimates
from replay.lines import LONGEST_LINE, bounded_lines
from replay.log import open_log
from replay.mcap_format import MAGIC, RECORD
from replay.mcap_log import McapLog
from replay.mcap_messages import read_messages
from replay.mcap_writer import CHANNEL, McapWriter, write_clock
from replay.nmea_log import NmeaLog
from replay.problems import Problems
from vehicled.cli import main
from vehicled.errors import UsageError
from vehicled.messages import Measurement
from vehicled.reading.settings import shipped_folder
from vehicled.schemas import TOPIC_COLUMNS, encode_measurement

MB = 1 << 20
ZEROS = bytes(MB)
DATA_END = RECORD.pack(15, 4) + bytes(4)
BRAKE = CanOptions(
    dbc=shipped_folder() / "prototype.dbc",
    signals={"brake.pressure": CanSignal(message="Brake", signal="BrakePressure")},
)


def zstd_bomb(size):
    compressor = zstandard.ZstdCompressor(level=1).compressobj(size=size)
    return b"".join(compressor.compress(ZEROS) for _ in range(size // MB)) + compressor.flush()


def lz4_bomb(size):
    with lz4.frame.LZ4FrameCompressor() as compressor:
        parts = [compressor.begin(size), *(compressor.compress(ZEROS) for _ in range(size // MB))]
        return b"".join(parts) + compressor.flush()


def mcap(path, *chunks):
    """A file of chunks: (compression, data, the size that it declares)."""
    builder = RecordBuilder()
    for compression, data, size in chunks:
        chunk = Chunk(
            compression=compression,
            data=data,
            message_start_time=0,
            message_end_time=0,
            uncompressed_crc=0,
            uncompressed_size=size,
        )
        chunk.write(builder)
    path.write_bytes(MAGIC + builder.end() + DATA_END)
    return path


@pytest.mark.parametrize(
    ("compression", "make", "declared", "what"),
    [
        ("zstd", zstd_bomb, 512 * MB, "bytes from"),
        ("zstd", zstd_bomb, 1000, "more than the 1000 bytes"),
        ("zstd", zstd_bomb, 1 << 63, "bytes from"),
        ("lz4", lz4_bomb, 512 * MB, "bytes from"),
        ("lz4", lz4_bomb, 1000, "more than the 1000 bytes"),
        ("", lambda size: bytes(100), 1000, "less than the 1000 bytes"),
        ("zstd", lambda size: zstandard.compress(bytes(100)), 1000, "less than the 1000 bytes"),
        ("bzip2", lambda size: bytes(100), 1000, "compression 'bzip2'"),
    ],
)
def test_a_chunk_of_wrong_size_or_compression_is_reported_and_takes_little_memory(
    tmp_path, capsys, compression, make, declared, what
):
    path = mcap(tmp_path / "bomb.mcap", (compression, make(512 * MB), declared))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert main(["convert", str(path), str(tmp_path / "out.csv")]) != 0
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 150 * MB
    lines = capsys.readouterr().err.splitlines()
    assert [what in line for line in lines].count(True) == 1
    assert len(lines) <= 5  # two of progress, and the total


def test_the_compression_ratio_of_large_chunks_is_limited_and_that_of_small_ones_is_not(tmp_path):
    small = zstandard.compress(bytes(1 << 14))
    path = mcap(
        tmp_path / "bombs.mcap", *[("zstd", small, 1 << 14)] * 50, ("zstd", zstd_bomb(64 * MB), 64 * MB)
    )
    problems = Problems(path.name)
    assert list(read_messages(path, ("measurement",), problems)) == []
    assert problems.counts == {"damaged chunk": 1}


def test_data_after_a_decompression_bomb_are_read(tmp_path):
    good = tmp_path / "drive.csv"
    good.write_text("t,imu.ax\n" + "".join(f"{t / 100},{t}\n" for t in range(100)))
    assert main(["convert", str(good), str(tmp_path / "drive.mcap")]) == 0
    bomb = mcap(tmp_path / "bomb.mcap", ("zstd", zstd_bomb(64 * MB), 64 * MB)).read_bytes()[
        len(MAGIC) : -len(DATA_END)
    ]
    whole = (tmp_path / "drive.mcap").read_bytes()
    (tmp_path / "drive.mcap").write_bytes(whole[: len(MAGIC)] + bomb + whole[len(MAGIC) :])
    log = McapLog(tmp_path / "drive.mcap")
    assert len(list(log.measurements())) == 100
    assert log.problems.counts == {"damaged chunk": 1}


def test_a_record_of_impossible_size_is_not_read(tmp_path):
    path = tmp_path / "large.mcap"
    with path.open("wb") as file:
        file.write(MAGIC + RECORD.pack(5, 1 << 30))
        file.seek(1 << 30, io.SEEK_CUR)
        file.write(DATA_END)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    log = McapLog(path)
    assert list(log.measurements()) == []
    assert log.problems.counts == {"too large": 1}
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 100 * MB


@pytest.mark.parametrize("t", [2**63 - 1, -(2**63) - 1, 2**64 - 1, 10**22])
def test_impossible_times_are_skipped(tmp_path, t):
    path = tmp_path / "run.mcap"
    writer = McapWriter(path)
    write_clock(writer, 0, 0)
    for at in (1000, t):
        fix = encode_measurement(None, Measurement("gnss", at, at, {"gnss.lat": 43.0, "gnss.lon": 8.0}))
        writer.write(CHANNEL["measurement"], 1, 1, fix)
        for topic in TOPIC_COLUMNS:
            writer.write(CHANNEL[topic], 1, 1, json.dumps({"t": at}).encode())
    writer.close()
    for suffix in ("csv", "parquet", "mcap", "gpx"):
        assert main(["convert", str(path), str(tmp_path / f"out.{suffix}")]) == 0
    assert [m.t for m in open_log(tmp_path / "out.mcap").measurements()] == [1000]
    run = McapLog(path).read_run()
    assert run.estimates.t.tolist() == [1000]
    assert run.problems.counts["absurd time"] + run.problems.counts["bad message"] == 1 + len(TOPIC_COLUMNS)


def test_lines_are_bounded_and_numbered():
    problems = Problems("x")
    text = "a\n" + "b" * (3 * LONGEST_LINE) + "\nc\n" + "d" * (LONGEST_LINE - 1) + "\n" + "e" * LONGEST_LINE
    found = list(bounded_lines(io.StringIO(text), problems))
    assert [(n, line[:2]) for n, line in found] == [(1, "a\n"), (3, "c\n"), (4, "dd")]
    assert problems.counts == {"line too long": 2}
    assert [n for n, _ in bounded_lines(io.BytesIO(text.encode()), Problems("x"))] == [1, 3, 4]


def test_a_huge_line_of_a_csv_log_is_one_problem(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("t,imu.ax\n0,1\n" + "1," * (16 * MB) + "\n2,3\n")
    log = CsvLog(path)
    assert [m.values["imu.ax"] for m in log.measurements()] == [1.0, 3.0]
    assert log.problems.counts == {"line too long": 1}
    path.write_text("t,x\n0,1\n" + "1," * MB)
    assert len(read_estimates(path).t) == 1
    path.write_text("t,imu.ax" * MB)
    for read in (CsvLog, read_estimates):
        with pytest.raises(UsageError, match=r"^\S*long.csv: line 1: longer than 65536 characters"):
            read(path)


def test_other_text_logs_are_read_by_bounded_lines(tmp_path):
    for name, line in (("x.log", "(1.0) can0 130#0000"), ("x.asc", "1.0 1 130 Rx d 2 00 00")):
        path = tmp_path / name
        path.write_text(
            "date Mon Jan 1 10:00:00 am 2024\n" * name.endswith("asc") + "7" * (4 * MB) + f"\n{line}\n"
        )
        log = CanLog(path, {"can": BRAKE})
        list(log.measurements())
        assert log.problems.counts["line too long"] == 1
    path = tmp_path / "x.nmea"
    path.write_bytes(b"$" * (4 * MB) + b"\n$GPGGA,120000.00,,,,,0,00,,,M,,M,,*4B\n")
    log = NmeaLog(path, "gnss", NmeaOptions(port="x"))
    list(log.measurements())
    assert log.problems.counts["line too long"] == 1


def blf(path, *containers):
    """A BLF file of zlib containers of these bytes."""
    head = struct.pack("<4sL", b"LOGG", 144).ljust(144, b"\0")
    for data in containers:
        body = struct.pack("<H6xL4x", 2, len(data)) + zlib.compress(data)
        head += struct.pack("<4sHHLL", b"LOBJ", 16, 1, 16 + len(body), 10) + body + bytes(len(body) % 4)
    path.write_bytes(head)
    return path


@pytest.mark.parametrize(
    ("contents", "what"),
    [
        (bytes(64 * MB), "container of more than"),
        (struct.pack("<4sHHLL", b"LOBJ", 32, 1, 0, 1) + bytes(100), "object of 0 bytes"),
        (struct.pack("<4sHHLL", b"LOBJ", 32, 9, 0, 99) + bytes(100), "object of 0 bytes"),
        (struct.pack("<4sHHLL", b"LOBJ", 32, 1, 1 << 31, 1) + bytes(100), "object of 2147483648 bytes"),
    ],
)
def test_a_blf_log_with_impossible_sizes_is_one_problem(tmp_path, contents, what):
    path = blf(tmp_path / "bomb.blf", contents)
    with pytest.raises(ValueError, match=what):
        check_blf(path)
    log = CanLog(path, {"can": BRAKE})
    assert list(log.measurements()) == []
    assert log.problems.counts == {"unreadable": 1}
    assert what in log.problems.details[0]
