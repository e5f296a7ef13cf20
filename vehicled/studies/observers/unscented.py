"""UKF: an unscented Kalman filter on z and ż; sigma points are whole mechanisms, stepped side by side.

Scaled unscented transform (Julier and Uhlmann; Wan and van der Merwe) on a multibody model (Sanjurjo et al.), with
the trapezoidal rule (TR) or forward Euler (FE). No Jacobian is needed.
"""

from __future__ import annotations

import numpy as np

from vehicled.errors import UsageError
from vehicled.filter.error_state import StateUpdate
from vehicled.multibody.batch import MechanismBatch
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.interface import MechanismObserver
from vehicled.studies.observers.noise import PlantNoise, calc_free_slope

_TOLERANCE = 1e-10
"""On the change of z and h·ż between iterations of the trapezoidal rule."""
_LIMIT = 60


class UnscentedKF(MechanismObserver):
    """States z, ż. Points are stepped once; readings are predicted from the points at the end of the step."""

    def __init__(
        self,
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        covariance: np.ndarray,
        plant_noise: np.ndarray | PlantNoise,
        integrator: str = "trapezoidal",
        *,
        alpha: float = 1e-3,
        beta: float = 2.0,
        kappa: float = 0.0,
        redraw: bool = True,
    ) -> None:
        """`covariance`, `plant_noise` (an array: of one step): (2f, 2f); `alpha`, `beta`, `kappa`: of the transform.

        `redraw`: readings are predicted from points drawn with the plant noise of the step; otherwise from the
        points at the end of the step, which is cheaper, but gives too small a covariance for good sensors. Raises
        UsageError for an integrator other than trapezoidal and forward_euler.
        """
        super().__init__(mechanism, sensors, h, covariance, plant_noise)
        if integrator not in ("trapezoidal", "forward_euler"):
            raise UsageError(f"integrator: expected trapezoidal or forward_euler, got '{integrator}'")
        self._slope = calc_free_slope(len(self.independent))
        self._redraw = redraw
        self._implicit = integrator == "trapezoidal"
        size = 2 * len(self.independent)
        self._scale = alpha * alpha * (size + kappa)
        self._weight = 0.5 / self._scale
        """Of every point but the first, whose own follow from it."""
        self._first = 1.0 - size / self._scale + 1.0 - alpha * alpha + beta
        """Of the first point in covariances."""
        self.points = MechanismBatch(mechanism, 2 * size + 1)

    def step(self, readings: np.ndarray | None) -> StateUpdate | None:
        """Advance all points by h, and update with readings (k,) if there are any. Raises RunError."""
        m, f = self.mechanism, len(self.independent)
        start, before = np.concatenate([self.z, self.zd]), self.repair(self.covariance)
        points = self._draw(start, before)
        ends = self._propagate(points)
        mean, away = self._center(ends)
        m.t += self.h
        weighed = self._weigh(away)
        p = self.repair(away.T @ weighed + self.plant_noise.calc_step(self._slope, self.h))
        # By statistical linearisation, as H below.
        self.plant_noise.predict(np.linalg.solve(before, (points - start).T @ weighed).T)
        update = None
        if readings is not None:
            if self._redraw:
                ends = self._draw(mean, p)
                away = ends - mean
                self._place(ends[:, :f], ends[:, f:])
            predicted, off = self._center(self.sensors.calc_readings(self.points)[:, : len(ends)].T)
            weighed = self._weigh(off)
            cross = weighed.T @ away
            value, s = readings - predicted, off.T @ weighed + self.noise
            solved = np.linalg.solve(s, np.column_stack([cross, value]))
            nis, gain = float(value @ solved[:, -1]), solved[:, :-1].T
            update = StateUpdate(value, s, nis, gain, np.linalg.solve(p, cross.T).T)
            self.plant_noise.update(update)
            mean = mean + gain @ value
            p = self.repair(p - gain @ s @ gain.T)
        self.covariance = p
        if not (np.all(np.isfinite(mean)) and m.set_independent_state(mean[:f], mean[f:]).converged):
            raise self.fail(f"no position for z = {mean[:f]}")
        return update

    def _draw(self, mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """(points, 2f) sigma points."""
        away = np.sqrt(self._scale) * np.linalg.cholesky(covariance).T
        points: np.ndarray = mean + np.vstack([np.zeros((1, len(away))), away, -away])
        return points

    def _propagate(self, points: np.ndarray) -> np.ndarray:
        """(points, 2f) over one step; the instances are left at its end."""
        h, f = self.h, len(self.independent)
        z, zd = points[:, :f], points[:, f:]
        self.points.copy_state_from_mechanism()
        self._place(z, zd)
        zdd = self.points.zdd
        self.points.advance_time(h)
        if not self._implicit:
            ends = np.hstack([z + h * zd, zd + h * zdd])
            self._place(ends[:, :f], ends[:, f:])
            return ends
        zdd_end, ends = zdd, points
        for _ in range(_LIMIT):
            before = ends
            zd_end = zd + 0.5 * h * (zdd + zdd_end)
            ends = np.hstack([z + 0.5 * h * (zd + zd_end), zd_end])
            self._place(ends[:, :f], ends[:, f:])
            zdd_end = self.points.zdd
            change = np.abs(ends - before)
            if max(change[:, :f].max(), h * change[:, f:].max()) < _TOLERANCE:
                return ends
        raise self.fail("the trapezoidal rule did not converge on the sigma points")

    def _place(self, z: np.ndarray, zd: np.ndarray) -> None:
        if not self.points.set_independent_state(z, zd):
            raise self.fail("no position for a sigma point")

    def _center(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean, and each point less the mean."""
        # Weights of either sign are large: distances from the first point lose no digits.
        mean = points[0] + self._weight * (points[1:] - points[0]).sum(axis=0)
        return mean, points - mean

    def _weigh(self, away: np.ndarray) -> np.ndarray:
        weighed = self._weight * away
        weighed[0] = self._first * away[0]
        return weighed
