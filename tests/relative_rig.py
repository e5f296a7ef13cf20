"""A reference for mechanisms in relative coordinates, in NumPy alone: rotation matrices, differences, energies.

Extended precision and differences of eighth order make derivatives accurate to 1e-13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vehicled.multibody.relative import Base, Point, RelativeBody, RelativeSystem
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector

DOUBLE = """
space: planar
coordinates: relative
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m}}
points: {P: 1 0 m, Q: 1.2 0.9 m}
angles: {upper_angle: {between: [x, [A, P]]}, elbow: {between: [[A, P], [P, Q]]}}
bodies:
  upper: {kind: bar, points: [A, P], length: 1.1 m, mass: 1.3 kg}
  lower: {kind: rigid, points: {P: 0.1 0 m, Q: 0.9 0 m}, mass: 2 kg, center_of_mass: 0.4 0 m, inertia: 0.3 kg·m²}
independent: [upper_angle, elbow]
"""
"""A double pendulum with two angles as coordinates."""

Real = np.longdouble
EXTENDED = np.finfo(Real).eps < 1e-18

_STEP = Real(1) / 256
_SHIFTS = np.array([-4, -3, -2, -1, 1, 2, 3, 4], Real)
_WEIGHTS = np.array([3, -32, 168, -672, 672, -168, 32, -3], Real) / 840 / _STEP
_CHUNK = 500


def rate(f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """df/ds at s = 0; f takes s, (8,), to values, (8, …)."""
    return np.tensordot(_WEIGHTS, f(_SHIFTS * _STEP), 1)


def spin(rotation: np.ndarray, its_rate: np.ndarray) -> np.ndarray:
    """Angular velocity in rotated axes, (…, 3), from Rᵀ Ṙ."""
    product = np.swapaxes(rotation, -1, -2) @ its_rate
    return np.stack([product[..., 2, 1], product[..., 0, 2], product[..., 1, 0]], -1)


class Pose:
    """Explicit kinematics at coordinates q, (…, n)."""

    def __init__(self, numbers: Numbers, q: np.ndarray, qd: np.ndarray | None = None):
        self.q = q
        self._values = dict(numbers.parameters)
        for c in numbers.system.coordinates:
            self._values[c.q.id] = q[..., c.index]
            if qd is not None:
                self._values[c.qd.id] = qd[..., c.index]
        self._rotations: dict[Base, np.ndarray] = {}
        self._positions: dict[Point, np.ndarray] = {}

    def value(self, a: Atom) -> np.ndarray:
        """Value of an expression of the description."""
        if a.id in self._values:
            return self._values[a.id]
        if a.op == "const":
            return Real(a.value)
        operation = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative}[a.op]
        return operation(*map(self.value, a.args))

    def vector(self, vector: Vector) -> np.ndarray:
        return np.stack(np.broadcast_arrays(*map(self.value, vector), self.q[..., 0])[:3], -1)

    def rotation(self, base: Base) -> np.ndarray:
        """Rotation matrix from base to world, (…, 3, 3)."""
        if base.parent is None:
            return np.broadcast_to(np.eye(3, dtype=Real), (*self.q.shape[:-1], 3, 3))
        if base not in self._rotations:
            angle = self.value(base.angle)
            turned = np.zeros((*self.q.shape[:-1], 3, 3), Real)
            i, j = (base.axis + 1) % 3, (base.axis + 2) % 3
            turned[..., base.axis, base.axis] = 1
            turned[..., i, i] = turned[..., j, j] = np.cos(angle)
            turned[..., j, i] = np.sin(angle)
            turned[..., i, j] = -turned[..., j, i]
            self._rotations[base] = self.rotation(base.parent) @ turned
        return self._rotations[base]

    def turned(self, base: Base, vector: Vector) -> np.ndarray:
        """World components of a vector given in a base."""
        return (self.rotation(base) @ self.vector(vector)[..., None])[..., 0]

    def position(self, point: Point) -> np.ndarray:
        """Position in world axes, (…, 3)."""
        if point.parent is None:
            return np.zeros((*self.q.shape[:-1], 3), Real)
        if point not in self._positions:
            self._positions[point] = self.position(point.parent) + self.turned(point.base, point.offset)
        return self._positions[point]

    def centre(self, body: RelativeBody) -> np.ndarray:
        return self.position(body.point) + self.turned(body.base, body.centre)

    def central_inertia(self, body: RelativeBody) -> np.ndarray:
        """Inertia about the centre of mass, in body axes."""
        (xx, yy, zz), (xy, yz, zx) = (
            np.moveaxis(self.vector(v), -1, 0) for v in (body.moments, body.products)
        )
        inertia = np.moveaxis(np.array([[xx, xy, zx], [xy, yy, yz], [zx, yz, zz]]), (0, 1), (-2, -1))
        r = self.vector(body.centre)
        steiner = (r * r).sum(-1)[..., None, None] * np.eye(3) - r[..., :, None] * r[..., None, :]
        return inertia - self.value(body.mass) * steiner


class Numbers:
    """A system whose parameters have values."""

    def __init__(self, system: RelativeSystem, parameters: Mapping[Atom, float]):
        self.system = system
        self.n = len(system.coordinates)
        self.parameters = {a.id: Real(v) for a, v in parameters.items()}

    def at(self, q: np.ndarray, qd: np.ndarray | None = None) -> Pose:
        return Pose(self, q, qd)

    # -- energies -------------------------------------------------------------------------------------

    def kinetic_energy(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        """½ Σ m v² + ω·Iω, (…,), velocities by differences along q̇; q, q̇ (…, n)."""
        q, qd = np.broadcast_arrays(q, qd)
        flat = [x.reshape(-1, self.n) for x in (q, qd)]
        chunks = range(0, len(flat[0]), _CHUNK)
        return np.concatenate([self._energy(*(x[k : k + _CHUNK] for x in flat)) for k in chunks]).reshape(
            q.shape[:-1]
        )

    def _energy(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        here = self.at(q)
        near = self.at(q + (_SHIFTS * _STEP)[:, None, None] * qd)
        total = np.zeros(q.shape[:-1], Real)
        for body in self.system.bodies:
            velocity = rate(lambda _, b=body: near.centre(b))
            omega = spin(here.rotation(body.base), rate(lambda _, b=body: near.rotation(b.base)))
            total += here.value(body.mass) * (velocity * velocity).sum(-1) / 2
            total += np.einsum("...i,...ij,...j", omega, here.central_inertia(body), omega) / 2
        return total

    def potential_energy(self, q: np.ndarray, gravity: Vector) -> np.ndarray:
        """Potential energy of gravity, (…,)."""
        pose = self.at(q)
        g = pose.vector(gravity)
        return -sum(pose.value(body.mass) * (g * pose.centre(body)).sum(-1) for body in self.system.bodies)

    # -- Lagrange's equations by differences -------------------------------------------------------------

    def slopes(self, f: Callable[[np.ndarray], np.ndarray], q: np.ndarray) -> np.ndarray:
        """∂f/∂q, (n, …)."""
        directions = np.eye(self.n, dtype=Real)
        return rate(lambda s: f(q + s[:, None, None] * directions))

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        """∂²T/∂q̇², exact as T is quadratic in q̇: T(a + b) − T(a) − T(b)."""
        i, j = np.triu_indices(self.n)
        unit = np.eye(self.n, dtype=Real)
        single = self.kinetic_energy(q, unit)
        matrix = np.zeros((self.n, self.n), Real)
        matrix[i, j] = matrix[j, i] = self.kinetic_energy(q, unit[i] + unit[j]) - single[i] - single[j]
        return matrix

    def generalised_forces(self, q: np.ndarray, qd: np.ndarray, gravity: Vector) -> np.ndarray:
        """∂(T − V)/∂q − d/dt ∂T/∂q̇ at q̈ = 0, and the power of the loads per unit rate."""
        unit = np.eye(self.n, dtype=Real)

        def momenta(s: np.ndarray) -> np.ndarray:
            there = (q + s[:, None] * qd)[:, None]
            rest = self.kinetic_energy(there, qd) + self.kinetic_energy(there, unit)
            return self.kinetic_energy(there, qd + unit) - rest

        lagrangian = self.slopes(lambda x: self.kinetic_energy(x, qd) - self.potential_energy(x, gravity), q)
        return lagrangian - rate(momenta) + self.loads(q, qd)

    def loads(self, q: np.ndarray, qd: np.ndarray) -> np.ndarray:
        system, here = self.system, self.at(q, qd)
        total = np.zeros(self.n, Real)
        for point, base, force in system.forces:
            lever = self.slopes(lambda x, p=point: self.at(x).position(p), q)
            total += lever @ here.turned(base, force)
        for base, moment in system.moments:
            turning = self.slopes(lambda x, b=base: self.at(x).rotation(b), q)
            total += spin(here.rotation(base), turning) @ here.vector(moment)
        for c, force in system.generalised:
            total[c.index] += here.value(force)
        for spring in system.springs:

            def distance(x: np.ndarray, ends=spring.points) -> np.ndarray:
                pose = self.at(x)
                return np.sqrt((np.subtract(*map(pose.position, ends)) ** 2).sum(-1))

            slope = self.slopes(distance, q)
            stiffness, damping, length = map(here.value, (spring.stiffness, spring.damping, spring.length))
            total -= (stiffness * (distance(q) - length) + damping * (slope @ qd)) * slope
        return total
