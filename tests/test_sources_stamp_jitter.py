"""Jitter of the time stamps of wheel sensors by some milliseconds."""

import numpy as np
import pytest
from estimator_rig import Run, bends, prototype, steps

from vehicled.messages import Measurement
from vehicled.sources.speeds.stamp_jitter import StampJitter

RESOLUTION = 0.0654
NOISE = RESOLUTION**2 / 12


def find(
    jitter: float, rate: float = 60.0, acceleration: float = 10.0, interval: float = 0.01
) -> StampJitter:
    """The result after 10 s of a counter whose time stamps have a jitter of `jitter`, s, 1 σ."""
    random = np.random.default_rng(5)
    t = np.arange(0.0, 10.0, interval)
    angles = RESOLUTION * np.floor((rate * t + 0.5 * acceleration * t**2) / RESOLUTION)
    found = StampJitter(NOISE)
    for stamp, angle in zip(t + jitter * random.standard_normal(len(t)), angles, strict=True):
        found.take(stamp, angle)
    return found


@pytest.mark.parametrize("jitter", [0.002, 0.004])
def test_jitter_is_found_by_the_samples_alone(jitter):
    found = find(jitter)
    assert np.sqrt(found.variance) / found.rate == pytest.approx(jitter, rel=0.3)


@pytest.mark.parametrize(
    "even",
    [{}, {"acceleration": -30.0, "rate": 350.0}, {"rate": 5.0, "acceleration": 0.0}, {"interval": 0.1}],
)
def test_even_time_stamps_have_no_jitter(even):
    assert find(0.0, **even).variance == 0.0


def test_a_counter_that_jumps_is_not_taken_for_jitter():
    found = StampJitter(NOISE)
    for k in range(1000):
        found.take(0.01 * k, 0.6 * k - (4000.0 if k % 100 > 50 else 0.0))
    assert found.variance < 2e-6 * 60.0**2


def test_wheels_with_jitter_by_a_busy_bus_are_fused():
    """5 ms of jitter at 50 rad/s are 13 standard deviations of a counter."""
    random, given = np.random.default_rng(1), []
    for m in bends().measurements(5, gnss="rtk"):
        if m.source == "wheel.angle":
            m = Measurement(
                m.source, max(m.t + round(5e6 * random.standard_normal()), 0), m.arrival, m.values
            )
        given.append(m)
    run = Run(prototype(), steps(given))
    angles = [i for i in run.innovations if i.sensor.startswith("wheel.") and i.t > 2_000_000_000]
    assert len(angles) > 1500
    assert sum(not i.fused for i in angles) < 0.01 * len(angles)
