"""The compiled covariance kernels against textbook matrices."""

from functools import lru_cache

import numpy as np
import pytest
from covariance_rig import COMPONENTS, Dense, random_covariance

from vehicled.filter.covariance import MISSING

KINDS = [(2, ()), (7, ((0, 3), (1, 0), (2, 6))), (9, ((0, 4), (3, 4), (7, 8)))]
"""Numbers of states, and places of off-diagonal elements of F."""
CORRELATED = (0, 1), (0, 4), (1, 4), (5, 6)
"""Places of elements of Q above the diagonal."""


dense = lru_cache(Dense)


@pytest.mark.parametrize(("n", "coupling"), KINDS)
def test_loops_compute_the_same_as_the_expressions_of_their_kernels(n, coupling):
    filter, rng = Dense(n, coupling, correlated=CORRELATED if n > 2 else ()), np.random.default_rng(n)
    assert len(filter.program.replaced) == 2 + 2 * COMPONENTS + COMPONENTS * (1 + 2 * COMPONENTS)
    for kernel in filter.program.replaced:
        filter.randomise(rng)
        expected = filter.calc_by_expressions(kernel)
        found = filter.run(kernel)[list(expected)]
        assert found == pytest.approx(np.array(list(expected.values())), rel=1e-9, abs=1e-12), kernel.name


@pytest.mark.parametrize(("n", "coupling"), KINDS)
def test_prediction_is_f_p_ft_with_half_the_noise_before_and_half_after(n, coupling):
    rng = np.random.default_rng(n)
    filter = dense(n, coupling)
    p, q, count = random_covariance(rng, n), rng.uniform(0, 2, n), filter.view("count")[0]
    filter.errors.matrix = p
    f = np.diag(rng.uniform(0.5, 1, n))
    filter.view("diagonal")[:], filter.view("q")[:] = np.diag(f), q
    filter.errors.x[:] = 3.0
    for k, place in enumerate(coupling):
        f[place] = filter.view("coupled")[k] = rng.normal()
    filter.propagate()
    assert filter.errors.matrix == pytest.approx(
        f @ (p + np.diag(q) / 2) @ f.T + np.diag(q) / 2, rel=1e-12, abs=1e-12
    )
    assert not filter.errors.x.any()
    assert filter.view("count")[0] == count + 1


def test_noise_of_two_states_can_be_correlated():
    rng, (n, coupling) = np.random.default_rng(5), KINDS[1]
    filter = dense(n, coupling, correlated=CORRELATED)
    filter.errors.matrix = p = random_covariance(rng, n)
    diagonal = filter.view("q")[:] = rng.uniform(1, 2, n)
    q = np.diag(diagonal)
    for k, (i, j) in enumerate(CORRELATED):
        q[i, j] = q[j, i] = filter.view("q_coupled")[k] = rng.uniform(-0.5, 0.5)
    f = np.eye(n)
    for k, place in enumerate(coupling):
        f[place] = filter.view("coupled")[k] = rng.normal()
    filter.view("diagonal")[:] = 1.0
    filter.propagate()
    assert filter.errors.matrix == pytest.approx(f @ (p + q / 2) @ f.T + q / 2, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize(("n", "coupling"), KINDS)
def test_evaluating_and_updating_are_the_textbook_update(n, coupling, m):
    rng = np.random.default_rng(m)
    filter = dense(n, coupling)
    errors, p, x = filter.errors, random_covariance(rng, n), np.zeros(n)
    errors.matrix, errors.x[:] = p, 0.0
    for _ in range(2):  # the second time with a pending correction
        rows, noise, innovation = rng.normal(size=(m, n)), rng.uniform(0.1, 2, m), rng.normal(size=m)
        more = filter.view("more")[:m] = rng.uniform(0, 1, m)
        s = rows @ p @ rows.T + np.diag(noise + more)
        left = innovation - rows @ x
        nis = filter.evaluate(rows, noise, innovation)
        assert nis == pytest.approx(left @ np.linalg.solve(s, left), rel=1e-9)
        assert errors.innovation[:m] == pytest.approx(left, rel=1e-9)
        assert errors.variance[:m] == pytest.approx(np.diag(s), rel=1e-12)
        assert np.array_equal(errors.rows[:m], rows)
        assert errors.matrix == pytest.approx(p, rel=1e-15)  # evaluating alone changes nothing
        errors.update(m)
        gain = np.linalg.solve(s, rows @ p).T
        x, p = x + gain @ left, p - gain @ s @ gain.T
        assert errors.x == pytest.approx(x, rel=1e-8, abs=1e-10)
        assert errors.matrix == pytest.approx(p, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_component_has_no_effect(missing):
    rng = np.random.default_rng(missing)
    filter, there = dense(7, KINDS[1][1]), [k for k in range(3) if k != missing]
    p, rows, noise, left = random_covariance(rng, 7), rng.normal(size=(3, 7)), np.ones(3), rng.normal(size=3)
    noise[missing] = MISSING
    found = []
    for chosen in (list(range(3)), there):
        filter.errors.matrix, filter.errors.x[:] = p, 0.0
        filter.view("more")[:] = 0.0
        nis = filter.evaluate(rows[chosen], noise[chosen], left[chosen])
        filter.errors.update(len(chosen))
        found.append((nis, filter.errors.x.copy(), filter.errors.matrix))
    for with_it, without in zip(*found, strict=True):
        assert with_it == pytest.approx(without, rel=1e-9, abs=1e-12)


def test_innovations_of_angles_stay_within_half_a_turn():
    filter = dense(2)
    filter.errors.matrix = np.eye(2)
    for difference in (-7.0, -3.0, 0.0, 2.0, 9.0):
        expected = (difference + np.pi) % (2 * np.pi) - np.pi
        assert filter.evaluate_angle(50.0 + difference, 50.0) == pytest.approx(expected, abs=1e-9)


def test_variances_are_the_diagonal_and_setting_one_leaves_the_other_states():
    rng = np.random.default_rng(0)
    errors = dense(7, KINDS[1][1]).errors
    p = random_covariance(rng, errors.size)
    errors.matrix = p
    assert np.array_equal(errors.variances, np.diag(p))
    errors.set_variance(3, 7.0)
    expected = p.copy()
    expected[3, :] = expected[:, 3] = 0.0
    expected[3, 3] = 7.0
    assert errors.matrix == pytest.approx(expected, rel=1e-15)
    assert (np.linalg.eigvalsh(errors.matrix) > 0).all()


def test_covariance_stays_symmetric_and_positive_definite_over_many_updates():
    rng = np.random.default_rng(5)
    filter = dense(7, KINDS[1][1])
    errors = filter.errors
    errors.matrix, filter.view("more")[:] = np.eye(7) * 100.0, 0.0
    filter.view("diagonal")[:] = (1.0, 1.0, 1.0, 1.0, 1.0, 0.999, 0.9)
    filter.view("q")[:] = (1e-10, 1e-10, 1e-5, 1e-5, 1e-9, 1e-6, 1e-2)
    for k in range(10_000):
        m = 1 + k % 3
        filter.view("coupled")[:] = rng.normal(size=3) * 0.01
        filter.propagate()
        rows = rng.normal(size=(m, 7)) * 10.0 ** rng.uniform(-2, 1, size=7)
        filter.evaluate(rows, 10.0 ** rng.uniform(-5, 3, m), np.zeros(m))
        errors.update(m)
        if k % 50 == 0:
            p = errors.matrix
            assert np.array_equal(p, p.T)
            scale = np.sqrt(np.diag(p))
            assert np.linalg.eigvalsh(p / np.outer(scale, scale)).min() > 1e-12


def constant_velocity(p: np.ndarray, density: float, h: float) -> Dense:
    """Position and velocity, with white noise on the velocity."""
    filter = dense(2, ((0, 1),))
    filter.errors.matrix, filter.errors.x[:], filter.view("more")[:] = p, 0.0, 0.0
    filter.view("diagonal")[:], filter.view("coupled")[0], filter.view("q")[:] = 1.0, h, (0.0, density * h)
    return filter


def test_noise_of_a_step_is_van_loans_but_for_a_third_order_term():
    """White acceleration of density q: exactly [[q h³/3, q h²/2], [q h²/2, q h]] (Van Loan)."""
    q, error = 3.0, {}
    for h in (0.04, 0.02, 0.01):
        filter = constant_velocity(np.zeros((2, 2)), q, h)
        filter.propagate()
        difference = filter.errors.matrix - q * np.array([[h**3 / 3, h**2 / 2], [h**2 / 2, h]])
        assert np.abs(difference[:, 1]).max() < 1e-15
        error[h] = difference[0, 0]
    assert error[0.04] / error[0.02] == pytest.approx(8.0, rel=1e-6)
    assert error[0.02] / error[0.01] == pytest.approx(8.0, rel=1e-6)
    # Over one second of such steps that is no more than some millionths of the variance.
    filter = constant_velocity(np.zeros((2, 2)), q, 0.004)
    for _ in range(250):
        filter.propagate()
    assert filter.errors.matrix[0, 0] == pytest.approx(q / 3, rel=2e-5)
