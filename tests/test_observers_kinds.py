"""The errorEKF's later forms on the vehicle: tyres that answer in the transition, and lacking force that acts."""

import dataclasses

import numpy as np
import pytest
from estimator_rig import Run, mixed, prototype, rms, steps
from vehicle_rig import vehicle

from vehicled.observers.settings import Filter, Kind
from vehicled.observers.vehicle_errors import ACCELERATION_ERROR, AHEAD, GYRO_BIAS, LEFT, YAW_RATE
from vehicled.observers.vehicle_filter import VehicleFilter

STEP_NS = 4_000_000
H = 4e-3
SPEEDS = [AHEAD, LEFT, YAW_RATE]


def driving(kind: Kind, speed: float = 15.0) -> VehicleFilter:
    """In a left-hand bend."""
    f = VehicleFilter(vehicle("prototype"), Filter(kind=kind))
    f.car.view("mounting")[6:] = np.eye(3).ravel()
    f.place(np.zeros(3), 0.3, speed)
    f.remember(0)
    for k in range(1, 100):
        f.car.inputs[0] = f.car.corner_inputs[0, :2] = 0.008 * min(k / 50, 1.0)
        f.advance(k * STEP_NS, H)
    return f


@pytest.mark.parametrize("kind", ["errorEKF_EJ", "errorEKF_FE"])
def test_errors_of_speed_spread_as_the_equations_of_motion_say(kind):
    """Of a car in the plane: v̇x = ax + vy r, v̇y = ay − vx r, with the tyres' part of ax, ay, α as they answer;
    implicit in vy and r."""
    f = driving(kind)
    f.plant[:] = 0.0
    f.plant[-1] = 1.0
    f.car.view("h")[0] = H
    ahead, left, r = f.now[6], f.now[7], f.now[9]
    a = f.car.view("tyre_damping").reshape(3, 3) + np.array([[0, r, left], [-r, 0, -ahead], [0, 0, 0]])
    assert a[1, 1] < -3.0 and a[2, 2] < -3.0  # tyres damp
    for place in (*SPEEDS, ACCELERATION_ERROR, ACCELERATION_ERROR + 1):
        f.ekf.covariance = np.zeros((f.ekf.size, f.ekf.size))
        f.ekf.set_variance(place, 1.0)
        f.car.call("spread")
        spread = f.ekf.covariance
        column = spread[SPEEDS, place] / np.sqrt(spread[place, place])
        if place in SPEEDS:
            error = np.eye(3)[SPEEDS.index(place)]
            expected = error + H * a @ error
            block = np.linalg.inv(np.eye(2) - H * a[1:, 1:])
            expected[1:] = block @ (error[1:] + H * a[1:, 0] * error[0])
            found = spread[SPEEDS][:, SPEEDS]
            assert found == pytest.approx(np.outer(expected, expected), abs=1e-12)
        else:
            pushed = np.eye(3)[place - ACCELERATION_ERROR] * H
            pushed[1:] = np.linalg.inv(np.eye(2) - H * a[1:, 1:]) @ pushed[1:]
            expected = pushed if kind == "errorEKF_FE" else np.zeros(3)
            assert column == pytest.approx(expected, abs=1e-9)


def test_what_the_model_lacks_acts_on_the_car():
    cars = []
    for lack in (0.0, 0.5):
        f = VehicleFilter(vehicle("prototype"), Filter(kind="errorEKF_FE"))
        f.car.view("mounting")[6:] = np.eye(3).ravel()
        f.car.view("acceleration_error")[0] = 1e9
        f.place(np.zeros(3), 0.0, 15.0)
        f.remember(0)
        f.extra[ACCELERATION_ERROR - GYRO_BIAS] = lack
        for k in range(1, 126):
            f.advance(k * STEP_NS, H)
        cars.append(f.now.copy())
    # Wheels that turn count as mass too: about 4 % of the prototype's.
    assert cars[1][6] - cars[0][6] == pytest.approx(0.5 * 0.5 * 0.96, rel=0.03)


def test_estimated_forces_make_sideslip_better():
    """The plant's tyres are softer and grip less than the model's: force errors."""
    truth, seconds = mixed(25.0), 25.0
    errors: dict[str, list[float]] = {}
    for kind in ("errorEKF", "errorEKF_EJ", "errorEKF_FE"):
        given = prototype()
        given = dataclasses.replace(given, filter=dataclasses.replace(given.filter, kind=kind))
        run = Run(given, steps(truth.measurements(1, gnss="rtk")))
        assert run.summary.errors == 0
        keep = (run.t <= seconds * 1e9) & (truth.truth(np.minimum(run.t, seconds * 1e9), "vx") > 1.0)
        errors[kind] = [np.degrees(rms(run.error(truth, c)[keep])) for c in ("sideslip", "yaw")]
        assert rms(np.hypot(run.error(truth, "x"), run.error(truth, "y"))[keep]) < 0.02
        assert max(errors[kind]) < 0.3
    assert errors["errorEKF_FE"][0] < 0.8 * errors["errorEKF"][0]
