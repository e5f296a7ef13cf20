"""Excess of innovations over the variance that a filter expects: random ones, and those of a random walk."""

import numpy as np
import pytest
from kernel_rig import KernelRig

from vehicled.sources.imu.innovation_excess import ExcessDensity, ExcessVariance
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program

EXPECTED = 0.04
"""H P Hᵀ + R of a filter."""


class Excess(KernelRig):
    """Takes innovations of one sensor."""

    def __init__(self) -> None:
        program = Program(Graph())
        error = ExcessVariance(program, "excess")
        stores = error.take(*program.array("innovation", 2))
        program.kernel("take", stores)
        program.kernel("find", zip(program.array("found", 1), [error.variance], strict=True))
        super().__init__(program)

    @property
    def variance(self) -> float:
        self.run("find")
        return self["found"].item()

    def take(self, innovation: float, expected: float) -> None:
        self["innovation"][:] = innovation, expected
        self.run("take")


class Density(KernelRig):
    """Takes innovations of one sensor, and finds the density of process noise."""

    def __init__(self) -> None:
        program = Program(Graph())
        process = ExcessDensity(program, "excess")
        density, stores = process.take(*program.array("given", 6))
        program.kernel("take", [*stores, *zip(program.array("found", 1), [density], strict=True)])
        super().__init__(program)

    @property
    def density(self) -> float:
        return self["found"].item()

    def take(self, *given: float, follows: float = 1.0) -> None:
        self["given"][:] = *given, follows
        self.run("take")


def follow(error: Excess, variance: float, samples: int, seed: int = 0) -> list[float]:
    """Variances added after each of `samples` innovations of `variance`. The expected variance includes them."""
    found = []
    for innovation in np.random.default_rng(seed).normal(0.0, np.sqrt(variance), samples):
        error.take(float(innovation), EXPECTED + error.variance)
        found.append(error.variance)
    return found


def test_the_added_variance_is_the_difference_to_the_expected_one():
    found = follow(Excess(), 1.0, 20_000)
    # Averages over 250 samples of a square with σ = √2 σ²: ±6 %; of 80 of these, ±1 %.
    assert np.mean(found[1000:]) == pytest.approx(1.0 - EXPECTED, abs=0.03)
    assert np.std(found[1000:]) == pytest.approx(np.sqrt(2 / 500), rel=0.3)


def test_nothing_is_added_where_innovations_are_as_expected_or_less():
    assert np.mean(follow(Excess(), EXPECTED, 20_000)) < 0.05 * EXPECTED
    assert max(follow(Excess(), 0.3 * EXPECTED, 20_000)[250:]) == 0.0


def test_the_added_variance_decreases_when_the_road_becomes_even():
    error = Excess()
    follow(error, 1.0, 2000)
    assert follow(error, EXPECTED, 1500)[-1] < 0.02


def test_one_absurd_innovation_counts_as_five_standard_deviations():
    error = Excess()
    error.take(1e6, EXPECTED)
    assert error.variance == pytest.approx(24 * EXPECTED / 250)


def walk(
    density: float, least: float, samples: int = 20_000, h: float = 0.004, noisier: float = 1.0
) -> np.ndarray:
    """Densities added to `least` in a filter of a random walk with `density`, measured with σ = 0.002.

    `noisier`: noise of the sensor over that which the filter expects.
    """
    rng, process, noise = np.random.default_rng(3), Density(), 0.002**2
    steps, errors = (
        np.sqrt(density * h) * rng.normal(size=samples),
        0.002 * noisier * rng.normal(size=samples),
    )
    x, estimate, variance, found = 0.0, 0.0, noise, []
    for step, error in zip(steps.tolist(), errors.tolist(), strict=True):
        x += step
        variance += (least + process.density) * h
        innovation, expected = x + error - estimate, variance + noise
        estimate += variance / expected * innovation
        variance *= noise / expected
        process.take(innovation, expected, noise, h, least)
        found.append(process.density)
    return np.array(found[samples // 2 :])


def test_the_density_of_a_process_is_found():
    least, true = 4e-4, 4e-3
    assert np.mean(walk(true, least)) == pytest.approx(true - least, rel=0.15)


def test_hardly_anything_is_added_to_a_density_that_is_large_enough():
    assert np.mean(walk(4e-4, 4e-4)) < 0.3 * 4e-4
    assert np.mean(walk(1e-5, 4e-4)) < 0.02 * 4e-4


def test_noise_of_the_sensor_is_not_taken_for_that_of_the_process():
    assert np.mean(walk(4e-4, 4e-4, noisier=3.0)) < 0.05 * 4e-4


def test_the_added_density_is_at_most_25_times_the_given_one():
    assert np.max(walk(1.0, 4e-4)) == pytest.approx(25 * 4e-4)


def test_an_innovation_that_does_not_directly_follow_another_changes_nothing():
    process = Density()
    for innovation in (0.01, 0.01, 0.01):
        process.take(innovation, 1e-5, 4e-6, 0.004, 4e-4)
    known = process.density
    assert known > 0.0
    process.take(9.0, 1e-5, 4e-6, 0.004, 4e-4, follows=0.0)
    assert process.density == known
