"""Motions of a mechanism, and their equations: W Φ = τ, one block of rows per sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.errors import RunError, UsageError
from vehicled.identification.elimination import calc_motion_basis
from vehicled.identification.regressors import Regressor
from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism


@dataclass(frozen=True)
class Motion:
    """N samples of a mechanism's coordinates."""

    t: np.ndarray
    """(N,) s"""
    q: np.ndarray
    """(N, n)"""
    qd: np.ndarray
    qdd: np.ndarray

    def put(self, mechanism: Mechanism, k: int) -> None:
        """Bring the mechanism to sample k."""
        mechanism.t = float(self.t[k])
        mechanism.q[:], mechanism.qd[:], mechanism.qdd[:] = self.q[k], self.qd[k], self.qdd[k]


def solve_motion(
    mechanism: Mechanism, t: np.ndarray, z: np.ndarray, zd: np.ndarray, zdd: np.ndarray
) -> Motion:
    """The motion with independent coordinates z (N, f), ż, z̈ at times t (N,), from near the present position.

    Raises RunError if the mechanism has no such position.
    """
    rows: list[tuple[np.ndarray, ...]] = []
    for time, *wanted in zip(t, z, zd, zdd, strict=True):
        _solve_sample(mechanism, float(time), *wanted)
        rows.append((mechanism.q.copy(), mechanism.qd.copy(), mechanism.qdd.copy()))
    return Motion(np.asarray(t, dtype=float), *(np.array(part) for part in zip(*rows, strict=True)))


def _solve_sample(mechanism: Mechanism, t: float, z: np.ndarray, zd: np.ndarray, zdd: np.ndarray) -> None:
    mechanism.t = t
    if not _follow(mechanism, z) and not problems.solve_position(mechanism, z).converged:
        raise _describe_position(mechanism, t, z)
    problems.solve_velocity(mechanism, zd)
    problems.solve_acceleration(mechanism, zdd)


def _describe_position(mechanism: Mechanism, t: float, z: np.ndarray) -> RunError:
    """A position z (f,) that the mechanism does not have, or not from where it was."""
    wanted = [
        f"{mechanism.coordinate_names[k]} = {value:.6g} {'m' if k in mechanism.lengths else 'rad'}"
        for k, value in zip(mechanism.independent, z, strict=True)
    ]
    return RunError(
        f"no position at t = {t:.6g} s with {', '.join(wanted)}; expected one that the mechanism can reach, in m "
        "and rad, and independent coordinates without a dead centre there"
    )


def _follow(mechanism: Mechanism, z: np.ndarray) -> bool:
    """Move to z (f,) from a linear prediction, which takes one or two iterations; False if z is too far.

    After a long move, Newton's method may converge from the prediction to another assembly: then the
    mechanism is not moved.
    """
    start, jacobian, change = mechanism.q.copy(), mechanism.calc_jacobian(), z - mechanism.z
    if problems.count_strides(mechanism, change) > 1:
        return False
    moved = problems.dependent_solve(mechanism, jacobian, jacobian[:, mechanism.independent] @ change)
    mechanism.q[mechanism.dependent] -= moved
    if problems.solve_position(mechanism, z, limit=8).converged:
        return True
    mechanism.q[:] = start
    return False


def project_motion(mechanism: Mechanism, motion: Motion) -> Motion:
    """The nearest motion that meets the constraints to rounding: positions, then velocities, then accelerations.

    Kinematics that are measured, or solved with a large tolerance, violate the constraints of rigid bodies,
    and each kind of violation can raise the rank of W. Raises RunError if there is no such motion nearby.
    """
    rows: list[tuple[np.ndarray, ...]] = []
    for k in range(len(motion.t)):
        motion.put(mechanism, k)
        problems.assemble(mechanism, mechanism.q.copy()).require(f"the position at t = {mechanism.t:.6g} s")
        jacobian = mechanism.calc_jacobian().copy()
        excess = jacobian @ mechanism.qd + mechanism.calc_drift()
        mechanism.qd -= problems.least_squares(jacobian, excess)
        mechanism.qdd -= problems.least_squares(jacobian, jacobian @ mechanism.qdd - mechanism.calc_gamma())
        rows.append((mechanism.q.copy(), mechanism.qd.copy(), mechanism.qdd.copy()))
    return Motion(motion.t, *(np.array(part) for part in zip(*rows, strict=True)))


@dataclass(frozen=True)
class Observations:
    """R*ᵀ K Φ = R*ᵀ Q at N samples, f equations each."""

    w: np.ndarray
    """(N, f, p) R*ᵀ K."""
    forces: np.ndarray
    """(N, f) R*ᵀ Q; the orthonormal basis mixes N and N·m."""
    levers: np.ndarray
    """(N, f, f) rows of R* for the independent coordinates: forces τ on them become leversᵀ τ in the
    basis."""
    condition: float
    """Largest condition of the constraints over all samples."""

    @property
    def stacked(self) -> np.ndarray:
        """Regressor W (N f, p), sample after sample."""
        return self.w.reshape(-1, self.w.shape[-1])

    def on_coordinates(self) -> tuple[np.ndarray, np.ndarray]:
        """W (N, f, p) and τ (N, f) with an equation for each independent coordinate, τ in its units."""
        levers = np.swapaxes(self.levers, 1, 2)
        return np.linalg.solve(levers, self.w), np.linalg.solve(levers, self.forces[..., None])[..., 0]


def observe(regressor: Regressor, motion: Motion, drives: np.ndarray | None = None) -> Observations:
    """The equations of a motion that meets the constraints.

    `drives` (N, f): measured forces on the independent coordinates, in addition to those of the description;
    by default, the forces that the described mechanism needs for this motion. Raises UsageError for drives of
    another shape, RunError if the constraints are ill-conditioned.
    """
    mechanism = regressor.mechanism
    f = len(mechanism.independent)
    if drives is not None and drives.shape != (len(motion.t), f):
        raise UsageError(f"drives: expected ({len(motion.t)}, {f}), got {drives.shape}")
    w, forces, levers, worst = [], [], [], 0.0
    for k in range(len(motion.t)):
        motion.put(mechanism, k)
        basis = calc_motion_basis(mechanism)
        worst = max(worst, basis.condition)
        lever = basis.matrix[mechanism.independent]
        known = basis.matrix.T @ regressor.calc_known_forces()
        if drives is None:
            needed = mechanism.mass @ mechanism.qdd - mechanism.calc_forces()
            known += basis.matrix.T @ needed
        else:
            known += lever.T @ drives[k]
        w.append(regressor.calc(basis.matrix))
        forces.append(known)
        levers.append(lever)
    return Observations(np.array(w), np.array(forces), np.array(levers), worst)
