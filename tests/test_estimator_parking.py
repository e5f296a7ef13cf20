"""Parking without a steering sensor: the car reverses, and its wheels are steered at standstill.

Also with IMU and receiver alone, and with a steering sensor of another ratio.
"""

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, prototype, steps, without

from vehicled.messages import Measurement
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario

STANDING = 9.0, 10.0
"""s: between reversing in a bend and driving on with the wheels steered the other way."""


@pytest.fixture(scope="module")
def parking() -> Drive:
    torque = [(0.5, 0.0), (0.7, -450.0), (4.0, -450.0), (4.2, -90.0), (6.5, -90.0), (6.7, 0.0)]
    torque += [(10.0, 0.0), (10.2, 450.0), (13.0, 450.0), (13.2, 200.0), (18.0, 200.0), (18.2, 900.0)]
    inputs = DriveInputs(
        rack=[(3.0, 0.0), (4.0, -0.045), (9.0, -0.045), (10.0, 0.05), (16.0, 0.05), (17.0, 0.0)],
        rear_torque=torque,
        brake_pressure=[(6.7, 0.0), (7.0, 20e5), (10.0, 20e5), (10.1, 0.0)],
    )
    return Drive(Scenario(duration=24.0, inputs=inputs, plant=STANDARD_ERRORS))


@pytest.fixture(scope="module")
def run(parking) -> Run:
    return Run(prototype(), steps(without(parking.measurements(seed=5), "steer")))


def test_the_simulated_car_reverses_stands_and_drives_on(parking):
    t = np.array([6.0, *STANDING, 15.0, 24.0]) * SECOND
    speed, yaw_rate = parking.truth(t, "vx"), parking.truth(t, "wz")
    assert speed[0] < -3.0
    assert np.abs(speed[1:3]).max() < 0.1
    assert speed[3] > 3.0
    assert yaw_rate[0] > 0.3
    assert yaw_rate[3] > 0.3


def test_the_parking_car_is_followed_without_a_restart(run):
    status = run.estimator.status()
    assert status["restarts"] == 0
    assert run.estimator.condition.state == "running"


def test_wheel_angles_are_accepted_while_parking(run):
    for wheel in ("fl", "fr", "rl", "rr"):
        found = run.of(f"wheel.{wheel}.angle")
        assert sum(i.fused for i in found) > 0.995 * len(found), wheel


def test_errors_after_parking_are_consistent_with_sigma(parking, run):
    after = (run.t > 18 * SECOND) & (run.t < 24 * SECOND)
    for column in ("x", "y", "vx"):
        error = np.abs(run.error(parking, column))[after]
        assert np.max(error / run[f"sigma.{column}"][after]) < 4.0, column
    assert np.abs(run.error(parking, "yaw"))[after].max() < np.radians(0.6)


@pytest.mark.parametrize(
    ("receiver", "place"), [pytest.param("conventional", 2.5, marks=pytest.mark.slow), ("rtk", 0.1)]
)
@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.slow)])
def test_parking_is_followed_with_imu_and_receiver_alone(parking, receiver, place, seed):
    # The sign of the speed is shown only by the acceleration, and by the course compared with the heading.
    measurements = parking.measurements(seed=seed, gnss=receiver)
    run = Run(prototype(), steps(without(measurements, "steer", "wheel", "vehicle", "torque", "brake")))
    assert run.estimator.status()["restarts"] == 0
    assert np.max(np.abs(run.error(parking, "vx")) / run["sigma.vx"]) < 4.0
    found = (run.t > 4 * SECOND) & (run.t < 18 * SECOND)
    for column, bound in (("x", place), ("y", place), ("vx", 0.2), ("yaw", np.radians(2.0))):
        assert np.abs(run.error(parking, column))[found].max() < bound, column


@pytest.mark.slow
@pytest.mark.parametrize("share", [-0.05, 0.05])
def test_a_wrong_steering_ratio_is_found_while_parking(parking, share):
    # Before, without a state of the ratio, the tyre stiffness was estimated at half its value, and the sideslip was
    # wrong by 0.2 to 0.6 degrees.
    def scale(m: Measurement) -> Measurement:
        values = {c: v * (1.0 + share) if c.startswith("steer.") else v for c, v in m.values.items()}
        return Measurement(m.source, m.t, m.arrival, values)

    run = Run(prototype(), steps([scale(m) for m in parking.measurements(seed=5, gnss="rtk")]))
    found = run.estimator.parameters()
    assert found["steering_ratio"].value == pytest.approx(1.0 / (1.0 + share) - 1.0, abs=0.01)
    assert abs(found["tyre_error.stiffness.front"].value) < 0.25
    assert abs(found["antenna.y"].value) < 0.01
    t = run.t / SECOND
    moving = (t > 4.0) & (np.abs(parking.truth(run.t, "vx")) > 1.0)
    assert np.sqrt(np.mean(run.error(parking, "sideslip")[moving] ** 2)) < np.radians(0.15)
    assert np.mean((run.error(parking, "yaw") / run["sigma.yaw"])[t > 4.0] ** 2) < 2.0
