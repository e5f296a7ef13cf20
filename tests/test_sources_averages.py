"""Averages of measurements over an interval, and limits of the memory for it."""

import pytest

from vehicled.messages import Measurement
from vehicled.sources.by_channels import ByChannels
from vehicled.sources.checks.averages import _MOST, Averager


def test_a_mean_covers_the_samples_of_one_interval():
    averager = Averager()
    for k in range(60):
        done = averager.take(Measurement("can", k * 10_000_000, k * 10_000_000, {"vehicle.speed": float(k)}))
        if done is not None:
            break
    assert k == 50
    assert done is not None
    assert done.means["vehicle.speed"] == pytest.approx(24.5)


def test_memory_is_limited_if_all_measurements_of_a_log_have_the_same_time():
    averager, count = Averager(), 2 * _MOST
    for k in range(count):
        averager.take(Measurement("can", 0, 0, {"vehicle.speed": float(k < _MOST)}))
    done = averager.take(Measurement("can", 600_000_000, 600_000_000, {"vehicle.speed": 3.0}))
    assert done is not None
    assert done.means["vehicle.speed"] == 1.0


def test_plans_are_made_once_and_the_number_of_kept_plans_is_limited():
    made = []
    plans = ByChannels(lambda channels: made.append(channels) or len(made))
    assert plans["a", "b"] == plans["a", "b"] == 1
    assert plans["b", "a"] == 2
    for k in range(10_000):
        assert plans[(f"{k}",)] == k + 3
    assert len(plans) < 1_000
    assert plans["a", "b"] == 1
