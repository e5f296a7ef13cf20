"""The unscented transform, compared with textbook weights and with known results."""

import numpy as np
import pytest

from vehicled.filter.unscented_transform import UnscentedTransform, calc_slope

RANDOM = np.random.default_rng(5)
ROOT = np.tril(RANDOM.normal(size=(3, 3))) + 2.0 * np.eye(3)
MEAN = np.array([0.3, -0.2, 0.5])


def bend(x: np.ndarray) -> np.ndarray:
    """A nonlinear function: (2, points) from (3, points)."""
    return np.stack([np.sin(x[0]) + x[1] * x[2], np.exp(0.2 * x[1]) - x[0] ** 3])


def find_moments(transform, function, root=ROOT):
    away = function(MEAN[:, None] + transform.calc_displacements(root)) - function(MEAN[:, None])
    return transform.calc_moments(away[:, :3], away[:, 3:])


@pytest.mark.parametrize(("alpha", "beta", "kappa"), [(1.0, 2.0, -2.0), (0.5, 2.0, 0.0), (1.0, 0.0, 1.0)])
def test_moments_are_those_of_weighted_points(alpha, beta, kappa):
    """Wan and van der Merwe, equations 15 to 18; their λ is α² (L + κ) − L."""
    size = 3
    scale = alpha**2 * (size + kappa)
    away = np.sqrt(scale) * ROOT
    points = MEAN[:, None] + np.hstack([np.zeros((size, 1)), away, -away])
    weights = np.full(2 * size + 1, 0.5 / scale)
    weights[0] = 1.0 - size / scale
    y = bend(points)
    mean = y @ weights
    of_covariance = weights.copy()
    of_covariance[0] += 1.0 - alpha**2 + beta
    covariance = (y - mean[:, None]) @ np.diag(of_covariance) @ (y - mean[:, None]).T
    crossed = (y - mean[:, None]) @ np.diag(of_covariance) @ (points - MEAN[:, None]).T

    transform = UnscentedTransform(size, alpha, beta, kappa)
    found, state = find_moments(transform, bend), find_moments(transform, lambda x: x)
    assert bend(MEAN[:, None])[:, 0] + found.shift == pytest.approx(mean, rel=1e-12)
    assert transform.calc_covariance(found, found) == pytest.approx(covariance, rel=1e-12)
    assert transform.calc_covariance(found, state) == pytest.approx(crossed, rel=1e-12)
    assert calc_slope(found, ROOT) == pytest.approx(crossed @ np.linalg.inv(ROOT @ ROOT.T), rel=1e-12)
    away = bend(points[:, 1:]) - bend(MEAN[:, None])
    slope, shift, rest = transform.regress(state, ROOT).linearise(away)
    of_state = transform.calc_covariance(state, state)
    assert slope == pytest.approx(crossed @ np.linalg.inv(of_state), rel=1e-12)
    assert shift == pytest.approx(found.shift, rel=1e-12)
    assert rest == pytest.approx((covariance - slope @ of_state @ slope.T).diagonal(), rel=1e-9)
    linear = found.odd @ found.odd.T
    assert linear + transform.calc_curvature(found) == pytest.approx(covariance, rel=1e-12)


def test_by_default_points_are_one_deviation_away():
    transform = UnscentedTransform(3)
    assert transform.calc_displacements(ROOT) == pytest.approx(np.hstack([ROOT, -ROOT]))
    same = UnscentedTransform(3, 1.0, 2.0, -2.0)
    one, other = find_moments(transform, bend), find_moments(same, bend)
    assert transform.calc_covariance(one, one) == pytest.approx(same.calc_covariance(other, other))


@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_a_linear_function_has_its_covariance_and_no_shift(alpha):
    matrix = RANDOM.normal(size=(2, 3))
    transform = UnscentedTransform(3, alpha, kappa=0.0)
    found = find_moments(transform, lambda x: matrix @ x)
    assert found.shift == pytest.approx(np.zeros(2), abs=1e-6)
    expected = matrix @ ROOT @ ROOT.T @ matrix.T
    assert transform.calc_covariance(found, found) == pytest.approx(expected, rel=1e-9)
    assert calc_slope(found, ROOT) == pytest.approx(matrix, rel=1e-9)


def test_the_mean_and_variance_of_a_square_are_those_of_a_gaussian():
    """E x² = m² + σ², var x² = 4 m² σ² + 2 σ⁴ for β = 2 and α → 0, as the papers choose it."""
    mean, sigma = 0.7, 0.4
    transform = UnscentedTransform(1, 1e-3, 2.0, 0.0)
    away = (mean + transform.calc_displacements(np.array([[sigma]]))) ** 2 - mean**2
    found = transform.calc_moments(away[:, :1], away[:, 1:])
    assert mean**2 + found.shift[0] == pytest.approx(mean**2 + sigma**2, rel=1e-6)
    exact = 4.0 * mean**2 * sigma**2 + 2.0 * sigma**4
    assert transform.calc_covariance(found, found)[0, 0] == pytest.approx(exact, rel=1e-6)
