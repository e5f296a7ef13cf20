"""The errorEKF's later forms on the vehicle: tyres that answer in the transition, and lacking force that acts."""

import dataclasses

import numpy as np
import pytest
from estimator_rig import Run, mixed, prototype, rms, steps
from vehicle_rig import vehicle
from vehicled.filter.vehicle_errors import ACCELERATION_ERROR, AHEAD, GYRO_BIAS, LEFT, YAW, YAW_RATE

from vehicled.filter.kinds import make_filter
from vehicled.filter.settings import Filter, Kind
from vehicled.filter.vehicle_filter import VehicleFilter

STEP_NS = 4_000_000
H = 4e-3
SPEEDS = [AHEAD, LEFT, YAW_RATE]


def driving(kind: Kind, speed: float = 15.0) -> VehicleFilter:
    """In a left-hand bend."""
    f = make_filter(vehicle("prototype"), Filter(kind=kind))
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
    assert a[1, 1] < -3.0
    assert a[2, 2] < -3.0
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


def test_points_find_how_errors_spread():
    """Of whole cars, without plant noise: places and heading as the equations of motion say, planar speeds between
    those of free masses and those of a car whose tyres answer at once (they take some centimetres to)."""
    found = {}
    for kind in ("UKF", "errorEKF_EJ"):
        f = driving(kind)
        f.plant[:-1], f.extra_drift[:] = 0.0, 0.0
        variances = np.full(f.ekf.size, 1e-10)
        variances[[0, 1, YAW, *SPEEDS]] = 1e-6
        f.ekf.covariance = np.diag(variances)
        f.advance(100 * STEP_NS, H)
        found[kind] = f
    spread, expected = (f.ekf.covariance for f in found.values())
    placed = [0, 1, YAW]
    assert spread[np.ix_(placed, placed)] == pytest.approx(
        expected[np.ix_(placed, placed)], rel=1e-3, abs=1e-10
    )
    for place in (LEFT, YAW_RATE):
        assert expected[place, place] < spread[place, place] < 1e-6
    turning = found["UKF"].now[9]
    # Velocity turns against a car that turns.
    assert spread[AHEAD, LEFT] == pytest.approx(0.0, abs=0.2 * H * turning * 1e-6)
    # The mean of so narrow a swarm is the car itself.
    assert np.abs(found["UKF"].ekf.x).max() < 1e-5


def test_points_read_what_the_sensors_see():
    """Rows by pairs of points against those that the compiler has derived."""
    f = driving("UKF")
    f.ekf.covariance = np.diag(np.full(f.ekf.size, 1e-6))
    f.advance(100 * STEP_NS, H)
    t = 99 * STEP_NS + 1_500_000
    values = {"gnss.position": 3, "gnss.speed": 1, "gnss.course": 1, "imu.gyro": 3, "vehicle.speed": 1}
    planar = [0, 1, YAW, *SPEEDS, GYRO_BIAS, GYRO_BIAS + 2]
    for sensor, m in values.items():
        assert VehicleFilter.judge(f, sensor, t, [0.0] * m, [1.0] * m) is not None
        expected, innovation = f.ekf.rows[:m].copy(), f.ekf.innovation[:m].copy()
        assert f.judge(sensor, t, [0.0] * m, [1.0] * m) is not None
        assert f.ekf.rows[:m, planar] == pytest.approx(expected[:, planar], abs=2e-3)
        assert f.ekf.innovation[:m] == pytest.approx(innovation, abs=1e-4)
    # A state that was opened by hand is read as linearised: so wide no point was drawn.
    f.ekf.set_variance(0, 25.0)
    f.judge("gnss.position", t, [0.0] * 3, [1.0] * 3)
    assert f.ekf.rows[0, 0] == 1.0


def test_curvature_moves_the_mean_and_widens():
    """Of a course over ground by velocities as uncertain as they are large: the mean of atan2 over the points."""
    f = driving("UKF")
    p = np.full(f.ekf.size, 1e-8)
    p[LEFT] = 3.0**2
    f.plant[:-1] = 0.0
    f.ekf.covariance = np.diag(p)
    f.advance(100 * STEP_NS, H)
    f.judge("gnss.speed", 100 * STEP_NS, [0.0], [1e-6])
    widened = f.ekf.variance[0]
    predicted = -f.ekf.innovation[0]
    VehicleFilter.judge(f, "gnss.speed", 100 * STEP_NS, [0.0], [1e-6])
    # |v| = √(v² + u²) ≈ v + u²/2v: more by σ²/2v, and with a variance of σ⁴/2v² beside the linear part.
    v, sigma = f.now[6], np.sqrt(f.ekf.covariance[LEFT, LEFT])
    assert predicted + f.ekf.innovation[0] == pytest.approx(sigma**2 / (2 * v), rel=0.1)
    assert widened - f.ekf.variance[0] == pytest.approx(sigma**4 / (2 * v * v), rel=0.2)


@pytest.mark.parametrize("kind", ["DEKF", "UKF"])
@pytest.mark.parametrize("gnss", ["rtk", "conventional"])
def test_all_kinds_follow_the_drive(kind, gnss):
    truth, seconds = mixed(25.0), 12.0
    given = prototype()
    given = dataclasses.replace(given, filter=dataclasses.replace(given.filter, kind=kind))
    measured = [m for m in truth.measurements(1, gnss=gnss) if m.t <= seconds * 1e9]
    run = Run(given, steps(measured))
    assert run.summary.errors == 0
    keep = (run.t <= seconds * 1e9) & (truth.truth(np.minimum(run.t, seconds * 1e9), "vx") > 1.0)
    assert np.degrees(rms(run.error(truth, "sideslip")[keep])) < 0.3
    assert np.degrees(rms(run.error(truth, "yaw")[keep])) < (0.3 if gnss == "rtk" else 1.0)
    assert rms(np.hypot(run.error(truth, "x"), run.error(truth, "y"))[keep]) < (
        0.02 if gnss == "rtk" else 2.0
    )


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


def test_a_filter_of_points_outlives_what_is_not_finite():
    """The estimator begins anew from its last good state; nothing raises."""
    f = driving("UKF")
    f.ekf.packed[5] = np.nan
    f.advance(100 * STEP_NS, H)
    f.judge("imu.gyro", 100 * STEP_NS, [0.0] * 3, [1.0] * 3)
    f.correct()
    assert not np.isfinite(f.ekf.packed).all()
