"""The equations of a car as a residual with its tangent, for programs that solve them on their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vehicled.multibody.ali3p import Assembly
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import KernelHandle, Program
from vehicled.vehicle.extension import Extension
from vehicled.vehicle.outputs import Parts

UNKNOWNS = ("q", "qd", "qdd", "lambda")


@dataclass(frozen=True)
class EquationKernels:
    """The kernels that `add_equations` adds."""

    residual: KernelHandle
    tangent: KernelHandle


def add_equations(program: Program, parts: Parts) -> EquationKernels:
    """Add the kernels `residual` and `tangent`.

    `residual`: M q̈ + Φ_qᵀ λ − Q by coordinate (`residual`, `branch.residual`) and Φ (`constraints`,
    `branch.constraints`), with the forces at the end of a step of h. `tangent`: `change_of_…` of these by a change
    `change_of_q` … `change_of_lambda` of the unknowns.
    """
    graph, system, multipliers = program.graph, parts.system, parts.step.multipliers
    total = Assembly(system)
    for x, y, mass in system.mass:
        total.add(x, mass * y.qdd)
    for row, multiplier in zip(parts.step.jacobian, multipliers, strict=True):
        total.add_transposed(row, multiplier)
    for c, force in system.forces:
        total.add(c, -force)
    zero, values = graph.zero, {}
    values["residual"] = [
        total.root.get(c, zero) + (graph.lane_sum(total.branch[c]) if c in total.branch else zero)
        for c in system.root
    ]
    values["branch.residual"] = [total.branch.get(c, zero) for c in system.branch]
    for prefix, rank in (("", 0), ("branch.", 1)):
        values[f"{prefix}constraints"] = [phi for _, phi in system.constraints if phi.rank == rank]
    directions: dict[Atom, Atom] = {}
    for name in UNKNOWNS:
        for prefix, rank in (("", 0), ("branch.", 1)):
            symbols = program.arrays[f"{prefix}{name}"]
            changes = program.array(f"{prefix}change_of_{name}", len(symbols), rank)
            directions |= zip(symbols, changes, strict=True)
    flat = graph.directional([e for es in values.values() for e in es], directions)
    derivatives = iter(flat)
    changed = {
        name.replace("residual", "change_of_residual").replace("constraints", "change_of_constraints"): [
            next(derivatives) for _ in es
        ]
        for name, es in values.items()
    }
    return EquationKernels(
        residual=program.kernel("residual", _stores(program, values)),
        tangent=program.kernel("tangent", _stores(program, changed)),
    )


def _stores(program: Program, values: Mapping[str, list[Atom]]) -> list[tuple[Atom, Atom]]:
    """Stores into new arrays; arrays of the branches consist of lane vectors."""
    return [
        pair
        for name, es in values.items()
        for pair in zip(program.array(name, len(es), int(name.startswith("branch."))), es, strict=True)
    ]


EQUATIONS = Extension(add_equations, EquationKernels)
