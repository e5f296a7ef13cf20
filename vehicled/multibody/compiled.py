"""The compiled mechanism: machine code of all that formulations, problems and observers evaluate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from vehicled.multibody import placement
from vehicled.multibody.building import AngleForm, build_model, build_step
from vehicled.multibody.description import Description
from vehicled.multibody.forms import choose_form
from vehicled.multibody.joints import add_angle
from vehicled.multibody.model import Model
from vehicled.multibody.scales import list_length_powers
from vehicled.multibody.step import StepFunction
from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.machine import OPTIMISATION
from vehicled.symbolic.program import KernelHandle, Program

Result = TypeVar("Result")
Extension = Callable[[Program, Model], object]
"""A function that adds further kernels on the state of the mechanism, such as sensors;
`CompiledMechanism.result` gives its return value."""


@dataclass(frozen=True)
class MechanismKernels:
    """Functions of a mechanism's state.

    Each, except `prepare` and `placement`, fills an array of its own name (matrices by rows); see
    `MechanismInstance.calc_…`.
    """

    prepare: KernelHandle
    placement: KernelHandle
    constraints: KernelHandle
    jacobian: KernelHandle
    jacobian_rate: KernelHandle
    drift: KernelHandle
    gamma: KernelHandle
    acceleration_by_q: KernelHandle
    acceleration_by_qd: KernelHandle
    mass: KernelHandle
    forces: KernelHandle
    forces_by_q: KernelHandle
    forces_by_qd: KernelHandle
    pull_by_q: KernelHandle
    energy: KernelHandle
    loads: KernelHandle
    wrenches: KernelHandle
    point_position: KernelHandle
    point_velocity: KernelHandle
    point_acceleration: KernelHandle
    angle_sides: KernelHandle

    @property
    def by_constraint(self) -> tuple[KernelHandle, ...]:
        """Kernels that give a row for each constraint."""
        vectors = (self.constraints, self.drift, self.gamma)
        matrices = (self.jacobian, self.jacobian_rate, self.acceleration_by_q, self.acceleration_by_qd)
        return (*vectors, *matrices, self.wrenches)


class CompiledMechanism:
    """A compiled description. Immutable; shared by all mechanisms that run it."""

    def __init__(
        self,
        description: Description,
        extensions: Sequence[Extension] = (),
        *,
        angle_form: AngleForm = add_angle,
        width: int = 1,
        optimisation: int = OPTIMISATION,
    ) -> None:
        """Compile a description for `width` instances side by side: 1, 2, 4 or a multiple of 8.

        `angle_form`: constraints of angles in the form of another program. `optimisation`: 0 for a mechanism
        that is evaluated a few times, not simulated: the code of a car compiles ten times as fast. Raises
        MechanismError for a description that is no valid mechanism.
        """
        if description.coordinates == "auto":
            description = replace(description, coordinates=choose_form(description, angle_form))
        self.description, self.extensions = description, tuple(extensions)
        self.angle_form = angle_form
        self.model = model = build_model(description, angle_form, width)
        program, system = model.program, model.system
        self.step = step = build_step(model)
        self.kernels = add_kernels(program, model, step.multipliers)
        self._results = {extend: extend(program, model) for extend in extensions}
        program.store("parameters", list(model.symbols.values()))
        program.finish(model.symbols.values())
        self.layout = program.layout
        self.program = program
        self.parameters = dict(model.values)
        """Names and values as described, in the order of the array `parameters`."""
        self.coordinates = [c.name for c in system.coordinates]
        self.constraints = [name for name, _ in system.constraints]
        self.are_lengths, self.length_powers = list_length_powers(model)
        """(n,) whether a coordinate is a length; and for each constraint its power of length, if it has one."""
        self.bodies = list(model.parts)
        self.points = list(model.points)
        code = compile_program(program, (step.routine,), optimisation=optimisation).functions
        self.functions = code.kernels
        """Functions that take the address of a workspace."""
        self.ali3p_step: StepFunction = code.routine(step.routine.handle)

    def result(self, extension: Callable[[Program, Model], Result]) -> Result:
        """Return value of that extension. Raises KeyError for one that was not given."""
        return cast(Result, self._results[extension])


def add_kernels(program: Program, model: Model, multipliers: Sequence[Atom]) -> MechanismKernels:
    """Add the kernels that evaluate a state."""
    graph, system = model.graph, model.system
    coordinates = system.coordinates
    n, m = len(coordinates), len(system.constraints)
    index = {c: k for k, c in enumerate(coordinates)}

    def matrix(name: str, rows: int, columns: int, entries: dict[tuple[int, int], Atom]) -> KernelHandle:
        kept = {key: e for key, e in entries.items() if e is not graph.zero}
        places = program.sparse_array(name, rows * columns, [i * columns + k for i, k in kept])
        return program.kernel(name, zip(places, kept.values(), strict=True))

    def vector(name: str, values: Sequence[Atom]) -> KernelHandle:
        return program.kernel(name, zip(program.array(name, len(values)), values, strict=True))

    def derivatives(values: Sequence[Atom], by: str) -> dict[tuple[int, int], Atom]:
        return graph.jacobian(values, [getattr(c, by) for c in coordinates])

    rows = system.constraint_jacobian()
    velocity, acceleration = system.constraint_rates()
    at_rest = {c.qd: graph.zero for c in coordinates}
    unaccelerated = {c.qdd: graph.zero for c in coordinates}
    gamma = [-a for a in graph.substitute(acceleration, unaccelerated)]
    forces = [graph.zero] * n
    for c, f in system.forces:
        forces[index[c]] = forces[index[c]] + f
    pull = [graph.zero] * n
    for row, multiplier in zip(rows, multipliers, strict=True):
        for c, j in row.items():
            pull[index[c]] = pull[index[c]] + j * multiplier
    if model.varies:
        for x, y, value in system.mass:
            pull[index[x]] = pull[index[x]] + value * y.qdd
    seeds: dict[Atom, Atom] = {c.q: c.qd for c in coordinates} | system.rates
    flat = {(i, index[c]): j for i, row in enumerate(rows) for c, j in row.items()}

    def jacobian_rate() -> dict[tuple[int, int], Atom]:
        return dict(zip(flat, graph.directional(list(flat.values()), seeds), strict=True))

    def kinetic_energy() -> Atom:
        twice = graph.zero
        for x, y, value in system.mass:
            twice = twice + value * x.qd * y.qd
        return 0.5 * twice

    wrenches = [model.wrenches.get(name, ()) for name, _ in system.constraints]
    points, sides = model.points.values(), model.sines.values()
    return MechanismKernels(
        prepare=program.prepare,
        constraints=vector("constraints", [phi for _, phi in system.constraints]),
        jacobian=matrix("jacobian", m, n, flat),
        jacobian_rate=matrix("jacobian_rate", m, n, jacobian_rate()),
        drift=vector("drift", graph.substitute(velocity, at_rest)),
        gamma=vector("gamma", gamma),
        acceleration_by_q=matrix("acceleration_by_q", m, n, derivatives(acceleration, "q")),
        acceleration_by_qd=matrix("acceleration_by_qd", m, n, derivatives(acceleration, "qd")),
        mass=matrix("mass", n, n, {(index[x], index[y]): value for x, y, value in system.mass}),
        forces=vector("forces", forces),
        forces_by_q=matrix("forces_by_q", n, n, derivatives(forces, "q")),
        forces_by_qd=matrix("forces_by_qd", n, n, derivatives(forces, "qd")),
        pull_by_q=matrix("pull_by_q", n, n, derivatives(pull, "q")),
        energy=vector("energy", [kinetic_energy(), model.potential]),
        loads=vector("loads", [x for force in model.load_forces.values() for x in force]),
        wrenches=matrix(
            "wrenches", m, 6, {(i, k): x for i, row in enumerate(wrenches) for k, x in enumerate(row)}
        ),
        point_position=vector("point_position", [x for p in points for x in p.position]),
        point_velocity=vector("point_velocity", [x for p in points for x in p.velocity]),
        point_acceleration=vector("point_acceleration", [x for p in points for x in p.acceleration]),
        angle_sides=vector("angle_sides", [x for pair in sides for x in pair]),
        placement=placement.add_kernel(program, model),
    )
