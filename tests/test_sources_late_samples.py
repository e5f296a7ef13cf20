"""What is forgotten once the latency of the IMU has been found."""

import math

import numpy as np
import pytest
from filter_rig import index, new_filter, place, set_slow_state

from vehicled.filter.states import ATTITUDE, POSITION, VELOCITY
from vehicled.sources.gnss_model import GNSS
from vehicled.sources.late_samples import forget_falsified

SPEED, OFFSET, CHANGE = 15.0, 0.2, 0.02


def test_place_and_heading_are_as_uncertain_as_what_was_made_of_the_samples():
    """Of a car whose antenna seemed to be further ahead, and the car itself as much further back."""
    f = new_filter()
    place(f, np.array([0.0, 0.0, f.car.design_height]), 0.3, SPEED)
    set_slow_state(f, index(f, GNSS.antenna, "x"), OFFSET)
    before = f.variances
    forget_falsified(f, CHANGE)
    assert f.slow_states(GNSS.antenna) == pytest.approx(0.0)
    added = f.variances - before
    for element in ("x", "y"):
        assert added[index(f, POSITION, element)] == pytest.approx(OFFSET**2)
    turned = math.sqrt(added[index(f, ATTITUDE, "yaw")])
    assert 0.2 * CHANGE < turned < 0.5 * CHANGE
    assert math.sqrt(added[index(f, VELOCITY, "left")]) == pytest.approx(SPEED * turned, rel=0.01)
