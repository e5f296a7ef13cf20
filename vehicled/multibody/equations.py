"""The equations of a mechanism as one residual with its tangent, for programs that solve them by their own means."""

from __future__ import annotations

from collections.abc import Sequence

from vehicled.multibody.model import Model
from vehicled.multibody.system import System
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Program

UNKNOWNS = ("q", "qd", "qdd", "lambda")


def make_residual(system: System, multipliers: Sequence[Atom]) -> list[Atom]:
    """M q̈ + Φ_qᵀ λ − Q of the coordinates in their order, followed by Φ."""
    dynamics = dict.fromkeys(system.coordinates, system.graph.zero)
    for x, y, mass in system.mass:
        dynamics[x] = dynamics[x] + mass * y.qdd
    for row, multiplier in zip(system.constraint_jacobian(), multipliers, strict=True):
        for c, j in row.items():
            dynamics[c] = dynamics[c] + j * multiplier
    for c, force in system.forces:
        dynamics[c] = dynamics[c] - force
    return [*dynamics.values(), *(phi for _, phi in system.constraints)]


def add_equations(program: Program, model: Model) -> None:
    """Add the kernels `residual` and `tangent`; an extension of a `CompiledMechanism`.

    `residual` (n + m,): M q̈ + Φ_qᵀ λ − Q, then Φ. `tangent`: its derivatives `residual_by_…`, by rows, with
    respect to q, q̇, q̈ (n + m, n) and λ (n + m, m).
    """
    graph, system = model.graph, model.system
    multipliers = program.arrays["lambda"]
    residual = make_residual(system, multipliers)
    program.kernel("residual", zip(program.array("residual", len(residual)), residual, strict=True))
    rates = zip(*((c.q, c.qd, c.qdd) for c in system.coordinates), strict=True)
    stores: list[tuple[Atom, Atom]] = []
    for name, symbols in zip(UNKNOWNS, (*rates, multipliers), strict=True):
        n = len(symbols)
        entries = graph.jacobian(residual, symbols)
        kept = {i * n + k: e for (i, k), e in entries.items() if e is not graph.zero}
        places = program.sparse_array(f"residual_by_{name}", len(residual) * n, list(kept))
        stores += zip(places, kept.values(), strict=True)
    program.kernel("tangent", stores)
