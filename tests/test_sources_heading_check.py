"""Headings of a two-antenna baseline, checked by courses over ground."""

import math

import pytest

from vehicled.sources.gnss.heading_check import HeadingCheck

PERIOD = 100_000_000
ANGLE = 0.0, 0.01


def find(off: float, *, ahead: float, yaw_rate: float, samples: int = 20) -> bool:
    """Whether a heading with an error of `off` (rad) is found to be wrong, in a car with a small sideslip."""
    check = HeadingCheck()
    for k in range(samples):
        yaw = 0.1 * k * yaw_rate
        backwards = math.pi if ahead < 0.0 else 0.0
        values = {"course": yaw + 0.3 * yaw_rate + backwards, "heading": yaw + off}
        check.take(k * PERIOD, values, (ahead, yaw_rate), ANGLE)
    return check.is_wrong


@pytest.mark.parametrize("off", [math.pi, 0.5 * math.pi, -1.0])
@pytest.mark.parametrize(("ahead", "yaw_rate"), [(2.5, 0.4), (-2.5, 0.4), (15.0, 0.0)])
def test_a_gross_error_is_found_in_any_motion(off, ahead, yaw_rate):
    assert find(off, ahead=ahead, yaw_rate=yaw_rate)


@pytest.mark.parametrize(("ahead", "yaw_rate"), [(2.5, 0.6), (15.0, 0.5), (-2.5, -0.6), (15.0, 0.0)])
def test_a_right_heading_is_not_suspected_in_bends(ahead, yaw_rate):
    assert not find(0.0, ahead=ahead, yaw_rate=yaw_rate)


def test_a_smaller_error_is_found_only_on_a_straight():
    assert not find(0.3, ahead=15.0, yaw_rate=0.5)
    assert find(0.3, ahead=15.0, yaw_rate=0.0)


def test_a_few_outliers_are_not_taken_for_a_mounting_error():
    check = HeadingCheck()
    for k in range(60):
        off = math.pi if k % 4 == 0 else 0.0
        check.take(k * PERIOD, {"course": 1.0, "heading": 1.0 + off}, (3.5, 0.2), ANGLE)
        assert not check.is_wrong
