"""Estimates projected onto the constraints, against the equations of the constrained minimum and samples."""

from __future__ import annotations

import numpy as np
import pytest
from operator_rig import MECHANISMS, make

from vehicled.errors import UsageError
from vehicled.multibody import operators, problems, projections


def metrics(n: int) -> list[np.ndarray | None]:
    root = np.random.default_rng(9).normal(size=(n, n))
    return [None, np.linspace(1.0, 5.0, n), root @ root.T + n * np.eye(n)]


@pytest.mark.parametrize("kind", range(3))
@pytest.mark.parametrize("name", MECHANISMS)
def test_projected_position_is_the_nearest(name, kind):
    """The correction is orthogonal to every permitted motion, and all neighbouring positions are farther away."""
    m = make(name)
    weights = metrics(len(m.q))[kind]
    metric = np.eye(len(m.q)) if weights is None else np.diag(weights) if weights.ndim == 1 else weights
    off = m.q + 0.01 * np.random.default_rng(kind).normal(size=m.q.shape)
    m.q[:] = off
    projections.project_positions(m, weights, accuracy=1e-11).require(name)
    assert np.abs(m.calc_constraints()).max() <= 1e-11
    missed = metric @ (m.q - off)
    motions = problems.nullspace(m.calc_jacobian())
    assert motions.T @ missed == pytest.approx(0.0, abs=1e-5 * np.linalg.norm(missed))

    def distance(q):
        return (q - off) @ metric @ (q - off)

    nearest, here = distance(m.q), m.q.copy()
    for unit in np.eye(len(m.z)):
        for shift in (1e-3, -1e-3):
            m.q[:] = here
            problems.solve_position(m, here[m.independent] + shift * unit).require("neighbour")
            assert distance(m.q) > nearest


def test_projection_reaches_the_requested_accuracy_and_refuses_bad_weights():
    m = make("four_bar")
    off = m.q + 0.05 * np.random.default_rng(0).normal(size=m.q.shape)
    counts = []
    for accuracy in (1e-3, 1e-12):
        m.q[:] = off
        solution = projections.project_positions(m, accuracy=accuracy)
        assert solution.converged
        assert solution.residual <= accuracy
        counts.append(np.abs(m.calc_constraints()).max())
    assert counts[1] <= 1e-12
    m.q[:] = off
    assert not projections.project_positions(m, accuracy=1e-30).converged
    with pytest.raises(UsageError, match=r"weights: expected \(5,\) or \(5, 5\), got \(3,\)"):
        projections.project_positions(m, np.ones(3))
    with pytest.raises(UsageError, match="weights: expected positive numbers"):
        projections.project_velocities(m, -np.ones(5))


@pytest.mark.parametrize("kind", range(3))
@pytest.mark.parametrize("name", MECHANISMS)
def test_projected_velocity_is_the_nearest(name, kind):
    m = make(name)
    weights = metrics(len(m.q))[kind]
    metric = np.eye(len(m.q)) if weights is None else np.diag(weights) if weights.ndim == 1 else weights
    off = m.qd + np.random.default_rng(kind).normal(size=m.q.shape)
    m.qd[:] = off
    projections.project_velocities(m, weights)
    jacobian = m.calc_jacobian()
    assert jacobian @ m.qd + m.calc_drift() == pytest.approx(0.0, abs=1e-9)
    # In closed form, by the equations of the constrained minimum.
    n, c = len(m.q), len(jacobian)
    matrix = np.block([[metric, jacobian.T], [jacobian, np.zeros((c, c))]])
    right = np.concatenate([metric @ off, -m.calc_drift()])
    assert m.qd == pytest.approx(np.linalg.lstsq(matrix, right, rcond=1e-12)[0][:n], abs=1e-8)


@pytest.mark.parametrize("name", MECHANISMS)
def test_projected_covariance_is_that_of_a_perfect_measurement_of_the_constraints(name):
    m = make(name)
    p = metrics(len(m.q))[2] * 1e-4
    jacobian = m.calc_jacobian()
    gain = p @ jacobian.T @ np.linalg.pinv(jacobian @ p @ jacobian.T, rcond=1e-12)
    kalman = p - gain @ jacobian @ p
    projected = projections.calc_projected_covariance(m, p, np.linalg.inv(p))
    assert projected == pytest.approx(kalman, abs=1e-9 * np.abs(p).max())
    assert jacobian @ projected == pytest.approx(0.0, abs=1e-10)
    # In another metric: the covariance of projected samples of velocities.
    rng, weights = np.random.default_rng(4), metrics(len(m.q))[1]
    there, samples, after = m.qd.copy(), [], []
    for deviation in 0.1 * rng.normal(size=(30, len(m.q))):
        m.qd[:] = there + deviation
        projections.project_velocities(m, weights)
        samples.append(deviation)
        after.append(m.qd.copy())
    result = projections.calc_projected_covariance(m, np.cov(np.array(samples).T), weights)
    assert result == pytest.approx(np.cov(np.array(after).T), abs=1e-10)
    # On the constraints z determines q, so that R D P_q Dᵀ Rᵀ is P_q again.
    maps = operators.calc_coordinate_maps(m)
    round_trip = maps.calc_covariance(maps.calc_independent_covariance(result))
    assert round_trip == pytest.approx(result, abs=1e-10)
