"""The noise of a sensor, found from its own samples."""

import numpy as np
import pytest
from kernel_rig import KernelRig

from vehicled.sources.imu.noise_floor import NoiseFloor
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program

SIZE = 3


class Floor(KernelRig):
    """Takes samples of three axes."""

    def __init__(self, least: float) -> None:
        """`least`: standard deviation by the settings."""
        program = Program(Graph())
        floor = NoiseFloor(program, "sensor", SIZE)
        found, stores = floor.take(program.array("value", SIZE), program.array("measured", SIZE))
        program.kernel("take", [*stores, *zip(program.array("found", SIZE), found, strict=True)])
        super().__init__(program)
        self["sensor.least"][:] = least**2

    def take(self, value, measured=(1.0, 1.0, 1.0)) -> np.ndarray:
        """(3,) standard deviation from this sample and all before."""
        self["value"][:], self["measured"][:] = value, measured
        self.run("take")
        return np.sqrt(self["found"])


def run(samples: np.ndarray, least: float = 1e-4) -> np.ndarray:
    """(n, 3) standard deviation after each sample (n, 3)."""
    floor = Floor(least)
    return np.array([floor.take(s) for s in samples])


def smooth(n: int, sigma: list[float], seed: int = 1) -> np.ndarray:
    """White noise on a signal that changes within seconds, at 100 samples per second."""
    t = 0.01 * np.arange(n)
    signal = np.stack([3.0 * np.sin(2.0 * t), 0.5 * t, 9.81 + 0.2 * np.cos(5.0 * t)], axis=1)
    return signal + np.random.default_rng(seed).normal(size=(n, 3)) * sigma


def test_white_noise_on_a_smooth_signal_is_found_component_by_component():
    sigma = [0.05, 0.5, 0.1]
    found = run(smooth(20_000, sigma))[2000:]
    assert np.sqrt(np.mean(found**2, axis=0)) == pytest.approx(sigma, rel=0.03)
    # Averages over about 250 samples, whose second differences overlap.
    assert np.abs(found / sigma - 1.0).max() < 0.35
    assert np.mean(np.abs(found / sigma - 1.0), axis=0).max() < 0.1


def test_noise_is_never_less_than_that_of_the_settings():
    found = run(smooth(2000, [0.01] * 3), least=0.3)
    assert found == pytest.approx(np.full_like(found, 0.3))
    assert run(np.zeros((5, 3)), least=0.2)[:3] == pytest.approx(np.full((3, 3), 0.2))


def test_a_smooth_signal_is_not_taken_for_noise():
    found = run(smooth(3000, [0.0] * 3), least=1e-3)
    assert found == pytest.approx(np.full_like(found, 1e-3))


def test_a_spike_counts_little():
    samples = smooth(4000, [0.1] * 3)
    plain = run(samples)
    samples[3000] += 50.0
    spiked = run(samples)
    assert (spiked[3010] < 1.2 * plain[3010]).all()
    assert spiked[-1] == pytest.approx(plain[-1], rel=0.02)


def test_noise_that_grows_a_thousandfold_is_followed():
    samples = np.concatenate([smooth(2000, [1e-3] * 3), smooth(4000, [1.0] * 3, seed=2)])
    assert run(samples, least=1e-3)[-1] == pytest.approx([1.0] * 3, rel=0.2)


def test_samples_of_other_axes_are_not_compared_with_those_before():
    floor = Floor(1e-3)
    for value in (0.0, 0.1):
        floor.take([value] * SIZE)
    for value in (70.0, 70.1, 70.2):
        assert floor.take([value, value, 0.0], (1.0, 1.0, 0.0)) == pytest.approx([1e-3] * SIZE)


def test_a_message_without_the_sensor_does_not_change_its_noise():
    noise = np.random.default_rng(2).normal(size=(500, SIZE)) * 0.1
    plain, other = Floor(1e-3), Floor(1e-3)
    for value in noise:
        expected = plain.take(value)
        other.take([9.0] * SIZE, (0.0, 0.0, 0.0))
        assert other.take(value) == pytest.approx(expected)


def test_samples_after_a_reset_are_not_compared_with_those_before():
    floor = Floor(1e-3)
    for value in (0.0, 0.1):
        floor.take([value] * SIZE)
    floor["sensor.floor"][:] = 0.0
    for value in (70.0, 70.1, 70.2):
        assert floor.take([value] * SIZE) == pytest.approx([1e-3] * SIZE)
