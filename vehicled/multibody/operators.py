"""Operations on a mechanism as a whole, in its present state: mass, momentum, accelerations, maps.

The operations are those of other multibody libraries (Sherman, Seth and Delp, "Simbody: multibody dynamics for
biomedical research", 2011, section 4), in natural coordinates. World axes and origin throughout; SI and radians.
Nothing here changes the mechanism. Kinetic and potential energy, positions, velocities and accelerations of points
are methods of `Mechanism`; operations on one body are in `body_operators`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from vehicled.errors import UsageError
from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.switches import find_constraints


@dataclass(frozen=True)
class Counts:
    """Numbers of bodies, coordinates, constraints and degrees of freedom."""

    bodies: int
    """Number of bodies, without the ground."""
    coordinates: int
    """n"""
    constraints: int
    """m, the enabled constraints, including redundant ones."""
    degrees_of_freedom: int
    """f"""


def get_counts(mechanism: Mechanism) -> Counts:
    """Bodies, coordinates, constraints, degrees of freedom; `checks.calc_topology` calculates them for a position."""
    return Counts(
        len(mechanism.compiled.bodies),
        len(mechanism.q),
        len(mechanism.constraint_names),
        len(mechanism.independent),
    )


# -- mass and momentum ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MassProperties:
    """Mass, centre and inertia of all bodies together, in world axes."""

    mass: float
    """kg"""
    centre: np.ndarray
    """(3,) centre of mass, m."""
    inertia: np.ndarray
    """(3, 3) about the world's origin, kg·m²; products with the signs of matrix elements. For planar bodies,
    which are described by Izz only, only the element zz is valid."""

    @property
    def central_inertia(self) -> np.ndarray:
        """(3, 3) about the centre of mass, kg·m²."""
        r = self.centre
        central: np.ndarray = self.inertia - self.mass * (r @ r * np.eye(3) - np.outer(r, r))
        return central


def calc_total_mass(mechanism: Mechanism) -> float:
    """Mass of all bodies, kg."""
    return float(sum(body.moments[0, 0] for body in mechanism.placement.bodies.values()))


def calc_mass_properties(mechanism: Mechanism) -> MassProperties:
    """Mass, centre of mass and inertia of the whole mechanism. Raises UsageError if it has no mass."""
    second = np.zeros((3, 3))
    for body in mechanism.placement.bodies.values():
        x = body.place(mechanism.q)
        second += x.T @ body.moments @ x
    inertia = np.trace(second) * np.eye(3) - second
    return MassProperties(calc_total_mass(mechanism), calc_center_of_mass(mechanism), inertia)


def calc_center_of_mass(mechanism: Mechanism) -> np.ndarray:
    """(3,) centre of mass, m. Raises UsageError if there is no mass."""
    first = np.zeros(3)
    for body in mechanism.placement.bodies.values():
        first += body.moments[0] @ body.place(mechanism.q)
    return first / _mass(mechanism)


def calc_center_of_mass_velocity(mechanism: Mechanism) -> np.ndarray:
    """(3,) velocity of the centre of mass, m/s. Raises UsageError if there is no mass."""
    moment = np.zeros(3)
    for body in mechanism.placement.bodies.values():
        moment += body.moments[0] @ body.move(mechanism.qd)
    return moment / _mass(mechanism)


def calc_center_of_mass_acceleration(mechanism: Mechanism) -> np.ndarray:
    """(3,) acceleration of the centre of mass, m/s², with the present q̈. Raises UsageError if there is no mass."""
    moment = np.zeros(3)
    for body in mechanism.placement.bodies.values():
        moment += body.moments[0] @ body.accelerate(mechanism.qdd)
    return moment / _mass(mechanism)


def _mass(mechanism: Mechanism) -> float:
    mass = calc_total_mass(mechanism)
    if mass == 0.0:
        raise UsageError("no body has a mass, so that there is no centre of mass")
    return mass


@dataclass(frozen=True)
class Momentum:
    """Linear and angular momentum, in world axes."""

    linear: np.ndarray
    """(3,) N·s"""
    angular: np.ndarray
    """(3,) N·m·s"""


def calc_momentum(mechanism: Mechanism, about: np.ndarray | None = None) -> Momentum:
    """Momentum of the mechanism; the angular momentum about a fixed point (3,) (m), by default the origin."""
    linear, angular = np.zeros(3), np.zeros(3)
    for body in mechanism.placement.bodies.values():
        x, v = body.place(mechanism.q), body.move(mechanism.qd)
        carried = body.moments @ v
        linear += carried[0]
        # Only the first element has a place; the others are directions.
        angular += np.cross(x, carried).sum(axis=0)
    if about is not None:
        angular -= np.cross(about, linear)
    return Momentum(linear, angular)


def calc_central_momentum(mechanism: Mechanism) -> Momentum:
    """Momentum, with the angular momentum about the centre of mass. Raises UsageError if there is no mass."""
    return calc_momentum(mechanism, calc_center_of_mass(mechanism))


# -- accelerations --------------------------------------------------------------------------------------------


def calc_accelerations(mechanism: Mechanism, without: Iterable[str] = ()) -> tuple[np.ndarray, np.ndarray]:
    """q̈ (n,) and λ (m,) that follow from t, q, q̇ and the forces.

    `without`: constraints to ignore, by their own name or that of a body or joint; their λ are zero. Raises
    UsageError for unknown names.
    """
    kept = mechanism.enabled.copy()
    for name in without:
        kept[find_constraints(mechanism, name)] = False
    rows = np.concatenate([kept[mechanism.enabled], np.ones(int(mechanism.held.sum()), dtype=bool)])
    jacobian, gamma = mechanism.calc_jacobian()[rows], mechanism.calc_gamma()[rows]
    multipliers = np.zeros(len(rows))
    accelerations, multipliers[rows] = problems.calc_dynamics(
        mechanism, jacobian, gamma, mechanism.constraint_units[rows]
    )
    return accelerations, multipliers


def calc_unconstrained_accelerations(mechanism: Mechanism) -> np.ndarray:
    """q̈ (n,) with all joints and drives ignored, and every held coordinate released.

    Bodies remain rigid and connected by the points and vectors that they share; angles and distances follow
    them. To ignore the constraints of rigid bodies as well, apply `MassFactorisation.solve` to the forces.
    """
    kept = mechanism.enabled.copy()
    for name in (*mechanism.description.joints, *(f"drive {d}" for d in mechanism.description.drives)):
        kept[find_constraints(mechanism, name)] = False
    m = int(mechanism.enabled.sum())
    rows = np.flatnonzero(kept[mechanism.enabled])
    jacobian, gamma = mechanism.calc_jacobian()[:m][rows], mechanism.calc_gamma()[:m][rows]
    units = mechanism.constraint_units[:m][rows]
    return problems.calc_dynamics(mechanism, jacobian, gamma, units)[0]


class MassFactorisation:
    """M⁻¹ v by a sparse factorisation of M: to be made again after parameters have changed.

    In relative coordinates M also depends on the position.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        """Raises UsageError if the mass matrix is singular (other than by coordinates without any mass)."""
        self._names = mechanism.coordinate_names
        self._massive = np.flatnonzero(mechanism.mass.any(axis=1))
        block = mechanism.mass[np.ix_(self._massive, self._massive)]
        try:
            self._factors = scipy.sparse.linalg.splu(
                scipy.sparse.csc_array(block), permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}
            )
        except RuntimeError:
            raise UsageError("the mass matrix is singular, so that it cannot be factorised") from None

    def solve(self, v: np.ndarray) -> np.ndarray:
        """(n,) or (n, k) M⁻¹ v.

        It is zero for coordinates without mass (angles, distances). Raises UsageError if v has a component on
        them.
        """
        x = np.zeros_like(v, dtype=float)
        idle = np.setdiff1d(np.arange(len(v)), self._massive)
        if np.any(v[idle]):
            bad = self._names[idle[np.flatnonzero(v[idle].any(axis=tuple(range(1, v.ndim))))[0]]]
            raise UsageError(f"{bad} has no mass, so that M⁻¹ v does not exist with a component of v on it")
        x[self._massive] = self._factors.solve(np.ascontiguousarray(v[self._massive], dtype=float))
        return x


# -- independent coordinates and all --------------------------------------------------------------------------


@dataclass(frozen=True)
class CoordinateMaps:
    """Maps of the motions that the constraints allow: q̇ = R ż + b and ż = D q̇; q̈ = R z̈ + c."""

    r: np.ndarray
    """(n, f) R; D R = 1."""
    b: np.ndarray
    """(n,) q̇ due to drives and prescribed coordinates only."""
    c: np.ndarray
    """(n,) q̈ with z̈ = 0."""
    d: np.ndarray
    """(f, n) D, which selects z: z = D q."""

    def calc_rates(self, zd: np.ndarray) -> np.ndarray:
        """(n,) q̇ from ż (f,)."""
        qd: np.ndarray = self.r @ zd + self.b
        return qd

    def calc_independent(self, q: np.ndarray) -> np.ndarray:
        """(f,) from (n,): z from q, ż from q̇, z̈ from q̈."""
        z: np.ndarray = self.d @ q
        return z

    def calc_accelerations(self, zdd: np.ndarray) -> np.ndarray:
        """(n,) q̈ from z̈ (f,)."""
        qdd: np.ndarray = self.r @ zdd + self.c
        return qdd

    def calc_independent_forces(self, forces: np.ndarray) -> np.ndarray:
        """(f,) forces on z from generalised forces (n,), by virtual power: Rᵀ Q."""
        projected: np.ndarray = self.r.T @ forces
        return projected

    def calc_covariance(self, p: np.ndarray) -> np.ndarray:
        """(n, n) covariance of q, or q̇, from that of z, or ż (f, f): R P Rᵀ."""
        covariance: np.ndarray = self.r @ p @ self.r.T
        return covariance

    def calc_independent_covariance(self, p: np.ndarray) -> np.ndarray:
        """(f, f) covariance of z, or ż, from that of q, or q̇ (n, n): D P Dᵀ."""
        covariance: np.ndarray = self.d @ p @ self.d.T
        return covariance


def calc_coordinate_maps(mechanism: Mechanism) -> CoordinateMaps:
    """The maps at the present t, q, q̇ and with the present independent coordinates."""
    r, s = problems.calc_velocity_map(mechanism)
    d = np.eye(len(mechanism.q))[mechanism.independent]
    return CoordinateMaps(r, -s @ mechanism.calc_drift(), s @ mechanism.calc_gamma(), d)
