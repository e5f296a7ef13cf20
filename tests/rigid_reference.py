"""Rigid-body quantities by independent formulas, from a mechanism's description and the motion of its points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.multibody.elements import Bar, PointMass, Rigid
from vehicled.multibody.mechanism import Mechanism


@dataclass(frozen=True)
class RigidBody:
    mass: float
    R: np.ndarray
    origin: np.ndarray
    """Origin of the body's axes, in the world."""
    centre: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    """`velocity` and `acceleration` are those of the centre of mass."""
    omega: np.ndarray
    alpha: np.ndarray
    inertia: np.ndarray
    """(3, 3) central, in world axes."""

    @property
    def angular_momentum(self) -> np.ndarray:
        """About the centre of mass."""
        return self.inertia @ self.omega

    def velocity_of(self, place: np.ndarray) -> np.ndarray:
        return self.velocity + np.cross(self.omega, self.R @ place + self.origin - self.centre)

    def wrench_needed(self) -> np.ndarray:
        """(6,) force and torque about the centre of mass that the motion requires, by Newton–Euler."""
        spin = np.cross(self.omega, self.inertia @ self.omega)
        return np.concatenate([self.mass * self.acceleration, self.inertia @ self.alpha + spin])


def full(v) -> np.ndarray:
    return np.array([*v, 0.0][:3])


def wrench_at(force: np.ndarray, place: np.ndarray, body: RigidBody) -> np.ndarray:
    """(6,) force and torque about a body's centre of mass, of a force at `place`."""
    return np.concatenate([force, np.cross(place - body.centre, force)])


def rigid_bodies(m: Mechanism) -> dict[str, RigidBody]:
    return {name: _rigid_body(m, b) for name, b in m.description.bodies.items()}


def _basic(m: Mechanism, name: str) -> np.ndarray:
    """(3, 3) value, rate and acceleration of a point or vector, from its coordinates or fixed to the ground."""
    d = m.description
    if name in d.ground.points or name in d.ground.vectors or name in "xyz":
        fixed = {
            **d.ground.points,
            **{v: np.array(e) / np.linalg.norm(e) for v, e in d.ground.vectors.items()},
        }
        fixed |= dict(zip("xyz", np.eye(3), strict=True))
        return np.array([full(fixed[name]), np.zeros(3), np.zeros(3)])
    k = m.index(f"{name}.x")
    return np.array([full(a[k : k + d.dimension]) for a in (m.q, m.qd, m.qdd)])


def _rigid_body(m: Mechanism, body: Bar | PointMass | Rigid) -> RigidBody:
    d, zero = m.description, np.zeros(3)
    if isinstance(body, PointMass):
        x, v, a = _basic(m, body.point)
        return RigidBody(body.mass, np.eye(3), x, x, v, a, zero, zero, np.zeros((3, 3)))
    if isinstance(body, Bar):
        ends = [_basic(m, p) for p in body.points]
        length = np.linalg.norm(ends[1][0] - ends[0][0])
        centre = np.array([0.5 * length, 0.0, 0.0])
        local = [zero, np.array([length, 0.0, 0.0])]
        here, vectors, local_vectors = ends, [], []
        inertia = body.mass * length**2 / 12 * np.diag([0.0, 1.0, 1.0])
    else:
        names = list(body.points)
        given = body.points if isinstance(body.points, dict) else d.ground.points | d.points
        local, here = [full(given[p]) for p in names], [_basic(m, p) for p in names]
        given_vectors = d.ground.vectors | d.vectors | dict(zip("xyz", np.eye(3), strict=True))
        if isinstance(body.vectors, dict):
            given_vectors |= body.vectors
        local_vectors = [full(given_vectors[v]) for v in body.vectors]
        local_vectors = [v / np.linalg.norm(v) for v in local_vectors]
        vectors = [_basic(m, v) for v in body.vectors]
        centre = full(body.center_of_mass)
        if d.dimension == 2:
            inertia = np.diag([0.0, 0.0, body.inertia[0]])
        else:
            xy, yz, zx = body.products
            inertia = np.diag(body.inertia) + np.array([[0, xy, zx], [xy, 0, yz], [zx, yz, 0]])
    # Directions from the first point, then unit vectors; in planar mechanisms also the z axis.
    arms = [p - local[0] for p in local[1:]] + local_vectors
    moved = [p - here[0] for p in here[1:]] + vectors
    if d.dimension == 2:
        arms.append(np.array([0.0, 0.0, 1.0]))
        moved.append(np.array([[0.0, 0.0, 1.0], zero, zero]))
    # Kabsch's rotation, then ω and α by least squares of ḋ = ω × d and d̈ = α × d + ω × (ω × d).
    u, _, vt = np.linalg.svd(sum(np.outer(w[0], s) for w, s in zip(moved, arms, strict=True)))
    R = u @ np.diag([1.0, 1.0, np.linalg.det(u @ vt)]) @ vt
    matrix = np.vstack([np.array([np.cross(e, w[0]) for e in np.eye(3)]).T for w in moved])
    omega = np.linalg.lstsq(matrix, np.concatenate([w[1] for w in moved]), rcond=None)[0]
    centripetal = [np.cross(omega, np.cross(omega, w[0])) for w in moved]
    right = np.concatenate([w[2] - c for w, c in zip(moved, centripetal, strict=True)])
    alpha = np.linalg.lstsq(matrix, right, rcond=None)[0]
    x, v, a = here[0]
    arm = R @ (centre - local[0])
    return RigidBody(
        body.mass,
        R,
        x - R @ local[0],
        x + arm,
        v + np.cross(omega, arm),
        a + np.cross(alpha, arm) + np.cross(omega, np.cross(omega, arm)),
        omega,
        alpha,
        R @ inertia @ R.T,
    )
