"""The direction of speeds without sign, beside one that the estimate has with an error of its own."""

from types import SimpleNamespace

import numpy as np
import pytest

from vehicled.sources.speeds.direction import Direction
from vehicled.vehicle.arrays import AHEAD

SPEED, ASTRAY = "vehicle.speed", 0.2


def resolve(estimate: float, sigma: float, reading: float, noise: float, radius: float = 1.0):
    """Value and variance for a reading, of σ `noise`, beside an estimate of the speed."""
    pose = np.zeros(AHEAD + 1)
    pose[AHEAD] = estimate
    filter = SimpleNamespace(pose=pose, get_variance=lambda group, element: sigma**2)
    return Direction(filter, SimpleNamespace(is_active=lambda kind: True)).resolve(
        SPEED, reading, noise**2, radius
    )


def update(estimate: float, sigma: float, value: float, variance: float) -> tuple[float, float]:
    """Mean and σ after a measurement."""
    gain = sigma**2 / (sigma**2 + variance)
    return estimate + gain * (value - estimate), sigma * (1.0 - gain) ** 0.5


@pytest.mark.parametrize(
    ("estimate", "sigma", "reading"), [(0.25, 0.8, 0.6), (-0.1, 1.5, 0.9), (0.5, 0.5, 0.6)]
)
def test_both_directions_count_by_what_they_make_likely(estimate, sigma, reading):
    """Against the sum of both peaks: what may be astray makes only their weights more alike."""
    noise = 0.1
    v = np.linspace(-6.0, 6.0, 40001)

    def peak(at):
        return np.exp(-0.5 * ((v - estimate) / sigma) ** 2 - 0.5 * ((v - at) / noise) ** 2)

    def likelihood(at, more):
        return np.exp(-0.5 * (at - estimate) ** 2 / (sigma**2 + noise**2 + more))

    both = sum(peak(at) / likelihood(at, 0.0) * likelihood(at, ASTRAY**2) for at in (reading, -reading))
    mean = np.sum(v * both) / np.sum(both)
    spread = np.sqrt(np.sum((v - mean) ** 2 * both) / np.sum(both))
    found = update(estimate, sigma, *resolve(estimate, sigma, reading, noise))
    assert found == pytest.approx((mean, spread), rel=1e-3)


def test_a_car_that_pulls_off_is_not_stopped_by_readings_that_may_be_either():
    """Taken as zero with the reading for its σ, 25 of them would have made it stand, and be sure of that."""
    assert np.isinf(resolve(0.05, 0.3, 0.8, 0.1)[1])
    assert np.isinf(resolve(-0.05, 0.3, 0.8, 0.1)[1])


@pytest.mark.parametrize("sense", [1.0, -1.0])
@pytest.mark.parametrize("radius", [1.0, 0.3])
def test_one_that_shows_which_way_it_goes_is_followed(sense, radius):
    value, variance = resolve(1.0 * sense, 0.15, 1.1 / radius, 0.1 / radius, radius)
    assert value * radius == pytest.approx(1.1 * sense, abs=0.01)
    assert variance * radius**2 == pytest.approx(0.01, rel=0.05)


def test_what_hardly_tells_anything_is_no_measurement_that_its_gate_rejects():
    """Beside an estimate of 0.522 ± 0.735 m/s a reading of 1.48 m/s was one of 103 ± 8.5 m/s: of 12 σ."""
    random, found = np.random.default_rng(1), []
    for estimate, sigma, reading in zip(
        random.normal(0.0, 0.8, 20_000),
        random.uniform(0.05, 1.0, 20_000),
        random.uniform(0.2, 2.0, 20_000),
        strict=True,
    ):
        spread = np.hypot(sigma, 0.03)
        if min(abs(reading - estimate), abs(reading + estimate)) < 2.0 * spread:
            value, variance = resolve(estimate, sigma, reading, 0.03)
            found.append(abs(value - estimate) / np.sqrt(sigma**2 + variance))
    assert len(found) > 10_000
    assert max(found) < 10.0
