"""An instance of a compiled mechanism: parameters, state and inputs in a workspace, and functions of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.placement import Placement
from vehicled.multibody.scales import calc_constraint_units, find_size
from vehicled.reading.expectations import suggest
from vehicled.symbolic.program import KernelHandle

_SINGULAR = 0.1
"""Cosine of the second of three angles below which steps fail: about 6° from 90°."""


@dataclass(frozen=True)
class MechanismState:
    """Position and motion of a mechanism, stored separately from it."""

    t: float
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    multipliers: np.ndarray
    enabled: np.ndarray
    held: np.ndarray
    targets: np.ndarray
    independent: np.ndarray


class MechanismInstance:
    """n coordinates, m constraints (of rank n − f), f degrees of freedom: M q̈ + Φ_qᵀ λ = Q(q, q̇, t), Φ(q, t) = 0.

    Arrays are views into the workspace: write to `q`, `qd`, `inputs`; the result of `calc_…` is overwritten by
    the next call of the same. Units: m, rad, s, N, N·m.
    """

    def __init__(self, compiled: CompiledMechanism) -> None:
        """Start with the parameters as described, and all coordinates zero."""
        self.compiled, self.kernels = compiled, compiled.kernels
        self._by_constraint = frozenset(compiled.kernels.by_constraint)
        self.description = compiled.description
        self.layout = compiled.layout
        self.workspace = self.layout.allocate()
        self._pointer = self.workspace.ctypes.data
        self.coordinate_names = compiled.coordinates
        n, m = len(self.coordinate_names), len(compiled.constraints)
        self.q, self.qd, self.qdd = (self.view(name) for name in ("q", "qd", "qdd"))
        """(n,) each."""
        self._lambda = self.view("lambda")
        self._holding = np.zeros(n)
        """λ of the constraints `hold …`, by coordinate."""
        self.enabled = np.ones(m, dtype=bool)
        """(m,) which constraints of the description are enabled: written by `switches`."""
        self.is_switched = False
        """Whether the enabled constraints differ from those of the description."""
        self._holds = self.view("holds").reshape(n, 4)
        self.targets = self._holds[:, 1:]
        """(n, 3): value, rate and acceleration of each held coordinate at the end of a step."""
        self.inputs = self.view("inputs").reshape(-1, 3)
        """(inputs, 3): value, rate and acceleration of each at the end of a step."""
        self.applied = self.view("applied")
        """(n,) further generalised forces, set by the caller; part of Q."""
        self._time = self.view("time")
        self._sides = self.view("angle_sides").reshape(-1, 2)
        self._index = {name: k for k, name in enumerate(self.coordinate_names)}
        self._parameter = {name: k for k, name in enumerate(compiled.parameters)}
        angles = compiled.model.name_angles()
        self.lengths = np.flatnonzero([name not in angles for name in self.coordinate_names])
        """Indices of the coordinates that are not angles."""
        shapes: dict[str, tuple[int, ...]] = {
            **dict.fromkeys(("jacobian", "jacobian_rate", "acceleration_by_q", "acceleration_by_qd"), (m, n)),
            **dict.fromkeys(("mass", "forces_by_q", "forces_by_qd", "pull_by_q"), (n, n)),
            **dict.fromkeys(("point_position", "point_velocity", "point_acceleration"), (-1, 3)),
            **dict.fromkeys(("constraints", "drift", "gamma", "forces", "energy"), (-1,)),
            **{"loads": (-1, 3), "wrenches": (m, 6)},
        }
        self._arrays = {name: self.view(name).reshape(shape) for name, shape in shapes.items()}
        self._placement = Placement(compiled.model, self.view)
        self._step, self._penalties = self.view("step"), self.view("penalties")
        self.phi, self.newton = self.view("phi"), self.view("newton")
        """Results of a step of ALI3-P: (m,) Φ, and an array whose first number is ‖Δq‖² of the last iteration."""
        self._penalty: float | np.ndarray = 0.0
        self._weighed: tuple[np.ndarray, float] | None = None
        self.guess = np.array(compiled.model.guess)
        """(n,) approximate coordinates at the start."""
        self.set_parameters(compiled.parameters)
        self._measure()

    def _measure(self) -> None:
        """Sizes of the mechanism near its start (see `scales`)."""
        compiled = self.compiled
        self.q[:] = self.guess
        places = list(self.calc_point_positions().values())
        self.size = find_size(places, list(self.placement.bodies.values()), self.q)
        """Size of the whole mechanism, m."""
        self.units = np.where(compiled.are_lengths, self.size, 1.0)
        """(n,) units of the coordinates: the mechanism's size, or 1 for angles and components of unit vectors."""
        self._constraint_units = calc_constraint_units(
            compiled.length_powers, self.size, lambda: np.abs(self.calc_jacobian() * self.units).max(axis=1)
        )
        self._per_square = 1.0 / self.units**2
        self.work_units = np.outer(self.units, self.units)
        """(n, n) products of `units`: multiplied by a mass matrix or a stiffness, all elements are kg·m², or J."""
        self._per_square_length = self._per_square.copy()
        self._per_square_length[np.setdiff1d(np.arange(len(self.q)), self.lengths)] = 0.0
        model = compiled.model
        self._reach = model.reach / self.size**2
        self._contained = len(self.lengths) + model.directions + 3 * len(compiled.points) * model.varies
        self.view("inverse_size")[0] = 1.0 / self.size
        self.q[:] = 0.0

    def view(self, name: str) -> np.ndarray:
        """An array (count,) of the program, a view. Raises KeyError."""
        return self.layout.view(self.workspace, name)

    def call(self, kernel: KernelHandle) -> None:
        """Run a kernel on the workspace; it releases the interpreter's lock."""
        self.compiled.functions[kernel](self._pointer)

    def step_ali3p(
        self, h: float, penalty: float | np.ndarray, limit: int, tolerance: float, large: float, passes: int
    ) -> int:
        """Make one compiled step of ALI3-P to t + h (s); α = `penalty`, one or (m,) for all declared constraints.

        As `ali3p.StepFunction`, but with ‖Δq‖ in `units` instead of its square.
        """
        self._step[0] = h
        if penalty is not self._penalty:
            self._penalty = penalty
            self._penalties[:] = penalty * self.enabled
        self._time[0] += h
        count = self.compiled.ali3p_step(self._pointer, limit, tolerance**2, large**2, passes)
        if self.is_switched:
            self.call(self.kernels.jacobian)
            pull = self._arrays["jacobian"].T @ self._lambda
            self._holding[:] = np.where(self.held, self.calc_forces() - self.mass @ self.qdd - pull, 0.0)
        return count

    # -- parameters and state -------------------------------------------------------------------------------

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Write parameters by name, in SI; the state does not change.

        Raises UsageError, with nothing written, for unknown names, numbers that are not finite, and negative
        masses.
        """
        units = self.compiled.model.units
        for name, value in values.items():
            if name not in self._parameter:
                raise UsageError(f"unknown parameter '{name}'; {suggest(name, list(self._parameter))}")
            if not np.isfinite(value):
                raise UsageError(f"parameter '{name}': expected a finite number, got {value:g}")
            if units[name] == "kg" and value < 0.0:
                raise UsageError(f"parameter '{name}': expected a mass of at least 0 kg, got {value:g} kg")
        self.view("parameters")[[self._parameter[name] for name in values]] = list(values.values())
        self._weighed = None
        self.call(self.kernels.prepare)
        self.call(self.kernels.mass)
        self.call(self.kernels.placement)

    @property
    def mass(self) -> np.ndarray:
        """(n, n) M at the present q; constant in natural coordinates."""
        if self.compiled.model.varies:
            self.call(self.kernels.mass)
        return self._arrays["mass"]

    def weigh(self) -> tuple[np.ndarray, float]:
        """(n, n) M in `units` over its largest element, and that element, kg·m²; 1 without any mass."""
        if self._weighed is None or self.compiled.model.varies:
            mass = self.mass * self.work_units
            weight = float(np.abs(mass).max(initial=0.0)) or 1.0
            self._weighed = mass / weight, weight
        return self._weighed

    @property
    def placement(self) -> Placement:
        """Maps of points, directions and bodies at the present q and q̇; constant in natural coordinates."""
        if self.compiled.model.varies:
            self.call(self.kernels.placement)
        return self._placement

    def get_parameter(self, name: str) -> float:
        """Value of a parameter in SI units. Raises KeyError for a name that the mechanism does not have."""
        return float(self.view("parameters")[self._parameter[name]])

    @property
    def t(self) -> float:
        """Time, s."""
        return float(self._time[0])

    @t.setter
    def t(self, value: float) -> None:
        self._time[0] = value

    @property
    def held(self) -> np.ndarray:
        """(n,) which coordinates are held at their targets."""
        held: np.ndarray = self._holds[:, 0] != 0.0
        return held

    def set_switches(self, enabled: np.ndarray, held: np.ndarray) -> None:
        """Enable only those constraints (m,) of the description, and hold only those coordinates (n,).

        λ of a disabled constraint is zero.
        """
        self.enabled[:] = enabled
        self._holds[:, 0] = held
        self.is_switched = not self.enabled.all() or bool(np.any(held))
        self._penalties[:] = self._penalty * self.enabled
        self._lambda[~self.enabled] = 0.0
        self._holding[~self.held] = 0.0

    @property
    def constraint_names(self) -> list[str]:
        """(m,) names of the enabled constraints: the description's, then `hold …` for each held coordinate."""
        names = [name for name, on in zip(self.compiled.constraints, self.enabled, strict=True) if on]
        return names + [f"hold {self.coordinate_names[k]}" for k in np.flatnonzero(self.held)]

    @property
    def constraint_units(self) -> np.ndarray:
        """(m,) units of the enabled constraints: powers of the mechanism's size."""
        if not self.is_switched:
            return self._constraint_units
        return np.concatenate([self._constraint_units[self.enabled], self.units[self.held]])

    @property
    def declared_constraint_units(self) -> np.ndarray:
        """(m,) units of all constraints of the description."""
        return self._constraint_units

    def calc_spread(self) -> float:
        """Measure of the rounding of constraints: sum of squares of the lengths and unit vectors in them, in `units`.

        Far from the origin: their number and their distance. Constraints contain differences of places, whose
        rounding does not grow with the square of the distance.
        """
        q = self.q
        squares = float(q @ (q * self._per_square_length)) + self._reach
        return min(squares + self.compiled.model.directions, self._contained + math.sqrt(squares))

    def calc_distance(self) -> float:
        """‖q‖ in `units`, including lengths that are parameters in relative coordinates."""
        q = self.q
        return math.sqrt(q @ (q * self._per_square) + self._reach)

    @property
    def multipliers(self) -> np.ndarray:
        """(m,) λ of the enabled constraints.

        To change them, assign a whole array. If anything is switched, the array returned is a read-only copy.
        """
        if not self.is_switched:
            return self._lambda
        values = np.concatenate([self._lambda[self.enabled], self._holding[self.held]])
        values.flags.writeable = False
        return values

    @multipliers.setter
    def multipliers(self, values: np.ndarray) -> None:
        count = np.count_nonzero(self.enabled)
        self._lambda[self.enabled], self._holding[self.held] = values[:count], values[count:]

    def index(self, coordinate: str) -> int:
        """Index of a coordinate by its name. Raises KeyError."""
        return self._index[coordinate]

    @property
    def z(self) -> np.ndarray:
        """(f,) copy of the independent coordinates."""
        z: np.ndarray = self.q[self.independent]
        return z

    @property
    def zd(self) -> np.ndarray:
        """(f,) rates of the independent coordinates, a copy."""
        zd: np.ndarray = self.qd[self.independent]
        return zd

    @property
    def zdd(self) -> np.ndarray:
        """(f,) accelerations of the independent coordinates, a copy."""
        zdd: np.ndarray = self.qdd[self.independent]
        return zdd

    def set_independent(self, coordinates: np.ndarray) -> None:
        """Set the indices (f,) of the coordinates that determine the position."""
        self.independent = np.asarray(coordinates, dtype=int)
        self.dependent = np.delete(np.arange(len(self.q)), self.independent)
        self.are_turns = ~np.isin(self.independent, self.lengths)
        """(f,) whether each independent coordinate is an angle."""

    def get_state(self) -> MechanismState:
        """A copy of the present state."""
        motion = (self.q, self.qd, self.qdd, self.multipliers)
        switches = (self.enabled, self.held, self.targets, self.independent)
        return MechanismState(self.t, *(a.copy() for a in (*motion, *switches)))

    def set_state(self, state: MechanismState) -> None:
        """Restore a state from `get_state`, with its switches and its choice of independent coordinates."""
        self.t = state.t
        self.q[:], self.qd[:], self.qdd[:] = state.q, state.qd, state.qdd
        self.targets[:] = state.targets
        self.set_switches(state.enabled, state.held)
        self.multipliers = state.multipliers
        self.set_independent(state.independent)

    # -- evaluation at the present t, q, q̇, λ ---------------------------------------------------------------

    def _calc(self, kernel: KernelHandle) -> np.ndarray:
        self.call(kernel)
        array = self._arrays[kernel.name]
        if kernel not in self._by_constraint or not self.is_switched:
            return array
        return np.concatenate([array[self.enabled], self._hold_rows(kernel)])

    def _hold_rows(self, kernel: KernelHandle) -> np.ndarray:
        """Values of a kernel for q_k − target = 0 of each held coordinate."""
        held = np.flatnonzero(self.held)
        value, rate, acceleration = self.targets[held].T
        kernels = self.kernels
        if kernel == kernels.jacobian:
            return np.eye(len(self.q))[held]
        known = {kernels.constraints: self.q[held] - value, kernels.drift: -rate, kernels.gamma: acceleration}
        return (
            known[kernel] if kernel in known else np.zeros((len(held), *self._arrays[kernel.name].shape[1:]))
        )

    def find_singular_body(self) -> str | None:
        """A body rotated by about 90° about y from its start, where its three angles are singular; or None."""
        for body, pitch in self.compiled.model.name_pitches().items():
            if abs(np.cos(self.q[self.index(pitch)])) < _SINGULAR:
                return body
        return None

    def calc_constraints(self) -> np.ndarray:
        """(m,) Φ(q, t)."""
        return self._calc(self.kernels.constraints)

    def find_turned_angle(self) -> str | None:
        """An angle half a turn from that of its directions, which its constraint also allows; or None."""
        self.call(self.kernels.angle_sides)
        for name, (sine, cosine) in zip(self.description.angles, self._sides, strict=True):
            theta = self.q[self.index(name)]
            if sine * np.sin(theta) + cosine * np.cos(theta) < 0.0:
                return name
        return None

    def calc_jacobian(self) -> np.ndarray:
        """(m, n) Φ_q."""
        return self._calc(self.kernels.jacobian)

    def calc_jacobian_rate(self) -> np.ndarray:
        """(m, n) dΦ_q/dt, which is also ∂Φ̇/∂q."""
        return self._calc(self.kernels.jacobian_rate)

    def calc_drift(self) -> np.ndarray:
        """(m,) Φ_t = ∂Φ/∂t: Φ̇ = Φ_q q̇ + Φ_t."""
        return self._calc(self.kernels.drift)

    def calc_gamma(self) -> np.ndarray:
        """(m,) γ(q, q̇, t): Φ_q q̈ = γ."""
        return self._calc(self.kernels.gamma)

    def calc_acceleration_by_q(self) -> np.ndarray:
        """(m, n) ∂Φ̈/∂q of Φ̈ = Φ_q q̈ − γ, with q̇ and q̈ constant."""
        return self._calc(self.kernels.acceleration_by_q)

    def calc_acceleration_by_qd(self) -> np.ndarray:
        """(m, n) ∂Φ̈/∂q̇ = −∂γ/∂q̇."""
        return self._calc(self.kernels.acceleration_by_qd)

    def calc_wrenches(self) -> np.ndarray:
        """(m, 6) wrench of a constraint with λ = −1 on the body of its second point or direction.

        In world axes: force at that point, and torque; zero for constraints that are not of a joint, angle or
        distance.
        """
        return self._calc(self.kernels.wrenches)

    def calc_loads(self) -> np.ndarray:
        """(loads, 3) forces and torques in the description's order and in world axes.

        The force (N) at the (second) point of each load, or its torque (N·m); a force on a coordinate (the
        first of two) is the first element.
        """
        return self._calc(self.kernels.loads)

    def calc_forces(self) -> np.ndarray:
        """(n,) Q(q, q̇, t)."""
        return self._calc(self.kernels.forces)

    def calc_forces_by_q(self) -> np.ndarray:
        """(n, n) ∂Q/∂q."""
        return self._calc(self.kernels.forces_by_q)

    def calc_forces_by_qd(self) -> np.ndarray:
        """(n, n) ∂Q/∂q̇."""
        return self._calc(self.kernels.forces_by_qd)

    def calc_pull_by_q(self) -> np.ndarray:
        """(n, n) ∂(M q̈ + Φ_qᵀ λ)/∂q, with q̈ and λ constant."""
        return self._calc(self.kernels.pull_by_q)

    def calc_kinetic_energy(self) -> float:
        """Kinetic energy of all bodies, J."""
        return float(self._calc(self.kernels.energy)[0])

    def calc_potential_energy(self) -> float:
        """Potential energy of gravity and springs, J; forces given as expressions are not included."""
        return float(self._calc(self.kernels.energy)[1])

    def calc_point_positions(self) -> dict[str, np.ndarray]:
        """Positions (3,) m by name, of all points and markers, in the ground's axes."""
        return self._by_point(self.kernels.point_position)

    def calc_point_velocities(self) -> dict[str, np.ndarray]:
        """Velocities (3,) m/s by name, of all points and markers, in the ground's axes."""
        return self._by_point(self.kernels.point_velocity)

    def calc_point_accelerations(self) -> dict[str, np.ndarray]:
        """Accelerations (3,) m/s² by name, of all points and markers, in the ground's axes."""
        return self._by_point(self.kernels.point_acceleration)

    def _by_point(self, kernel: KernelHandle) -> dict[str, np.ndarray]:
        return dict(zip(self.compiled.points, self._calc(kernel), strict=True))
