"""Equations of motion that are linear in the parameters: K(q, q̇, q̈) Φ = Q, for any mechanism.

The velocities of a body's elements are A_i q̇ (`placement`), so that its mass forces are Σ μ_ij A_iᵀ (ẍ_j −
w_j g) with its moments of mass μ; w_j is one for its point and zero for its directions. μ is linear in the
inertial parameters. No angular velocities are needed, and K Φ equals the forces that the motion requires less
the weight at every q, whether the constraints are met or not. Springs, dampers and friction add a column
each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vehicled.errors import UsageError
from vehicled.identification import parameters
from vehicled.multibody.body_operators import calc_point_map
from vehicled.multibody.elements import Spring, TorsionSpring
from vehicled.multibody.mechanism import Mechanism


class Column(Protocol):
    """A parameter of the forces, in addition to the inertial ones."""

    @property
    def name(self) -> str:
        """Name of the parameter, unique among the columns."""

    def get_value(self, mechanism: Mechanism) -> float:
        """Present value in the mechanism; zero for a force that is not in the description."""

    def calc(self, mechanism: Mechanism) -> np.ndarray:
        """(n,) column of K at the present q, q̇: minus the generalised forces if the parameter is one."""


@dataclass(frozen=True)
class Travel:
    """A length or an angle s(q), its rate and ∂s/∂q (n,)."""

    value: float
    rate: float
    gradient: np.ndarray


def calc_travel(mechanism: Mechanism, along: str) -> Travel:
    """Travel of a coordinate, or of a spring's length or angle. Raises UsageError if `along` is neither."""
    load = mechanism.description.forces.get(along)
    if isinstance(load, Spring):
        positions = mechanism.calc_point_positions()
        start, end = load.points
        apart = positions[end] - positions[start]
        length = float(np.linalg.norm(apart))
        gradient = (apart / length) @ (calc_point_map(mechanism, end) - calc_point_map(mechanism, start))
        return Travel(length, float(gradient @ mechanism.qd), gradient)
    coordinate = load.angle if isinstance(load, TorsionSpring) else along
    try:
        k = mechanism.index(coordinate)
    except KeyError:
        raise UsageError(f"'{along}' is neither a coordinate nor a spring") from None
    return Travel(float(mechanism.q[k]), float(mechanism.qd[k]), np.eye(len(mechanism.q))[k])


@dataclass(frozen=True)
class Stiffness:
    """Stiffness of a spring of the description with known free length or angle s₀: (s − s₀) ∂s/∂q."""

    spring: str

    @property
    def name(self) -> str:
        """`SPRING.stiffness`, as in the mechanism's parameters."""
        return f"{self.spring}.stiffness"

    def get_value(self, mechanism: Mechanism) -> float:
        """Present value of the mechanism, N/m or N·m/rad."""
        return mechanism.get_parameter(self.name)

    def calc(self, mechanism: Mechanism) -> np.ndarray:
        """(n,) (s − s₀) ∂s/∂q at the present q, with s₀ from the mechanism's parameters."""
        travel = calc_travel(mechanism, self.spring)
        turns = isinstance(mechanism.description.forces[self.spring], TorsionSpring)
        free = mechanism.get_parameter(f"{self.spring}.{'free_angle' if turns else 'free_length'}")
        return (travel.value - free) * travel.gradient


@dataclass(frozen=True)
class Damping:
    """Damping of a damper of the description: ṡ ∂s/∂q."""

    spring: str

    @property
    def name(self) -> str:
        """`SPRING.damping`, as in the mechanism's parameters."""
        return f"{self.spring}.damping"

    def get_value(self, mechanism: Mechanism) -> float:
        """Present value of the mechanism, N·s/m or N·m·s/rad."""
        return mechanism.get_parameter(self.name)

    def calc(self, mechanism: Mechanism) -> np.ndarray:
        """(n,) ṡ ∂s/∂q at the present q, q̇."""
        travel = calc_travel(mechanism, self.spring)
        return travel.rate * travel.gradient


@dataclass(frozen=True)
class DryFriction:
    """Dry friction of a spring of the description: tanh(ṡ/v) ∂s/∂q, with its known rate v."""

    spring: str

    @property
    def name(self) -> str:
        """`SPRING.friction`, as in the mechanism's parameters."""
        return f"{self.spring}.friction"

    def get_value(self, mechanism: Mechanism) -> float:
        """Present value of the mechanism, N or N·m."""
        return mechanism.get_parameter(self.name)

    def calc(self, mechanism: Mechanism) -> np.ndarray:
        """(n,) tanh(ṡ/v) ∂s/∂q at the present q, q̇."""
        travel = calc_travel(mechanism, self.spring)
        slow = mechanism.get_parameter(f"{self.spring}.friction_rate")
        column: np.ndarray = np.tanh(travel.rate / slow) * travel.gradient
        return column


@dataclass(frozen=True)
class ViscousFriction:
    """Viscous friction along a coordinate or a spring, in addition to the description: ṡ ∂s/∂q."""

    along: str

    @property
    def name(self) -> str:
        """`ALONG.viscous_friction`."""
        return f"{self.along}.viscous_friction"

    def get_value(self, mechanism: Mechanism) -> float:
        """Zero: a description has no friction."""
        return 0.0

    def calc(self, mechanism: Mechanism) -> np.ndarray:
        """(n,) ṡ ∂s/∂q at the present q, q̇. Raises UsageError if `along` is no coordinate or spring."""
        travel = calc_travel(mechanism, self.along)
        return travel.rate * travel.gradient


@dataclass(frozen=True)
class CoulombFriction:
    """Coulomb friction along a coordinate or a spring, in addition to the description: sign(ṡ) ∂s/∂q."""

    along: str

    @property
    def name(self) -> str:
        """`ALONG.coulomb_friction`."""
        return f"{self.along}.coulomb_friction"

    def get_value(self, mechanism: Mechanism) -> float:
        """Zero: a description has no friction."""
        return 0.0

    def calc(self, mechanism: Mechanism) -> np.ndarray:
        """(n,) sign(ṡ) ∂s/∂q at the present q, q̇. Raises UsageError if `along` is no coordinate or spring."""
        travel = calc_travel(mechanism, self.along)
        column: np.ndarray = np.sign(travel.rate) * travel.gradient
        return column


def spring_columns(mechanism: Mechanism) -> list[Column]:
    """Columns for stiffness, damping and dry friction of every spring that has them in the description."""
    columns: list[Column] = []
    for name, load in mechanism.description.forces.items():
        if isinstance(load, (Spring, TorsionSpring)):
            columns += [Stiffness(name)] if load.stiffness else []
            columns += [Damping(name)] if load.damping else []
            columns += [DryFriction(name)] if load.friction else []
    return columns


class Regressor:
    """K of a mechanism: the inertial parameters of its bodies in their order, then further columns.

    It holds for the values of the mechanism's parameters at the time of construction.
    """

    def __init__(self, mechanism: Mechanism, columns: Sequence[Column] = ()) -> None:
        self.mechanism = mechanism
        self.columns = tuple(columns)
        bodies = mechanism.placement.bodies.values()
        scales = [parameters.calc_scale(mechanism, body) for body in bodies]
        self._scales = np.concatenate(scales)[:, None]
        self._constant = None if mechanism.compiled.model.varies else self._calc_maps()
        self.sizes = [len(s) for s in scales]
        """Number of elements of each body."""
        self._weighs = np.concatenate([np.arange(k) == 0 for k in self.sizes])
        gravity = mechanism.description.gravity
        self._gravity = np.zeros(3)
        if gravity is not None:
            self._gravity[: len(gravity)] = [
                mechanism.get_parameter(f"gravity.{a}") for a in "xyz"[: len(gravity)]
            ]
        inertial = parameters.get_names(mechanism)
        self.inertial = len(inertial)
        """Number of inertial parameters, which come first."""
        self.names = [*inertial, *(column.name for column in self.columns)]
        further = [column.get_value(mechanism) for column in self.columns]
        self.values = np.concatenate([parameters.calc_values(mechanism), further])
        """(p,) values of the description."""

    def calc(self, basis: np.ndarray | None = None) -> np.ndarray:
        """(n, p) K at the present q, q̇, q̈; with a basis (n, f) its projection basisᵀ K (f, p)."""
        mechanism = self.mechanism
        every, drift = self._constant or self._calc_maps()
        maps = every if basis is None else every @ basis
        pull = every @ mechanism.qdd + drift - np.outer(self._weighs, self._gravity)
        blocks, start = [], 0
        for size in self.sizes:
            a, x = maps[start : start + size], pull[start : start + size]
            products = np.einsum("icf,jc->ijf", a, x)
            blocks.append(np.tensordot(parameters.calc_moment_basis(size), products, axes=2).T)
            start += size
        for column in self.columns:
            force = column.calc(mechanism)
            blocks.append((force if basis is None else basis.T @ force)[:, None])
        return np.hstack(blocks)

    def _calc_maps(self) -> tuple[np.ndarray, np.ndarray]:
        """(elements, 3, n) A and (elements, 3) Ȧ q̇ of all bodies."""
        bodies = self.mechanism.placement.bodies.values()
        maps = np.concatenate([body.map for body in bodies]) / self._scales[:, None]
        return maps, np.concatenate([body.map_rate for body in bodies]) / self._scales

    def calc_known_forces(self) -> np.ndarray:
        """(n,) forces that are neither columns nor weight, so that K Φ = M q̈ − Q + these forces.

        At the present q, q̇: the forces of the description, and those written to `Mechanism.applied`.
        """
        mechanism = self.mechanism
        moving = mechanism.qdd.copy()
        mechanism.qdd[:] = 0.0
        at_rest = self.calc() @ self.values
        mechanism.qdd[:] = moving
        forces: np.ndarray = mechanism.calc_forces() + at_rest
        return forces
