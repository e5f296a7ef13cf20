"""UKF: an unscented Kalman filter on z and ż; sigma points are whole mechanisms, stepped side by side.

The unscented transform of the car's filter on a multibody model (Sanjurjo et al.), with the trapezoidal rule (TR) or
forward Euler (FE). No Jacobian is needed.
"""

from __future__ import annotations

import numpy as np

from vehicled.errors import UsageError
from vehicled.filter.error_state import StateUpdate
from vehicled.filter.unscented_transform import PointMoments, UnscentedTransform, calc_slope
from vehicled.multibody.batch import MechanismBatch
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import SensorSet
from vehicled.studies.observers.interface import MechanismObserver
from vehicled.studies.observers.noise import PlantNoise, calc_free_slope

_TOLERANCE = 1e-10
"""Tolerance on the change of z and h·ż between iterations of the trapezoidal rule."""
_LIMIT = 60


class UnscentedKF(MechanismObserver):
    """States z, ż. Sigma points are propagated by one step; readings are predicted from the points at its end."""

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
        self._transform = UnscentedTransform(size, alpha, beta, kappa)
        self.points = MechanismBatch(mechanism, 2 * size + 1)

    def step(self, readings: np.ndarray | None) -> StateUpdate | None:
        """Advance all points by h, and update with readings (k,) if there are any. Raises as `Observer.step`."""
        readings = self.check_readings(self.sensors, readings)
        m, f, transform = self.mechanism, len(self.independent), self._transform
        root = np.linalg.cholesky(self.repair(self.covariance))
        ends = self._propagate(self._draw(np.concatenate([self.z, self.zd]), root))
        moments = self._calc_moments(ends)
        mean = ends[0] + moments.shift
        m.t += self.h
        noise = self.plant_noise.calc_step(self._slope, self.h)
        p = self.repair(transform.calc_covariance(moments, moments) + noise)
        self.plant_noise.predict(calc_slope(moments, root))
        update = None
        if readings is not None:
            if self._redraw:
                ends = self._draw(mean, np.linalg.cholesky(p))
                moments = self._calc_moments(ends)
                self._place(ends[:, :f], ends[:, f:])
            readings_there = self.sensors.calc_readings(self.points)[:, : len(ends)].T
            read = self._calc_moments(readings_there)
            cross = transform.calc_covariance(read, moments)
            value = readings - readings_there[0] - read.shift
            s = transform.calc_covariance(read, read) + self.noise
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

    def _draw(self, mean: np.ndarray, root: np.ndarray) -> np.ndarray:
        """(points, 2f) sigma points, the mean first, for the covariance with the lower root (2f, 2f)."""
        away = self._transform.calc_displacements(root).T
        points: np.ndarray = mean + np.vstack([np.zeros((1, len(root))), away])
        return points

    def _calc_moments(self, there: np.ndarray) -> PointMoments:
        """Moments of values (points, m) at the points, the central one first."""
        away = (there[1:] - there[0]).T
        half = away.shape[1] // 2
        return self._transform.calc_moments(away[:, :half], away[:, half:])

    def _propagate(self, points: np.ndarray) -> np.ndarray:
        """(points, 2f) after one step; the instances are left at its end."""
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
