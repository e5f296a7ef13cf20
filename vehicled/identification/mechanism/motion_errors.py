"""Joint estimate of unknowns and motion of a run: the equations correct the splines of the smoothed samples.

Accelerations of smoothed samples are noisy, and are part of the regressor W. Least squares with an
uncorrected W take that noise for motion: masses of a double pendulum were estimated up to 21 % too small, far
beyond their standard deviations, mostly because of the equation of a coordinate that nothing drives, which
demands W θ = 0. The most probable solution minimises ‖(τ − W(c) θ)/σ‖² + ‖(z − B c)/σ_z‖² over θ and the
coefficients c of the splines (functional errors in variables; Fuller, *Measurement Error Models*, 1987,
section 3.1). In each Gauss–Newton step the coefficients are eliminated, as there are many of them and their
equations are banded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from vehicled.identification.mechanism.smoothing import SplineErrors
from vehicled.maths.white_noise import calc_variances

_COLUMNS = 500
"""Number of columns of an inverse that are calculated at a time."""


@dataclass(frozen=True)
class RunEquations:
    """W (N, f, n) of the unknowns, τ (N, f) on the independent coordinates, and uncertainty of the motion."""

    w: np.ndarray
    forces: np.ndarray
    slopes: np.ndarray
    """(N, f, n, 3 f) derivatives of W by z, ż and z̈ of all coordinates."""
    errors: SplineErrors


class MotionFit:
    """A run, with the correction of its motion by the equations so far."""

    def __init__(self, run: RunEquations) -> None:
        self._run, self._errors = run, run.errors
        self._change = np.zeros(run.errors.on_samples.shape[1])
        """(C,) change of the coefficients."""
        self._of_samples = (run.errors.on_samples.T @ run.errors.on_samples).tocsc()

    def linearise(self, theta: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Information (n, n) on the unknowns at θ (n,) and gradient (n,), with the noise (f,) of the forces."""
        run = self._run
        self._theta, self._noise = theta, noise
        motion = np.stack([basis @ self._change for basis in self._errors.on_motion], axis=1)
        w = run.w + np.einsum("kfnx,kx->kfn", run.slopes, motion)
        weight = 1.0 / np.tile(noise, len(w))
        self._w = w.reshape(-1, w.shape[-1]) * weight[:, None]
        self._left = (run.forces - w @ theta).ravel() * weight
        self._by_motion = sp.diags_array(weight) @ self._calc_jacobian(
            np.einsum("kfnx,n->kfx", run.slopes, theta)
        )
        of_forces = (self._by_motion.T @ self._by_motion).tocsc()
        self._factor = splu(self._of_samples + of_forces)
        self._coupling = self._by_motion.T @ self._w
        self._pull = self._by_motion.T @ self._left + self._errors.on_samples.T @ self._misfit()
        self._response = self._factor.solve(self._coupling)
        information = self._w.T @ self._w - self._coupling.T @ self._response
        return information, self._w.T @ self._left - self._response.T @ self._pull

    def advance(self, theta: np.ndarray) -> np.ndarray:
        """Correct the motion for other unknowns (n,).

        Returns (f,) expected sums of squares of the noise of the forces: of the residuals, and of the noise
        that the motion may have absorbed (a step of expectation maximisation).
        """
        change = theta - self._theta
        step = self._factor.solve(self._pull - self._coupling @ change)
        left = self._left - self._w @ change - self._by_motion @ step
        self._change += step
        f = len(self._noise)
        used = np.array([self._calc_used(self._by_motion[k::f]) for k in range(f)])
        squares: np.ndarray = self._noise**2 * (np.sum(left.reshape(-1, f) ** 2, axis=0) + used)
        return squares

    def calc_lasting(self) -> np.ndarray:
        """(f,) root mean square of the residual forces after the last `linearise`, without their noise.

        Noise is independent from sample to sample: second differences show it.
        """
        left = self._left.reshape(-1, len(self._noise)) * self._noise
        noise = np.mean(calc_variances(left), axis=0)
        lasting: np.ndarray = np.sqrt(np.maximum(np.mean(left**2, axis=0) - noise, 0.0))
        return lasting

    def calc_pulls(self) -> np.ndarray:
        """(samples of the log, n) gradients by the unknowns, after `linearise`; their sum is its gradient.

        Unlike the residuals, they are independent from sample to sample if the noise is.
        """
        errors, f = self._errors, len(self._noise)
        own = (self._w - self._by_motion @ self._response) * self._left[:, None]
        n = own.shape[-1]
        pulls = -(errors.on_samples @ self._response) * self._misfit()[:, None]
        total: np.ndarray = pulls.reshape(f, -1, n).sum(axis=0)
        total[errors.places] += own.reshape(-1, f, n).sum(axis=1)
        return total

    def _misfit(self) -> np.ndarray:
        """Residuals of the samples, in units of their noise."""
        misfit: np.ndarray = self._errors.misfit - self._errors.on_samples @ self._change
        return misfit

    def _calc_jacobian(self, slopes: np.ndarray) -> sp.csr_array:
        """(N f, C) derivatives of W θ by the coefficients; `slopes` (N, f, 3 f): derivatives of it by the motion."""
        rows, f = slopes.shape[:2]
        parts = [
            sum(sp.diags_array(slopes[:, k, x]) @ basis for x, basis in enumerate(self._errors.on_motion))
            for k in range(f)
        ]
        order = np.arange(rows * f).reshape(f, rows).T.ravel()
        return sp.csr_array(sp.csr_array(sp.vstack(parts))[order])

    def _calc_used(self, jacobian: sp.csr_array) -> float:
        """Number of samples of a force whose noise the motion has absorbed."""
        squares = (jacobian.T @ jacobian).tocsc()
        count, total = squares.shape[0], 0.0
        for first in range(0, count, _COLUMNS):
            part = slice(first, first + _COLUMNS)
            total += float(np.trace(self._factor.solve(squares[:, part].toarray())[part]))
        return total
