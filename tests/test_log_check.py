"""`vehicled check --log`: faults put into a healthy drive are found, with their size, and no others."""

import cmath
import itertools
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from log_check_rig import CAR, check, drive, load, simulate

from replay.log import create_log, open_log
from vehicled import Measurement
from vehicled.cli import main
from vehicled.log_check.check import LogChecker
from vehicled.messages import WHEELS

SAMPLE = Path(__file__).parent.parent / "samples" / "ferrari_250lm" / "drive.csv"
DEGREES = 180.0 / math.pi
SELDOM_UNKNOWN = [CAR, pytest.param(None, marks=pytest.mark.slow)]
"""For faults with many variants: the unknown car is checked only in slow tests."""


@pytest.fixture(autouse=True)
def usual_car_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vehicled.log_check.check.load_configuration", load)


def changed(
    change: Callable[[str, float], float], measurements: Iterable[Measurement] | None = None
) -> list[Measurement]:
    return [
        Measurement(m.source, m.t, m.arrival, {c: change(c, v) for c, v in m.values.items()})
        for m in (drive() if measurements is None else measurements)
    ]


def renamed(names: dict[str, str]) -> list[Measurement]:
    return [
        Measurement(m.source, m.t, m.arrival, {names.get(c, c): v for c, v in m.values.items()})
        for m in drive()
    ]


def times(factor: float, *begins: str) -> list[Measurement]:
    return changed(lambda c, v: v * factor if c.startswith(begins) else v)


def leave_out(begin: str, measurements: Iterable[Measurement]) -> list[Measurement]:
    rest = [(m, {c: v for c, v in m.values.items() if not c.startswith(begin)}) for m in measurements]
    return [Measurement(m.source, m.t, m.arrival, values) for m, values in rest if values]


@pytest.mark.parametrize("car", [CAR, None])
@pytest.mark.parametrize(
    ("scenario", "duration"),
    [
        pytest.param("mixed_drive", None, marks=pytest.mark.slow),
        ("slalom", 12.0),
        ("double_lane_change", None),
    ],
)
def test_a_healthy_drive_has_no_findings(scenario: str, duration: float | None, car: str | None) -> None:
    assert check(simulate(scenario, duration), car) == []


def test_the_last_window_may_have_a_single_instant_of_the_grid() -> None:
    """A log of 30.01 s with a speed at 250 Hz: three samples are left for the second window of 30 s."""
    times = (4_000_000 * k for k in range(7503))
    assert check([Measurement("can", t, t, {"vehicle.speed": 5.0 + t * 1e-10}) for t in times]) == []


def test_a_recorded_drive_has_no_findings() -> None:
    assert check(open_log(SAMPLE).measurements(), "ferrari_250lm") == []


@pytest.mark.parametrize("car", [CAR, None])
@pytest.mark.parametrize(
    ("begin", "factor", "expected"),
    [
        ("vehicle.speed", 3.6, "in km/h, not in m/s"),
        ("gnss.speed", 1.94384 / 3.6, "kn taken for km/h"),
        ("imu.w", DEGREES, "in deg/s, not in rad/s"),
        ("steer.wheel", DEGREES, "in deg, not in rad"),
        ("imu.a", 1 / 9.80665, "in g, not in m/s²"),
    ],
)
def test_wrong_units_are_found(begin: str, factor: float, expected: str, car: str | None) -> None:
    measurements = times(factor, begin)
    (found,) = [f for f in check(measurements, car) if f.kind == "unit"]
    assert all(c.startswith(begin) for c in found.channels)
    assert expected in found.text


def with_vector(factor: float, exchanged: bool = False) -> list[Measurement]:
    """The drive, with the receiver's velocity to the north and east, times a factor, for speed and course."""
    found = []
    for m in drive():
        values = {c: v for c, v in m.values.items() if c not in ("gnss.speed", "gnss.course")}
        if "gnss.course" in m.values:
            velocity = cmath.rect(m.values["gnss.speed"] * factor, m.values["gnss.course"])
            north, east = (velocity.imag, velocity.real) if exchanged else (velocity.real, velocity.imag)
            values |= {"gnss.vn": north, "gnss.ve": east}
        found.append(Measurement(m.source, m.t, m.arrival, values))
    return found


def test_the_velocity_vector_of_a_receiver_is_checked_as_speed_and_course_are() -> None:
    assert check(with_vector(1.0)) == []
    (unit,) = check(with_vector(3.6))
    assert (unit.kind, unit.channels) == ("unit", ("gnss.vn", "gnss.ve"))
    assert "in km/h, not in m/s" in unit.text
    found = check(with_vector(1.0, exchanged=True))
    assert found[0].kind == "course"
    assert {c for f in found for c in f.channels} == {"gnss.vn", "gnss.ve"}


@pytest.mark.parametrize("channel", ["imu.wz", "steer.wheel", "imu.ay", "imu.ax"])
def test_the_channel_with_the_wrong_sign_is_named(channel: str) -> None:
    (found,) = [f for f in check(times(-1.0, channel)) if f.kind == "sign"]
    assert found.channels == (channel,)
    assert found.value < -0.6


# Without a gyroscope, channels are compared with a wheel speed, which the others outvote.
@pytest.mark.parametrize(("axles", "without"), [("r", "nothing"), ("f", "imu."), ("fr", "imu.")])
def test_wheels_exchanged_left_and_right_are_found(axles: str, without: str) -> None:
    names = {f"wheel.{a}{s}.speed": f"wheel.{a}{t}.speed" for a in axles for s, t in ("lr", "rl")}
    found = [f for f in check(leave_out(without, renamed(names))) if f.kind in ("wheels", "sign")]
    assert {f.kind for f in found} == {"wheels"}
    channels = {c for f in found for c in f.channels}
    assert f"wheel.{axles[0]}l.speed" in channels
    assert channels <= set(names)


@pytest.mark.parametrize("car", [CAR, None])
def test_wheels_exchanged_on_both_axles_do_not_outvote_the_gyroscope(car: str | None) -> None:
    """All four wheels have the wrong sign; steering, lateral acceleration and course agree with the gyroscope."""
    sides = {"l": "r", "r": "l"}
    names = {f"wheel.{w}.speed": f"wheel.{w[0]}{sides[w[1]]}.speed" for w in WHEELS}
    (found,) = check(renamed(names), car)
    assert found.kind == "wheels"
    assert set(found.channels) == set(names)
    assert "against imu.wz, steer.wheel, imu.ay, gnss.course" in found.text


def test_wheels_and_gyroscope_alone_leave_open_which_of_them_is_wrong() -> None:
    kept = ("wheel.", "imu.wz")
    values = [(m, {c: v for c, v in m.values.items() if c.startswith(kept)}) for m in times(-1.0, "imu.wz")]
    (found,) = check([Measurement(m.source, m.t, m.arrival, v) for m, v in values if v])
    assert found.kind == "sign"
    assert set(found.channels) == {"imu.wz", *(f"wheel.{w}.speed" for w in WHEELS)}
    assert "or wheels are exchanged" in found.text


def test_a_z_axis_that_points_down_is_reported_as_half_a_turn_of_roll() -> None:
    (found,) = check(times(-1.0, "imu.az"))
    assert found.kind == "mounting"
    assert "does the z axis point down?" in found.text
    assert "`180 0 0 deg`" in found.text


def test_an_imu_that_points_to_the_side_is_found_with_its_angle() -> None:
    def turn(values: dict[str, float]) -> dict[str, float]:
        if "imu.ax" not in values:
            return values
        return {**values, "imu.ax": values["imu.ay"], "imu.ay": -values["imu.ax"]}

    turned = [Measurement(m.source, m.t, m.arrival, turn(m.values)) for m in drive()]
    (found,) = [f for f in check(turned) if f.kind == "mounting"]
    assert abs(found.value) == pytest.approx(math.pi / 2, abs=0.2)


def straight(seconds: float = 60.0, course: float = 0.4) -> list[Measurement]:
    """A drive without turns, with changing speed and small steering corrections, as on a motorway."""
    found = []
    x = 0.0
    for k in range(int(seconds * 100)):
        t = k * 0.01
        v = 15.0 + 4.0 * math.sin(0.3 * t) + 0.3 * math.sin(2.0 * t)
        a = 1.2 * math.cos(0.3 * t) + 0.6 * math.cos(2.0 * t)
        x += v * 0.01
        turn = 0.01 * math.sin(0.9 * t) + 0.006 * math.sin(2.3 * t)
        wheel = 16.0 * 2.7 * turn / v
        values = {"imu.ax": a, "imu.ay": v * turn, "imu.az": 9.81, "imu.wz": turn, "steer.wheel": wheel}
        values |= {"vehicle.speed": v, **{f"wheel.{w}.speed": v / 0.316 for w in ("fl", "fr", "rl", "rr")}}
        if k % 10 == 0:
            degrees = math.degrees(x / 6.371e6)
            values["gnss.lat"] = 48.0 + degrees * math.cos(course)
            values["gnss.lon"] = 11.0 + degrees * math.sin(course) / math.cos(math.radians(48.0))
            values |= {"gnss.speed": v, "gnss.course": course}
        found.append(Measurement("log", k * 10_000_000, k * 10_000_000, values))
    return found


def test_channels_that_a_straight_drive_cannot_compare_are_listed() -> None:
    checker = LogChecker(load(CAR))
    for m in straight():
        checker.take(m)
    found = checker.find()
    assert found.findings == []
    assert "imu.ay" in found.not_compared["turns"]
    assert "imu.ax" not in found.not_compared["changes of speed"]


@pytest.mark.parametrize(
    ("change", "kind", "channels"),
    [
        (lambda c, v: v * DEGREES if c == "steer.wheel" else v, "unit", {"steer.wheel", "imu.wz"}),
        (lambda c, v: -v if c == "steer.wheel" else v, "sign", {"steer.wheel", "imu.wz"}),
        (lambda c, v: v / 1.25 if c == "gnss.speed" else v, "scale", {"gnss.speed"}),
        (
            lambda c, v: v * 1.25 if c.startswith("wheel.") else v,
            "scale",
            {f"wheel.{w}.speed" for w in WHEELS},
        ),
        (lambda c, v: math.pi / 2 - v if c == "gnss.course" else v, "course", {"gnss.course"}),
        (
            lambda c, v: v + 1.0 if c == "gnss.course" else v,
            "course",
            {"gnss.course", "gnss.lat", "gnss.lon"},
        ),
        (lambda c, v: v + 50.0 if c == "gnss.lat" else v, "range", {"gnss.lat"}),
        (lambda c, v: 0.05 * math.sin(50.0 * v) if c == "imu.ax" else v, "mounting", {"imu.ax"}),
    ],
)
def test_mistakes_are_found_in_a_straight_drive(
    change: Callable[[str, float], float], kind: str, channels: set[str]
) -> None:
    found, *others = check(changed(change, straight()))
    assert found.kind == kind
    assert channels <= set(found.channels)
    assert all(set(f.channels) & channels for f in others if kind != "range"), "of no other channel"


SPEEDS = {f"wheel.{w}.speed" for w in WHEELS}


@pytest.mark.parametrize("car", SELDOM_UNKNOWN)
@pytest.mark.parametrize("without", ["none", "gnss."])
@pytest.mark.parametrize("factor", [1e-3, 0.05])
def test_wheel_speeds_that_are_far_too_small_are_found(factor: float, without: str, car: str | None) -> None:
    """As with a radius in mm taken for m. Positions show it, or without them the accelerometer."""
    (found,) = [f for f in check(leave_out(without, times(factor, "wheel.")), car) if f.kind == "scale"]
    assert set(found.channels) == SPEEDS
    assert found.value == pytest.approx(factor, rel=0.15)


@pytest.mark.parametrize("car", SELDOM_UNKNOWN)
@pytest.mark.parametrize("without", ["none", "gnss.", "wheel."])
@pytest.mark.parametrize("axis", ["imu.ax", "imu.ay"])
def test_a_single_accelerometer_axis_in_g_is_found(axis: str, without: str, car: str | None) -> None:
    found, *others = check(leave_out(without, times(1 / 9.80665, axis)), car)
    assert not others
    assert found.kind == "unit"
    assert axis in found.channels
    assert "in g, not in m/s²" in found.text


def test_a_speed_whose_changes_are_too_small_for_the_accelerometer_is_found() -> None:
    """A speed in m/s taken for km/h, in a log that has only the accelerometer to compare it with."""
    measurements = open_log(SAMPLE).measurements()
    slow = changed(lambda c, v: v / 3.6 if c == "vehicle.speed" else v, measurements)
    (found,) = check(slow, "ferrari_250lm")
    assert (found.kind, found.channels) == ("scale", ("vehicle.speed",))
    assert found.value == pytest.approx(1 / 3.6, rel=0.1)


def test_courses_in_degrees_are_found_even_if_they_are_no_larger_than_radians() -> None:
    (found,) = check(changed(lambda c, v: v * DEGREES if c == "gnss.course" else v, straight(course=0.02)))
    assert (found.kind, found.channels) == ("unit", ("gnss.course",))


def test_courses_in_degrees_are_found_in_bends() -> None:
    """The receiver has 5 Hz, so that the course changes by more than π degrees from one fix to the next."""
    slow = [m for m in times(DEGREES, "gnss.course") if "gnss.lat" not in m.values or m.t % 200_000_000 == 0]
    found = [f for f in check(slow) if f.kind != "range"]
    assert [(f.kind, f.channels) for f in found] == [("unit", ("gnss.course",))]


def test_a_lone_sensor_is_distinguished_from_a_lack_of_turns() -> None:
    checker = LogChecker(load(CAR))
    for m in drive():
        if "gnss.lat" in m.values:
            checker.take(m)
    found = checker.find()
    assert found.not_compared["turns"] == ["gnss.course"]
    assert found.is_alone("turns")


@pytest.mark.parametrize(
    ("names", "change", "kind"),
    [
        ({"gnss.lat": "gnss.lon", "gnss.lon": "gnss.lat"}, 1.0, "course"),
        ({}, -1.0, "sign"),
    ],
)
def test_exchanged_coordinates_and_longitudes_of_the_wrong_sign_are_found(
    names: dict[str, str], change: float, kind: str
) -> None:
    """In a drive with bends, at coordinates that are valid when exchanged, too."""
    measurements = renamed(names) if names else times(change, "gnss.lon")
    found = [f for f in check(measurements) if "gnss.lon" in f.channels]
    assert [f.kind for f in found] == [kind]
    assert "gnss.course" not in found[0].channels  # the course agrees with the gyroscope


@pytest.mark.parametrize(("origin", "words"), [(math.pi / 2, "from east"), (0.0, "from north, counter-")])
def test_courses_counted_in_the_opposite_sense_are_found(origin: float, words: str) -> None:
    """Against positions alone, they look like exchanged coordinates or a longitude of opposite sign."""
    turned = changed(lambda c, v: (origin - v) % math.tau if c == "gnss.course" else v, drive())
    named = [f for f in check(turned) if f.kind == "course" or "gnss.lon" in f.channels]
    assert [f.channels for f in named] == [("gnss.course",)]
    assert f"counted {words}" in named[0].text
    assert "scale: -1" in named[0].text


@pytest.mark.parametrize("factor", [1000.0, 0.001])
def test_times_in_another_unit_are_found(factor: float) -> None:
    stamps = [round(m.t * factor) for m in straight(30.0)]
    measurements = [
        Measurement(m.source, t, t, m.values) for t, m in zip(stamps, straight(30.0), strict=True)
    ]
    assert check(measurements)[0].kind == "time unit"


def test_channels_that_the_configuration_does_not_read_are_named() -> None:
    yaw_rates = [
        Measurement("car", m.t, m.arrival, {"vehicle.wz": m.values["imu.wz"]})
        for m in drive()
        if "imu.wz" in m.values
    ]
    found = check([*drive(), *yaw_rates])
    assert [(f.channels, f.text) for f in found if f.kind == "not read"] == [
        (("vehicle.wz",), "the configuration has no `sensors.yaw_rate`")
    ]


def test_another_steering_angle_is_named_where_the_configured_one_is_missing() -> None:
    sensors = load(CAR).sensors
    assert sensors.find_unread({"steer.wheel", "steer.rack"}) == {}
    assert sensors.find_unread({"steer.rack"}) == {"sensors.steering.source: rack": ("steer.rack",)}


def test_samples_that_a_logger_repeats_are_found() -> None:
    last: dict[str, float] = {}
    held = []
    for m in straight(30.0):
        last |= {c: v + 1e-6 * (m.t % 7) for c, v in m.values.items()}
        held.append(Measurement(m.source, m.t, m.arrival, dict(last)))
    (found,) = check(held)
    assert found.kind == "held"
    assert "gnss.lat" in found.channels
    assert found.value == pytest.approx(10.0, rel=0.01)


def test_pauses_and_rates_are_reported() -> None:
    begin = drive()[0].t + 10_000_000_000
    with_pause = [m for m in drive() if not (begin < m.t < begin + 700_000_000 and "imu.ax" in m.values)]
    checker = LogChecker(load(CAR))
    for m in with_pause:
        checker.take(m)
    found = checker.find()
    (gap,) = [f for f in found.findings if f.kind == "gap"]
    assert "imu.ax" in gap.channels
    assert gap.value == pytest.approx(0.7, abs=0.03)
    by_source = {r.source: r for r in found.rates}
    assert by_source["imu"].longest_at == pytest.approx(begin / 1e9, abs=0.03)
    for source, rate in by_source.items():
        stamps = sorted({m.t for m in drive() if any(c.startswith(source.split(".")[0]) for c in m.values)})
        usual = sorted(b - a for a, b in itertools.pairwise(stamps))[len(stamps) // 2]
        assert rate.rate == pytest.approx(1e9 / usual, rel=0.06), source


def test_the_command_reports_findings_and_refuses_unusable_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "drive.csv"
    measurements = times(-1.0, "imu.wz")
    with create_log(path, {c for m in measurements for c in m.values}) as log:
        for m in measurements:
            log.write(m)
    assert main(["check", "--log", str(path), "--config", CAR, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [f["channels"] for f in found["findings"] if f["kind"] == "sign"] == [["imu.wz"]]
    assert {"log", "car", "rates", "lags", "findings", "problems"} <= found.keys()
    assert main(["check", "--log", str(path), "--config", CAR]) == 0
    assert "sign: imu.wz: opposite sign to" in capsys.readouterr().out
    assert main(["check", "--log", str(path), CAR]) == 2
    assert main(["check"]) == 2
    (tmp_path / "empty.csv").write_text("t,imu.ax\n")
    assert main(["check", "--log", str(tmp_path / "empty.csv")]) == 1
    assert "no measurements in it" in capsys.readouterr().err
    for damaged, words in ((1, "the 1 problem of"), (3, "the 3 problems of")):
        rows = [f"{t},{'?' if t < damaged else 1}\n" for t in range(9)]
        (tmp_path / "damaged.csv").write_text("t,imu.ax\n" + "".join(rows))
        assert main(["check", "--log", str(tmp_path / "damaged.csv")]) == 0
        assert f"nothing wrong was found beside {words} reading it" in capsys.readouterr().out
    (tmp_path / "noon.csv").write_text("t,imu.ax\n12:00:00,1\n")
    assert main(["check", "--log", str(tmp_path / "noon.csv")]) == 1
    assert "'12:00:00'" in capsys.readouterr().err


@pytest.mark.parametrize("mapped", [True, False])
def test_values_left_out_on_reading_are_a_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mapped: bool
) -> None:
    """Latitudes in minutes: most are too large for any angle in degrees, one only for a latitude."""
    path, mapping = tmp_path / "minutes.csv", tmp_path / "mapping.yaml"
    rows = [f"{t},{120.5 if t == 4 else 2482.63},1\n" for t in range(9)]
    path.write_text(("t,north,east\n" if mapped else "t,gnss.lat,gnss.lon\n") + "".join(rows))
    mapping.write_text("channels: {gnss.lat: north, gnss.lon: east}\n")
    assert main(["check", "--log", str(path), *(["--mapping", str(mapping)] if mapped else [])]) == 0
    out = capsys.readouterr().out
    assert "range: gnss.lat: 9 of 9 values beyond ±90 deg, such as 120.5: they are not used" in out
    assert "nothing wrong" not in out
    path.write_text(path.read_text().replace("120.5", "2482.63"))
    assert main(["check", "--log", str(path), *(["--mapping", str(mapping)] if mapped else [])]) == 0
    assert "9 of 9 values beyond ±90 deg, such as 2482.63" in capsys.readouterr().out
