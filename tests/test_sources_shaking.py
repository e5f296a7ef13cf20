"""Roll and pitch motion by gyroscopes, for antennas and accelerometers away from the centre of mass."""

import numpy as np
import pytest
from kernel_rig import KernelRig

from vehicled.sources.imu.rate_differences import LONG_AGO, RateDifferences
from vehicled.sources.imu.shaking import Shaking
from vehicled.sources.measured_rates import MeasuredRates
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program

NOISE, H = 0.002, 0.004
"""rad/s, s: of gyroscopes at 250 Hz."""


def sampled(*samples: tuple[float, float]) -> MeasuredRates:
    rates = MeasuredRates()
    for t, roll in samples:
        rates.take(t, [roll, 0.0, 0.0], NOISE)
    return rates


def test_rates_are_linear_between_samples_and_held_for_a_moment():
    rates = sampled((1.0, 0.1), (1.01, 0.2))
    assert rates.find(1.004) == pytest.approx([0.14, 0.0, 0.0])
    assert rates.find(1.03) == [0.2, 0.0, 0.0]
    assert rates.find(0.99) is None
    assert rates.find(1.2) is None
    rates.reset()
    assert rates.find(1.004) is None


def test_rates_are_not_interpolated_over_a_gap():
    rates = sampled((1.0, 0.1), (2.0, 0.2))
    assert rates.find(1.04) == [0.1, 0.0, 0.0]
    assert rates.find(1.5) is None
    assert rates.find(1.99) is None


def test_a_sample_that_is_not_newer_is_left_out():
    rates = sampled((1.0, 0.1), (1.01, 0.2), (1.01, 9.0), (1.005, 9.0))
    assert rates.find(1.02) == [0.2, 0.0, 0.0]


class Shaken(KernelRig):
    """Takes innovations of roll and pitch rates."""

    def __init__(self) -> None:
        program = Program(Graph())
        past, shaking = RateDifferences(program, "past"), Shaking(program, "shaking")
        t, variance, *innovations = program.array("given", 4)
        g = program.graph
        nothing = g.zero, g.zero
        differences, stores = past.take(t, innovations, nothing, nothing, g.one)
        found = program.array("found", 4)
        values, variances, more = shaking.take(t, differences, variance)
        program.kernel("take", [*stores, *more, *zip(found, [*values, *variances], strict=True)])
        values, variances, stores = shaking.expire(t)
        program.kernel("expire", [*stores, *zip(found, [*values, *variances], strict=True)])
        super().__init__(program)
        self["past.times"][:] = LONG_AGO

    @property
    def value(self) -> list[float]:
        return self["found"][:2].tolist()

    @property
    def variance(self) -> list[float]:
        return self["found"][2:].tolist()

    def take(self, t: float, innovations: tuple[float, float], variance: float) -> None:
        self["given"][:] = t, variance, *innovations
        self.run("take")

    def expire(self, t: float) -> None:
        self["given"][0] = t
        self.run("expire")


def shake(amplitude: float, hertz: float, samples: int = 2500) -> tuple[np.ndarray, np.ndarray, Shaken]:
    """Errors and claimed variances of the samples for a roll oscillation that the model does not have."""
    rng, shaking, w = np.random.default_rng(4), Shaken(), 2.0 * np.pi * hertz
    errors, claimed = [], []
    for k in range(samples):
        t = k * H
        roll, pitch = amplitude / w * np.sin(w * t) + NOISE * rng.normal(), NOISE * rng.normal()
        shaking.take(t, (roll, pitch), NOISE**2)
        errors.append((amplitude * np.cos(w * (t - H)) - shaking.value[0], -shaking.value[1]))
        claimed.append(shaking.variance)
    return np.array(errors[500:]), np.array(claimed[500:]), shaking


def test_shaking_is_found_with_the_variance_that_is_claimed():
    """5 rad/s² at 2 Hz, compared with the acceleration in the middle of the window."""
    errors, claimed, _ = shake(5.0, 2.0)
    assert np.std(errors[:, 0]) < 0.15 * 5.0 / np.sqrt(2.0)
    assert np.mean(errors[:, 0] ** 2) == pytest.approx(np.mean(claimed[:, 0]), rel=0.15)


def test_noise_alone_is_hardly_taken_for_shaking():
    """A difference of noise over 8 ms would be 0.35 rad/s²."""
    errors, _, _ = shake(0.0, 2.0)
    assert np.std(errors) < 0.1 * np.sqrt(2.0) * NOISE / 0.008


def test_shaking_is_zero_after_a_gap():
    _, _, shaking = shake(5.0, 2.0)
    assert shaking.value != [0.0, 0.0]
    shaking.take(11.0, (0.1, 0.1), NOISE**2)
    assert (shaking.value, shaking.variance) == ([0.0, 0.0], [0.0, 0.0])


def test_shaking_ends_when_samples_do():
    _, _, shaking = shake(5.0, 2.0)
    last = 2499 * H
    shaking.expire(last + H)
    assert shaking.value != [0.0, 0.0]
    shaking.expire(last + 0.03)
    assert shaking.value == [0.0, 0.0]
