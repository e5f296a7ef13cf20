"""Number of operations of a generated function, and the time to generate it.

The function: mass matrix and generalised forces together, with the source's sign, [−M | −δ] of M q̈ = δ
(Plaza et al., figure 1). Every +, −, ×, ÷, negation and function call counts one; a square is a
multiplication. By this count, the legible part of the source's listing has 284 of its 285 operations; without
negations, 256. Loads, stores and constants do not count, nor do entries that are structurally zero.
Operations on parameters only are counted too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from vehicled.multibody.relative_dynamics import Dynamics
from vehicled.studies.benchmarks import algebras
from vehicled.studies.benchmarks.explicit import Algebra, Atoms, Row, explicit
from vehicled.studies.benchmarks.linkages import SymbolicLinkage, four_bar, locomotive
from vehicled.studies.benchmarks.plain import measure_plain
from vehicled.symbolic import c, llvm, python
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import KernelHandle, Program

LINKAGES: dict[str, Callable[..., SymbolicLinkage]] = {"four_bar": four_bar, "locomotive": locomotive}
KERNEL = KernelHandle("mass_and_forces")
PUBLISHED = {
    "four_bar": {"operations_plain": 2_326, "operations_atomised": 285, "operations": 264},
    "locomotive": {
        "operations_plain": 19_899_139,
        "operations_atomised": 636_695,
        "operations": 36_695,
        "bytes_plain": 250_000_000,
        "bytes": 656_000,
    },
}
"""Plaza et al. 2017; their locomotive is a different one, and their code has another form."""

_SLOW = ("sympy", "locomotive")
"""SymPy takes minutes for the locomotive."""


def with_operators(linkage: SymbolicLinkage) -> list[Atom]:
    """[−M | −δ] by the operators on the trees of points and bases."""
    dynamics = Dynamics(linkage.system, linkage.gravity)
    return _negated(dynamics.mass_matrix(), dynamics.generalised_forces())


def atomised(linkage: SymbolicLinkage) -> list[Atom]:
    """[−M | −δ] by atomisation only, from the explicit derivation."""
    return _explicit(linkage, Atoms(linkage.system))


def _explicit(linkage: SymbolicLinkage, algebra: Algebra) -> Row:
    return _negated(*explicit(linkage.system, linkage.gravity, algebra))


def _negated(matrix: list[Row], forces: Row) -> Row:
    return [-x for row in (*matrix, forces) for x in row]


def program(linkage: SymbolicLinkage, outputs: list[Atom]) -> Program:
    """The function as the only kernel of a program on the arrays `parameters`, `q`, `qd` and `MQ`.

    `MQ`: the n² entries of −M by rows, then −δ. Structural zeros are not stored.
    """
    system = linkage.system
    made = Program(system.graph)
    made.store("parameters", list(linkage.parameters.values()))
    made.store("q", [c.q for c in system.coordinates])
    made.store("qd", [c.qd for c in system.coordinates])
    stores = zip(made.array("MQ", len(outputs)), outputs, strict=True)
    made.kernel(KERNEL.name, [(place, e) for place, e in stores if e is not system.graph.zero])
    made.finish([])
    return made


def python_text(name: str) -> str:
    """The function of one of `LINKAGES` as readable Python."""
    linkage = LINKAGES[name]()
    made = program(linkage, with_operators(linkage))
    return python.source(made.kernels[KERNEL], made.layout)


def bench_codegen(slow: bool, progress: Callable[[float, str], None]) -> dict[str, Any]:
    """The contents of `vehicled bench codegen --json`.

    `slow`: include derivations that take many minutes. `progress` receives the number of completed
    derivations and the name of the next.
    """
    packages = algebras.installed()
    theirs = [(p, name) for p in packages for name in LINKAGES if slow or (p, name) != _SLOW]
    found: dict[str, Any] = {"peers": {p: {"version": m.__version__} for p, m in packages.items()}}
    for done, name in enumerate(LINKAGES):
        progress(done, name)
        found[name] = _ours(LINKAGES[name])
    for done, (package, name) in enumerate(theirs, len(LINKAGES)):
        progress(done, f"{name}, {package}")
        found["peers"][package][name] = _theirs(algebras.PEERS[package](packages[package]), LINKAGES[name])
    progress(len(LINKAGES) + len(theirs), "")
    return found


def _ours(make: Callable[..., SymbolicLinkage]) -> dict[str, Any]:
    """This program: time from the description to the text for the compiler; operations; size of the function in C."""
    result: dict[str, Any] = {}
    for suffix, derive in (("", with_operators), ("_atomised", atomised)):
        begin = time.perf_counter()
        linkage = make()
        outputs = derive(linkage)
        made = program(linkage, outputs)
        llvm.emit([made.kernels[KERNEL]], made.layout)
        result[f"seconds{suffix}"] = time.perf_counter() - begin
        result |= _count(made, suffix)
        plain = measure_plain(outputs)
        written_out = "_plain" if suffix else "_operators_plain"
        result |= {f"operations{written_out}": plain.operations, f"bytes{written_out}": plain.characters}
        other = make(joins_angles=True)
        result |= _count(program(other, derive(other)), f"{suffix}_joined")
    system = make().system
    return {"bodies": len(system.bodies), "coordinates": len(system.coordinates), **result}


def _count(made: Program, suffix: str) -> dict[str, Any]:
    kinds = made.kernels[KERNEL].operations()
    text = c.source(made.kernels[KERNEL], made.layout, "linkage")
    return {
        f"operations{suffix}": sum(kinds.values()),
        f"kinds{suffix}": kinds,
        f"bytes{suffix}": len(text.encode()),
    }


def _theirs(peer: algebras.Peer, make: Callable[..., SymbolicLinkage]) -> dict[str, Any]:
    """Another package: time from the description to the end of its search for common sub-expressions."""
    begin = time.perf_counter()
    operations = peer.operations(_explicit(make(), peer))
    return {"operations": operations, "seconds": time.perf_counter() - begin}
