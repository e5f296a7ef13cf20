"""The recorder and its MCAP files: exact, complete, readable if damaged or cut off, and by other programs."""

import errno
import io
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.opcode import Opcode
from mcap.reader import make_reader
from mcap.stream_reader import StreamReader
from recording_rig import OFFSET, PERIOD, START, UTC, messages, step

from replay import mcap_writer
from replay.mcap_format import MAGIC
from replay.mcap_log import McapLog
from replay.mcap_writer import CHANNEL, McapLogWriter, McapWriter
from vehicled.daemon.recorder import Recorder
from vehicled.errors import UsageError
from vehicled.messages import ESTIMATE_COLUMNS, Command, Innovation, Measurement, Status
from vehicled.schemas import resolution_of


def record(path: Path, steps: int) -> None:
    with Recorder(path, "rate: 250 Hz\n", START, OFFSET) as recorder:
        for i in range(steps):
            if i == 20:
                recorder.record_command(START + i * PERIOD, "set_position", {"lat": 48.0, "lon": 11.5})
            recorder.record_step(*step(i), duration_ns=300_000 + i)
        recorder.record_status(Status(START, "running", {"queue": {"dropped": np.int64(3)}}))


def test_a_recording_gives_back_exactly_what_each_step_consumed(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(path, 300)
    log = McapLog(path)
    assert log.recorded
    assert log.configuration == "rate: 250 Hz\n"
    assert log.utc_offset_ns == OFFSET
    steps = list(log.recorded_steps())
    assert [(s.t, s.measurements) for s in steps] == [step(i)[:2] for i in range(300)]
    assert [s.commands for s in steps if s.commands] == [
        (Command("set_position", {"lat": 48.0, "lon": 11.5}),)
    ]
    assert steps[20].commands
    assert not log.problems


def test_a_recording_gives_back_estimates_innovations_and_status(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(path, 50)
    run = McapLog(path).read_run()
    expected = [e for i in range(50) if (e := step(i)[2]) is not None]
    assert run.estimates.t.tolist() == [e.t for e in expected]
    table = np.column_stack([run.estimates.columns[c] for c in ESTIMATE_COLUMNS])
    resolution = np.array([resolution_of(c) for c in ESTIMATE_COLUMNS])
    errors = table - np.array([e.values for e in expected])
    assert np.array_equal(np.isnan(errors), [np.isnan(e.values) for e in expected])
    assert np.nanmax(np.abs(errors) / resolution) <= 0.5 + 1e-6
    assert run.innovations == [i for n in range(50) for i in step(n)[3]]
    assert run.statuses == [Status(START, "running", {"queue": {"dropped": 3}})]
    assert [s.duration for s in run.steps] == [300_000 + i for i in range(50)]


def test_innovations_that_are_not_finite_are_recorded(tmp_path: Path) -> None:
    bad = Innovation(
        START, START, "imu.gyro", "imu", [np.nan], [0.0], [np.inf], [1.0], np.nan, 2.0, False, "gate"
    )
    with Recorder(tmp_path / "run.mcap", "", START, OFFSET) as recorder:
        recorder.record_step(START, [], None, [bad])
    (back,) = McapLog(tmp_path / "run.mcap").read_run().innovations
    assert np.isnan(back.value[0])
    assert np.isnan(back.nis)
    assert (back.test_ratio, back.reason) == (2.0, "gate")


def test_replays_record_the_same_bytes_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with Recorder(tmp_path / name, "x", START, OFFSET, limit=4) as recorder:
            for i in range(600):
                recorder.record_step(*step(i))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_other_readers_find_everything(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(path, 300)
    with open(path, "rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == messages(300) + len(
            ["configuration", "clock", "command", "status"]
        )
        assert {s.encoding for s in summary.schemas.values()} == {"jsonschema"}
        assert {c.message_encoding for c in summary.channels.values()} == {"json"}
        topics = {c.topic for c in summary.channels.values()}
        assert {"/position", "/slip", "/suspension", "/status", "/innovation", "/measurement"} <= topics
        # Through the chunk and message indexes, by topic and time, as viewers seek:
        since = UTC + 100 * PERIOD
        found = [m for _, _, m in reader.iter_messages(["/position"], starting_at=since)]
    assert [m.log_time for m in found] == [UTC + i * PERIOD for i in range(100, 300)]
    first = json.loads(found[0].data)
    assert first["schema"] == 1
    assert first["t"] == START + 100 * PERIOD
    assert first["lat"] is None
    with open(path, "rb") as file:
        assert sum(1 for _ in StreamReader(file, validate_crcs=True).records) > 300


@pytest.mark.parametrize("keep", [0.9, 0.7, 0.35])
def test_a_file_that_was_cut_off_reads_back_to_its_last_chunk(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "run.mcap"
    record(path, 1000)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    log = McapLog(path)
    steps = list(log.recorded_steps())
    assert [(s.t, s.measurements) for s in steps] == [step(i)[:2] for i in range(len(steps))]
    assert len(steps) >= 1000 * keep - 400
    assert log.problems.counts == {"truncated": 1}
    run = log.read_run()
    assert len(run.estimates.t) == len(steps) - 10


def test_only_a_damaged_chunk_is_lost_and_it_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    record(path, 1000)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    log = McapLog(path)
    steps = list(log.recorded_steps())
    assert 500 < len(steps) < 1000
    assert all((s.t, s.measurements) == step((s.t - START) // PERIOD)[:2] for s in steps)
    assert log.problems.counts == {"damaged chunk": 1, "steps missing": 1}


@pytest.mark.parametrize(
    "bad",
    [
        b'{"t": 5, "\xb2": 1}',
        b'{"t": 1e300, "x": 1}',
        b'{"t": null}',
        b'{"t": %d}' % 2**70,
        b'{"x": 1}',
        b"[",
        b'{"t": 5, "x": "1"}',
    ],
)
def test_a_damaged_row_of_estimates_is_counted_and_skipped(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "run.mcap"
    writer = McapWriter(path)
    for data in (b'{"t": 9007199254740993, "x": 1}', bad):
        writer.write(CHANNEL["position"], START, START, data)
    writer.close()
    run = McapLog(path).read_run()
    assert list(run.estimates.t) == [9007199254740993]
    assert run.problems.counts == {"bad message": 1}


@pytest.mark.parametrize(
    "body", [b"abc", b"\x01\x00\x00\x00\x01\x00\x00\x00\x96" + bytes(8)], ids=["short", "text"]
)
def test_a_damaged_channel_is_counted_and_skipped(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "run.mcap"
    record(path, 30)
    data = path.read_bytes()
    damaged = bytes([Opcode.CHANNEL]) + len(body).to_bytes(8, "little") + body
    path.write_bytes(data[: len(MAGIC)] + damaged + data[len(MAGIC) :])
    log = McapLog(path)
    assert len(list(log.recorded_steps())) == 30
    assert log.problems.counts == {"damaged channel": 1}


@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=40), st.integers(0, 40))
@settings(max_examples=100)
def test_no_damage_raises_an_exception(
    tmp_path_factory: pytest.TempPathFactory, where: int, damage: bytes, remove: int
) -> None:
    directory = tmp_path_factory.getbasetemp()
    good = directory / "undamaged.mcap"
    if not good.exists():
        record(good, 30)
    data = good.read_bytes()
    at = 8 + where % (len(data) - 8)
    path = directory / "damaged.mcap"
    path.write_bytes(data[:at] + damage + data[at + remove :])
    log = McapLog(path)
    for s in log.recorded_steps():
        assert s.measurements == step((s.t - START) // PERIOD)[1]
    log.read_run()


@pytest.mark.parametrize(("content", "fault"), [(b"hello", "not an MCAP file"), (b"", "the file is empty")])
def test_a_file_that_is_not_mcap_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "x.mcap"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=f"x.mcap: {fault}"):
        McapLog(path)


class FullDisk(io.FileIO):
    """A file that, while its disk is `full`, writes 10 bytes at a time and fails for the last ones."""

    full = False

    def write(self, data: Any) -> int:
        if not self.full:
            return super().write(data)
        if len(data) > 10:
            return super().write(bytes(data[:10]))
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_loses_chunks_but_not_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.mcap"
    disk: list[FullDisk] = []

    def open_full(p: Path, mode: str) -> FullDisk:
        disk.append(FullDisk(p, mode[0]))
        return disk[0]

    monkeypatch.setattr(mcap_writer, "OutputStream", open_full)
    writer = McapWriter(path)
    monkeypatch.undo()
    for n in range(6):
        disk[0].full = 2 <= n < 4
        writer.write(
            mcap_writer.CHANNEL["status"],
            UTC + n,
            UTC,
            b'{"schema":1,"t":%d,"state":"running","counters":{}}' % n,
        )
        if disk[0].full:
            with pytest.raises(OSError, match="No space"):
                writer.end_chunk()
        else:
            writer.end_chunk()
    writer.close()
    log = McapLog(path)
    assert [s.t for s in log.read_run().statuses] == [0, 1, 4, 5]
    assert not log.problems
    with open(path, "rb") as file:
        assert len(list(make_reader(file, validate_crcs=True).iter_messages())) == 4


def test_a_replay_whose_disk_is_full_ends_with_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk: list[FullDisk] = []

    def open_full(p: Path, mode: str) -> FullDisk:
        disk.append(FullDisk(p, mode[0]))
        return disk[0]

    monkeypatch.setattr(mcap_writer, "OutputStream", open_full)
    recorder = Recorder(tmp_path / "run.mcap", "", START, OFFSET, limit=10)
    disk[0].full = True

    def record() -> None:
        for i in range(100_000):
            recorder.record_step(*step(i % 200))

    with pytest.raises(OSError, match="No space left"):
        record()
    with pytest.raises(OSError, match="No space left"):
        recorder.close()


def test_the_index_of_a_long_recording_takes_no_memory(tmp_path: Path) -> None:
    path, chunks = tmp_path / "long.mcap", 4000
    writer = McapWriter(path)
    tracemalloc.start()
    try:
        for i in range(chunks):
            for channel in CHANNEL.values():
                writer.write(channel, i, i, b"{}")
            writer.end_chunk()
            if i == chunks // 4:
                before, _ = tracemalloc.get_traced_memory()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [*tmp_path.iterdir()] == [path]
    writer.close()
    assert after - before < 3000  # a byte per chunk
    with path.open("rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    assert summary.statistics is not None
    assert len(summary.chunk_indexes) == summary.statistics.chunk_count == chunks
    assert [index.message_start_time for index in summary.chunk_indexes] == [*range(chunks)]


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run.mcap", "", START, OFFSET)
    recorder.close()
    recorder.close()
    assert not McapLog(tmp_path / "run.mcap").recorded


def test_a_log_of_measurements_is_distinguished_from_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "drive.mcap"
    samples = [m for i in range(100) for m in step(i)[1]]
    with McapLogWriter(path, OFFSET) as writer:
        for m in samples:
            writer.write(m)
    log = McapLog(path)
    assert not log.recorded
    assert log.utc_offset_ns == OFFSET
    assert list(log.measurements()) == samples


def test_values_that_are_null_are_absent_and_reported(tmp_path: Path) -> None:
    with McapLogWriter(tmp_path / "drive.mcap") as writer:
        writer.write(Measurement("imu", 0, 0, {"imu.ax": float("nan"), "imu.ay": 1.0}))
    log = McapLog(tmp_path / "drive.mcap")
    assert [m.values for m in log.measurements()] == [{"imu.ay": 1.0}]
    assert log.problems.counts == {"not finite": 1}
