"""Propagation of errors, compared with the difference of two simulated cars."""

import numpy as np
import pytest
from filter_rig import (
    STEP_NS,
    H,
    index,
    new_filter,
    observe_tyres,
    place,
    propagate,
    slow_states,
    turn_left,
    without_noise,
)

from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    DRIVE_FORCE,
    POSITION,
    VELOCITY,
    WHEEL_ANGLE,
    WHEEL_SLIP,
)
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.vehicle.arrays import CHART_SIZE, LEFT, POSE, TYRE_CAUSES

BEGIN = 100 * STEP_NS
SPEED = 15.0
PLANAR = ((POSITION, "x"), (POSITION, "y"), (ATTITUDE, "yaw"))
SOURCES = (
    *PLANAR,
    (VELOCITY, "ahead"),
    (VELOCITY, "left"),
    (ANGULAR_RATE, "yaw"),
    (WHEEL_ANGLE, "fl"),
)
WHEEL_ANGLES = [(WHEEL_ANGLE, w) for w in WHEEL_ANGLE.elements]


def drive(kind) -> VehicleFilter:
    f = new_filter(kind)
    place(f, np.zeros(3), 0.3, SPEED)
    turn_left(f, BEGIN // STEP_NS)
    return f


def step_with_error(f: VehicleFilter, saved: np.ndarray, i: int | None, size: float) -> np.ndarray:
    """(7,) position, heading and wheel angles after a step from the saved state with an error in one state."""
    f.restore(saved)
    f.errors.x[:] = 0.0
    if i is not None:
        f.errors.x[i] = size
        f.apply_corrections()
    f.restart_history(BEGIN)
    f.predict(BEGIN + STEP_NS, H)
    pose = f.pose[[POSE.index(n) for n in ("x", "y", "yaw")]]
    return np.concatenate([pose, f.car.view("now_wheels")[0]])


def calc_column(f: VehicleFilter, i: int) -> np.ndarray:
    """Column (n,) of F at the present state of the filter."""
    n = len(f.states)
    f.errors.matrix = np.zeros((n, n))
    f.errors.set_variance(i, 1.0)
    propagate(f)
    column = f.covariance[:, i]
    return column / np.sqrt(column[i])


@pytest.mark.parametrize("kind", ["errorEKF", pytest.param("errorEKF_EJ", marks=pytest.mark.slow)])
def test_errors_propagate_to_pose_and_wheel_angles_as_between_two_cars(kind):
    f = drive(kind)
    without_noise(f)
    saved = f.save()
    reached = [index(f, *s) for s in (*PLANAR, *WHEEL_ANGLES)]
    reference = step_with_error(f, saved, None, 0.0)
    for source in SOURCES:
        i = index(f, *source)
        differences = [(step_with_error(f, saved, i, s) - reference) / s for s in (1e-4, -1e-4)]
        step_with_error(f, saved, None, 0.0)
        expected = calc_column(f, i)[reached]
        # The car turns a little within a step, and tyres reduce an error of speed: of second order in h.
        assert np.mean(differences, axis=0) == pytest.approx(expected, abs=0.02 * H), source[0].name


@pytest.mark.parametrize("speed", [0.0, SPEED])
def test_a_correction_of_slip_does_not_move_the_simulated_wheels(speed):
    """Tyres, which are springs at standstill, would oppose such a motion, and the wheels would oscillate."""
    rates = []
    for slip in (0.0, 1.0):
        f = new_filter("errorEKF_FE")
        place(f, np.zeros(3), 0.0, speed)
        f.errors.x[f.states[WHEEL_SLIP]] = slip
        f.apply_corrections()
        path = []
        for k in range(1, 26):
            f.predict(k * STEP_NS, H)
            path.append(f.car.view("now_wheels")[1].copy())
        rates.append(path)
    assert rates[1] == pytest.approx(np.array(rates[0]), abs=1e-9)


@pytest.mark.parametrize("left", [1e-4, 3e-3, 1e-2])
def test_tyres_at_rest_are_springs_however_slowly_the_car_drifts(left):
    """The ratio of two velocities close to zero is no slip: forces grow by the stiffness and do not decay."""
    f = new_filter("errorEKF_FE")
    place(f, np.zeros(3), 0.0, 0.0)
    springs = np.array(f.car.get_corner_parameter("tyre.y.stiffness")).reshape(2, 2).sum(axis=1)
    change = np.zeros(CHART_SIZE)
    change[LEFT] = left
    f.car.correct(change, carry=True)
    f.read_state()
    steady, relaxation, _ = observe_tyres(f)
    across = TYRE_CAUSES.index("left")
    assert relaxation * steady[:, across] == pytest.approx(-springs / f.car.vehicle.mass, rel=0.2)
    assert (relaxation < 1.0).all()


def test_an_unknown_drive_force_accelerates_the_car_as_its_error_propagates():
    speeds, force = [], 0.5
    for given in (0.0, force):
        f = new_filter("errorEKF")
        place(f, np.zeros(3), 0.0, SPEED)
        slow = np.zeros(len(f.states))
        slow[index(f, DRIVE_FORCE)] = given
        for k in range(1, 126):
            slow_states(f)[:] = slow[-len(slow_states(f)) :]  # it would decay
            f.predict(k * STEP_NS, H)
        speeds.append(f.pose[POSE.index("ahead")])
    without_noise(f)
    f.get_process(DRIVE_FORCE)[1:] = 0.0
    by_step = calc_column(f, index(f, DRIVE_FORCE))[index(f, VELOCITY, "ahead")]
    assert by_step == pytest.approx(H)
    # Rotating wheels act as additional mass, about 4 % of the prototype's.
    assert speeds[1] - speeds[0] == pytest.approx(125 * by_step * force * 0.96, rel=0.03)
