"""The direction of a car's first motion, with an estimate of the opposite direction."""

import numpy as np
import pytest
from filter_rig import STEP_NS, new_filter, place, turn_left

from vehicled.filter.boundary import Observation
from vehicled.filter.states import VELOCITY
from vehicled.sources.gnss.first_direction import go_ahead
from vehicled.vehicle.arrays import AHEAD


class Updates:
    """Kinds of observation that are active."""

    step_ns = 3 * STEP_NS

    def __init__(self, *active: str):
        self.health = dict.fromkeys(("gnss.position", "gnss.speed", "imu.accel", "wheel.rl.speed"))
        self._active = active

    def is_active(self, kind: str) -> bool:
        return kind in self._active


@pytest.mark.parametrize(
    ("estimated", "sigma", "active", "expected"),
    [
        (-0.7, 0.28, ("gnss.speed", "imu.accel"), 2.0),  # by noise, or an IMU mounted askew
        (0.1, 0.28, ("gnss.speed", "imu.accel"), 2.0),
        (-2.0, 0.1, ("gnss.speed", "imu.accel"), -2.0),  # backs out, and is certain of it
        (-2.0, 0.1, ("gnss.position", "gnss.speed"), 2.0),  # certain only by speeds without a sign
        (1.9, 0.1, ("gnss.speed",), 1.9),
    ],
)
def test_a_car_goes_ahead_unless_the_estimate_is_certain_of_the_opposite(estimated, sigma, active, expected):
    f = new_filter()
    place(f, np.zeros(3), 0.4, estimated)
    turn_left(f, 2, 0.0)
    f.set_variance(VELOCITY, "ahead", sigma**2)
    before = f.read_state().copy()

    assert go_ahead(f, Updates(*active), 2.0, 0.1) == (expected != estimated)

    after = f.read_state()
    assert after[AHEAD] == pytest.approx(expected, abs=0.02)
    assert after[:3] == pytest.approx(before[:3])
    variance = f.variances[f.states.index(VELOCITY, "ahead")]
    assert variance == pytest.approx((0.1**2 + 0.02**2) if expected != estimated else sigma**2)


@pytest.mark.parametrize("estimated", [-2.0, -0.3])
def test_a_pending_correction_of_the_same_step_is_not_added_to_the_set_speed(estimated):
    """The correction is by a speed that came before the course, in a separate message."""
    f = new_filter()
    place(f, np.zeros(3), 0.4, estimated)
    turn_left(f, 2, 0.0)
    f.set_variance(VELOCITY, "ahead", 1.0)
    assert (
        f.update(Observation("vehicle.speed", 2 * STEP_NS, [1.5], [0.01], 0.0), (1e9, 1e9)).reason == "fused"
    )

    assert go_ahead(f, Updates("gnss.speed", "imu.accel"), 2.5, 0.1)

    f.apply_corrections()
    assert f.read_state()[AHEAD] == pytest.approx(2.5, abs=0.05)
