"""Constraints on velocities only, or on accelerations only, in addition to those of a mechanism.

A rolling wheel or a skate permits every position, but not every velocity; a prescribed acceleration also
permits every velocity. Neither belongs to Φ(q, t): both are rows on q̇ and q̈ in addition to Φ_q in the
equations of motion, M q̈ + Φ_qᵀ λ + Aᵀ μ = Q (Sherman, Seth and Delp, "Simbody: multibody dynamics for
biomedical research", 2011, section 2). The mechanism's steps do not include them: call `calc_accelerations`
at each evaluation of an integrator.
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
"""s, over which the change of rows is found by central differences: exact for rows of second degree in q. For
other rows, the displacement is limited to this share of a radian, or of the mechanism's size."""


@dataclass(frozen=True)
class ConstrainedMotion:
    """Accelerations under all constraints, and the forces of these."""

    qdd: np.ndarray
    """(n,)"""
    multipliers: np.ndarray
    """(m,) λ of the mechanism's own constraints."""
    forces: np.ndarray
    """(k,) −μ: force of each row along it, N or N·m; the generalised force is Aᵀ times these."""


class MotionConstraints:
    """Constraints in addition to a mechanism's own, in the order in which they were added."""

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self._velocities: list[tuple[Rows, np.ndarray, np.ndarray]] = []
        self._accelerations: list[tuple[Rows, np.ndarray]] = []

    def add_velocity(
        self, rows: Rows, value: np.ndarray | float = 0.0, rate: np.ndarray | float = 0.0
    ) -> None:
        """Add A(q) q̇ = value, which changes by `rate` per second; (k,) or one number for all rows."""
        self._velocities.append((rows, np.asarray(value, float), np.asarray(rate, float)))

    def add_acceleration(self, rows: Rows, value: np.ndarray | float = 0.0) -> None:
        """Add A(q) q̈ = value; (k,) or one number for all rows."""
        self._accelerations.append((rows, np.asarray(value, float)))

    def calc_violation(self) -> np.ndarray:
        """(k,) A q̇ − value of the constraints on velocities."""
        qd = self._mechanism.qd
        return _join([rows(self._mechanism) @ qd - value for rows, value, _ in self._velocities])

    def project_velocities(self, weights: np.ndarray | None = None) -> None:
        """Move q̇ to the nearest that meets these and the mechanism's own; see `projections.project_velocities`."""
        m = self._mechanism
        root = problems.inverse_root(weights, len(m.q))
        jacobian = m.calc_jacobian().copy()
        violation = np.concatenate([jacobian @ m.qd + m.calc_drift(), self.calc_violation()])
        every = np.vstack([jacobian, *(rows(m) for rows, _, _ in self._velocities)])
        units = self._list_units(every)
        m.qd -= root @ problems.least_squares(every @ root / units[:, None], violation / units)

    def calc_accelerations(self) -> ConstrainedMotion:
        """q̈ that meets all constraints; the mechanism is not changed. Its q̇ has to meet those on velocities."""
        m = self._mechanism
        # Rows are also evaluated in other states, which overwrites the mechanism's results.
        jacobian, gamma = m.calc_jacobian().copy(), m.calc_gamma().copy()
        rows = [rows(m) for rows, _, _ in self._velocities] + [rows(m) for rows, _ in self._accelerations]
        right = [rate - self._calc_rate(a) @ m.qd for a, _, rate in self._velocities]
        right += [np.broadcast_to(value, len(a(m))) for a, value in self._accelerations]
        own, every = len(gamma), np.vstack([jacobian, *rows])
        qdd, found = problems.calc_dynamics(m, every, _join([gamma, *right]), self._list_units(every))
        return ConstrainedMotion(qdd, found[:own], -found[own:])

    def _list_units(self, every: np.ndarray) -> np.ndarray:
        """(m + k,) units of the mechanism's own rows and of these.

        A caller's rows have no units: the unit of each is its largest change with a coordinate.
        """
        m = self._mechanism
        own = m.constraint_units
        slopes = np.abs(every[len(own) :] * m.units).max(axis=1, initial=0.0)
        return np.concatenate([own, np.where(slopes > 0.0, slopes, 1.0)])

    def _calc_rate(self, rows: Rows) -> np.ndarray:
        """(k, n) dA/dt at the present q̇."""
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
