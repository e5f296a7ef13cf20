"""The backward pass of the smoother, compared with a batch solution of the whole problem."""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from vehicled.errors import RunError
from vehicled.filter.backward_pass import BackwardPass
from vehicled.smoothing.smoother import run_backwards
from vehicled.smoothing.tape_file import TapeFile

N, STEPS = 5, 60


@dataclass
class Problem:
    """The errors of a drive as one estimation problem: their joint prior, and rows of observations."""

    mean: np.ndarray
    covariance: np.ndarray
    rows: list[np.ndarray] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    variances: list[float] = field(default_factory=list)

    def solve(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of everything, given all observations."""
        h, r = np.array(self.rows), np.diag(self.variances)
        gain = np.linalg.solve(h @ self.covariance @ h.T + r, h @ self.covariance).T
        return gain @ np.array(self.values), self.covariance - gain @ h @ self.covariance


class LinearRun:
    """A Kalman filter on a random linear system, recorded on a tape, and the same system as a batch problem."""

    def __init__(self, path: Path, seed: int, forget_at: int | None = None, restart_at: int | None = None):
        self.random = np.random.default_rng(seed)
        self.tape = TapeFile(path, N, block=500)
        # One state is known exactly, another never changes: P and Q are singular.
        self.p = np.diag([4.0, 1.0, 0.5, 0.0, 2.0])
        self.x = np.zeros(N)
        self.filtered: list[tuple[np.ndarray, np.ndarray]] = []
        self.problem = Problem(np.zeros(N * STEPS), np.zeros((N * STEPS, N * STEPS)))
        self.q = np.diag([0.1, 0.02, 0.0, 0.0, 0.3])
        for k in range(STEPS):
            if k:
                self._propagate(k, k == forget_at, k == restart_at)
            else:
                self.problem.covariance[:N, :N] = self.p
            for m in self.random.integers(0, 4, 2):
                if m:
                    self._observe(k, int(m))
            self.filtered.append((self.x.copy(), self.p.copy()))
            self.tape.add_row(self.p.ravel())

    def _propagate(self, k: int, forget: bool, restart: bool) -> None:
        f = np.eye(N) + 0.2 * self.random.normal(size=(N, N)) * (self.random.random((N, N)) < 0.4)
        f[3:] = np.eye(N)[3:]
        self.tape.propagate(f)
        q = self.q.copy()
        if forget:
            self.tape.forget(1)
            f[1], q[1, 1] = 0.0, 3.0
        if restart:
            self.tape.restart()
            f[:], q = 0.0, np.diag([1.0, 2.0, 3.0, 1.0, 1.0])
        self.x, self.p = f @ self.x, f @ self.p @ f.T + q
        joint, here, last = self.problem.covariance, slice(N * k, N * k + N), slice(N * k - N, N * k)
        joint[here] = f @ joint[last]
        joint[:, here] = joint[here].T
        joint[here, here] = f @ joint[last, last] @ f.T + q

    def _observe(self, k: int, m: int) -> None:
        h, r = self.random.normal(size=(m, N)), self.random.uniform(0.05, 2.0, m)
        value = self.random.normal(size=m)
        s = h @ self.p @ h.T + np.diag(r)
        root = np.linalg.cholesky(s)
        lower = root / root.diagonal()
        precision = 1.0 / root.diagonal() ** 2
        innovation = value - h @ self.x
        inverse = np.linalg.inv(lower)
        self.tape.update(inverse @ innovation, precision, h, inverse @ h @ self.p)
        gain = self.p @ h.T @ np.linalg.inv(s)
        self.x, self.p = self.x + gain @ innovation, self.p - gain @ h @ self.p
        for row, v, variance in zip(h, value, r, strict=True):
            whole = np.zeros(N * STEPS)
            whole[N * k : N * k + N] = row
            self.problem.rows.append(whole)
            self.problem.values.append(v)
            self.problem.variances.append(variance)

    def smooth(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Smoothed states and their covariances by step."""
        found: list[tuple[np.ndarray, np.ndarray]] = []
        for backward, values in run_backwards(self.tape, N):
            error, covariance = backward.smooth(values.reshape(N, N))
            found.append((self.filtered[STEPS - 1 - len(found)][0] + error, covariance))
        self.tape.close()
        return found[::-1]


@pytest.mark.parametrize("broken", [{}, {"forget_at": 25}, {"restart_at": 31}])
@pytest.mark.parametrize("seed", [1, 2])
def test_smoothed_states_equal_the_batch_solution(tmp_path, seed, broken):
    run = LinearRun(tmp_path / "tape", seed, **broken)
    mean, covariance = run.problem.solve()
    scale = max(1.0, np.abs(mean).max())
    for k, (state, p) in enumerate(run.smooth()):
        here = slice(N * k, N * k + N)
        np.testing.assert_allclose(state, mean[here], rtol=0, atol=1e-9 * scale)
        np.testing.assert_allclose(p, covariance[here, here], rtol=0, atol=1e-9)


def test_smoothing_never_adds_variance_and_ends_at_the_filtered_state(tmp_path):
    run = LinearRun(tmp_path / "tape", 3)
    smoothed = run.smooth()
    for (_, filtered), (_, p) in zip(run.filtered, smoothed, strict=True):
        assert np.linalg.eigvalsh(filtered - p).min() > -1e-9
        assert np.linalg.eigvalsh(p).min() > -1e-9
    np.testing.assert_array_equal(smoothed[-1][0], run.filtered[-1][0])


def test_a_prior_can_be_replaced_by_a_wider_one_after_an_observation():
    """A prior of σ² = 0.1 is replaced by 9 after one observation. The result is that of 9 from the beginning."""
    first, second, noise, later = 0.7, 1.4, 0.5, 0.2
    p = 0.1 - 0.1**2 / (0.1 + noise)
    x = 0.1 / (0.1 + noise) * first
    less = 1.0 / 0.1 - 1.0 / 9.0
    gain = less / (1.0 - less * p)
    wide, x_wide = p + gain * p**2, x + gain * x * p
    backward = BackwardPass(1)
    s = wide + later
    backward.update(np.array([second - x_wide]), np.array([1.0 / s]), np.ones((1, 1)), np.array([[wide]]))
    backward.update(np.array([-x]), np.array([-gain]), np.ones((1, 1)), np.array([[p]]))
    error, variance = backward.smooth(np.array([[p]]))
    information = 1.0 / 9.0 + 1.0 / noise + 1.0 / later
    assert x + error[0] == pytest.approx((first / noise + second / later) / information, abs=1e-12)
    assert variance[0, 0] == pytest.approx(1.0 / information, abs=1e-12)


def test_an_update_that_is_not_finite_leaves_earlier_estimates_unsmoothed():
    backward = BackwardPass(2)
    row = np.array([[1.0, 0.0]])
    backward.update(np.array([np.nan]), np.array([1.0]), row, row)
    backward.propagate(np.eye(2))
    error, p = backward.smooth(np.eye(2))
    np.testing.assert_array_equal(error, 0.0)
    np.testing.assert_array_equal(p, np.eye(2))


def test_a_full_disk_raises_an_error_that_says_so():
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    tape = TapeFile(full, N, block=10)
    with pytest.raises(RunError, match="No space left"):
        tape.add_row(np.zeros(10000))
    with contextlib.suppress(OSError):
        tape.close()
