"""The estimated velocity of an antenna, at present and at an earlier time."""

import cmath
from types import SimpleNamespace

import numpy as np
import pytest

from vehicled.sources.gnss.receiver_motion import ReceiverMotion, find_antenna_velocity
from vehicled.vehicle.arrays import AHEAD, LEFT, POSE, YAW, YAW_RATE

ANTENNA = (-0.8, 0.3, 1.2)
RADIUS, SPEED = 5.5, 5.0
TURNING = SPEED / RADIUS


def on_circle(t: float) -> SimpleNamespace:
    pose = np.zeros(len(POSE))
    pose[AHEAD], pose[LEFT], pose[YAW], pose[YAW_RATE] = SPEED, -0.2, 0.4 + TURNING * t, TURNING
    return SimpleNamespace(pose=pose)


def place(t: float) -> complex:
    """Position of the antenna, m; its derivative is the reference for the velocity."""
    turned = cmath.rect(1.0, 0.4 + TURNING * t)
    return (complex(SPEED, -0.2) / (1j * TURNING) + complex(*ANTENNA[:2])) * turned


@pytest.mark.parametrize("age", [0.0, 0.1, 0.45])
def test_in_a_steady_turn_the_velocity_at_an_earlier_time_is_exact(age):
    found = find_antenna_velocity(on_circle(2.0), ANTENNA, age)
    numerical = (place(2.0 - age + 1e-5) - place(2.0 - age - 1e-5)) / 2e-5
    assert found == pytest.approx(numerical, rel=1e-8)


@pytest.mark.parametrize("late", [0.1, 0.45])
def test_a_late_receiver_does_not_seem_to_contradict_the_heading(late):
    motion, beside_present = ReceiverMotion(), ReceiverMotion()
    for k in range(40):
        t = 0.2 * k
        measured = find_antenna_velocity(on_circle(t - late), ANTENNA)
        motion.take(t - late, measured, find_antenna_velocity(on_circle(t), ANTENNA, late))
        beside_present.take(t - late, measured, find_antenna_velocity(on_circle(t), ANTENNA))
        assert not motion.is_turned
    # Compared with the present velocity, it seems turned by the car's turn since then: 23° in 0.45 s.
    assert beside_present.is_turned == (late > 0.4)
