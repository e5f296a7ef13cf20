"""VBOX, NCOM and comma2k19 logs, tested against published facts of their formats; references as truth."""

import math
import struct
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pymap3d
import pytest
from foreign_rig import ncom_packet, ncom_time, vbo_head, write_ncom

from replay.csv_log import read_estimates
from replay.foreign.mapping import load_mapping
from replay.log import open_log
from vehicled.cli import main
from vehicled.errors import UsageError
from vehicled.reading.settings import config_path

GUIDE = """\
004 072148.26 +3119.408424 +00062.635139 015.13 356.06 +00155.27 -00000.22
004 072148.27 +3119.408592 +00062.635104 015.17 356.02 +00147.93 -00000.37
"""
"""Lines that a user's guide of Racelogic shows, of a unit that logs knots and m/s."""


def write_vbo(path: Path, lines: str, **head) -> Path:
    path.write_bytes((vbo_head(**head) + lines).replace("\n", "\r\n").encode())
    return path


def test_vbo_lines_of_the_guide_are_read(tmp_path: Path) -> None:
    log = open_log(write_vbo(tmp_path / "a.vbo", GUIDE, velocity="knots", climb="m/s"))
    fixes = [m for m in log.measurements() if m.source == "gnss"]
    v = fixes[0].values
    assert fixes[0].t == ((7 * 60 + 21) * 60 + 48) * 10**9 + 260_000_000
    assert fixes[1].t - fixes[0].t == 10_000_000
    assert v["gnss.lat"] == pytest.approx(51 + 59.408424 / 60)  # 3119.4' are 51° 59.4'
    assert v["gnss.lon"] == pytest.approx(-(1 + 2.635139 / 60))  # west is positive in the file
    assert v["gnss.speed"] == pytest.approx(15.13 * 0.514444, rel=1e-5)
    assert v["gnss.course"] == pytest.approx(math.radians(356.06))
    assert (v["gnss.alt"], v["gnss.quality"]) == (155.27, 1.0)
    assert math.hypot(v["gnss.vn"], v["gnss.ve"]) == pytest.approx(v["gnss.speed"])
    assert math.atan2(v["gnss.ve"], v["gnss.vn"]) % math.tau == pytest.approx(v["gnss.course"])
    assert v["gnss.vd"] == pytest.approx(0.22)  # sinking, in m/s
    (reference, _) = [m.values for m in log.measurements() if m.source == "reference"]
    assert reference["reference.vn"] == pytest.approx(
        15.13 * 0.514444 * math.cos(math.radians(356.06)), rel=1e-5
    )
    assert reference["reference.ve"] < 0.0
    assert reference["reference.vd"] == pytest.approx(0.22)  # sinking


def test_without_a_vertical_velocity_the_vector_is_horizontal(tmp_path: Path) -> None:
    (tmp_path / "a.vbo").write_text(
        "[column names]\nsats time lat long velocity heading\n[data]\n"
        "009 162235.00 +03119.09973 +00058.49277 036.0 090.0\n"
    )
    (fix,) = [m.values for m in open_log(tmp_path / "a.vbo").measurements() if m.source == "gnss"]
    assert (fix["gnss.vn"], fix["gnss.ve"]) == (pytest.approx(0.0, abs=1e-12), pytest.approx(10.0))
    assert "gnss.vd" not in fix


def test_satellites_have_flags_for_brake_and_differential_corrections(tmp_path: Path) -> None:
    rest = "162235.{:02d} +03119.09973 +00058.49277 000.140 321.85 +00152.58 +000.000\n"
    lines = "".join(f"{sats} {rest.format(i)}" for i, sats in enumerate((137, 73, 9, 64, 0)))
    log = open_log(write_vbo(tmp_path / "a.vbo", lines))
    found = [m.values["gnss.quality"] for m in log.measurements() if m.source == "gnss"]
    assert found == [2.0, 1.0, 1.0, 0.0, 0.0]


def test_the_type_of_solution_is_the_quality_where_it_is_logged(tmp_path: Path) -> None:
    rest = "162235.{:02d} +03119.09973 +00058.49277 000.140 321.85 +00152.58 +000.000 {}\n"
    head = vbo_head(extra=[("Solution_Type", "-")])
    lines = "".join(f"009 {rest.format(i, kind)}" for i, kind in enumerate((4, 3, 1, 0, 7, "nan")))
    (tmp_path / "a.vbo").write_text(head + lines)
    log = open_log(tmp_path / "a.vbo")
    found = [m.values["gnss.quality"] for m in log.measurements() if m.source == "gnss"]
    assert found == [
        4.0,
        5.0,
        1.0,
        0.0,
        1.0,
        1.0,
    ]  # the last two are by an unknown type, and by the satellites


def test_vbo_times_continue_over_midnight_and_speeds_are_in_km_per_hour(tmp_path: Path) -> None:
    rest = "+03119.0 +00058.4 036.00 090.00 +00152.58 +000.000\n"
    log = open_log(write_vbo(tmp_path / "a.vbo", f"9 235959.95 {rest}9 000000.05 {rest}"))
    one, other = [m for m in log.measurements() if m.source == "gnss"]
    assert other.t - one.t == 100_000_000
    assert one.values["gnss.speed"] == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("title", "factor"),
    [
        ("", 1 / 3.6),
        ("km/h", 1 / 3.6),
        ("(mph)", 0.44704),
        ("kph", 1 / 3.6),
        ("kn", 1852 / 3600),
        ("M/S", 1.0),
    ],
)
def test_speeds_of_vbo_have_the_unit_behind_their_title(tmp_path: Path, title: str, factor: float) -> None:
    log = open_log(write_vbo(tmp_path / "a.vbo", GUIDE, velocity=title, climb="mph"))
    fix = next(m.values for m in log.measurements() if m.source == "gnss")
    assert fix["gnss.speed"] == pytest.approx(15.13 * factor)
    assert fix["gnss.vd"] == pytest.approx(0.22 * 0.44704)


def test_columns_of_vbo_are_read_though_a_title_is_missing(tmp_path: Path) -> None:
    """A missing title shifts the titles that follow."""
    text = vbo_head(velocity="m/s").replace("longitude\n", "").replace("height\n", "height feet\n") + GUIDE
    (tmp_path / "a.vbo").write_text(text)
    fix = next(m.values for m in open_log(tmp_path / "a.vbo").measurements() if m.source == "gnss")
    assert (fix["gnss.speed"], fix["gnss.alt"]) == (15.13, pytest.approx(155.27 * 0.3048))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ({"velocity": "furlongs"}, "velocity in 'furlongs'; expected one of km/h, kn, mph, m/s"),
        ({"climb": "ft/min"}, "vertical velocity in 'ft/min'; expected one of km/h, kn, mph, m/s"),
    ],
)
def test_an_unknown_unit_of_a_speed_of_vbo_is_refused(
    tmp_path: Path, head: dict[str, str], message: str
) -> None:
    path = write_vbo(tmp_path / "a.vbo", GUIDE, **head)
    with pytest.raises(UsageError, match=rf"^{path}: {message}$"):
        open_log(path)


@pytest.mark.parametrize(
    ("times", "left_out"),
    [
        (("000000.00", "000000.00", "000000.00"), 3),
        (("000000.00", "000000.05", "000000.10"), 3),  # a clock that starts at power-on
        (("162234.85", "162234.90", "162234.95"), 0),
    ],
)
def test_rows_of_vbo_before_the_first_fix_have_no_time(
    tmp_path: Path, times: tuple[str, ...], left_out: int
) -> None:
    rest = "+03119.0 +00058.4 036.00 090.00 +00152.58 +000.000\n"
    before = "".join(f"000 {t} {rest}" for t in times)
    after = "".join(f"009 1622{s:05.2f} {rest}" for s in (35.0, 35.05))
    lost = f"000 162235.10 {rest}"
    log = open_log(write_vbo(tmp_path / "a.vbo", before + after + lost))
    found = [m.t for m in log.measurements() if m.source == "gnss"]
    first = ((16 * 60 + 22) * 60 + 35) * 10**9
    assert found == [first + k * 50_000_000 for k in range(left_out - 3, 3)]
    assert log.problems.counts == ({"no time": left_out} if left_out else {})


def test_vbo_without_any_fix_is_read(tmp_path: Path) -> None:
    rest = "+00000.0 +00000.0 000.00 000.00 +00000.00 +000.000\n"
    log = open_log(write_vbo(tmp_path / "a.vbo", "".join(f"000 0000{s:05.2f} {rest}" for s in (0.0, 0.5))))
    assert [m.values["gnss.quality"] for m in log.measurements() if m.source == "gnss"] == [0.0, 0.0]


@pytest.mark.parametrize("written", ["utf-8", "latin-1", "utf-8-sig"])
def test_vbo_of_other_programs_and_countries_is_read(tmp_path: Path, written: str) -> None:
    """Decimal commas, capitals in the names of standard columns, units in either encoding."""
    line = "9 120000.00 +03119.5 +00058.4 036.00 090.00 +00152.58 +000.000 -9.0E+00\n"
    text = vbo_head(extra=[("YawRate", "°/s")]) + line.replace(".", ",")
    text = text.replace("sats time lat long velocity heading", "Sats Time Lat Long Velocity Heading")
    (tmp_path / "a.vbo").write_bytes(text.encode(written))
    (tmp_path / "m.yaml").write_text("channels:\n  imu.wz: YawRate\n")
    log = open_log(tmp_path / "a.vbo", mapping=load_mapping(tmp_path / "m.yaml"))
    values = {}
    for m in log.measurements():
        values |= m.values
    assert values["gnss.lat"] == pytest.approx(3119.5 / 60.0)
    assert values["gnss.speed"] == pytest.approx(10.0)
    assert values["imu.wz"] == pytest.approx(-math.radians(9.0))
    assert not log.problems


def test_further_columns_of_vbo_are_mapped_with_the_units_of_the_file(tmp_path: Path) -> None:
    extra = [("YawRate", "deg/s"), ("X_Accel", "g"), ("True_Head", "Degrees"), ("Turn", "laps/s")]
    line = "9 120000.00 +03119.0 +00058.4 036.00 090.00 +00152.58 +000.000 -9.0E+00 1.0E-01 9.0E+01 0.0\n"
    path = write_vbo(tmp_path / "a.vbo", line, extra=extra)
    (tmp_path / "m.yaml").write_text(
        "channels:\n  imu.wz: {signal: YawRate, scale: -1}\n  imu.ax: X_Accel\n"
        "  reference.yaw: {signal: True_Head, scale: -1, offset: 90 deg}\n"
    )
    values = {}
    for m in open_log(path, mapping=load_mapping(tmp_path / "m.yaml")).measurements():
        values |= m.values
    assert values["imu.wz"] == pytest.approx(math.radians(9.0))
    assert values["imu.ax"] == pytest.approx(0.980665)
    assert values["reference.yaw"] == pytest.approx(0.0)  # eastwards
    assert values["gnss.speed"] == pytest.approx(10.0)
    (tmp_path / "m.yaml").write_text("channels: {reference.wz: Turn}\n")
    with pytest.raises(UsageError, match="expected a unit like rad/s, such as deg/s, got 'laps/s'"):
        open_log(path, mapping=load_mapping(tmp_path / "m.yaml"))


# -- NCOM ----------------------------------------------------------------------------------------------------


def test_ncom_packet_by_the_published_layout(tmp_path: Path) -> None:
    """Written out byte by byte, independently of the helper that writes packets."""
    data = bytearray(72)
    data[0] = 0xE7
    struct.pack_into("<H", data, 1, 59_990)
    for at, number in ((3, 12_345), (6, -20_000), (9, -98_100), (12, 100), (15, -200), (18, 20_000)):
        data[at : at + 3] = number.to_bytes(3, "little", signed=True)
    data[21] = 4
    struct.pack_into("<ddf", data, 23, math.radians(51.9), math.radians(-1.24), 120.5)
    for at, number in (
        (43, 100_000),
        (46, 100_000),
        (49, -5_000),
        (52, 785_398),
        (55, 10_000),
        (58, -20_000),
    ):
        data[at : at + 3] = number.to_bytes(3, "little", signed=True)
    struct.pack_into("<iBB", data, 63, 23_000_000, 11, 5)
    for at in (22, 61, 71):
        data[at] = sum(data[1:at]) & 0xFF
    (tmp_path / "a.ncom").write_bytes(data)
    found = {m.source: m for m in open_log(tmp_path / "a.ncom").measurements()}
    minutes_in_week = 23_000_000 % 10_080
    moment = datetime.fromtimestamp(found["imu"].t / 1e9, UTC)
    # GPS weeks begin on Sunday; GPS is 18 s ahead of UTC since 2017.
    assert (moment.isoweekday() % 7) * 1440 + moment.hour * 60 + moment.minute == minutes_in_week
    assert moment.second + moment.microsecond * 1e-6 == pytest.approx(41.99)
    v = {c: value for m in found.values() for c, value in m.values.items()}
    # Forward, left, up: at rest gravity is measured upwards.
    assert (v["imu.ax"], v["imu.ay"], v["imu.az"]) == pytest.approx((1.2345, 2.0, 9.81))
    assert (v["imu.wx"], v["imu.wy"], v["imu.wz"]) == pytest.approx((0.001, 0.002, -0.2))
    assert (v["gnss.lat"], v["gnss.lon"], v["gnss.alt"]) == pytest.approx((51.9, -1.24, 120.5))
    assert v["gnss.quality"] == 5.0  # RTK float
    assert v["gnss.speed"] == pytest.approx(10.0 * math.sqrt(2.0))
    assert v["gnss.course"] == pytest.approx(math.pi / 4)
    assert v["reference.yaw"] == pytest.approx(math.pi / 4, abs=1e-6)  # north-east
    assert (v["reference.pitch"], v["reference.roll"]) == pytest.approx((-0.01, -0.02))
    assert (v["reference.vn"], v["reference.ve"], v["reference.vd"]) == pytest.approx((10.0, 10.0, -0.5))


def test_ncom_of_a_circle_is_the_truth_of_a_circle(tmp_path: Path, capsys) -> None:
    write_ncom(tmp_path / "rt.ncom")
    assert main(["convert", str(tmp_path / "rt.ncom"), str(tmp_path / "truth.csv"), "--truth"]) == 0
    assert "the reference's first place, 48.0000000 deg, 11.0000000 deg" in capsys.readouterr().err
    table = read_estimates(tmp_path / "truth.csv")
    c = table.columns
    seconds = (table.t - table.t[0]) / 1e9
    assert np.diff(seconds) == pytest.approx(np.full(999, 0.01))  # also from one minute to the next
    assert c["vx"] == pytest.approx(10.0 * np.cos(0.02), abs=1e-3)  # the car's nose is up by 0.02 rad
    assert c["vy"] == pytest.approx(10.0 * np.sin(0.02) * np.sin(0.01), abs=1e-2)
    assert np.unwrap(c["yaw"]) == pytest.approx(math.pi / 2 + 0.2 * seconds, abs=1e-5)
    assert c["wz"] == pytest.approx(0.2)
    assert c["y"] == pytest.approx(50.0 * np.sin(0.2 * seconds), abs=0.5)


def test_damaged_ncom_packets_are_skipped_and_reported(tmp_path: Path) -> None:
    write_ncom(tmp_path / "a.ncom", seconds=2.0)
    data = bytearray((tmp_path / "a.ncom").read_bytes())
    whole = len([m for m in open_log(tmp_path / "a.ncom").measurements() if m.source == "imu"])
    data[72 * 20 + 30] ^= 0x10
    del data[72 * 60 + 10 : 72 * 60 + 40]
    (tmp_path / "a.ncom").write_bytes(bytes(data) + b"\xe7" * 50)
    log = open_log(tmp_path / "a.ncom")
    assert len([m for m in log.measurements() if m.source == "imu"]) == whole - 2
    assert log.problems.counts == {"damaged": 2, "truncated": 1}


def test_ncom_before_lock_gives_imu_measurements_only(tmp_path: Path) -> None:
    packets = [
        ncom_packet(10 * i, navigation=1, channel=0, status=ncom_time(23_000_000, mode=0)) for i in range(3)
    ]
    packets += [ncom_packet(30, navigation=21), ncom_packet(40, navigation=0), ncom_packet(50, navigation=10)]
    invalid = bytearray(ncom_packet(60))
    invalid[3:6] = b"\x00\x00\x80"
    for at in (22, 61, 71):
        invalid[at] = sum(invalid[1:at]) & 0xFF
    (tmp_path / "a.ncom").write_bytes(b"".join(packets) + bytes(invalid))
    found = list(open_log(tmp_path / "a.ncom").measurements())
    assert [m.source for m in found[:4]] == ["imu"] * 4
    assert {m.source for m in found[4:]} == {"gnss", "reference"}
    assert "imu.ax" not in found[3].values
    assert next(m for m in found if m.source == "gnss").values["gnss.quality"] == 0.0


def test_ncom_packets_out_of_order_and_of_events_do_not_change_the_minute(tmp_path: Path) -> None:
    """At the end of a minute, before any packet has the full time, and after it."""
    times = (59_980, 59_990, 10, 0, 20, 59_995, 30)
    before, after = ([ncom_packet(ms) for ms in times] for _ in range(2))
    event = ncom_packet(59_985, navigation=20)
    full = ncom_packet(40, channel=0, status=ncom_time(23_000_000))
    next_full = ncom_packet(40, channel=0, status=ncom_time(23_000_001))
    packets = [*before, event, full, ncom_packet(30_000), *after, event, next_full]
    (tmp_path / "a.ncom").write_bytes(b"".join(packets))
    log = open_log(tmp_path / "a.ncom")
    found = [m.t // 1_000_000 for m in log.measurements() if m.source == "imu"]
    minute = found[len(times)] - 40
    offsets = [ms - 60_000 if ms > 50_000 else ms for ms in times]
    assert [t - minute for t in found] == [*offsets, 40, 30_000, *(60_000 + ms for ms in offsets), 60_040]
    assert "gap" not in log.problems.counts


def test_packets_for_internal_use_are_left_out(tmp_path: Path) -> None:
    """They have another structure, with other data in place of the time."""
    packets = [
        ncom_packet(1000, channel=0, status=ncom_time(23_000_000)),
        ncom_packet(1010),
        ncom_packet(1020),
    ]
    internal = [ncom_packet(ms, navigation=11, channel=0, status=bytes(8)) for ms in (40_000, 7, 59_999)]
    mixed = [packet for pair in zip(packets, internal, strict=True) for packet in pair]
    (tmp_path / "a.ncom").write_bytes(b"".join(mixed))
    log = open_log(tmp_path / "a.ncom")
    times = [m.t for m in log.measurements() if m.source == "imu"]
    assert [t - times[0] for t in times] == [0, 10_000_000, 20_000_000]
    assert not log.problems


def test_a_minute_without_packets_is_a_gap(tmp_path: Path) -> None:
    full = [ncom_packet(500, channel=0, status=ncom_time(23_000_000 + minute)) for minute in (0, 3)]
    (tmp_path / "a.ncom").write_bytes(full[0] + ncom_packet(59_000) + full[1])
    log = open_log(tmp_path / "a.ncom")
    times = [m.t for m in log.measurements() if m.source == "imu"]
    assert [(t - times[0]) / 1e9 for t in times] == [0.0, 58.5, 180.0]
    assert log.problems.counts["gap"] == 1


# -- comma2k19 -----------------------------------------------------------------------------------------------


def write_segment(folder: Path, seconds: float = 10.0) -> None:
    """A car that drives east at 20 m/s at 45° north, axes of the device forward, right, down."""

    def save(name: str, t: np.ndarray, value: np.ndarray) -> None:
        (folder / name).mkdir(parents=True)
        for what, array in (("t", t), ("value", value)):
            with open(folder / name / what, "wb") as file:
                np.save(file, array)

    t = 1000.0 + np.arange(0.0, seconds, 0.01)
    ones = np.ones(len(t))
    save("processed_log/IMU/accelerometer", t, np.column_stack([0.3 * ones, 0.2 * ones, -9.81 * ones]))
    save("processed_log/IMU/gyro", t, np.column_stack([0.0 * ones, 0.0 * ones, 0.1 * ones]))
    save("processed_log/CAN/speed", t, 20.0 * ones[:, None])
    save("processed_log/CAN/steering_angle", t, 90.0 * ones)
    save("processed_log/CAN/wheel_speed", t, 20.0 * np.ones((len(t), 4)))
    frames = t[::5] + 0.001
    zero = np.zeros(len(frames))
    x, y, z = pymap3d.enu2ecef(20.0 * (frames - frames[0]), zero, zero, 45.0, 10.0, 100.0)
    lam, phi = np.radians(10.0), np.radians(45.0)
    east = np.array([-np.sin(lam), np.cos(lam), 0.0])
    south = np.array([np.sin(phi) * np.cos(lam), np.sin(phi) * np.sin(lam), -np.cos(phi)])
    R = np.column_stack([east, south, np.cross(east, south)])  # of the device in ECEF: down is east × south
    w = math.sqrt(1.0 + np.trace(R)) / 2.0
    quaternion = [w, *(np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / (4.0 * w))]
    (folder / "global_pose").mkdir()
    for name, array in (
        ("frame_times", frames),
        ("frame_positions", np.column_stack([x, y, z])),
        ("frame_velocities", np.tile(20.0 * east, (len(frames), 1))),
        ("frame_orientations", np.tile(quaternion, (len(frames), 1))),
    ):
        with open(folder / "global_pose" / name, "wb") as file:
            np.save(file, array)


def test_a_segment_of_comma2k19_is_read(tmp_path: Path, capsys) -> None:
    write_segment(tmp_path / "segment")
    (tmp_path / "m.yaml").write_text("channels: {wheel.rl.speed: {signal: wheel_speed.rl, radius: 0.4 m}}\n")
    log = open_log(tmp_path / "segment", mapping=load_mapping(tmp_path / "m.yaml"))
    values = {}
    for m in log.measurements():
        values = m.values | values
    assert not log.problems
    assert (values["imu.ax"], values["imu.ay"], values["imu.az"]) == (0.3, -0.2, 9.81)
    assert values["imu.wz"] == -0.1
    assert values["steer.wheel"] == pytest.approx(math.pi / 2)
    assert values["vehicle.speed"] == 20.0
    assert values["wheel.rl.speed"] == pytest.approx(50.0)
    assert main(["convert", str(tmp_path / "segment"), str(tmp_path / "truth.csv"), "--truth"]) == 0
    c = read_estimates(tmp_path / "truth.csv").columns
    assert c["x"] == pytest.approx(20.0 * np.arange(200) * 0.05, abs=1e-4)
    assert c["y"] == pytest.approx(0.0, abs=1e-2)
    assert (c["vx"], c["vy"]) == (pytest.approx(20.0, abs=1e-3), pytest.approx(0.0, abs=1e-3))
    assert c["yaw"] == pytest.approx(0.0, abs=1e-4)


def test_truth_is_in_the_world_frame_of_the_configuration(tmp_path: Path, capsys) -> None:
    write_segment(tmp_path / "segment", seconds=1.0)
    (tmp_path / "car.yaml").write_text(
        config_path("hatchback").read_text()
        + "\nworld: {latitude: 45 deg, longitude: 9.999 deg, height: 90 m}\n"
    )
    arguments = [
        str(tmp_path / "segment"),
        str(tmp_path / "t.csv"),
        "--truth",
        "--config",
        str(tmp_path / "car.yaml"),
    ]
    assert main(["convert", *arguments]) == 0
    assert "first place" not in capsys.readouterr().err
    c = read_estimates(tmp_path / "t.csv").columns
    # A thousandth of a degree of longitude at 45° of latitude: 78.8 m.
    assert c["x"][0] == pytest.approx(78.85, abs=0.05)
    assert c["z"][0] == pytest.approx(10.0, abs=0.01)


def test_a_reference_in_vehicle_axes_is_read_by_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "optical.csv").write_text("t,Vl,Vq\n0,36,3.6\n0.01,72,-7.2\n")
    (tmp_path / "m.yaml").write_text(
        "channels:\n  reference.vx: {signal: Vl, unit: km/h}\n  reference.vy: {signal: Vq, unit: km/h}\n"
    )
    paths = [str(tmp_path / name) for name in ("optical.csv", "truth.csv", "m.yaml")]
    assert main(["convert", *paths[:2], "--truth", "--mapping", paths[2]]) == 0
    c = read_estimates(tmp_path / "truth.csv").columns
    assert c.keys() == {"vx", "vy", "sideslip"}
    assert (c["vx"].tolist(), c["vy"].tolist()) == (pytest.approx([10.0, 20.0]), pytest.approx([1.0, -2.0]))
    assert c["sideslip"].tolist() == pytest.approx([math.atan(0.1), -math.atan(0.1)])
