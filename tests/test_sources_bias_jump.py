"""What a jump of the gyroscope's bias has falsified: all that sensors have not shown to be right."""

import numpy as np
import pytest
from filter_rig import new_filter, place
from vehicle_rig import vehicle

from vehicled.filter.boundary import Mounting, Observation
from vehicled.filter.states import ATTITUDE, UNMODELLED, VELOCITY
from vehicled.sources.checks import bias_jump
from vehicled.sources.checks.bias_jump import BiasJump, doubt_falsified
from vehicled.sources.imu.model import GYRO_BIAS

SPEED = 15.0
ANTENNA = (-0.8, 0.3, 1.1)
JUMP = BiasJump(angle=0.06, within=1.0, followed=0.05, rate=0.08)
UPWARD = 0.0, 0.0, 1.0
SHOWN = {
    "gnss.position": ([0.0] * 3, [1e-4] * 3),
    "gnss.speed": ([SPEED], [1e-4]),
    "gnss.course": ([0.3], [1e-6]),
    "imu.gyro": ([0.5] * 3, [1e-5] * 3),
    "wheel.fl.speed": ([SPEED / 0.3], [1e-2]),
    "wheel.rr.speed": ([SPEED / 0.3], [1e-2]),
}
"""By kind of observation of a sensor that is right: a value, and its variance."""


def driving():
    f = new_filter("errorEKF_FE", Mounting(antenna=ANTENNA))
    place(f, np.zeros(3), 0.3, SPEED)
    return f


def find_variance(f, kind):
    """Of the innovation of each component."""
    value, variance = SHOWN[kind]
    return np.array(f.update(Observation(kind, 0, value, variance), (0.0, 0.0)).variance)


@pytest.mark.parametrize("kind", SHOWN)
def test_what_other_sensors_show_stays_certain(kind, monkeypatch):
    """By the filter's own Jacobians, in a bend, with the antenna away from the vehicle origin."""
    monkeypatch.setattr(bias_jump, "_OWN", 0.0)
    f = driving()
    before = find_variance(f, kind)
    doubt_falsified(f, JUMP, UPWARD, vehicle("prototype"), ANTENNA)
    # The largest that is left: the antenna's height beside tilted axes.
    assert find_variance(f, kind) == pytest.approx(before, rel=1e-3)


def test_heading_sideslip_and_bias_become_uncertain_together():
    f = driving()
    falsified = [(GYRO_BIAS, "z"), (ATTITUDE, "yaw"), (VELOCITY, "left")]
    before = [f.get_variance(*state) for state in falsified]
    doubt_falsified(f, JUMP, UPWARD, vehicle("prototype"), ANTENNA)
    added = [np.sqrt(f.get_variance(*state) - b) for state, b in zip(falsified, before, strict=True)]
    assert added == pytest.approx([JUMP.rate, JUMP.followed, SPEED * JUMP.followed], rel=0.2)
    i, j = (f.states.index(*state) for state in falsified[:2])
    correlation = f.errors.get_covariance(i, j) / np.sqrt(f.variances[i] * f.variances[j])
    assert correlation < -0.8  # a larger bias makes the heading smaller


def test_forces_that_explain_a_false_sideslip_are_uncertain_by_their_size():
    f = driving()
    f.slow.view(UNMODELLED)[:] = 0.3, -2.0, 0.1, 0.4
    before = {element: f.get_variance(UNMODELLED, element) for element in UNMODELLED.elements}
    doubt_falsified(f, JUMP, UPWARD, vehicle("prototype"), ANTENNA)
    added = [f.get_variance(UNMODELLED, element) - v for element, v in before.items()]
    assert added == pytest.approx([0.0, 4.0, 0.0, 0.16])
