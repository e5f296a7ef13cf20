"""Exciting trajectories, and models that are reduced to the relevant parameters."""

import numpy as np
import pytest
from mechanism_rig import shipped

from vehicled.errors import RunError, UsageError
from vehicled.identification.excitation import FourierTrajectory, Ranges, calc_criterion, optimise
from vehicled.identification.least_squares import calc_prediction_error
from vehicled.identification.motions import observe, solve_motion
from vehicled.identification.regressors import Regressor
from vehicled.identification.relevance import (
    Equations,
    calc_contributions,
    calc_overlap,
    order_by_contribution,
    reduce_models,
)
from vehicled.identification.symbolic_base import find_symbolic_base

RANGES = Ranges(
    np.array([-0.1, 2.0]), np.array([0.3, 2.5]), rate=np.array([1.0, 3.0]), acceleration=np.array([9.0, 20.0])
)


def drawn(seed: int = 0) -> FourierTrajectory:
    return FourierTrajectory.draw(0.5, 4, RANGES, np.random.default_rng(seed))


def test_rates_and_accelerations_are_derivatives():
    trajectory = drawn()
    t = np.linspace(0.0, 2.0, 9)
    h = 1e-5
    z, zd, zdd = trajectory.calc(t)
    before, after = trajectory.calc(t - h), trajectory.calc(t + h)
    assert (after[0] - before[0]) / (2 * h) == pytest.approx(zd, abs=1e-8)
    assert (after[1] - before[1]) / (2 * h) == pytest.approx(zdd, abs=1e-7)
    assert trajectory.calc(t + trajectory.period)[0] == pytest.approx(z)


def test_trajectories_keep_their_ranges():
    for seed in range(5):
        use = RANGES.calc_use(drawn(seed), np.linspace(0.0, 2.0, 1001))
        assert use == pytest.approx([0.8, 0.8], abs=0.01)
    z, zd, zdd = drawn().fit(RANGES).calc(np.linspace(0.0, 2.0, 1001))
    assert np.all(z > RANGES.low - 1e-4)
    assert np.all(z < RANGES.high + 1e-4)
    assert np.all(np.abs(zd).max(axis=0) < RANGES.rate * 1.001)
    assert np.all(np.abs(zdd).max(axis=0) < RANGES.acceleration * 1.001)


def test_a_range_without_width_is_refused():
    with pytest.raises(UsageError, match="lower end"):
        Ranges(np.array([1.0]), np.array([1.0]))


def test_criteria_are_those_of_the_covariance():
    w = np.random.default_rng(0).normal(size=(30, 4)) * [1.0, 2.0, 0.1, 5.0]
    covariance = np.linalg.inv(w.T @ w)
    assert np.exp(calc_criterion(w, "condition")) == pytest.approx(np.linalg.cond(w))
    assert np.exp(calc_criterion(w, "A")) == pytest.approx(np.trace(covariance))
    assert np.exp(calc_criterion(w, "D")) == pytest.approx(np.linalg.det(covariance))
    assert np.exp(calc_criterion(w, "E")) == pytest.approx(np.linalg.eigvalsh(covariance)[-1])
    assert calc_criterion(w[:, [0, 0]] * 0.0, "E") == np.inf
    assert calc_criterion(w[:3], "D") == np.inf


@pytest.mark.parametrize("criterion", ["condition", "A", "D", "E"])
def test_optimised_motions_of_a_mechanism_excite_more(criterion):
    """A five-bar linkage: within the ranges, and better by the criterion asked for."""
    m = shipped("five_bar")
    home, z = m.q.copy(), m.z
    chosen = find_symbolic_base(m).base
    regressor = Regressor(m)
    ranges = Ranges(z - 0.2, z + 0.2, rate=np.full(2, 3.0), acceleration=np.full(2, 30.0))
    start = FourierTrajectory.draw(1.0, 2, ranges, np.random.default_rng(4), 0.5)

    def equations(trajectory: FourierTrajectory) -> np.ndarray:
        m.q[:] = home
        t = trajectory.sample_times(20)
        return chosen.reduce(observe(regressor, solve_motion(m, t, *trajectory.calc(t))).stacked)

    reported: list[int] = []
    best = optimise(start, ranges, equations, criterion, limit=4, progress=reported.append)
    assert calc_criterion(equations(best), criterion) < calc_criterion(equations(start), criterion) - 0.3
    assert np.all(ranges.calc_use(best, np.linspace(0.0, 1.0, 1001)) < 1.02)
    assert reported == list(range(1, len(reported) + 1))
    assert reported


def test_a_closed_form_optimum_is_found():
    """One coordinate, W = [z̈, ż] over a period: its condition is one if both columns are equally large, that is, if
    all energy is in the harmonic of ω = 1 rad/s."""
    ranges = Ranges(np.array([-1.0]), np.array([1.0]))
    start = FourierTrajectory(0.5 / (2 * np.pi), np.zeros(1), np.array([[[0.2, 0.1]], [[0.1, 0.05]]]))

    def equations(trajectory: FourierTrajectory) -> np.ndarray:
        _, zd, zdd = trajectory.calc(trajectory.sample_times(40))
        return np.hstack([zdd, zd])

    best = optimise(start, ranges, equations, "condition", limit=60)
    # The second harmonic has ω = 1.
    assert np.exp(calc_criterion(equations(best), "condition")) == pytest.approx(1.0, abs=1e-3)
    power = np.sum(best.coefficients**2, axis=(0, 1))
    assert power[0] < 1e-3 * power[1]


def test_starts_beyond_ranges_or_without_excitation_are_refused():
    start = drawn()
    wide = FourierTrajectory(start.frequency, start.centre, 2.0 * start.coefficients)
    with pytest.raises(RunError, match="leaves its ranges"):
        optimise(wide, RANGES, lambda _: np.eye(2))
    with pytest.raises(RunError, match="does not excite"):
        optimise(start, RANGES, lambda _: np.zeros((4, 2)))


# -- relevance ----------------------------------------------------------------------------------------------------


def example(seed: int = 0) -> tuple[Equations, Equations, np.ndarray]:
    """Equations of two motions with two forces and six parameters, and the values; each one matters less."""
    random = np.random.default_rng(seed)
    values = np.array([1.0, -0.5, 0.2, 0.05, 0.01, 1e-4])
    both = [random.normal(size=(80, 2, 6)) for _ in range(2)]
    return Equations(both[0], both[0] @ values), Equations(both[1], both[1] @ values), values


def test_contributions_are_shares_of_the_forces():
    fitted, _, values = example()
    contributions = calc_contributions(fitted.rows, values, fitted.forces.ravel())
    share = np.linalg.norm(fitted.rows[:, 1] * values[1]) / np.linalg.norm(fitted.forces)
    assert contributions[1] == pytest.approx(share)
    assert order_by_contribution(contributions).tolist() == [0, 1, 2, 3, 4, 5]
    assert order_by_contribution(np.array([0.1, 0.3, 0.2])).tolist() == [1, 2, 0]


@pytest.mark.parametrize("deviations", [None, np.array([0.1, 2.0])])
def test_reduced_models_are_least_squares_of_the_kept_parameters(deviations):
    fitted, validation, _ = example()
    order = np.array([0, 2, 1, 4, 3, 5])
    models = reduce_models(order, [1, 3, 6], fitted, validation, deviations)
    assert [len(m.kept) for m in models] == [1, 3, 6]
    weight = 1.0 if deviations is None else 1.0 / np.tile(deviations, 80)[:, None]
    for model in models:
        w, y = fitted.rows[:, model.kept] * weight, fitted.forces.reshape(-1, 1) * weight
        values = np.linalg.lstsq(w, y, rcond=None)[0][:, 0]
        assert model.estimate.values == pytest.approx(values, rel=1e-9)
        predicted = validation.w[..., model.kept] @ values
        assert model.validation_error == pytest.approx(
            calc_prediction_error(predicted, validation.forces), abs=1e-12
        )
        assert model.condition == pytest.approx(np.linalg.cond(w))
        spread = np.linalg.inv(w.T @ w) * np.sum((y[:, 0] - w @ values) ** 2) / (160 - len(model.kept))
        assert model.estimate.covariance == pytest.approx(spread, rel=1e-6, abs=1e-24)
    assert models[0].validation_error > models[1].validation_error > models[2].validation_error
    assert models[2].validation_error < 1e-12


def test_models_that_are_not_identifiable_are_left_out():
    fitted, validation, _ = example()
    same = Equations(fitted.w[..., [0, 1, 0]], fitted.forces)
    models = reduce_models(np.arange(3), [1, 2, 3], same, Equations(validation.w[..., :3], validation.forces))
    assert [len(m.kept) for m in models] == [1, 2]


def test_overlap_is_the_share_of_common_parameters():
    assert calc_overlap(np.array([3, 1, 2, 0]), np.array([1, 3, 0, 2]), 2) == 1.0
    assert calc_overlap(np.array([3, 1, 2, 0]), np.array([1, 0, 2, 3]), 2) == 0.5
