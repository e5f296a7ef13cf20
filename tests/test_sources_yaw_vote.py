"""Gyroscope and the car's own yaw rate: the one that wheels, steering and accelerometer contradict is named."""

import math

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, prototype, steps
from test_sources_yaw_rate import measured, own

from replay.faults import Fault, Freeze, Offset, Silence
from vehicled.messages import Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, PlantErrors, Scenario
from vehicled.sources.checks.usual_difference import DifferenceErrors, UsualDifference
from vehicled.sources.checks.yaw_vote import YawVote
from vehicled.sources.yaw_rate import CHANNEL
from vehicled.studies.faults.drives import _COURSES
from vehicled.studies.faults.offline import spoil
from vehicled.studies.faults.signals import Drifting

BEGIN = 8.0
LENGTH = 12.0
GYRO = "imu.wz"


def make(name: str, plant: PlantErrors = STANDARD_ERRORS) -> Drive:
    course = _COURSES[name]
    initial = InitialMotion(speed=course.speed, yaw=0.5)
    return Drive(Scenario(duration=LENGTH, initial=initial, inputs=course.inputs, plant=plant))


_drives: dict[str, Drive] = {}


def drive(name: str) -> Drive:
    if name not in _drives:
        _drives[name] = make(name)
    return _drives[name]


def run(name: str, seed: int, *faults: Fault) -> Run:
    return Run(own(), steps(spoil(measured(drive(name), seed), faults)))


def find_refused(found: Run, kind: str) -> float:
    """Longest time, s, for which a kind of observation was not used at all after the beginning of the fault."""
    times = [i.t for i in found.innovations if i.sensor == kind and i.fused and i.t > (BEGIN - 0.2) * SECOND]
    return max(np.diff(times)) * 1e-9


def find_named(found: Run) -> dict[str, float]:
    """By source: time from the beginning of the fault to its first refusal, s."""
    named: dict[str, float] = {}
    for i in found.innovations:
        if i.reason in ("implausible", "stuck", "absurd", "unit") and i.t > BEGIN * SECOND:
            named.setdefault(i.sensor, i.step * 1e-9 - BEGIN)
    return named


OWN_FAULTS = [
    (Freeze(channels=(CHANNEL,), begin=BEGIN), 0.5),
    (Offset(channels=(CHANNEL,), by=0.1, factor=1.0, begin=BEGIN), 0.5),
    (Drifting(channel=CHANNEL, rate=0.05, begin=BEGIN), 1.5),
]
MORE_OWN_FAULTS = [
    (Offset(channels=(CHANNEL,), by=0.0, factor=-1.0, begin=BEGIN), 0.5),
    (Offset(channels=(CHANNEL,), by=0.0, factor=180.0 / math.pi, begin=BEGIN), 0.5),
    (Offset(channels=(CHANNEL,), by=655.0, factor=0.0, begin=BEGIN), 0.1),
]


@pytest.mark.parametrize("name", ["slalom", pytest.param("corner", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("fault", "within"),
    [*OWN_FAULTS, *(pytest.param(*f, marks=pytest.mark.slow) for f in MORE_OWN_FAULTS)],
    ids=lambda x: str(x)[:60],
)
def test_a_fault_of_the_own_sensor_is_found_and_the_gyroscope_stays_in_use(name, fault, within):
    found = run(name, 12, fault)
    named = find_named(found)
    assert set(named) == {CHANNEL}
    assert named[CHANNEL] < within
    assert find_refused(found, "imu.gyro") < 0.05
    inside = found.t < drive(name).end
    assert np.degrees(np.abs(found.error(drive(name), "yaw")[inside])).max() < 0.5


@pytest.mark.parametrize(
    ("name", "rate", "within", "degrees"),
    [
        ("corner", 0.2, 0.6, 1.7),
        pytest.param("slalom", 0.05, 1.2, 1.7, marks=pytest.mark.slow),
        pytest.param("braking", 0.2, 0.7, 2.2, marks=pytest.mark.slow),
        pytest.param("corner", 0.02, 2.0, 1.7, marks=pytest.mark.slow),
    ],
)
def test_a_drifting_gyroscope_is_refused_and_the_own_sensor_stays_in_use(name, rate, within, degrees):
    found = run(name, 12, Drifting(channel=GYRO, rate=rate, begin=BEGIN))
    named = find_named(found)
    assert set(named) == {"imu.wx", "imu.wy", GYRO}
    assert named[GYRO] < within
    assert find_refused(found, CHANNEL) < 0.1
    inside = found.t < drive(name).end
    assert np.degrees(np.abs(found.error(drive(name), "yaw")[inside])).max() < degrees


def test_without_the_imu_the_estimate_goes_on_with_the_own_sensor():
    found = run("slalom", 12, Silence(channels=("imu.",), begin=BEGIN))
    assert {f.source for f in found.estimator.condition.faults} == {"imu.gyro", "imu.accel"}
    inside = (found.t > BEGIN * SECOND) & (found.t < drive("slalom").end)
    assert np.abs(found.error(drive("slalom"), "wz")[inside]).max() < 0.03
    assert np.degrees(np.abs(found.error(drive("slalom"), "yaw")[inside])).max() < 0.3


def test_a_skid_is_no_fault_of_either():
    found = Run(own(), steps(measured(make("skid", PlantErrors(tyre_stiffness=-0.35, friction=-0.2)), 7)))
    assert find_named(found).keys().isdisjoint({CHANNEL, GYRO})


def test_a_usual_difference_is_found_with_its_standard_deviation():
    random = np.random.default_rng(1)
    usual = UsualDifference(DifferenceErrors(0.03, 0.03, 0.01), DifferenceErrors(0.0, 0.0, 0.0), 1e-3, 1e-3)
    assert usual.expect(0.5, 1.0)[1] == pytest.approx(math.hypot(0.03, 0.015, 0.01, 0.001))
    for rate, change in random.normal(0.0, [0.4, 1.0], (400, 2)).tolist():
        usual.go_on()
        difference = 0.02 - 0.01 * rate + 0.005 * change + float(random.normal(0.0, 1e-3))
        usual.take(difference, rate, change)
    expected, sigma = usual.expect(0.5, 1.0)
    assert expected == pytest.approx(0.02 - 0.005 + 0.005, abs=1e-3)
    assert 0.8e-3 < sigma < 1.5e-3
    usual.shift(0.1)
    assert usual.expect(0.5, 1.0)[0] == pytest.approx(expected + 0.1)


def feed(vote: YawVote, begin: float, end: float, gyro: float, own_rate: float, steering: float) -> None:
    """Constant rates over a time, s, at 15 m/s."""
    for k in range(round(begin * 100), round(end * 100)):
        t = k * 10_000_000
        values = {"imu.wx": 0.0, "imu.wy": 0.0, GYRO: gyro, CHANNEL: own_rate}
        vote.take(Measurement("car", t, t, values), 15.0, steering, False)


def make_vote() -> YawVote:
    configuration = own()
    return YawVote(configuration.sensors, configuration.vehicle)


@pytest.mark.parametrize(("gyro", "own_rate", "culprit"), [(0.4, 0.22, "gyroscope"), (0.2, 0.42, "own")])
def test_steering_alone_decides_and_a_sensor_that_agrees_again_returns(gyro, own_rate, culprit):
    vote = make_vote()
    feed(vote, 1.0, 9.0, 0.2, 0.22, 0.24)
    assert vote.confirms
    assert vote.culprit is None
    feed(vote, 9.0, 10.0, gyro, own_rate, 0.24)
    assert vote.culprit == culprit
    (verdict,) = vote.found
    assert verdict.culprit == culprit
    assert verdict.apart == pytest.approx(gyro - own_rate + 0.02, abs=0.1)
    feed(vote, 10.0, 11.5, 0.2, 0.22, 0.24)
    assert vote.culprit is None


def test_without_witnesses_nothing_is_decided():
    vote = make_vote()
    for k in range(100, 1200):
        t = k * 10_000_000
        values = {GYRO: 0.2 if k < 900 else 0.5, CHANNEL: 0.2}
        vote.take(Measurement("car", t, t, values), 15.0, None, False)
    assert vote.culprit is None
    assert vote.apart > 0.2


def test_a_car_without_the_sensor_has_no_vote():
    assert YawVote(prototype().sensors, prototype().vehicle).watched == frozenset()
