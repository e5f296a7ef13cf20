"""The heading from fixes and dead reckoning, compared with the true one."""

import cmath
import math

import numpy as np
import pytest

from vehicled.sources.gnss.heading_by_fixes import HeadingByFixes

RATE = 5.0
TURNED = 2.3
"""rad, from the car's own frame to the world's."""


def find(speed, yaw_rate, sigma=0.0, seconds=20.0, scale=1.0, seed=0):
    """First heading with its σ, and when it was found (s); `speed` and `yaw_rate` are functions of time."""
    random, heading = np.random.default_rng(seed), HeadingByFixes()
    place, yaw, fine = 5.0 + 3.0j, 0.4, 1000
    for k in range(round(seconds * fine)):
        t = k / fine
        if k % round(fine / RATE) == 0:
            fix = place + sigma * complex(*random.standard_normal(2))
            velocity = scale * speed(t) * cmath.rect(1.0, yaw - TURNED)
            if (found := heading.take(t, fix, sigma, velocity)) is not None:
                return found, t
        place += speed(t) * cmath.rect(1.0, yaw) / fine
        yaw += yaw_rate(t) / fine
    return None, seconds


@pytest.mark.parametrize(
    ("speed", "yaw_rate"),
    [
        (lambda t: 1.5, lambda t: 0.0),
        (lambda t: -1.5, lambda t: 0.0),
        (lambda t: 1.5, lambda t: 0.3),
        (lambda t: 20.0, lambda t: 0.0),
        (lambda t: max(1.0 - 0.5 * t, -1.5), lambda t: 0.2),  # it reverses after 2 s
    ],
)
def test_the_heading_is_found_on_straights_in_bends_and_in_reverse(speed, yaw_rate):
    found, _ = find(speed, yaw_rate)
    assert found[0] == pytest.approx(TURNED, abs=0.01)


@pytest.mark.parametrize(("speed", "within"), [(0.45, 3.0), (1.5, 2.4), (15.0, 0.6)])
def test_the_heading_is_found_soon_after_the_car_has_pulled_off(speed, within):
    """After ten seconds at rest: at walking pace one metre is enough after 2.5 s, else three metres are needed."""
    found, t = find(lambda t: speed if t > 10.0 else 0.0, lambda t: 0.0, sigma=0.01)
    assert found[0] == pytest.approx(TURNED, abs=0.1)
    assert t - 10.0 <= within
    assert speed * (t - 10.0) > (1.0 if speed < 1.0 else 2.9)


def test_sigma_of_the_heading_matches_its_errors():
    ratios = []
    for seed in range(200):
        (angle, sigma), _ = find(lambda t: 1.5, lambda t: 0.1, sigma=0.3, seed=seed)
        ratios.append((angle - TURNED) / sigma)
    assert 0.5 < np.mean(np.square(ratios)) < 1.3
    assert abs(np.mean(ratios)) < 0.25


def test_noise_of_the_fixes_of_a_parked_car_gives_no_heading():
    found, _ = find(lambda t: 0.0, lambda t: 0.0, sigma=1.0, seconds=300.0)
    assert found is None


def test_no_heading_is_found_if_dead_reckoning_contradicts_the_fixes():
    """As with wheels that spin, or a spoofed receiver."""
    found, _ = find(lambda t: 1.5, lambda t: 0.0, scale=2.0)
    assert found is None


def test_noisier_fixes_need_a_longer_way():
    (_, fine), soon = find(lambda t: 1.5, lambda t: 0.0, sigma=0.01)
    (_, rough), late = find(lambda t: 1.5, lambda t: 0.0, sigma=1.0)
    assert late > 2.0 * soon
    assert fine < 0.02
    assert rough == pytest.approx(math.sqrt(2.0) * 0.1, rel=0.15)
