"""Logs written by the official libraries of other formats give the measurements that were written."""

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from foreign_rig import CAR, assert_same, by_source, drive, load, write_bag, write_mdf

from replay.csv_log import read_estimates
from replay.foreign.mapping import load_mapping
from replay.log import create_log, open_log
from vehicled import Measurement
from vehicled.cli import main
from vehicled.errors import UsageError
from vehicled.messages import ESTIMATE_COLUMNS

DEGREES = 180.0 / math.pi


def write(path: Path, measurements: list[Measurement]) -> Path:
    with create_log(path, {c for m in measurements for c in m.values}) as log:
        for m in measurements:
            log.write(m)
    return path


@pytest.fixture(scope="module")
def of_csv(tmp_path_factory) -> Path:
    """Folder with the drive, `a.csv`, the recording of its replay, `run.mcap`, and its `estimates.csv`."""
    folder = tmp_path_factory.mktemp("csv")
    write(folder / "a.csv", drive())
    results = ["--estimates", str(folder / "estimates.csv"), "--record", str(folder / "run.mcap")]
    assert main(["replay", str(folder / "a.csv"), "--config", CAR, "--fast", *results]) == 0
    return folder


def test_mdf_gives_the_measurements_that_were_written(tmp_path: Path) -> None:
    write_mdf(tmp_path / "drive.mf4", drive())
    log = open_log(tmp_path / "drive.mf4")
    # Times in MDF are seconds in a double: at 1000 s good to 0.1 µs, and made of integers here.
    assert_same(drive(), log.measurements(), 1e-12, 1000)
    assert not log.problems
    fixes = [m for m in log.measurements() if m.source == "gnss"]
    there = [m for m in drive() if "gnss.lat" in m.values]
    assert max(m.arrival - m.t for m in there) > 0
    assert [m.arrival for m in fixes] == pytest.approx([m.arrival for m in there], abs=1000)


def test_mdf_with_other_units_and_names_is_read_by_a_mapping(tmp_path: Path) -> None:
    units = {"vehicle.speed": ("km/h", 3.6), "imu.wz": ("deg/s", -DEGREES), "steer.wheel": ("°", DEGREES)}
    wanted = [m for m in drive() if not units.keys().isdisjoint(m.values)]
    wanted = [
        Measurement(m.source, m.t, m.t, {c: v for c, v in m.values.items() if c in units}) for m in wanted
    ]
    names = {"vehicle.speed": "VehSpd", "imu.wz": "YawRate", "steer.wheel": "SWA"}
    renamed = [Measurement("", m.t, m.t, {names[c]: v for c, v in m.values.items()}) for m in wanted]
    write_mdf(tmp_path / "car.mf4", renamed, {names[c]: u for c, u in units.items()})
    (tmp_path / "m.yaml").write_text(
        "channels:\n  vehicle.speed: VehSpd\n  imu.wz: {signal: YawRate, scale: -1}\n  steer.wheel: SWA\n"
        "time: {offset: 250 ms}\n"
    )
    log = open_log(tmp_path / "car.mf4", mapping=load_mapping(tmp_path / "m.yaml"))
    later = [Measurement(m.source, m.t + 250_000_000, m.t, m.values) for m in wanted]
    assert_same(later, log.measurements(), 1e-12, 1000)


def test_mdf_with_groups_of_other_times_duplicate_names_and_other_spellings_of_units(tmp_path: Path) -> None:
    """As written by a logger with a group for each CAN message, with raw integers and a conversion."""
    from asammdf import MDF, Signal

    fast, slow = np.arange(100) * 0.01, 0.003 + np.arange(50) * 0.02
    raw = np.full(100, 5400, dtype=np.uint16)
    with MDF(version="4.10") as mdf:
        bus = Signal(raw, fast, name="Speed", unit="kph", conversion={"a": 0.01, "b": 0.0})
        mdf.append([bus, Signal(np.full(100, b"ok"), fast, name="State", encoding="utf-8")])
        mdf.append(
            [
                Signal(np.full(50, 10.0), slow, name="Speed", unit="knots"),
                Signal(np.full(50, 90.0), slow, name="Course", unit="Grad"),
                Signal(np.full(50, 2.0, dtype=np.float32), slow, name="YawRate", unit="°/sec"),
            ]
        )
        mdf.save(tmp_path / "a.mf4")
    channels = {
        "vehicle.speed": "0:Speed",
        "gnss.speed": "1:Speed",
        "gnss.course": "Course",
        "imu.wz": "YawRate",
    }
    lines = [f'  {channel}: "{signal}"\n' for channel, signal in channels.items()]
    (tmp_path / "m.yaml").write_text("channels:\n" + "".join(lines))
    found = by_source(open_log(tmp_path / "a.mf4", mapping=load_mapping(tmp_path / "m.yaml")).measurements())
    assert [t for t, _ in found["vehicle"][:2]] == [0, 10_000_000]
    assert found["vehicle"][0][1]["vehicle.speed"] == pytest.approx(15.0)
    t, values = found["gnss"][0]
    assert t == 3_000_000
    assert values["gnss.speed"] == pytest.approx(5.14444, rel=1e-5)
    assert values["gnss.course"] == pytest.approx(math.pi / 2)
    assert found["imu"][0][1]["imu.wz"] == pytest.approx(math.radians(2.0))
    (tmp_path / "m.yaml").write_text("channels:\n  vehicle.speed: Speed\n")
    with pytest.raises(UsageError, match="expected one of '0:Speed', '1:Speed', which all have that name"):
        open_log(tmp_path / "a.mf4", mapping=load_mapping(tmp_path / "m.yaml"))


def test_signals_of_one_sensor_in_separate_groups_are_one_measurement(tmp_path: Path) -> None:
    """Latitude and longitude in separate measurements would be no fix."""
    from asammdf import MDF, Signal

    times = np.arange(10) * 0.2
    with MDF(version="4.10") as mdf:
        for name, value in (("gnss.lat", 43.0), ("vehicle.speed", 10.0), ("gnss.lon", -8.0)):
            mdf.append([Signal(np.full(10, value), times, name=name)])
        mdf.save(tmp_path / "a.mf4")
    found = list(open_log(tmp_path / "a.mf4").measurements())
    assert [m.values for m in found if m.source == "gnss"] == [{"gnss.lat": 43.0, "gnss.lon": -8.0}] * 10
    assert [m.values for m in found if m.source == "vehicle"] == [{"vehicle.speed": 10.0}] * 10


def test_channels_of_a_log_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    """In the order of a set, messages and tables would differ between runs."""
    write_mdf(tmp_path / "a.mf4", drive())
    written = next(list(m.values) for m in drive() if "imu.ax" in m.values)
    found = open_log(tmp_path / "a.mf4").measurements()
    assert next(list(m.values) for m in found if "imu.ax" in m.values) == written


def test_samples_that_mdf_marks_as_invalid_are_skipped(tmp_path: Path) -> None:
    from asammdf import MDF, Signal

    times = np.arange(10) * 0.01
    invalid = np.array([i in (3, 4) for i in range(10)])
    with MDF(version="4.10") as mdf:
        mdf.append(
            [
                Signal(np.arange(10.0), times, name="vehicle.speed", unit="m/s", invalidation_bits=invalid),
                Signal(np.arange(10.0), times, name="imu.wz", unit="rad/s"),
            ]
        )
        mdf.save(tmp_path / "a.mf4")
    found = by_source(open_log(tmp_path / "a.mf4").measurements())
    assert [v["vehicle.speed"] for _, v in found["vehicle"]] == [0, 1, 2, 5, 6, 7, 8, 9]
    assert len(found["imu"]) == 10


@pytest.mark.parametrize("version", [1, 2])
def test_bags_of_ros_give_the_measurements_that_were_written(tmp_path: Path, version: int) -> None:
    path = tmp_path / ("drive.bag" if version == 1 else "drive")
    write_bag(path, drive(), version)
    (tmp_path / "m.yaml").write_text(
        "channels:\n  vehicle.speed: '/car/twist:twist.linear.x'\n"
        + "".join(
            f"  wheel.{w}.speed: '/wheels:velocity[{i}]'\n" for i, w in enumerate(("fl", "fr", "rl", "rr"))
        )
    )
    log = open_log(path, mapping=load_mapping(tmp_path / "m.yaml"))
    own = ("gnss.lat", "gnss.lon", "gnss.alt", "vehicle.speed")
    wanted = []
    for m in drive():
        values = {c: v for c, v in m.values.items() if c in own or c.startswith(("imu.", "wheel."))}
        if "gnss.lat" in values:
            # In the bag: status 0 (no augmentation), variances of 0.04, 0.04 and 0.09 m².
            values |= {"gnss.quality": 1.0, "gnss.h_acc": 0.2, "gnss.v_acc": 0.3}
        wanted.append(Measurement(m.source, m.t, m.arrival, values))
    wanted = [m for m in wanted if m.values]
    assert_same(wanted, log.measurements(), 1e-12, 0)
    assert not log.problems
    fixes = [m.arrival for m in log.measurements() if "gnss.lat" in m.values]
    assert fixes == [m.arrival for m in wanted if "gnss.lat" in m.values]


def test_a_bag_that_is_a_single_mcap_file_is_recognised(tmp_path: Path) -> None:
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS2_HUMBLE)
    kind = "std_msgs/msg/Float64"
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        topic = writer.add_connection("/speed", kind, typestore=store)
        for i in range(5):
            writer.write(topic, i * 10**7, store.serialize_cdr(store.types[kind](i / 2), kind))
    (file,) = (tmp_path / "bag").glob("*.mcap")
    (tmp_path / "m.yaml").write_text("channels: {vehicle.speed: '/speed:data'}\n")
    mapping = load_mapping(tmp_path / "m.yaml")
    for path in (file, tmp_path / "bag"):
        found = [(m.t, m.values["vehicle.speed"]) for m in open_log(path, mapping=mapping).measurements()]
        assert found == [(i * 10**7, i / 2) for i in range(5)]


def test_a_message_stamped_by_another_clock_has_the_time_of_its_arrival(tmp_path: Path) -> None:
    hours_ago = [
        Measurement("", m.t - 7200 * 10**9 + 10**13, m.arrival + 10**13, m.values)
        for m in drive()[:300]
        if "imu.ax" in m.values
    ]
    write_bag(tmp_path / "a.bag", hours_ago, 1)
    log = open_log(tmp_path / "a.bag")
    found = list(log.measurements())
    assert [m.t for m in found] == [m.arrival for m in hours_ago]
    assert log.problems.counts == {"other clock": len(found)}


@pytest.mark.parametrize(("name", "version"), [("a.bag", 1), ("a", 2)])
def test_a_message_without_a_stamp_has_the_time_of_its_arrival(
    tmp_path: Path, name: str, version: int
) -> None:
    samples = [m for m in drive()[:300] if "imu.ax" in m.values]
    unset = {m.arrival for m in samples[10:20]}
    written = [Measurement("", 0, m.arrival, m.values) if m.arrival in unset else m for m in samples]
    write_bag(tmp_path / name, written, version)
    log = open_log(tmp_path / name)
    found = {m.arrival: m.t for m in log.measurements()}
    assert found == {m.arrival: m.arrival if m.arrival in unset else m.t for m in samples}
    assert log.problems.counts == {"no stamp": len(unset)}
    assert log.problems.details[0] == "/imu/data: no stamp: 0 in the header; measured when recorded"


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".mcap"])
def test_a_log_converted_and_converted_back_gives_the_same_estimates(
    of_csv: Path, tmp_path: Path, suffix: str, capsys
) -> None:
    middle, back, out = tmp_path / f"b{suffix}", tmp_path / "c.csv", tmp_path / "c.estimates.csv"
    assert main(["convert", str(of_csv / "a.csv"), str(middle)]) == 0
    assert main(["convert", str(middle), str(back)]) == 0
    assert main(["replay", str(back), "--config", CAR, "--fast", "--estimates", str(out)]) == 0
    capsys.readouterr()
    assert out.read_bytes() == (of_csv / "estimates.csv").read_bytes()


def test_mdf_gives_the_same_estimates_to_rounding(of_csv: Path, tmp_path: Path, capsys) -> None:
    log, out = tmp_path / "a.mf4", tmp_path / "estimates.csv"
    write_mdf(log, drive())
    assert main(["replay", str(log), "--config", CAR, "--fast", "--estimates", str(out)]) == 0
    capsys.readouterr()
    one, other = read_estimates(of_csv / "estimates.csv"), read_estimates(out)
    assert abs(len(one.t) - len(other.t)) <= 1
    n = min(len(one.t), len(other.t))
    assert n > 3 * 250
    for column in ("x", "y", "yaw", "vx", "sideslip"):
        # Rounded times may move a sample into the next step of 4 ms.
        assert np.nanmax(np.abs(one.columns[column][:n] - other.columns[column][:n])) < 4e-3, column


def test_parquet_files_contain_units_and_the_configuration(of_csv: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = str(tmp_path / "a.parquet")
    assert main(["convert", str(of_csv / "a.csv"), out, "--config", CAR]) == 0
    schema = pq.read_schema(out)
    assert schema.field("imu.ax").metadata[b"unit"] == "m/s²".encode()
    assert schema.field("t").metadata[b"unit"] == b"ns"
    assert json.loads(schema.metadata[b"vehicled"])["configuration"] == load().text
    table = pq.read_table(out).to_pandas()
    assert table["t"].is_monotonic_increasing
    lat = [m.values["gnss.lat"] for m in sorted(drive(), key=lambda m: m.t) if "gnss.lat" in m.values]
    assert table["gnss.lat"].dropna().tolist() == lat


def test_estimates_are_converted_to_parquet_and_gpx(of_csv: Path, tmp_path: Path, capsys) -> None:
    import pyarrow.parquet as pq

    for kind in ("csv", "parquet", "gpx"):
        assert main(["convert", str(of_csv / "run.mcap"), str(tmp_path / f"e.{kind}"), "--estimates"]) == 0
    capsys.readouterr()
    csv, table = read_estimates(tmp_path / "e.csv"), pq.read_table(tmp_path / "e.parquet")
    assert table.column_names == ["t", *ESTIMATE_COLUMNS]
    assert table["t"].to_pylist() == csv.t.tolist()
    assert np.array_equal(table["yaw"].to_numpy(), csv.columns["yaw"], equal_nan=True)
    assert table.schema.field("yaw").metadata[b"unit"] == b"rad"
    points = ElementTree.parse(tmp_path / "e.gpx").findall(".//{*}trkpt")
    known = np.isfinite(csv.columns["lat"])
    assert len(points) == known.sum()
    assert float(points[-1].get("lat")) == pytest.approx(csv.columns["lat"][known][-1], abs=1e-9)


def test_gpx_of_fixes_has_the_time_of_day(tmp_path: Path) -> None:
    moment = 1_700_000_000_250_000_000  # 2023-11-14T22:13:20.250Z
    fixes = [
        Measurement("gnss", moment, moment, {"gnss.lat": 48.0, "gnss.lon": 11.5, "gnss.alt": 500.0}),
        Measurement("gnss", moment + 1, moment, {"gnss.lat": 0.0, "gnss.lon": 0.0, "gnss.quality": 0.0}),
        Measurement("imu", moment, moment, {"imu.ax": 1.0}),
    ]
    write(tmp_path / "a.csv", fixes)
    assert main(["convert", str(tmp_path / "a.csv"), str(tmp_path / "a.gpx")]) == 0
    root = ElementTree.parse(tmp_path / "a.gpx").getroot()
    assert root.tag == "{http://www.topografix.com/GPX/1/1}gpx"
    (point,) = root.findall(".//{*}trkpt")
    assert (point.get("lat"), point.get("lon")) == ("48.000000000", "11.500000000")
    assert [child.tag.partition("}")[2] for child in point] == ["ele", "time", "fix"]  # in the schema's order
    assert point.find("{*}time").text == "2023-11-14T22:13:20.250Z"


def test_a_mapped_signal_that_never_has_a_value_is_named(tmp_path: Path) -> None:
    """As a column that is empty, or an element behind the end of an array."""
    table, mapping = tmp_path / "a.csv", tmp_path / "map.yaml"
    table.write_text("t,Lat,Lon,V\n0,NaN,11.5,3\n0.1,,11.5,3\n")
    mapping.write_text("channels: {gnss.lat: Lat, gnss.lon: Lon, vehicle.speed: V}\n")
    log = open_log(table, mapping=load_mapping(mapping))
    found = list(log.measurements())
    assert [m.values.get("vehicle.speed") for m in found if m.source == "vehicle"] == [3.0, 3.0]
    assert log.problems.details == ["'Lat': no values: it is always empty, and there is no gnss.lat"]
