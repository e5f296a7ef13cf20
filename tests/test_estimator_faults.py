"""Sensors that fail while the car turns: estimation continues with the others, and the fault is reported."""

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, prototype, rms, steps, without

from vehicled.estimator import Estimator
from vehicled.messages import Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario, find_scenario
from vehicled.simulation.sensor_settings import RECEIVERS

FAILS, SOUND, SECONDS = 6.23, 9.73, 11.0
Fault = Callable[[float, float], float | None]
"""The faulty value of a channel, given its true value and its last one before the fault; None for no value."""


@pytest.fixture(scope="module")
def slalom() -> Drive:
    return Drive(dataclasses.replace(find_scenario("slalom"), duration=SECONDS))


def silent(value: float, last: float) -> None:
    return None


def repeating(value: float, last: float) -> float:
    return last


def zero(value: float, last: float) -> float:
    return 0.0


def spoil(given: list[Measurement], prefix: str, fault: Fault) -> list[Measurement]:
    """The measurements with a fault of the channels of that prefix from FAILS to SOUND."""
    last: dict[str, float] = {}
    found = []
    for m in given:
        values: dict[str, float] = {}
        for channel, value in m.values.items():
            if not channel.startswith(prefix):
                values[channel] = value
            elif FAILS * SECOND < m.t < SOUND * SECOND:
                replaced = fault(value, last[channel])
                if replaced is not None:
                    values[channel] = replaced
            else:
                values[channel] = last[channel] = value
        if values:
            found.append(Measurement(m.source, m.t, m.arrival, values))
    return found


def run_with(drive: Drive, prefix: str, fault: Fault) -> Run:
    return Run(prototype(), steps(spoil(drive.measurements(gnss="conventional"), prefix, fault)))


def check(run: Run, drive: Drive, bounds: Mapping[str, float]) -> None:
    """Assert bounds of the RMSE in degrees from the fault on, and that the filter was not restarted."""
    assert run.estimator.status()["restarts"] == 0
    for column, bound in bounds.items():
        assert rms(run.error(drive, column)[since_fault(run)]) < math.radians(bound), column


def since_fault(run: Run) -> np.ndarray:
    """Mask of the estimates from the fault to the end of the drive."""
    return (run.t > FAILS * SECOND) & (run.t <= SECONDS * SECOND)


@pytest.mark.parametrize("fault", [silent, repeating, pytest.param(zero, marks=pytest.mark.slow)])
def test_the_estimate_stays_accurate_when_the_steering_sensor_fails(slalom, fault):
    run = run_with(slalom, "steer", fault)
    check(run, slalom, {"sideslip": 0.8, "yaw": 0.8, "wz": 0.5})
    assert all(i.fused for i in run.of("imu.gyro"))


def test_without_a_steering_sensor_the_car_is_followed(slalom):
    run = Run(prototype(), steps(without(slalom.measurements(gnss="conventional"), "steer")))
    check(run, slalom, {"sideslip": 0.8, "yaw": 0.8, "wz": 0.5})
    assert run.estimator.status()["inputs"]["steering"] == "silent"


@pytest.mark.parametrize(
    ("prefix", "fault"),
    [
        ("imu.w", silent),
        ("imu.wz", repeating),
        ("imu.a", silent),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("imu.w", repeating), ("imu.wz", silent), ("imu.a", repeating))
        ),
    ],
)
def test_the_estimate_stays_accurate_when_an_inertial_sensor_fails(slalom, prefix, fault):
    run = run_with(slalom, prefix, fault)
    check(run, slalom, {"sideslip": 0.8, "yaw": 0.8, "wz": 1.0})
    stuck = run.estimator.status()["stuck"]
    assert stuck > 100 if fault is repeating else stuck == 0


@pytest.mark.parametrize(
    "fault", [lambda v, _: v + 0.4, pytest.param(lambda v, _: v + 3.0, marks=pytest.mark.slow)]
)
def test_a_gyroscope_that_wheels_and_steering_contradict_is_rejected(slalom, fault):
    run = run_with(slalom, "imu.wz", fault)
    check(run, slalom, {"sideslip": 1.5, "yaw": 1.5})
    assert run.estimator.status()["implausible"] > 0.9 * 250 * (SOUND - FAILS)


def test_a_course_that_positions_contradict_does_not_turn_the_car(slalom):
    given = spoil(slalom.measurements(gnss=RECEIVERS["rtk"]), "gnss.course", lambda value, last: value + 1.0)
    estimator = Estimator(prototype())
    run = Run(prototype(), steps(given), estimator=estimator)
    assert np.abs(run.error(slalom, "yaw")[run.t < SECONDS * SECOND]).max() < math.radians(1.0)
    assert estimator.status()["restarts"] == 0


@pytest.mark.parametrize("receiver", ["conventional", "rtk"])
def test_gyroscopes_that_suddenly_give_degrees_per_second_do_not_turn_the_car(slalom, receiver):
    """A roll rate that is not used must not move the antenna, which would turn the course: by 12 and 6°."""
    given = spoil(
        slalom.measurements(gnss=RECEIVERS[receiver]), "imu.w", lambda value, last: math.degrees(value)
    )
    run = Run(prototype(), steps(given))
    driven = (run.t > FAILS * SECOND) & (run.t < SECONDS * SECOND)  # the last fixes arrive after the drive
    assert np.abs(run.error(slalom, "yaw")[driven]).max() < math.radians(1.0)


@pytest.mark.parametrize(
    ("speed", "rack"), [pytest.param(18.0, 0.010, marks=pytest.mark.slow), (25.0, 0.006)]
)
def test_a_gyroscope_is_not_rejected_when_wheels_slip(speed, rack):
    """Under hard braking in a turn the unloaded front wheel locks, and the car turns less than it is steered."""
    inputs = DriveInputs(rack=[(1.0, 0.0), (2.0, rack)], brake_pressure=[(3.0, 0.0), (3.2, 90e5)])
    scenario = Scenario(duration=5.0, initial=InitialMotion(speed=speed, yaw=0.5), inputs=inputs)
    drive = Drive(scenario)
    run = Run(prototype(), steps(drive.measurements(gnss="conventional")))
    status = run.estimator.status()
    assert (status["implausible"], status["restarts"]) == (0, 0)
    assert all(i.fused for i in run.of("imu.gyro"))


def test_a_growing_gyroscope_bias_is_estimated_with_late_fixes(slalom):
    """The bias grows by 0.2 rad/s² up to 0.15 rad/s.

    The covariance stays positive definite, and the fixes of the healthy receiver are accepted.
    """
    grown = iter(np.minimum(np.arange(10_000) * 0.004 * 0.2, 0.15).tolist())
    given = spoil(slalom.measurements(gnss="rtk"), "imu.wz", lambda v, _: v + next(grown))
    run = Run(prototype(), steps(m for m in given if m.t < (FAILS + 3.0) * SECOND))
    status = run.estimator.status()
    assert (status["restarts"], status["repairs"]) == (0, 0)
    assert status["gyro_bias"][2] == pytest.approx(0.15, abs=0.03)
    error = run.error(slalom, "yaw")[since_fault(run)]
    assert abs(error[-1]) < math.radians(2.5)
    assert rms(error) < math.radians(3.5)
    assert run["sigma.yaw"][run.t > SECOND].min() > 1e-4
    assert sum(not i.fused for i in run.of("gnss.position")) < 5


def test_a_gyroscope_with_reversed_sign_causes_at_most_one_restart(slalom):
    """Before the fault is detected, the gyroscope contradicts the filter's yaw rate, which may cause a restart."""
    run = run_with(slalom, "imu.wz", lambda v, _: -v)
    assert run.estimator.status()["restarts"] <= 1
    assert rms(run.error(slalom, "yaw")[since_fault(run)]) < math.radians(1.5)


@pytest.mark.parametrize(
    ("off", "gnss", "most"),
    [
        (8.0, "conventional", {"x": 0.6, "y": 0.9, "vx": 0.2, "vy": 0.2}),
        pytest.param(-12.0, "rtk", {"x": 0.1, "y": 0.1, "vx": 0.2, "vy": 0.1}, marks=pytest.mark.slow),
    ],
)
def test_without_torques_an_accelerometer_that_jumps_is_no_drive_force(slalom, off, gnss, most):
    """Its step is subtracted, as no force begins within a sample."""
    given = without(slalom.measurements(gnss=gnss), "torque", "brake")
    run = Run(prototype(), steps(spoil(given, "imu.ax", lambda v, _: v + off)))
    for name, limit in most.items():
        assert np.abs(run.error(slalom, name)[since_fault(run)]).max() < limit, name
    assert run.estimator.status()["restarts"] == 0


@pytest.mark.parametrize("off", [0.35, pytest.param(-2.0, marks=pytest.mark.slow)])
def test_a_roll_rate_that_jumps_does_not_turn_the_car(slalom, off):
    run = Run(
        prototype(), steps(spoil(slalom.measurements(gnss="conventional"), "imu.wx", lambda v, _: v + off))
    )
    check(run, slalom, {"sideslip": 0.3, "yaw": 0.5, "roll": 0.5})


@pytest.mark.parametrize("gnss", ["rtk", pytest.param("conventional", marks=pytest.mark.slow)])
def test_a_dead_lateral_accelerometer_does_not_move_the_car_aside(slalom, gnss):
    random = np.random.default_rng(4)
    given = without(slalom.measurements(gnss=gnss), "torque", "brake")
    run = Run(prototype(), steps(spoil(given, "imu.ay", lambda v, _: 0.05 * random.standard_normal())))
    assert np.abs(run.error(slalom, "y")[since_fault(run)]).max() < (0.4 if gnss == "rtk" else 1.6)
    assert abs(run.error(slalom, "vy")[-1]) < 0.2
    status = run.estimator.status()
    assert status["implausible"] > 0.7 * 250 * (SOUND - FAILS)
    assert status["restarts"] == 0


def test_impossible_torques_and_brake_pressures_are_not_used(slalom):
    """The values are just within the bounds of their channels: torques of 95 kN·m, brakes at 999 bar."""
    for prefix, value in (("torque", 9.5e4), ("brake", 9.99e7)):
        run = run_with(slalom, prefix, lambda _, last, value=value: value)
        check(run, slalom, {"sideslip": 0.5, "yaw": 0.8, "wz": 0.5})
        assert np.abs(run.error(slalom, "vx")).max() < 0.5, prefix
        assert run.estimator.status()["implausible"] == 0


def test_healthy_sensors_are_not_rejected(slalom):
    status = Run(prototype(), steps(slalom.measurements(gnss="conventional"))).estimator.status()
    assert (status["stuck"], status["implausible"], status["absurd"]) == (0, 0, 0)
    assert status["inputs"] == {"steering": "measured", "drive": "measured"}


def test_a_receiver_that_repeats_its_last_fix_is_ignored(slalom):
    run, other = (run_with(slalom, "gnss", fault) for fault in (repeating, silent))
    assert run.estimator.status()["stuck"] > 10
    for axis in "xy":
        assert np.abs(run[axis] - other[axis]).max() < 0.3, axis


def test_equal_samples_of_a_car_at_rest_are_not_stuck(slalom):
    """The samples are those of a simulated car at rest, without noise."""
    given = slalom.measurements(gnss="conventional")
    first = next(m for m in given if "imu.wz" in m.values)
    still = [
        Measurement(first.source, t * 10_000_000, t * 10_000_000, dict(first.values) | {"vehicle.speed": 0.0})
        for t in range(1, 500)
    ]
    run = Run(prototype(), steps(still))
    assert run.estimator.status()["stuck"] == 0
