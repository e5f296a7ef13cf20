"""Constraints of velocities alone, and of accelerations alone, beside those of a mechanism, at its present state.

A wheel that rolls or a skate permits every position, but not every velocity; a prescribed acceleration permits every
velocity too. Neither belongs to Φ(q, t): both are rows on q̇ and q̈ that the equations of motion take beside Φ_q,
M q̈ + Φ_qᵀ λ + Aᵀ μ = Q (Sherman, Seth and Delp, "Simbody: multibody dynamics for biomedical research", 2011, section
2). The mechanism's steps know nothing of them: who integrates calls `calc_accelerations` at each evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism

Rows = Callable[[Mechanism], np.ndarray]
"""(k, n) A at the mechanism's present q and t, such as `calc_point_map` of a point."""

_INTERVAL = 1e-4
"""s, over which the change of rows is found by central differences: exact for those of second degree in q. For others
it is so much of a turn, or of the mechanism's size, where that is less."""


@dataclass(frozen=True)
class ConstrainedMotion:
    """Accelerations under all constraints, and what these exert."""

    qdd: np.ndarray
    """(n,)"""
    multipliers: np.ndarray
    """(m,) λ of the mechanism's own."""
    forces: np.ndarray
    """(k,) −μ: the force of each row along it, N or N·m; the generalised force is Aᵀ of it."""


class MotionConstraints:
    """Those beside a mechanism's own, in the order in which they are added."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._velocities: list[tuple[Rows, np.ndarray, np.ndarray]] = []
        self._accelerations: list[tuple[Rows, np.ndarray]] = []

    def add_velocity(
        self, rows: Rows, value: np.ndarray | float = 0.0, rate: np.ndarray | float = 0.0
    ) -> None:
        """A(q) q̇ = value, which changes by `rate` per second; (k,) or one number for all rows."""
        self._velocities.append((rows, np.asarray(value, float), np.asarray(rate, float)))

    def add_acceleration(self, rows: Rows, value: np.ndarray | float = 0.0) -> None:
        """A(q) q̈ = value; (k,) or one number for all rows."""
        self._accelerations.append((rows, np.asarray(value, float)))

    def calc_violation(self) -> np.ndarray:
        """(k,) A q̇ − value of those of velocities."""
        qd = self._mechanism.qd
        return _join([rows(self._mechanism) @ qd - value for rows, value, _ in self._velocities])

    def project_velocities(self, weights: np.ndarray | None = None) -> None:
        """Move q̇ to the nearest that meets them and the mechanism's own; as `projections.project_velocities`."""
        m = self._mechanism
        root = problems.inverse_root(weights, len(m.q))
        jacobian = m.calc_jacobian().copy()
        violation = np.concatenate([jacobian @ m.qd + m.calc_drift(), self.calc_violation()])
        every = np.vstack([jacobian, *(rows(m) for rows, _, _ in self._velocities)])
        units = self._list_units(every)
        m.qd -= root @ problems.least_squares(every @ root / units[:, None], violation / units)

    def calc_accelerations(self) -> ConstrainedMotion:
        """q̈ that meets all of them, the mechanism left as it is. Its q̇ is to meet those of velocities."""
        m = self._mechanism
        # Rows are evaluated elsewhere too, which overwrites what the mechanism returns.
        jacobian, gamma = m.calc_jacobian().copy(), m.calc_gamma().copy()
        rows = [rows(m) for rows, _, _ in self._velocities] + [rows(m) for rows, _ in self._accelerations]
        right = [rate - self._calc_rate(a) @ m.qd for a, _, rate in self._velocities]
        right += [np.broadcast_to(value, len(a(m))) for a, value in self._accelerations]
        own, every = len(gamma), np.vstack([jacobian, *rows])
        qdd, found = problems.calc_dynamics(m, every, _join([gamma, *right]), self._list_units(every))
        return ConstrainedMotion(qdd, found[:own], -found[own:])

    def _list_units(self, every: np.ndarray) -> np.ndarray:
        """(m + k,) what the mechanism's own rows and these count in.

        Those of a caller have no unit of their own: each counts in its largest change with a coordinate.
        """
        m = self._mechanism
        own = m.constraint_units
        slopes = np.abs(every[len(own) :] * m.units).max(axis=1, initial=0.0)
        return np.concatenate([own, np.where(slopes > 0.0, slopes, 1.0)])

    def _calc_rate(self, rows: Rows) -> np.ndarray:
        """(k, n) dA/dt with the present q̇."""
        m, (q, t) = self._mechanism, (self._mechanism.q.copy(), self._mechanism.t)
        ends = []
        interval = _INTERVAL / max(1.0, float(np.abs(m.qd / m.units).max()))
        for by in (interval, -interval):
            m.q[:], m.t = q + by * m.qd, t + by
            ends.append(rows(m).copy())
        m.q[:], m.t = q, t
        rate: np.ndarray = (ends[0] - ends[1]) / (2.0 * interval)
        return rate


def _join(parts: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0)
