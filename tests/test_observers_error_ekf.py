"""The compiled covariance kernels against textbook matrices, and late measurements against timely ones."""

import numpy as np
import pytest

from vehicled.observers.error_ekf import ErrorEKF
from vehicled.observers.history import History

KINDS = [(1, 0, ()), (2, 3, ((0, 3), (1, 0), (2, 6))), (4, 1, ((0, 4), (3, 4), (7, 8)))]


def random_covariance(rng: np.random.Generator, n: int) -> np.ndarray:
    root = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-1, 1, size=n)
    return root @ root.T + 0.1 * np.eye(n)


def transition(ekf: ErrorEKF, pairs: int, coupling: tuple, h: float) -> np.ndarray:
    f = np.eye(ekf.size)
    f[range(pairs), range(pairs, 2 * pairs)] = h
    f[range(2 * pairs, ekf.size), range(2 * pairs, ekf.size)] = ekf.decay
    for place, value in zip(coupling, ekf.coupling, strict=False):
        f[place] = value
    return f


@pytest.mark.parametrize(("pairs", "extra", "coupling"), KINDS)
def test_prediction_is_f_p_ft_with_half_the_noise_before_and_half_after(pairs, extra, coupling):
    rng = np.random.default_rng(pairs)
    ekf = ErrorEKF(pairs, extra, coupling)
    n, h = ekf.size, 0.01
    p = random_covariance(rng, n)
    ekf.covariance = p
    ekf.position_noise[:] = rng.uniform(0, 2, pairs)
    ekf.rate_noise[:] = rng.uniform(0, 2, pairs)
    ekf.decay[:] = rng.uniform(0.5, 1, extra)
    ekf.extra_noise[:] = rng.uniform(0, 1, extra)
    ekf.coupling[: len(coupling)] = rng.normal(size=len(coupling))
    f = transition(ekf, pairs, coupling, h)
    q = np.diag(np.concatenate([h * ekf.position_noise, h * ekf.rate_noise, ekf.extra_noise]))
    ekf.predict(h)
    assert ekf.covariance == pytest.approx(f @ (p + q / 2) @ f.T + q / 2, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize(("pairs", "extra", "coupling"), KINDS)
def test_judging_and_fusing_are_the_textbook_update(pairs, extra, coupling, m):
    rng = np.random.default_rng(m)
    ekf = ErrorEKF(pairs, extra, coupling)
    p, x = random_covariance(rng, ekf.size), np.zeros(ekf.size)
    ekf.covariance = p
    for _ in range(2):  # the second time with a correction that is already gathered
        rows, noise, innovation = rng.normal(size=(m, ekf.size)), rng.uniform(0.1, 2, m), rng.normal(size=m)
        ekf.rows[:m], ekf.noise[:m], ekf.innovation[:m] = rows, noise, innovation
        s = rows @ p @ rows.T + np.diag(noise)
        left = innovation - rows @ x
        nis = ekf.judge(m)
        assert nis == pytest.approx(left @ np.linalg.solve(s, left), rel=1e-9)
        assert ekf.variance[:m] == pytest.approx(np.diag(s), rel=1e-12)
        assert ekf.covariance == pytest.approx(p, rel=1e-15)  # judging alone changes nothing
        ekf.fuse(m)
        gain = np.linalg.solve(s, rows @ p).T
        x, p = x + gain @ left, p - gain @ s @ gain.T
        assert ekf.x == pytest.approx(x, rel=1e-8, abs=1e-10)
        assert ekf.covariance == pytest.approx(p, rel=1e-8, abs=1e-9)


def test_variances_are_the_diagonal_and_forgetting_one_state_leaves_the_others():
    rng = np.random.default_rng(0)
    ekf = ErrorEKF(2, 3, KINDS[1][2])
    p = random_covariance(rng, ekf.size)
    ekf.covariance = p
    assert np.array_equal(ekf.variances, np.diag(p))
    ekf.set_variance(3, 7.0)
    expected = p.copy()
    expected[3, :] = expected[:, 3] = 0.0
    expected[3, 3] = 7.0
    assert ekf.covariance == pytest.approx(expected, rel=1e-15)
    assert (np.linalg.eigvalsh(ekf.covariance) > 0).all()


def test_covariance_stays_symmetric_and_positive_definite_over_many_updates():
    rng = np.random.default_rng(5)
    ekf = ErrorEKF(2, 3, KINDS[1][2])
    ekf.covariance = np.eye(ekf.size) * 100.0
    ekf.position_noise[:], ekf.rate_noise[:] = 1e-8, 1e-3
    ekf.decay[:], ekf.extra_noise[:] = (1.0, 0.999, 0.9), (1e-9, 1e-6, 1e-2)
    for k in range(10_000):
        m = 1 + k % 3
        ekf.coupling[:] = rng.normal(size=3) * 0.01
        ekf.predict(rng.uniform(1e-3, 1e-2))
        ekf.rows[:m] = rng.normal(size=(m, ekf.size)) * 10.0 ** rng.uniform(-2, 1, size=ekf.size)
        ekf.noise[:m] = 10.0 ** rng.uniform(-5, 3, m)
        ekf.innovation[:m] = 0.0
        ekf.judge(m)
        ekf.fuse(m)
        if k % 50 == 0:
            p = ekf.covariance
            assert np.array_equal(p, p.T)
            scale = np.sqrt(np.diag(p))
            assert np.linalg.eigvalsh(p / np.outer(scale, scale)).min() > 1e-12


def test_noise_of_a_step_is_van_loans_but_for_a_third_order_term():
    """White acceleration of density q: exactly [[q h³/3, q h²/2], [q h²/2, q h]] (Van Loan)."""
    q, error = 3.0, {}
    for h in (0.04, 0.02, 0.01):
        ekf = ErrorEKF(1, 0)
        ekf.covariance = np.zeros((2, 2))
        ekf.rate_noise[:] = q
        ekf.predict(h)
        difference = ekf.covariance - q * np.array([[h**3 / 3, h**2 / 2], [h**2 / 2, h]])
        assert np.abs(difference[:, 1]).max() < 1e-15
        error[h] = difference[0, 0]
    assert error[0.04] / error[0.02] == pytest.approx(8.0, rel=1e-6)
    assert error[0.02] / error[0.01] == pytest.approx(8.0, rel=1e-6)
    # Over one second of such steps that is no more than some millionths of the variance.
    ekf = ErrorEKF(1, 0)
    ekf.covariance = np.zeros((2, 2))
    ekf.rate_noise[:] = q
    for _ in range(250):
        ekf.predict(0.004)
    assert ekf.covariance[0, 0] == pytest.approx(q / 3, rel=2e-5)


class Trolley:
    """A body that runs straight on, with the errorEKF, beside a true one."""

    H_NS = 4_000_000

    def __init__(self, density: float):
        self.ekf = ErrorEKF(1, 0)
        self.ekf.covariance = np.diag([4.0, 1.0])
        self.ekf.rate_noise[:] = density
        self.history = History(0.8, 2, 1)
        self.pose = np.array([0.0, 2.0])
        self.t = 0
        self.history.step(0, self.pose)

    def step(self) -> None:
        h = self.H_NS * 1e-9
        self.pose = self.pose + np.array([h * self.pose[1], 0.0])
        self.ekf.predict(h)
        self.ekf.x[:] = 0.0
        self.t += self.H_NS
        self.history.step(self.t, self.pose)

    def fix(self, t: int, value: float) -> None:
        past = self.history.at(t)
        assert past is not None
        pose, dz, _ = past
        self.ekf.rows[0] = 1.0, (t - self.t) * 1e-9
        self.ekf.innovation[0] = value - (pose[0] + dz[0])
        self.ekf.noise[0] = 0.01
        self.ekf.judge(1)
        self.ekf.fuse(1)
        x = self.ekf.x.copy()
        self.ekf.x[:] = 0.0
        self.pose = self.pose + x
        self.history.correct(x[:1], x[1:], x[1:], self.pose)

    def drive(self, fixes: list[tuple[int, int, float]]) -> "Trolley":
        """`fixes`: step at which one arrives, time (ns) of which it tells, value."""
        for k in range(1, 101):
            self.step()
            for arrival, t, value in fixes:
                if arrival == k:
                    self.fix(t, value)
        return self


def fixes(delay: int) -> list[tuple[int, int, float]]:
    """At four times, one between two steps; the second is late by a number of steps, past the others."""
    h = Trolley.H_NS
    return [(20, 20 * h, 0.3), (30 + delay, 29 * h + h // 4, 0.1), (40, 40 * h, 0.6), (50, 50 * h, 0.2)]


@pytest.mark.parametrize("delay", [1, 5, 15, 40])
def test_a_late_fix_without_noise_in_between_is_as_good_as_a_timely_one(delay):
    timely, late = Trolley(0.0).drive(fixes(0)), Trolley(0.0).drive(fixes(delay))
    assert late.pose == pytest.approx(timely.pose, abs=1e-12)
    assert late.ekf.covariance == pytest.approx(timely.ekf.covariance, rel=1e-9, abs=1e-14)


def test_a_late_fix_with_noise_in_between_is_nearly_as_good():
    timely, late = Trolley(0.02).drive(fixes(0)), Trolley(0.02).drive(fixes(20))
    sigma = np.sqrt(timely.ekf.variances)
    assert np.abs(late.pose - timely.pose).max() < 0.2 * sigma.min()
    assert np.sqrt(late.ekf.variances) == pytest.approx(sigma, rel=0.05)
    without = Trolley(0.02).drive(fixes(0)[:1] + fixes(0)[2:])
    assert late.ekf.variances[0] < without.ekf.variances[0]
