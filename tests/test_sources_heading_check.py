"""Headings of a two-antenna baseline, checked by courses over ground, and by the estimate beside gyroscopes."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, bends, equipped, mixed, steps, with_known_time

from vehicled.configuration import Configuration
from vehicled.messages import Measurement
from vehicled.simulation.sensor_settings import RTK
from vehicled.sources.gnss.heading_check import HeadingCheck
from vehicled.sources.shifts import Shifts

PERIOD = 100_000_000
ANGLE = 0.0, 0.01


def find(off: float, *, ahead: float, yaw_rate: float, samples: int = 20) -> bool:
    """Whether a heading with an error of `off` (rad) is found to be wrong, in a car with a small sideslip."""
    check = HeadingCheck()
    for k in range(samples):
        yaw = 0.1 * k * yaw_rate
        backwards = math.pi if ahead < 0.0 else 0.0
        values = {"course": yaw + 0.3 * yaw_rate + backwards, "heading": yaw + off}
        check.take(k * PERIOD, values, (ahead, yaw_rate), ANGLE)
    return check.is_wrong


@pytest.mark.parametrize("off", [math.pi, 0.5 * math.pi, -1.0])
@pytest.mark.parametrize(("ahead", "yaw_rate"), [(2.5, 0.4), (-2.5, 0.4), (15.0, 0.0)])
def test_a_gross_error_is_found_in_any_motion(off, ahead, yaw_rate):
    assert find(off, ahead=ahead, yaw_rate=yaw_rate)


@pytest.mark.parametrize(("ahead", "yaw_rate"), [(2.5, 0.6), (15.0, 0.5), (-2.5, -0.6), (15.0, 0.0)])
def test_a_right_heading_is_not_suspected_in_bends(ahead, yaw_rate):
    assert not find(0.0, ahead=ahead, yaw_rate=yaw_rate)


def test_a_smaller_error_is_found_only_on_a_straight():
    assert not find(0.3, ahead=15.0, yaw_rate=0.5)
    assert find(0.3, ahead=15.0, yaw_rate=0.0)


def test_a_few_outliers_are_not_taken_for_a_mounting_error():
    check = HeadingCheck()
    for k in range(60):
        off = math.pi if k % 4 == 0 else 0.0
        check.take(k * PERIOD, {"course": 1.0, "heading": 1.0 + off}, (3.5, 0.2), ANGLE)
        assert not check.is_wrong


def find_shift(deviations: np.ndarray) -> tuple[int, float] | None:
    """Which heading of these deviations (in σ) is the first to show a shift, and how large it is."""
    shifts = Shifts()
    for k, deviation in enumerate(deviations):
        if shift := shifts.take((k + 1) * PERIOD, float(deviation), 1.0):
            return k, shift
    return None


@pytest.mark.parametrize(("size", "latest"), [(2.0, 25), (-3.0, 12), (10.0, 4), (-300.0, 4)])
def test_a_heading_that_shifts_is_found_the_sooner_the_larger_the_shift(size, latest):
    noise = np.random.default_rng(1).standard_normal(400)
    assert find_shift(noise) is None
    noise[200:] += size
    k, shift = find_shift(noise)
    assert 200 < k < 200 + latest
    assert shift == pytest.approx(abs(size), rel=0.3)


def test_single_outliers_and_headings_after_a_pause_are_no_shift():
    deviations = np.zeros(60)
    deviations[::4] = 8.0
    assert find_shift(deviations) is None
    shifts = Shifts()
    assert not any(shifts.take(k * 20 * PERIOD, 8.0, 1.0) for k in range(1, 20))


def follow(configured: Configuration, drive: Drive, change: Callable[[int, float], float]) -> Run:
    """The drive with RTK, whose headings, rad, are changed by `change` of time, ns, and heading."""

    def changed(m: Measurement) -> Measurement:
        if "gnss.heading" not in m.values:
            return m
        heading = change(m.t, m.values["gnss.heading"]) % (2 * math.pi)
        return Measurement(m.source, m.t, m.arrival, m.values | {"gnss.heading": heading})

    return Run(configured, steps(map(changed, measure(drive))))


def measure(drive: Drive) -> list[Measurement]:
    receiver = dataclasses.replace(RTK, vector=True, heading=0.005)
    return drive.measurements(31, gnss=receiver, gnss2=None, velocity=None)


def check_heading(found: Run, drive: Drive, begin: float, end: float, degrees: float) -> None:
    """The estimated heading is right to so many degrees, and within 4 σ, from `begin` to `end`, s."""
    later = (found.t > begin * SECOND) & (found.t <= end * SECOND)
    error = found.error(drive, "yaw")[later]
    assert np.degrees(np.abs(error)).max() < degrees
    assert (np.abs(error) < 4.0 * found["sigma.yaw"][later]).all()


@pytest.mark.parametrize("late", [0.1, pytest.param(0.3, marks=pytest.mark.slow)])
def test_a_heading_of_an_earlier_epoch_is_found_to_be_late(late):
    drive = mixed(11.0).mounted(equipped())
    headings = [(m.t, m.values["gnss.heading"]) for m in measure(drive) if "gnss.heading" in m.values]
    t, values = np.array(headings).T
    found = follow(
        equipped(), drive, lambda at, _: float(np.interp(at - late * SECOND, t, np.unwrap(values)))
    )
    check_heading(found, drive, 8.0, 11.0, 0.25)
    age = found.estimator.parameters()["gnss_heading_latency"]
    assert age.value == pytest.approx(late, abs=0.03)


@pytest.mark.parametrize("degrees", [1.5, pytest.param(-6.0, marks=pytest.mark.slow)])
def test_a_baseline_that_turns_while_driving_is_found_anew_and_does_not_turn_the_car(degrees):
    """After wrong ambiguities, the heading is that of another baseline."""
    configured, drive = with_known_time(equipped()), bends(5.0).mounted(equipped())
    by = math.radians(degrees)
    found = follow(configured, drive, lambda t, heading: heading + (by if t >= 2.5 * SECOND else 0.0))
    check_heading(found, drive, 3.0, 5.0, 0.3)
    baseline = found.estimator.parameters()["gnss_baseline"]
    assert math.degrees(baseline.value) == pytest.approx(-degrees, abs=0.2)


@pytest.mark.parametrize(("latency", "angle"), [(0.0, 0.01), pytest.param(0.02, 0.0, marks=pytest.mark.slow)])
def test_a_shift_is_no_failure_where_latency_or_baseline_are_known(latency, angle):
    """What is known is no error state."""
    configured, drive = equipped(), bends(5.0).mounted(equipped())
    gnss = configured.sensors.gnss
    known = dataclasses.replace(gnss.heading, angle_sigma=angle)
    gnss = dataclasses.replace(gnss, latency_sigma=latency, heading=known)
    configured = dataclasses.replace(configured, sensors=dataclasses.replace(configured.sensors, gnss=gnss))
    found = follow(configured, drive, lambda t, heading: heading + (0.05 if t >= 2.5 * SECOND else 0.0))
    assert found.fused("gnss.heading") > 150
