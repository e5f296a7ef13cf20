"""Speeds of two devices outvote an estimated speed that an accelerometer has led astray."""

from dataclasses import replace

import numpy as np
import pytest
from estimator_rig import SECOND, Run, mixed, prototype, steps, without

from replay.faults import Offset
from vehicled.sources.speeds.outvoted import OutvotedSpeed
from vehicled.studies.faults.offline import spoil

STEP = 10_000_000


def take(*given: tuple[str, int, float | None]) -> list[float]:
    """Results of rejected speeds; None in place of a deviation: accepted."""
    outvoted, found = OutvotedSpeed(), []
    for device, n, by in given:
        if by is None:
            outvoted.accept(device)
        else:
            found.append(outvoted.reject(device, n * STEP, by))
    return found


def test_two_devices_that_agree_outvote_the_estimate():
    given = (
        ("vehicle", 1, -0.5),
        ("gnss", 1, -0.4),
        ("vehicle", 2, -0.6),
        ("gnss", 3, -0.5),
    )
    assert take(*given) == [0.0, 0.0, 0.0, -0.6]


def test_one_device_alone_does_not():
    assert take(*(("vehicle", n, -0.5) for n in range(9))) == [0.0] * 9


def test_devices_that_deviate_to_different_sides_do_not():
    both = [(device, n, by) for n in range(5) for device, by in (("vehicle", -0.5), ("gnss", 0.5))]
    assert not any(take(*both))


def test_a_device_that_agrees_with_the_estimate_again_has_no_vote():
    given = ("gnss", 1, 0.5), ("gnss", 2, 0.5), ("gnss", 3, None), ("vehicle", 4, 0.5)
    assert not any(take(*given, ("vehicle", 5, 0.5)))


def test_an_old_contradiction_does_not_count():
    gnss = [("gnss", n, 0.5) for n in (1, 2)]
    assert not any(take(*gnss, ("vehicle", 50, 0.5), ("vehicle", 51, 0.5)))


def contradict(outvoted: OutvotedSpeed, times: int, by: float = 0.5) -> None:
    for n in range(times):
        outvoted.note("vehicle", n * STEP, by, 0.1)


def test_a_device_that_contradicts_an_estimate_with_which_another_agrees_is_alone():
    outvoted = OutvotedSpeed()
    outvoted.note("gnss", 0, 0.05, 0.2)
    contradict(outvoted, 9)
    assert not outvoted.is_alone("vehicle", 9 * STEP)
    outvoted.note("gnss", 9 * STEP, 0.05, 0.2)
    assert outvoted.is_alone("vehicle", 10 * STEP)
    assert not outvoted.is_alone("gnss", 10 * STEP)
    outvoted.note("vehicle", 10 * STEP, 0.05, 0.1)
    assert not outvoted.is_alone("vehicle", 11 * STEP)


@pytest.mark.parametrize(
    ("deviation", "bound", "later"),
    [(0.4, 0.2, 0), (0.05, 0.6, 0), (0.05, 0.2, 100)],
    ids=["contradicts as well", "would not show it", "measures no more"],
)
def test_a_device_is_not_alone_beside_one_that(deviation, bound, later):
    outvoted = OutvotedSpeed()
    contradict(outvoted, 9)
    outvoted.note("gnss", 9 * STEP, 0.05, 0.2)
    outvoted.note("gnss", 10 * STEP, deviation, bound)
    assert not outvoted.is_alone("vehicle", (10 + later) * STEP)


def test_a_device_that_measures_no_more_often_than_others_has_little_weight_as_it_is():
    outvoted = OutvotedSpeed()
    for n in range(9):
        outvoted.note("vehicle", n * STEP, 0.5, 0.1)
        outvoted.note("gnss", n * STEP, 0.05, 0.2)
        assert not outvoted.is_alone("vehicle", n * STEP)


def test_receivers_are_not_refused_for_a_wrong_speed_that_measures_more_often():
    """As its time is not known, it is no fault while the car brakes and accelerates; the estimate followed it."""
    drive, begin, end = mixed(18.0), 11 * SECOND, 16 * SECOND
    wrong = Offset(channels=("vehicle.speed",), by=0.5, begin=11.0, end=16.0)
    sensors = prototype().sensors
    speed = replace(sensors.vehicle_speed, latency_sigma=0.02)
    configuration = replace(prototype(), sensors=replace(sensors, vehicle_speed=speed))
    run = Run(configuration, steps(spoil(drive.measurements(3, gnss="conventional"), [wrong])))
    later = (run.t > begin) & (run.t < end)
    assert np.max(np.abs(run.error(drive, "vx"))[later]) < 0.2
    assert {f.source for f in run.summary.faults} == {"vehicle.speed"}


def test_an_accelerometer_that_is_off_does_not_lead_the_speed_astray():
    """5 m/s² for two seconds, without torques: as an unmeasured force, it looked like the car's own."""
    drive = mixed(17.0)
    wrong = Offset(channels=("imu.ax",), by=5.0, begin=12.0, end=14.0)
    given = without(drive.measurements(3, gnss="rtk"), "torque", "brake")
    run = Run(prototype(), steps(spoil(given, [wrong])))
    later = (run.t > 5 * SECOND) & (run.t < 16.9 * SECOND)
    assert np.max(np.abs(run.error(drive, "vx"))[later]) < 0.8
    assert np.max(np.hypot(run.error(drive, "x"), run.error(drive, "y"))[later]) < 0.2
    assert {f.source for f in run.summary.faults} == {"imu.accel"}
