"""Effect of unmodelled accelerations, tyre errors and steering errors on lateral motion, compared with two cars."""

import numpy as np
import pytest
from filter_rig import STEP_NS, H, index, new_filter, place, set_slow_state, turn_left, without_noise

from vehicled.filter.settings import Unmodelled
from vehicled.filter.states import (
    ANGULAR_RATE,
    DRIVE_FORCE,
    STEERING_OFFSET,
    STEERING_RATIO,
    TYRE_ERROR,
    UNMODELLED,
    VELOCITY,
)
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.vehicle.arrays import LEFT, YAW_RATE

BEND = 250
"""Steps until the bend is steady."""
SPEED = 16.0
LENGTH = 1.3
"""m"""
CAUSES = {
    "steering": (STEERING_OFFSET, "", 0.003),
    "stiffness.front": (TYRE_ERROR, "stiffness.front", 0.03),
    "stiffness.rear": (TYRE_ERROR, "stiffness.rear", 0.03),
    "friction": (TYRE_ERROR, "friction", 0.03),
    "left": (UNMODELLED, "left", 0.2),
    "yaw": (UNMODELLED, "yaw", 0.1),
}
"""Group, element, and size of a small change."""


@pytest.fixture(scope="module")
def bend() -> tuple[VehicleFilter, np.ndarray]:
    """A filter in a bend of 5 to 6 m/s², where the tyres slip by more than 0.04, and its saved state."""
    return drive_bend(SPEED, 0.011)


def drive_bend(speed: float, rack: float) -> tuple[VehicleFilter, np.ndarray]:
    lasting = Unmodelled(longitudinal=0.0, lateral=0.0, vertical=0.0, yaw=0.0, time=1e9)
    f = new_filter("errorEKF_FE", unmodelled=lasting)
    f.open_states(lambda kind: True)
    place(f, np.zeros(3), 0.3, speed)
    turn_left(f, BEND, rack=rack)
    without_noise(f)
    for group in (TYRE_ERROR, DRIVE_FORCE):
        f.get_process(group)[1:] = 0.0
    return f, f.save()


def run(
    f: VehicleFilter, saved: np.ndarray, i: int, size: float, steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """(2,) lateral velocity and yaw rate after some steps with one slow state changed, and their columns of it."""
    f.restore(saved)
    f.restart_history(BEND * STEP_NS)
    set_slow_state(f, i, size)
    f.errors.x[:] = 0.0
    f.errors.matrix = np.zeros((len(f.states),) * 2)
    f.errors.set_variance(i, 1.0)
    for k in range(1, steps + 1):
        f.predict((BEND + k) * STEP_NS, H)
    motion = [index(f, VELOCITY, "left"), index(f, ANGULAR_RATE, "yaw")]
    p = f.covariance
    return f.pose[[LEFT, YAW_RATE]].copy(), p[motion, i] / np.sqrt(p[i, i])


@pytest.mark.parametrize("steps", [50, 75])
@pytest.mark.parametrize("cause", CAUSES)
def test_errors_propagate_to_lateral_motion_as_two_cars_differ(bend, cause, steps):
    group, element, size = CAUSES[cause]
    check(*bend, index(bend[0], group, element), size, steps)


@pytest.mark.parametrize("steps", [25, 50])
@pytest.mark.parametrize("rack", [0.04, -0.04])
def test_an_error_of_steering_ratio_at_large_angles_propagates_as_two_cars_differ(rack, steps):
    f, saved = drive_bend(5.0, rack)
    check(f, saved, index(f, STEERING_RATIO), 0.03, steps)


def check(f: VehicleFilter, saved: np.ndarray, i: int, size: float, steps: int) -> None:
    """Assert that errors propagate from a slow state as two cars with a small change of it differ."""
    (plus, _), (minus, _) = run(f, saved, i, size, steps), run(f, saved, i, -size, steps)
    _, expected = run(f, saved, i, 0.0, steps)
    found = (plus - minus) / (2 * size)
    # As velocities of the axles, LENGTH from the centre of gravity. In the errors' model tyres relax at once,
    # loads stay as they are, and small slip counts less.
    unit = np.array([1.0, LENGTH])
    assert np.linalg.norm(unit * (found - expected)) < 0.2 * np.linalg.norm(unit * found)
    assert np.linalg.norm(unit * found) * size > 0.003  # m/s: far above residuals of the solver
