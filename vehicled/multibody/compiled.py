"""The compiled mechanism: machine code of all that formulations, problems and observers evaluate."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from vehicled import settings
from vehicled.multibody import ali3p, placement
from vehicled.multibody.bodies import add_bodies
from vehicled.multibody.description import Angle, Description
from vehicled.multibody.joints import add_angle, add_distance, add_drive, add_joint
from vehicled.multibody.loads import add_load
from vehicled.multibody.model import MechanismError, Model
from vehicled.symbolic import llvm
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Program

Extension = Callable[[Program, Model], None]
"""Adds further kernels on the state of the mechanism, such as sensors."""

AngleForm = Callable[[Model, str, Angle], None]
"""Adds the coordinate of an angle, the constraint that ties it and its sides (`Model.sines`)."""


def build_model(description: Description, angle_form: AngleForm = add_angle, width: int = 1) -> Model:
    """The mechanism as atoms. Raises MechanismError."""
    _refuse_faults(description)
    model = Model(description, width)
    add_bodies(model)
    model.rigid_constraints = len(model.system.constraints)
    for name, angle in description.angles.items():
        angle_form(model, name, angle)
    for name, distance in description.distances.items():
        add_distance(model, name, distance)
    for name, joint in description.joints.items():
        add_joint(model, name, joint)
    for name, drive in description.drives.items():
        add_drive(model, name, drive)
    for name, load in description.forces.items():
        add_load(model, name, load)
    system = model.system
    applied = model.program.array("applied", len(system.coordinates))
    for c, force in zip(system.coordinates, applied, strict=True):
        system.generalised_force(c, force)
    return model


def _refuse_faults(description: Description) -> None:
    """Descriptions from a file have been looked at; those made in a program have not."""
    if fault := settings.find_fault(description):
        raise MechanismError(fault)


class CompiledMechanism:
    """Immutable, shared by all mechanisms that run it."""

    def __init__(
        self,
        description: Description,
        extensions: Sequence[Extension] = (),
        *,
        angle_form: AngleForm = add_angle,
        width: int = 1,
    ):
        """`angle_form`: constraints of angles as another program has them; `width`: instances computed side by side,
        1, 2, 4 or a multiple of 8. Raises MechanismError for a description that makes no mechanism."""
        self.description, self.extensions = description, tuple(extensions)
        self.angle_form = angle_form
        self.model = model = build_model(description, angle_form, width)
        program, system = model.program, model.system
        ali3p.declare_state(program, system)
        penalties = program.array("penalties", len(system.constraints))
        numbers = [iter(program.array("holds", 4 * len(system.coordinates)))] * 4
        holds = {
            c: ali3p.Hold(*h) for c, h in zip(system.coordinates, zip(*numbers, strict=True), strict=True)
        }
        multipliers = ali3p.build(program, system, model.h, penalties, holds).multipliers
        program.kernel("finish", [])
        add_kernels(program, model, multipliers)
        placement.add_kernel(program, model)
        for extend in extensions:
            extend(program, model)
        program.store("parameters", list(model.symbols.values()))
        program.finish(model.symbols.values())
        self.layout = program.layout
        self.kernels = program.kernels
        self.parameters = dict(model.values)
        """Names and values as described, in the order of the array `parameters`."""
        self.coordinates = [c.name for c in system.coordinates]
        self.constraints = [name for name, _ in system.constraints]
        self.bodies = list(model.parts)
        self.points = list(model.points)
        loop = ali3p.step_loop(self.layout)
        code = llvm.MachineCode(llvm.emit(list(program.kernels.values()), self.layout, loops=loop))
        self._call = {name: code.function(name, None, ctypes.c_void_p) for name in program.kernels}
        types = (ctypes.c_void_p, ctypes.c_int, ctypes.c_double, ctypes.c_double, ctypes.c_int)
        self.ali3p_step = code.function("step", ctypes.c_int, *types)

    def __getitem__(self, kernel: str) -> Callable:
        return self._call[kernel]


def add_kernels(program: Program, model: Model, multipliers: Sequence[Atom]) -> None:
    """What a state is evaluated to, each in an array of the kernel's name (matrices by rows)."""
    graph, system = model.graph, model.system
    coordinates = system.coordinates
    n, m = len(coordinates), len(system.constraints)
    index = {c: k for k, c in enumerate(coordinates)}

    def matrix(name: str, columns: int, entries: dict[tuple[int, int], Atom]) -> None:
        kept = {key: e for key, e in entries.items() if e is not graph.zero}
        rows = m if name in _MATRIX_BY_CONSTRAINT else n
        places = program.sparse_array(name, rows * columns, [i * columns + k for i, k in kept])
        program.kernel(name, zip(places, kept.values(), strict=True))

    def vector(name: str, values: Sequence[Atom]) -> None:
        program.kernel(name, zip(program.array(name, len(values)), values, strict=True))

    def derivatives(values: Sequence[Atom], by: str) -> dict[tuple[int, int], Atom]:
        return {
            (i, k): graph.derivative(value, getattr(c, by))
            for i, value in enumerate(values)
            for k, c in enumerate(coordinates)
            if value.depends & getattr(c, by).depends
        }

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
    seeds: dict[Atom, Atom] = {c.q: c.qd for c in coordinates} | system.rates
    flat = {(i, index[c]): j for i, row in enumerate(rows) for c, j in row.items()}

    vector("constraints", [phi for _, phi in system.constraints])
    matrix("jacobian", n, flat)
    matrix("jacobian_rate", n, dict(zip(flat, graph.directional(list(flat.values()), seeds), strict=True)))
    vector("drift", graph.substitute(velocity, at_rest))
    vector("gamma", gamma)
    matrix("acceleration_by_q", n, derivatives(acceleration, "q"))
    matrix("acceleration_by_qd", n, derivatives(acceleration, "qd"))
    matrix("mass", n, {(index[x], index[y]): value for x, y, value in system.mass})
    vector("forces", forces)
    matrix("forces_by_q", n, derivatives(forces, "q"))
    matrix("forces_by_qd", n, derivatives(forces, "qd"))
    matrix("pull_by_q", n, derivatives(pull, "q"))
    kinetic = graph.zero
    for x, y, value in system.mass:
        kinetic = kinetic + value * x.qd * y.qd
    vector("energy", [0.5 * kinetic, model.potential])
    vector("loads", [x for force in model.load_forces.values() for x in force])
    wrenches = [model.wrenches.get(name, ()) for name, _ in system.constraints]
    matrix("wrenches", 6, {(i, k): x for i, row in enumerate(wrenches) for k, x in enumerate(row)})
    for part in ("position", "velocity", "acceleration"):
        vector(f"point_{part}", [x for p in model.points.values() for x in getattr(p, part)])
    vector("angle_sides", [x for pair in model.sines.values() for x in pair])


_MATRIX_BY_CONSTRAINT = {"jacobian", "jacobian_rate", "acceleration_by_q", "acceleration_by_qd", "wrenches"}
BY_CONSTRAINT = {*_MATRIX_BY_CONSTRAINT, "constraints", "drift", "gamma"}
"""Kernels that give a row for each constraint."""
