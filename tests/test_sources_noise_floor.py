"""The noise of a sensor, found from its own samples."""

import numpy as np
import pytest

from vehicled.sources.noise_floor import NoiseFloor


def run(samples: np.ndarray, least: float = 1e-4) -> np.ndarray:
    """(n, m) standard deviation after each sample (n, m)."""
    floor = NoiseFloor([least**2] * samples.shape[1])
    return np.sqrt([floor.take(list(s)) for s in samples])


def smooth(n: int, sigma: list[float], seed: int = 1) -> np.ndarray:
    """White noise on what a car does within seconds, at 100 samples per second."""
    t = 0.01 * np.arange(n)
    signal = np.stack([3.0 * np.sin(2.0 * t), 0.5 * t, 9.81 + 0.2 * np.cos(5.0 * t)], axis=1)
    return signal + np.random.default_rng(seed).normal(size=(n, 3)) * sigma


def test_white_noise_on_a_smooth_signal_is_found_component_by_component():
    sigma = [0.05, 0.5, 0.1]
    found = run(smooth(20_000, sigma))[2000:]
    assert np.sqrt(np.mean(found**2, axis=0)) == pytest.approx(sigma, rel=0.03)
    # Over some 250 samples; second differences of consecutive samples overlap.
    assert np.abs(found / sigma - 1.0).max() < 0.35
    assert np.mean(np.abs(found / sigma - 1.0), axis=0).max() < 0.1


def test_noise_is_never_less_than_the_settings_say():
    found = run(smooth(2000, [0.01] * 3), least=0.3)
    assert found == pytest.approx(np.full_like(found, 0.3))
    assert run(np.zeros((5, 3)), least=0.2)[:3] == pytest.approx(np.full((3, 3), 0.2))


def test_a_signal_alone_is_no_noise():
    found = run(smooth(3000, [0.0] * 3), least=1e-3)
    assert found == pytest.approx(np.full_like(found, 1e-3))


def test_a_spike_counts_little():
    samples = smooth(4000, [0.1] * 3)
    plain = run(samples)
    samples[3000] += 50.0
    spiked = run(samples)
    assert (spiked[3010] < 1.2 * plain[3010]).all()
    assert spiked[-1] == pytest.approx(plain[-1], rel=0.02)


def test_noise_that_grows_is_followed_however_much_it_grows():
    samples = np.concatenate([smooth(2000, [1e-3] * 3), smooth(4000, [1.0] * 3, seed=2)])
    assert run(samples, least=1e-3)[-1] == pytest.approx([1.0] * 3, rel=0.2)


def test_after_a_gap_samples_do_not_follow_those_before():
    floor = NoiseFloor([1e-6])
    for value in (0.0, 0.1):
        floor.take([value])
    floor.reset()
    for value in (70.0, 70.1, 70.2):
        assert floor.take([value]) == [1e-6]
