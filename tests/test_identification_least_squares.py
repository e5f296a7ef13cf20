"""Least squares: closed forms, spread over many samples of noise, and physical bounds of bodies."""

import numpy as np
import pytest
import scipy.optimize
from identification_rig import draw_motion
from mechanism_rig import shipped

from vehicled.errors import RunError, UsageError
from vehicled.identification import parameters
from vehicled.identification.feasible import estimate_feasible, find_infeasible
from vehicled.identification.least_squares import calc_prediction_error, compress, estimate
from vehicled.identification.motions import observe
from vehicled.identification.regressors import Regressor, spring_columns


def line(n: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """W of a straight line, columns of very different sizes."""
    x = np.linspace(0.0, 1e4, n)
    return np.column_stack([np.ones(n), x]), x


def test_a_straight_line_has_the_textbook_estimate():
    w, x = line()
    random = np.random.default_rng(0)
    y = 3.0 - 2e-4 * x + 0.1 * random.normal(size=len(x))
    found = estimate(w, y)
    slope = np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2)
    residual = y - y.mean() - slope * (x - x.mean())
    sigma = np.sqrt(residual @ residual / (len(x) - 2))
    assert found.values == pytest.approx([y.mean() - slope * x.mean(), slope])
    assert found.deviation == pytest.approx(sigma)
    assert found.deviations[1] == pytest.approx(sigma / np.sqrt(np.sum((x - x.mean()) ** 2)))
    assert found.relative_deviations == pytest.approx(found.deviations / np.abs(found.values))


def test_weighted_least_squares_are_the_best():
    """With deviations that differ tenfold, (WᵀV⁻¹W)⁻¹ is the covariance and the spread of many estimates."""
    random = np.random.default_rng(1)
    w, true = random.normal(size=(40, 3)), np.array([1.0, -2.0, 0.5])
    sigma = np.where(np.arange(40) % 2, 0.1, 1.0)
    expected = np.linalg.inv(w.T @ (w / sigma[:, None] ** 2))
    estimates, plain, scale = [], [], []
    for _ in range(2000):
        y = w @ true + sigma * random.normal(size=40)
        found = estimate(w, y, sigma)
        estimates.append(found.values)
        scale.append(found.deviation**2)
        plain.append(estimate(w, y).values)
        assert found.covariance == pytest.approx(found.deviation**2 * expected)
    assert np.mean(estimates, axis=0) == pytest.approx(true, abs=0.01)
    assert np.cov(np.array(estimates).T) == pytest.approx(expected, rel=0.15, abs=2e-4)
    assert np.mean(scale) == pytest.approx(1.0, abs=0.02)
    assert np.all(np.std(plain, axis=0) > 1.5 * np.std(estimates, axis=0))


def test_compressed_rows_give_the_same_estimate():
    random = np.random.default_rng(2)
    w, y = random.normal(size=(200, 4)), random.normal(size=200)
    whole, small = estimate(w, y), estimate(*compress(w, y), equations=200)
    assert small.values == pytest.approx(whole.values)
    assert small.deviation == pytest.approx(whole.deviation)
    assert small.covariance == pytest.approx(whole.covariance)


def test_dependent_parameters_are_refused():
    w, x = line()
    with pytest.raises(RunError, match="rank 2"):
        estimate(np.column_stack([w, w @ [1.0, 2.0]]), x)
    with pytest.raises(RunError, match="parameter 1 of 2 has no influence"):
        estimate(w * [1.0, 0.0], x)
    with pytest.raises(RunError, match="1 equations for 2 parameters"):
        estimate(w[:1], x[:1])
    with pytest.raises(UsageError, match=r"forces: expected \(50,\)"):
        estimate(w, x[1:])
    with pytest.raises(UsageError, match="positive"):
        estimate(w, x, 0.0 * x)


def test_prediction_error_adds_up_over_coordinates():
    forces = np.array([[3.0, 0.0, 10.0], [4.0, 0.0, 0.0]])
    predicted = forces + np.array([[0.5, 1.0, 0.0], [0.0, 0.0, 2.0]])
    assert calc_prediction_error(predicted, forces) == pytest.approx(0.1 + 0.2)
    assert calc_prediction_error(forces, forces) == 0.0


# -- feasible -----------------------------------------------------------------------------------------------------


def body(mass: float, centre: list[float], central: list[float]) -> np.ndarray:
    """(10,) parameters of a body with principal central moments along the axes."""
    r = np.array(centre)
    inertia = np.diag(central) + mass * (r @ r * np.eye(3) - np.outer(r, r))
    return np.array([mass, *(mass * r), *inertia[np.triu_indices(3)]])


def test_bodies_with_infeasible_inertia_are_found():
    good = body(2.0, [0.1, 0.2, -0.3], [1.0, 1.2, 1.9])
    flat = body(2.0, [0.0, 0.0, 0.0], [1.0, 1.0, 2.0])  # on the border
    triangle = body(2.0, [0.1, 0.0, 0.0], [1.0, 1.0, 2.1])
    negative = body(-2.0, [0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    beyond = good.copy()
    beyond[1] = 10.0  # a centre of mass further out than the moments of inertia allow
    together = np.concatenate([good, flat, triangle, negative, beyond])
    assert find_infeasible(together, [4] * 5) == [2, 3, 4]
    assert find_infeasible(np.array([1.0, 2.0, 1.0, 3.0, -1.0]), [1, 2, 1]) == [2]


def measured(
    count: int = 200, noise: float = 0.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W (count, 10), forces and parameters of one body."""
    random = np.random.default_rng(seed)
    values = body(2.0, [0.1, 0.2, -0.3], [1.0, 1.2, 1.9])
    w = random.normal(size=(count, 10))
    return w, w @ values + noise * random.normal(size=count), values


def test_inactive_bounds_do_not_change_the_estimate():
    w, forces, values = measured()
    prior = body(3.0, [0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    found = estimate_feasible(w, forces, [4], prior, prior_weight=1e-6)
    assert found.values == pytest.approx(values, abs=1e-5)
    assert found.deviation < 1e-5


def test_parameters_without_data_keep_the_prior():
    w, _, values = measured()
    w[:, 4:] = 0.0
    prior = body(3.0, [0.0, 0.1, 0.0], [1.0, 1.1, 1.2])
    found = estimate_feasible(w, w @ values, [4], prior, prior_weight=1e-4)
    assert found.values[:4] == pytest.approx(values[:4], abs=1e-4)
    assert found.values[4:] == pytest.approx(prior[4:], abs=1e-3)


def test_an_infeasible_optimum_gives_the_nearest_point_on_the_bounds():
    """The body violates the triangle inequality. The optimum is compared with a search over Cholesky factors."""
    w, _, _ = measured()
    impossible = body(2.0, [0.1, 0.0, 0.0], [1.0, 1.0, 3.0])
    forces = w @ impossible
    prior = body(2.0, [0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
    found = estimate_feasible(w, forces, [4], prior, prior_weight=1e-4)
    assert find_infeasible(found.values, [4]) == []
    moments = parameters.to_moments(found.values, 4)
    assert np.linalg.eigvalsh(moments)[0] < 1e-4  # on the border
    lower = np.tril_indices(4)

    def residual(x: np.ndarray) -> np.ndarray:
        root = np.zeros((4, 4))
        root[lower] = x
        return w @ parameters.to_parameters(root @ root.T) - forces

    start = np.linalg.cholesky(parameters.to_moments(prior, 4))[lower]
    other = scipy.optimize.least_squares(residual, start, xtol=1e-14, ftol=1e-14, gtol=1e-14, max_nfev=5000)
    root = np.zeros((4, 4))
    root[lower] = other.x
    assert found.values == pytest.approx(parameters.to_parameters(root @ root.T), abs=2e-3)
    assert np.sum((w @ found.values - forces) ** 2) == pytest.approx(2.0 * other.cost, rel=1e-4)


def test_feasible_estimates_of_all_kinds_of_bodies_and_springs():
    """Planar bodies, whose priors lie on the border, point masses, and springs."""
    for name, reach in (("four_bar", 0.3), ("flyball_governor", 0.2), ("slider_crank", 0.3)):
        m = shipped(name)
        regressor = Regressor(m, spring_columns(m))
        w, forces = observe(regressor, draw_motion(m, 60, reach)).on_coordinates()
        random = np.random.default_rng(3)
        sigma = 0.3 * np.sqrt(np.mean(forces**2, axis=0))
        noisy = (forces + sigma * random.normal(size=forces.shape)).ravel()
        rows = w.reshape(-1, w.shape[-1])
        found = estimate_feasible(
            rows, noisy, regressor.sizes, regressor.values, np.tile(sigma, len(w)), prior_weight=0.1
        )
        assert find_infeasible(found.values, regressor.sizes) == []
        assert np.all(found.values[regressor.inertial :] > 0.0)
        assert found.deviation == pytest.approx(1.0, abs=0.3)


def test_equations_much_larger_than_the_prior_converge_or_are_an_error():
    """The curvature of the prior is lost in rounding, and equal equations have curvature in one direction only."""
    values = body(2.0, [0.1, 0.2, -0.3], [1.0, 1.2, 1.9])
    w = np.outer(np.ones(3), np.arange(1.0, 11.0)) * 1e7
    found = estimate_feasible(w, 1.1 * w @ values, [4], values, prior_weight=10.0 / 3.0)
    assert find_infeasible(found.values, [4]) == []
    assert w @ found.values == pytest.approx(1.1 * w @ values, rel=1e-6)
    with pytest.raises(RunError, match="did not converge"):
        estimate_feasible(100.0 * w, 110.0 * w @ values, [4], values, prior_weight=10.0 / 3.0)


def test_feasible_estimates_refuse_invalid_priors_and_weights():
    w, forces, values = measured()
    with pytest.raises(UsageError, match=r"a prior \(10,\)"):
        estimate_feasible(w, forces, [4], values[:9])
    with pytest.raises(UsageError, match="positive mass"):
        estimate_feasible(w, forces, [4], -values)
    with pytest.raises(UsageError, match="positive weight"):
        estimate_feasible(w, forces, [4], values, prior_weight=0.0)
