"""Wrong units are found by comparing channels; healthy sensors raise no warning."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import msgspec
import pytest
from estimator_rig import Drive
from hypothesis import given, settings
from hypothesis import strategies as st

import vehicled
from replay.log import create_log, open_log
from vehicled import DaemonConfiguration, Measurement
from vehicled.cli import main
from vehicled.messages import CHANNELS
from vehicled.simulation.equipment import find_equipment
from vehicled.simulation.scenario import find_scenario
from vehicled.sources.checks.averages import Averages
from vehicled.sources.checks.unit_check import UnitCheck

DEGREES, KNOTS = 180.0 / math.pi, 1.94384
RADIUS = 0.316
"""m, of the hatchback's wheels."""
WHEELS = "wheel.fl.{0}, wheel.fr.{0}, wheel.rl.{0}, wheel.rr.{0}"
SAMPLE = Path(__file__).parent.parent / "samples" / "ferrari_250lm" / "drive.csv"


@lru_cache
def load(name: str) -> DaemonConfiguration:
    return vehicled.load_configuration(name)


@lru_cache
def driven(name: str, scenario: str) -> Drive:
    """The scenario, or its first part."""
    car = load(name)
    equipment = find_equipment(car, car.find_signals())
    return Drive(replace(find_scenario(scenario), duration=DURATIONS[scenario]), car, equipment)


@lru_cache
def drive(name: str, scenario: str, gnss: str = "conventional") -> list[Measurement]:
    return driven(name, scenario).measurements(3, gnss=None if gnss == "none" else gnss)


def altered(measurements: Iterable[Measurement], factors: dict[str, float]) -> list[Measurement]:
    """The measurements with channels times a factor, by the begin and end of their names; `*` stands between."""

    def factor(channel: str) -> float:
        ends = (name.partition("*") for name in factors)
        return math.prod(
            factors[begin + star + end]
            for begin, star, end in ends
            if channel.startswith(begin) and channel.endswith(end)
        )

    return [
        Measurement(m.source, m.t, m.arrival, {c: v * factor(c) for c, v in m.values.items()})
        for m in measurements
    ]


def check(configuration: DaemonConfiguration, measurements: Iterable[Measurement]) -> dict[str, str]:
    found = UnitCheck(configuration.sensors, configuration.vehicle)
    for m in measurements:
        found.take(m)
    return found.find()


CARS = ("prototype", "hatchback", "rav4", "ferrari_250lm")
DURATIONS = {"slalom": 14.0, "acceleration_and_braking": 18.0, "double_lane_change": 10.0}
"""s."""
SCENARIOS = tuple(DURATIONS)
RECEIVERS = ("rtk", "conventional", "none")
# Each car and each receiver in each scenario: a Latin square.
HEALTHY = [(car, SCENARIOS[k], RECEIVERS[(k + i) % 3]) for i, car in enumerate(CARS) for k in range(3)]
QUICK = [h for h in HEALTHY if h[1] == "slalom" and h[0] in ("prototype", "rav4")]
"""A car that measures all, and one that measures little."""


@pytest.mark.parametrize(
    ("name", "scenario", "gnss"),
    [h if h in QUICK else pytest.param(*h, marks=pytest.mark.slow) for h in HEALTHY],
)
def test_healthy_sensors_raise_no_warning(name: str, scenario: str, gnss: str) -> None:
    assert check(load(name), drive(name, scenario, gnss)) == {}


def test_a_recorded_drive_raises_no_warning() -> None:
    assert check(load("ferrari_250lm"), open_log(SAMPLE).measurements()) == {}


FAULTS = {
    "steer.": (DEGREES, "steer.wheel", "in deg, not in rad"),
    "imu.w": (DEGREES, "imu.wx, imu.wy, imu.wz", "in deg/s, not in rad/s"),
    "imu.a": (1 / 9.80665, "imu.ax, imu.ay, imu.az", "in g, not in m/s²"),
    "gnss.speed": (3.6, "gnss.speed", "in km/h, not in m/s"),
    "vehicle.speed": (3.6, "vehicle.speed", "in km/h, not in m/s"),
    "wheel.*speed": (30 / math.pi, WHEELS.format("speed"), "in rpm, not in rad/s"),
    "gnss.course": (DEGREES, "gnss.course", "in deg, not in rad"),
}


def test_only_the_axis_in_wrong_units_is_reported() -> None:
    """As with a yaw rate from the car's bus and the other rates from an IMU."""
    (found,) = check(load("hatchback"), altered(drive("hatchback", "slalom"), {"imu.wz": DEGREES}))
    assert found == "imu.wz"


@pytest.mark.parametrize(
    ("factor", "unit", "setting"),
    [(KNOTS / 3.6, "kn", "`unit: kn`"), (2.23694 / 3.6, "mph", "convert the log")],
)
def test_a_receivers_speed_in_another_unit_taken_for_km_h_is_recognised(
    factor: float, unit: str, setting: str
) -> None:
    wrong = altered(drive("hatchback", "slalom"), {"gnss.speed": factor})
    found = check(load("hatchback"), wrong)
    assert list(found) == ["gnss.speed"]
    assert f"seem to be {unit} taken for km/h" in found["gnss.speed"]
    assert setting in found["gnss.speed"]


def straight(seconds: float, heading: float, course: float) -> Iterator[Measurement]:
    """Fixes at 20 m/s; `heading`: direction of motion, clockwise from north."""
    for k in range(int(10 * seconds)):
        degrees = k * 2.0 / 111_195.0
        lat, lon = degrees * math.cos(heading), 11.0 + degrees * math.sin(heading)
        values = {"gnss.lat": lat, "gnss.lon": lon, "gnss.course": course}
        yield Measurement("gnss", k * 100_000_000, k * 100_000_000, values)


IN_DEGREES, ELSEWHERE = "in deg, not in rad", "expected courses over ground, clockwise from north"
EXCHANGED = "with latitude and longitude exchanged"


@pytest.mark.parametrize(
    ("heading", "course", "expected"),
    [
        (0.0, 0.05, None),
        (0.0, math.tau - 0.05, None),
        (math.pi, -math.pi, None),
        (0.05, 3.0, IN_DEGREES),
        (0.0, -2.0, IN_DEGREES),
        (0.03, math.pi / 2 - 0.03, EXCHANGED),
        (0.7, math.pi / 2 - 1.4, ELSEWHERE),
        (math.pi / 2, 0.0, ELSEWHERE),
    ],
)
def test_courses_on_a_straight_road_are_compared_with_positions(
    heading: float, course: float, expected: str | None
) -> None:
    """Courses to the north in degrees are small numbers, which could be radians.

    A course of 1.6 is to the east in radians, and to the north in degrees. If positions move to the north, either
    the course is in degrees, or latitude and longitude are exchanged.
    """
    found = check(load("hatchback"), straight(10.0, heading, course))
    assert set(found) == ({"gnss.course"} if expected else set())
    assert expected is None or expected in found["gnss.course"]


@pytest.mark.parametrize("gnss", ["rtk", "conventional", "none"])
@pytest.mark.parametrize("channels", FAULTS)
def test_a_single_wrong_unit_is_reported(channels: str, gnss: str) -> None:
    if channels.startswith("gnss.") and gnss == "none":
        return
    factor, name, words = FAULTS[channels]
    ((found, text),) = check(
        load("hatchback"), altered(drive("hatchback", "slalom", gnss), {channels: factor})
    ).items()
    assert found == name
    assert words in text
    assert f"`unit: {words.split()[1].rstrip(',')}`" in text


@pytest.mark.parametrize("pair", list(itertools.combinations(FAULTS, 2)), ids="+".join)
def test_two_wrong_units_at_once_are_both_reported(pair: tuple[str, str]) -> None:
    factors = {channels: FAULTS[channels][0] for channels in pair}
    found = check(load("hatchback"), altered(drive("hatchback", "slalom"), factors))
    assert {name: text.split(":")[0].split("seem to be ")[1] for name, text in found.items()} == {
        FAULTS[channels][1]: FAULTS[channels][2] for channels in pair
    }


@pytest.mark.parametrize(
    ("name", "channels", "factor", "words"),
    [
        ("hatchback", "wheel.*speed", RADIUS, "in m/s, not in rad/s"),
        ("hatchback", "wheel.*speed", DEGREES, "in deg/s, not in rad/s"),
        ("hatchback", "wheel.*speed", 3.6, "km/h taken for m/s"),
        ("hatchback", "gnss.speed", 1.94384, "in kn, not in m/s"),
        ("hatchback", "vehicle.speed", 2.23694, "in mph, not in m/s"),
        ("prototype", "wheel.*angle", DEGREES, "in deg, not in rad"),
        ("prototype", "wheel.*angle", 0.5 / math.pi, "in revolutions, not in rad"),
        ("prototype", "steer.rack", 1000.0, "in mm, not in m"),
        ("prototype", "steer.f", DEGREES, "in deg, not in rad"),
    ],
)
def test_other_wrong_units_are_reported(name: str, channels: str, factor: float, words: str) -> None:
    (text,) = check(load(name), altered(drive(name, "slalom"), {channels: factor})).values()
    assert words in text


def come_late(measurements: Iterable[Measurement], source: str, delay: float) -> list[Measurement]:
    """The measurements, those of `source` with an additional delay, s."""
    delayed = [
        msgspec.structs.replace(m, arrival=m.arrival + round(delay * 1e9)) if m.source == source else m
        for m in measurements
    ]
    return sorted(delayed, key=lambda m: m.arrival)


@pytest.mark.parametrize("channels", ["gnss.speed", "wheel.*speed", "imu.w"])
def test_a_wrong_unit_is_found_if_the_receivers_measurements_come_late(channels: str) -> None:
    factor, name, words = FAULTS[channels]
    late = come_late(drive("hatchback", "slalom"), "gnss", 0.8)
    assert check(load("hatchback"), late) == {}
    found = check(load("hatchback"), altered(late, {channels: factor}))
    assert set(found) == {name}
    assert words in found[name]


def test_without_a_receiver_the_lateral_acceleration_is_the_reference() -> None:
    """Steering, gyroscope and speed are all in wrong units: no pair of them agrees."""
    wrong = {"steer.": DEGREES, "imu.wz": DEGREES, "vehicle.speed": 3.6}
    found = check(load("ferrari_250lm"), altered(open_log(SAMPLE).measurements(), wrong))
    assert set(found) == {"steer.fl, steer.fr", "imu.wz", "vehicle.speed"}


@pytest.mark.parametrize(
    ("factor", "words"), [(-1.0, "z axis"), (0.02, "`gravity_removed` is false"), (1.0, None)]
)
def test_a_wrong_sign_or_lack_of_gravity_is_reported(factor: float, words: str | None) -> None:
    found = check(load("hatchback"), altered(drive("hatchback", "slalom"), {"imu.az": factor}))
    assert (words is None and found == {}) or words in "; ".join(found.values())


def test_a_new_source_of_the_steering_restarts_its_check() -> None:
    car = load("prototype")
    found = UnitCheck(car.sensors, car.vehicle)
    for m in altered(drive("prototype", "slalom"), {"steer.rack": 1000.0}):
        found.take(m)
    assert list(found.find()) == ["steer.rack"]
    found.configure(replace(car.sensors, steering=replace(car.sensors.steering, source="road_wheels")))
    for m in drive("prototype", "slalom"):
        found.take(m)
    assert "steer.fl, steer.fr" not in found.find()


def test_gravity_that_should_have_been_removed_is_reported() -> None:
    car = load("hatchback")
    assert car.sensors.imu is not None
    assert car.sensors.imu.accelerometers is not None
    accelerometers = replace(car.sensors.imu.accelerometers, gravity_removed=True)
    sensors = replace(car.sensors, imu=replace(car.sensors.imu, accelerometers=accelerometers))
    (text,) = check(replace(car, sensors=sensors), drive("hatchback", "slalom")).values()
    assert "`gravity_removed` is true" in text


@pytest.mark.parametrize("channels", ["imu.w", "vehicle.speed", "wheel.", "steer."])
@pytest.mark.parametrize("factor", [-1.0, 0.0, 0.7, 1.25])
def test_other_faults_are_not_reported_as_wrong_units(channels: str, factor: float) -> None:
    assert check(load("hatchback"), altered(drive("hatchback", "slalom"), {channels: factor})) == {}


@pytest.mark.parametrize("spinning", [("fl", "fr"), ("rl", "rr"), ("fr",)])
def test_wheels_that_spin_give_no_speed(spinning: tuple[str, ...]) -> None:
    """As on ice. Otherwise a receiver would be suspected if positions happen to agree with the mean of all wheels."""
    found = UnitCheck(load("hatchback").sensors, load("hatchback").vehicle)
    rolling = {f"wheel.{w}.speed": 6.0 / RADIUS for w in ("fl", "fr", "rl", "rr")}
    assert dict(found.find_speeds(Averages(rolling))) == {"wheel speeds": pytest.approx(6.0, rel=0.01)}
    spun = rolling | {f"wheel.{w}.speed": 8.5 / RADIUS for w in spinning}
    assert dict(found.find_speeds(Averages(spun))) == {}


def test_a_few_seconds_decide_nothing() -> None:
    short = [m for m in drive("hatchback", "slalom") if m.t < 3 * 10**9]
    assert check(load("hatchback"), altered(short, {"steer.": DEGREES, "vehicle.speed": 3.6})) == {}


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**11), st.dictionaries(st.sampled_from(list(CHANNELS)), st.floats())),
        max_size=60,
    )
)
def test_any_values_at_any_times_cause_no_error(given_values: list[tuple[int, dict[str, float]]]) -> None:
    check(load("hatchback"), [Measurement("any", t, t, values) for t, values in given_values])


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sound log and one whose steering is in degrees."""
    folder = tmp_path_factory.mktemp("units")
    sound = [m for m in drive("hatchback", "slalom", "rtk") if m.arrival < 7 * 10**9]
    for name, measurements in (("sound", sound), ("degrees", altered(sound, {"steer.": DEGREES}))):
        with create_log(folder / f"{name}.csv", {c for m in sound for c in m.values}) as log:
            for m in measurements:
                log.write(m)
    return folder


def test_replay_warns_in_one_line(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for log, lines in (("sound.csv", 0), ("degrees.csv", 1)):
        assert main(["replay", str(logs / log), "--config", "hatchback", "--fast"]) == 0
        said = [line for line in capsys.readouterr().err.splitlines() if "steer.wheel" in line]
        assert len(said) == lines
    assert said[0].startswith(f"{logs / 'degrees.csv'}: steer.wheel: values up to ")
    assert "seem to be in deg, not in rad: " in said[0]


def test_the_library_warns(logs: Path) -> None:
    with pytest.warns(UserWarning, match=r"degrees\.csv: steer\.wheel: values up to .* in deg, not in rad"):
        vehicled.estimate(logs / "degrees.csv", load("hatchback"))


def test_a_wrong_unit_stays_known_after_a_reset_of_the_filter(logs: Path) -> None:
    estimator = vehicled.Estimator(load("hatchback"))
    for step in vehicled.read_log(logs / "degrees.csv", load("hatchback")):
        estimator.step(step.t, step.measurements)
    assert list(estimator.status()["units"]) == ["steer.wheel"]
    estimator.command("reset", {})
    assert list(estimator.status()["units"]) == ["steer.wheel"]
