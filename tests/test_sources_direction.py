"""The direction of travel for speeds without sign, by the sign of the estimated speed and its uncertainty."""

from types import SimpleNamespace

import numpy as np
import pytest

from vehicled.sources.speeds.direction import Direction
from vehicled.vehicle.arrays import AHEAD

SPEED, ASTRAY = "vehicle.speed", 0.2


def resolve(estimate: float, sigma: float, reading: float, noise: float, radius: float = 1.0):
    """Value and variance that the filter is given for a reading of σ `noise`, with its estimate of the speed."""
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
def test_both_directions_are_weighted_by_their_likelihood(estimate, sigma, reading):
    """Compared with the sum of both peaks. The additional error `ASTRAY` only makes their weights more alike."""
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


def test_readings_of_either_direction_do_not_stop_a_car_that_pulls_off():
    """Before, such a reading was zero with the reading as σ: 25 of them made the filter certain of standstill."""
    assert np.isinf(resolve(0.05, 0.3, 0.8, 0.1)[1])
    assert np.isinf(resolve(-0.05, 0.3, 0.8, 0.1)[1])


@pytest.mark.parametrize("sense", [1.0, -1.0])
@pytest.mark.parametrize("radius", [1.0, 0.3])
def test_a_reading_gets_the_sign_of_a_certain_estimate(sense, radius):
    value, variance = resolve(1.0 * sense, 0.15, 1.1 / radius, 0.1 / radius, radius)
    assert value * radius == pytest.approx(1.1 * sense, abs=0.01)
    assert variance * radius**2 == pytest.approx(0.01, rel=0.05)


def test_readings_with_hardly_any_information_are_not_rejected_by_the_gate():
    """Before, a reading of 1.48 m/s with an estimate of 0.522 ± 0.735 m/s became 103 ± 8.5 m/s, 12 σ off."""
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
