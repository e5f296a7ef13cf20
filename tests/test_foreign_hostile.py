"""Truncated, renamed, empty and foreign files of every format: one clear line, never a traceback."""

import dataclasses
import math
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
import zstandard
from foreign_rig import drive, vbo_head, write_bag, write_mdf, write_ncom
from test_foreign_devices import GUIDE, write_segment

from replay.foreign.mapping import LogMapping, MappedClock, MappedSignal, load_mapping
from replay.log import create_log, open_log
from vehicled.cli import main
from vehicled.errors import UsageError

GUIDE_PAGE = (Path(__file__).parent.parent / "docs" / "mapping.md").read_text()
FORMATS = ("mf4", "bag", "parquet", "vbo", "ncom", "csv", "mcap")
FOLDERS = ("ros2", "comma2k19")


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A readable log of every format."""
    folder = tmp_path_factory.mktemp("good")
    measurements = drive()[:1500]
    write_mdf(folder / "drive.mf4", measurements)
    write_bag(folder / "drive.bag", measurements, 1)
    write_bag(folder / "ros2", measurements, 2)
    for suffix in ("parquet", "csv", "mcap"):
        with create_log(folder / f"drive.{suffix}", {c for m in measurements for c in m.values}) as log:
            for m in measurements:
                log.write(m)
    (folder / "drive.vbo").write_text(vbo_head() + GUIDE * 40)
    write_ncom(folder / "drive.ncom", seconds=3.0)
    write_segment(folder / "comma2k19", seconds=3.0)
    return folder


def convert(path: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    """Exit status, and the lines on stderr without those of progress."""
    status = main(["convert", str(path), str(out)])
    shown = capsys.readouterr().err.splitlines()
    return status, [line for line in shown if not line.startswith(("converting:", "reading:"))]


@pytest.mark.parametrize("name", [*(f"drive.{f}" for f in FORMATS), *FOLDERS])
def test_undamaged_logs_are_read(good: Path, tmp_path: Path, capsys, name: str) -> None:
    assert convert(good / name, tmp_path / "out.csv", capsys)[0] == 0


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.7, 0.999])
def test_truncated_files_are_errors_or_reported(
    good: Path, tmp_path: Path, capsys, kind: str, share: float
) -> None:
    data = (good / f"drive.{kind}").read_bytes()
    path = tmp_path / f"cut.{kind}"
    path.write_bytes(data[: max(int(share * len(data)) - 1, 0)])
    status, lines = convert(path, tmp_path / "out.mcap", capsys)
    assert status in (0, 1, 2)
    # The loss is reported by an error, or by problems beside the remaining measurements. Exceptions: a truncated
    # number may still be a number, and after the last chunk of MCAP there is only an index.
    assert lines or kind == "vbo" or (kind, share) == ("mcap", 0.999)
    assert all(len(line) < 1000 for line in lines)
    if status:
        assert lines[-1].startswith("vehicled: ")
        assert str(path) in lines[-1]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("renamed", [*FORMATS, "asc", "blf", "log", "txt", "db3", "mdf"])
def test_renamed_files_are_recognised_or_errors(
    good: Path, tmp_path: Path, capsys, kind: str, renamed: str
) -> None:
    path = tmp_path / f"drive.{renamed}"
    shutil.copy(good / f"drive.{kind}", path)
    status, lines = convert(path, tmp_path / "out.mcap", capsys)
    if kind in ("mf4", "parquet", "mcap"):
        assert status == 0  # recognised by their first bytes
    elif kind != renamed:
        assert status in (1, 2)
        assert lines[-1].startswith("vehicled: ")


@pytest.mark.parametrize("kind", FORMATS)
def test_files_with_foreign_content_are_errors(tmp_path: Path, capsys, kind: str) -> None:
    for i, content in enumerate((b"\0" * 5000, b"<!DOCTYPE html><html>\n" * 50, bytes(range(256)) * 40)):
        path = tmp_path / f"{i}.{kind}"
        path.write_bytes(content)
        status, lines = convert(path, tmp_path / "out.mcap", capsys)
        assert status in (1, 2), lines
        assert lines[-1].startswith(f"vehicled: {path}")


@pytest.mark.parametrize("mark", [b"MDF     ", b"#ROSBAG V2.0\n", b"PAR1", b"SQLite format 3\0"])
def test_files_with_only_the_mark_of_a_format_are_errors(tmp_path: Path, capsys, mark: bytes) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(mark + bytes(2000))
    status, lines = convert(path, tmp_path / "out.mcap", capsys)
    assert status == 2
    assert len(lines) == 1


def test_unknown_and_damaged_folders_are_errors(good: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag/metadata.yaml").write_text("rosbag2_bagfile_information: [")
    shutil.copytree(good / "comma2k19", tmp_path / "segment")
    (tmp_path / "segment/processed_log/CAN/speed/value").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr'")
    shutil.copytree(good / "comma2k19", tmp_path / "pickle")
    (tmp_path / "pickle/global_pose/frame_times").write_bytes(b"\x80\x04\x95")
    for name, expected in (
        ("empty", "unknown kind of log, a folder"),
        ("bag", "cannot be read as a bag of ROS"),
        ("segment", "CAN/speed/value: expected an array of numpy"),
        ("pickle", "frame_times: expected an array of numpy"),
    ):
        status, lines = convert(tmp_path / name, tmp_path / "out.mcap", capsys)
        assert status == 2
        assert expected in lines[-1]
        assert len(lines) == 1


@pytest.mark.parametrize(
    ("module", "extra", "name"),
    [
        ("asammdf", "mdf", "drive.mf4"),
        ("rosbags", "ros", "drive.bag"),
        ("pyarrow", "parquet", "drive.parquet"),
    ],
)
def test_a_library_that_is_not_installed_is_an_error_of_one_line(
    good: Path, tmp_path: Path, capsys, monkeypatch, module: str, extra: str, name: str
) -> None:
    for loaded in [m for m in sys.modules if m.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    status, lines = convert(good / name, tmp_path / "out.mcap", capsys)
    assert status == 2
    expected = f"needs {module}, which is not installed: pip install 'vehicled[{extra}]'"
    assert lines == [f"vehicled: {good / name}: {expected}"]


# -- mapping files -------------------------------------------------------------------------------------------

MAPPINGS = {
    "channels: {imu.wz: Quark}\n": "no signal 'Quark', which is to be imu.wz; expected one of ",
    "channels: {imu.wz: YawRte}\n": "did you mean 'Yaw_Rte'?",
    "channels: {imu.q: x}\n": "m.yaml:1: channels.imu.q: unknown channel",
    "channels:\n  imu.wz: {signal: Yaw_Rte, unit: bar}\n": "m.yaml:2: channels.imu.wz.unit: expected a unit",
    "channels:\n  imu.wz: {signal: Yaw_Rte, unit: warp}\n": "m.yaml:2: channels.imu.wz.unit: "
    "expected a unit like rad/s, such as deg/s, got 'warp'",
    "channels: {vehicle.speed: {signal: v, unit: kph}}\n": "m.yaml:1: channels.vehicle.speed.unit: "
    "expected a unit like m/s, such as km/h, got 'kph'",
    "channels:\n  imu.wz: {signal: Yaw_Rte, column: 2}\n": "m.yaml:2: channels.imu.wz.column: unknown key",
    "channels:\n  imu.wx: Yaw_Rte\n  imu.wz: {signal: v, unit: bar}\n": "m.yaml:3: channels.imu.wz.unit: expected",
    "channels:\n  imu.wx: v\n  imu.gz: v\n": "m.yaml:3: channels.imu.gz: unknown channel; did you mean 'imu.",
    "channels: {imu.wz: v}\n": "no column 't'; expected `time: {signal: NAME, unit: s}` in the mapping (Zeit, ",
    "chanels: {}\n": "m.yaml:1: chanels: unknown key; did you mean 'channels'?",
    "time: {signal: t, unit: m}\n": "m.yaml:1: time.unit: expected a unit like s",
    "time: Clock\nchannels: {imu.wz: Yaw_Rte}\n": "no signal 'Clock', which is to be time",
    "{}\n": "no channel known in it; expected a mapping of its signals (Zeit, Yaw_Rte, v)",
}


@pytest.mark.parametrize("text", MAPPINGS)
def test_mistakes_in_mapping_files_are_errors_of_one_line(tmp_path: Path, capsys, text: str) -> None:
    (tmp_path / "m.yaml").write_text(text)
    (tmp_path / "a.csv").write_text("Zeit,Yaw_Rte,v\n0,1,2\n1,1,2\n")
    arguments = [str(tmp_path / "a.csv"), str(tmp_path / "out.mcap"), "--mapping", str(tmp_path / "m.yaml")]
    assert main(["convert", *arguments]) == 2
    shown = capsys.readouterr().err
    assert MAPPINGS[text] in shown
    assert len(shown.splitlines()) == 1


def test_all_missing_signals_are_reported_at_once(tmp_path: Path, capsys) -> None:
    mapping, table = tmp_path / "m.yaml", tmp_path / "a.csv"
    mapping.write_text("channels: {imu.wx: Yaw, imu.wz: Yaw_Rte, vehicle.speed: Speed}\ntime: Clock\n")
    table.write_text("Zeit,Yaw_Rte,v\n0,1,2\n")
    assert main(["convert", str(table), str(tmp_path / "out.mcap"), "--mapping", str(mapping)]) == 2
    shown = capsys.readouterr().err.splitlines()
    assert [line.partition("no signal ")[2].partition(",")[0] for line in shown] == [
        "'Yaw'",
        "'Speed'",
        "'Clock'",
    ]


def test_all_mistakes_of_a_mapping_are_reported_at_once(tmp_path: Path, capsys) -> None:
    mapping = tmp_path / "m.yaml"
    mapping.write_text(
        "channels:\n  imu.q: x\n  imu.wz: {signal: v, unit: bar}\n  vehicle.speed: {signal: v, unit: kph}\n"
    )
    (tmp_path / "a.csv").write_text("t,v\n0,1\n")
    arguments = [str(tmp_path / "a.csv"), str(tmp_path / "out.mcap"), "--mapping", str(mapping)]
    assert main(["convert", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.removeprefix(f"vehicled: {mapping}:").split(": ")[:2] for line in lines] == [
        ["2", "channels.imu.q"],
        ["3", "channels.imu.wz.unit"],
        ["4", "channels.vehicle.speed.unit"],
    ]


def test_a_table_of_another_program_is_read_by_a_mapping(tmp_path: Path) -> None:
    """The table has semicolons, decimal commas, milliseconds, and a row of units under the header."""
    (tmp_path / "a.csv").write_text(
        "Zeit;Geschwindigkeit;Gierrate;Radzahl\nms;km/h;°/s;1/min\n1000;36,0;-9;60\n1010;72,0;;60\n1020;x;-18;60\n"
    )
    (tmp_path / "m.yaml").write_text(
        "time: {signal: Zeit, unit: ms, offset: 1 s}\n"
        "channels:\n"
        "  vehicle.speed: {signal: Geschwindigkeit, unit: km/h}\n"
        "  imu.wz: {signal: Gierrate, unit: deg/s, scale: -1, offset: 0.5 deg/s}\n"
        "  wheel.fl.speed: {signal: Radzahl, unit: rpm}\n"
        "  wheel.fr.speed: {signal: Geschwindigkeit, unit: km/h, radius: 0.5 m}\n"
    )
    log = open_log(tmp_path / "a.csv", mapping=load_mapping(tmp_path / "m.yaml"))
    found: dict[int, dict[str, float]] = {}
    for m in log.measurements():
        found.setdefault(m.t, {}).update(m.values)
    degree, turn = 0.017453292519943295, 6.283185307179586
    assert found == {
        2_000_000_000: pytest.approx(
            {"vehicle.speed": 10.0, "imu.wz": 9.5 * degree, "wheel.fl.speed": turn, "wheel.fr.speed": 20.0}
        ),
        2_010_000_000: pytest.approx({"vehicle.speed": 20.0, "wheel.fl.speed": turn, "wheel.fr.speed": 40.0}),
        2_020_000_000: pytest.approx({"imu.wz": 18.5 * degree, "wheel.fl.speed": turn}),
    }
    assert log.problems.counts["no time"] == 1  # the row of units


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize(
    "text",
    [
        "Zeit;Drehrate (°/s)\r\n1,5;-9,0\r\n2,5;18\r\n",
        "Zeit;Drehrate (°/s)\r\n1,5;-9,0;\r\n2,5;18;\r\n",
        'Zeit,"Drehrate (°/s)"\n"1,5","-9,0"\n2.5, "18,0"\n',
        '"Zeit"\t"Drehrate (°/s)"\n1.5\t-9\n2,5\t18\n',
    ],
)
def test_tables_written_by_spreadsheets_are_read(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    (tmp_path / "m.yaml").write_text(
        "time: Zeit\nchannels: {imu.wz: {signal: Drehrate (°/s), unit: deg/s}}\n", encoding="utf-8"
    )
    log = open_log(tmp_path / "a.csv", mapping=load_mapping(tmp_path / "m.yaml"))
    found = {m.t: math.degrees(m.values["imu.wz"]) for m in log.measurements()}
    assert found == pytest.approx({1_500_000_000: -9.0, 2_500_000_000: 18.0})
    assert not log.problems.counts


def test_a_stray_quote_or_carriage_return_loses_at_most_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'Zeit,v\n1,5\n2,"6\r,7\n3,8\n4,"9\n5,10\n')
    (tmp_path / "m.yaml").write_text("time: Zeit\nchannels: {vehicle.speed: v}\n")
    log = open_log(tmp_path / "a.csv", mapping=load_mapping(tmp_path / "m.yaml"))
    found = {m.t // 10**9: m.values["vehicle.speed"] for m in log.measurements()}
    assert found == {1: 5.0, 3: 8.0, 4: 9.0, 5: 10.0}
    assert log.problems.counts == {"bad number": 1}


@pytest.mark.parametrize("mapping", ["channels: {imu.wz: x}", "time: {signal: x}", "time: {unit: ms}"])
def test_logs_with_channel_names_accept_no_mapping_of_signals(
    good: Path, tmp_path: Path, mapping: str
) -> None:
    (tmp_path / "m.yaml").write_text(f"{mapping}\n")
    with pytest.raises(UsageError, match="expected a mapping with nothing but the `offset` of its `time`"):
        open_log(good / "drive.mcap", mapping=load_mapping(tmp_path / "m.yaml"))


def test_the_sample_mapping_shows_every_key() -> None:
    path = Path(__file__).parent.parent / "samples" / "mapping.yaml"
    assert load_mapping(path).channels["imu.ay"].scale == -1.0
    for cls in (LogMapping, MappedSignal, MappedClock):
        for field in dataclasses.fields(cls):
            assert f"{field.name}: " in path.read_text() or f"{field.name}:\n" in path.read_text(), field.name
            assert f"`{field.name}`" in GUIDE_PAGE or f"{field.name}:" in GUIDE_PAGE, field.name


@pytest.mark.parametrize("suffix", [".csv", ".mcap", ".parquet", ".gpx"])
def test_times_beyond_64_bits_of_nanoseconds_are_skipped(tmp_path: Path, capsys, suffix: str) -> None:
    times = ("1.5", "999999999999.5", "-999999999999", "9223372037", "2.5")
    (tmp_path / "a.csv").write_text("t,gnss.lat,gnss.lon\n" + "".join(f"{t},43.0,8.0\n" for t in times))
    out = tmp_path / f"out{suffix}"
    assert main(["convert", str(tmp_path / "a.csv"), str(out)]) == 0
    assert "3 bad time" in capsys.readouterr().err
    if suffix != ".gpx":
        assert [m.t for m in open_log(out).measurements()] == [1_500_000_000, 2_500_000_000]


def test_parquet_times_are_seconds_or_nanoseconds_and_invalid_ones_are_skipped(tmp_path: Path) -> None:
    seconds = [1.7e9, 1.7e9 + 0.5, math.nan, 1e11, 1.7e9 + 1.0]
    kinds = {
        "seconds": pyarrow.array(seconds),
        "ns": pyarrow.array([1, 2, None, 2**64 - 1, 3], pyarrow.uint64()),
    }
    for name, t in kinds.items():
        path = tmp_path / f"{name}.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"t": t, "imu.wz": [0.0, 0.1, 0.2, 0.3, 0.4]}), path)
        log = open_log(path)
        found = [(m.t, m.values["imu.wz"]) for m in log.measurements()]
        assert [wz for _, wz in found] == [0.0, 0.1, 0.4]
        assert log.problems.total == 2
        if name == "seconds":
            assert [t for t, _ in found] == [1_700_000_000_000_000_000 + i * 500_000_000 for i in range(3)]


@pytest.mark.parametrize("declared", [300 << 20, 1000])
def test_a_compression_bomb_in_a_bag_is_not_decompressed(tmp_path: Path, declared: int, monkeypatch) -> None:
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer, storage_mcap
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    kind = "std_msgs/msg/Float64"
    writer = Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP)
    writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with writer:
        topic = writer.add_connection("/speed", kind, typestore=store)
        for i in range(5):
            writer.write(topic, i * 10**7, store.serialize_cdr(store.types[kind](i / 2), kind))
    (file,) = (tmp_path / "bag").glob("*.mcap")
    bomb = zstandard.compress(bytes(300 << 20))
    real = storage_mcap.decompress
    monkeypatch.setattr(
        storage_mcap, "decompress", lambda data, kind, size, crc: real(bomb, kind, declared, 0)
    )
    mapping = LogMapping(channels={"vehicle.speed": MappedSignal(signal="/speed:data")})
    log = open_log(file, mapping=mapping)
    assert not list(log.measurements())
    # Either the declared size is refused, or the library reports that there is more than declared.
    assert re.search("expected at most|more than the 1000 bytes", log.problems.details[0])


@pytest.mark.parametrize(("kind", "size"), [("BZ2", 5 << 20), ("LZ4", 70 << 20)])
def test_a_compression_bomb_in_a_bag_of_ros_1_is_not_decompressed(
    tmp_path: Path, kind: str, size: int
) -> None:
    from rosbags.rosbag1 import Writer
    from rosbags.typesys import Stores, get_typestore

    store, path = get_typestore(Stores.ROS1_NOETIC), tmp_path / "drive.bag"
    number, text = "std_msgs/msg/Float64", "std_msgs/msg/String"
    writer = Writer(path)
    writer.set_compression(Writer.CompressionFormat[kind])
    with writer:  # one chunk
        speed = writer.add_connection("/speed", number, typestore=store)
        other = writer.add_connection("/text", text, typestore=store)
        writer.write(speed, 10**9, store.serialize_ros1(store.types[number](1.0), number))
        writer.write(other, 2 * 10**9, store.serialize_ros1(store.types[text]("\0" * size), text))
    assert path.stat().st_size < size / 100
    log = open_log(path, mapping=LogMapping(channels={"vehicle.speed": MappedSignal(signal="/speed:data")}))
    assert not list(log.measurements())
    assert "compressed by more than can be" in log.problems.details[0]


@pytest.mark.parametrize("mode", ["MESSAGE", "FILE"])
@pytest.mark.parametrize("numbers", [4, 600_000])
def test_messages_and_files_of_ros_2_are_decompressed_within_bounds(
    tmp_path: Path, mode: str, numbers: int
) -> None:
    from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store, kind = get_typestore(Stores.ROS2_HUMBLE), "sensor_msgs/msg/JointState"
    stamp = store.types["builtin_interfaces/msg/Time"](sec=1, nanosec=0)
    header = store.types["std_msgs/msg/Header"](stamp=stamp, frame_id="")
    nothing = np.zeros(0)
    message = store.types[kind](header, [], nothing, np.zeros(numbers), nothing)
    writer = Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.SQLITE3)
    writer.set_compression(CompressionMode[mode], CompressionFormat.ZSTD)
    with writer:
        speed = writer.add_connection("/speed", kind, typestore=store)
        writer.write(speed, 10**9, store.serialize_cdr(message, kind))
    mapping = LogMapping(channels={"vehicle.speed": MappedSignal(signal="/speed:velocity[0]")})
    try:
        log = open_log(tmp_path / "bag", mapping=mapping)
        found, said = len(list(log.measurements())), " ".join(log.problems.details)
    except UsageError as error:
        found, said = 0, str(error)
    assert found == (1 if numbers == 4 else 0)
    assert ("compressed by more than can be" in said) == (numbers > 4)
