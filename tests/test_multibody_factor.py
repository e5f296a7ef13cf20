"""The symbolic factorisation against numpy, for plain systems and for a root with branches."""

from __future__ import annotations

import numpy as np
import pytest

from vehicled.multibody.factor import Factorisation, elimination_order
from vehicled.multibody.system import Coordinate, System
from vehicled.symbolic import python
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program


def star(root: int, branch: int, lanes: int, density: float, seed: int):
    """A system with random sparsity. `outer`: pairs with one value per lane; `inner`: pairs of the root."""
    g = Graph()
    system = System(g, lanes)
    for n in range(root):
        system.coordinate(f"root{n}", 0, g.zero)
    for n in range(branch):
        system.coordinate(f"branch{n}", 1, g.zero)
    rng = np.random.default_rng(seed)
    coordinates = system.coordinates
    outer, inner = [], []
    for i, a in enumerate(coordinates):
        for b in coordinates[i:]:
            if a is not b and rng.random() > density:
                continue
            # What branches add to entries of the root also has one value per lane.
            if a.rank or b.rank or rng.random() < 0.5:
                outer.append((a, b))
            else:
                inner.append((a, b))
            if a is b and a.rank == 0:
                inner.append((a, b)) if (a, b) not in inner else outer.append((a, b))
    return g, system, outer, inner


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("root", "branch", "lanes"), [(5, 0, 1), (3, 6, 4), (6, 9, 2)])
def test_solution_agrees_with_numpy(root, branch, lanes, seed):
    g, system, outer, inner = star(root, branch, lanes, 0.35, seed)
    program = Program(g, lanes)
    entries = {}
    for name, pairs, rank in (("outer", outer, 1 if branch else 0), ("inner", inner, 0)):
        entries[name] = dict(zip(pairs, program.array(name, len(pairs), rank), strict=True))
    if not branch:
        entries["inner"] |= {k: v for k, v in entries["outer"].items() if k not in entries["inner"]}
        entries["outer"] = {}
    order = elimination_order([*outer, *inner], system.coordinates)
    assert [c.rank for c in order] == sorted((c.rank for c in order), reverse=True)
    factor = Factorisation(g, order, entries["outer"], entries["inner"])
    root_rhs = program.array("root_rhs", root)
    rhs = {}
    if branch:
        rhs = dict(zip(system.branch, program.array("branch_rhs", branch, 1), strict=True))
        rhs |= dict(zip(system.root, program.array("shared", root, 1), strict=True))

    # Stored and read back, as the integrator does.
    stored = factor.entries()
    stores = [iter(program.array(f"factor{r}", sum(1 for k, _ in stored if k == r), r)) for r in (0, 1)]
    slots = [next(stores[r]) for r, _ in stored]
    factorise = program.kernel("factor", zip(slots, (v for _, v in stored), strict=True))
    x = factor.with_entries(slots).solve(rhs, dict(zip(system.root, root_rhs, strict=True)))
    solve = program.kernel(
        "solve",
        [
            *zip(program.array("x", root), (x[c] for c in system.root), strict=True),
            *zip(
                program.array("bx", branch, 1) if branch else [], (x[c] for c in system.branch), strict=True
            ),
        ],
    )
    program.finish([])

    # Random values; the strong diagonal makes the matrix positive definite.
    rng = np.random.default_rng(seed + 100)
    w = program.layout.allocate()
    view = lambda name: program.layout.view(w, name)  # noqa: E731
    size = root + branch * lanes
    matrix, vector = np.zeros((size, size)), np.zeros(size)

    def place(c: Coordinate, lane: int) -> int:
        return c.index if c.rank == 0 else root + c.index * lanes + lane

    for group in entries.values():
        for (a, b), symbol in group.items():
            index = int(symbol.name.split("[")[1][:-1])
            array = symbol.name.split("[")[0]
            for lane in range(lanes if symbol.rank else 1):
                value = rng.uniform(-1, 1) + (12.0 if a is b else 0.0)
                if symbol.rank:
                    view(array)[index, lane] = value
                else:
                    view(array)[index] = value
                i, j = place(a, lane), place(b, lane)
                matrix[i, j] += value
                if i != j:
                    matrix[j, i] += value
    view("root_rhs")[:] = vector[:root] = rng.uniform(-1, 1, root)
    if branch:
        view("branch_rhs")[:] = rng.uniform(-1, 1, (branch, lanes))
        vector[root:] = view("branch_rhs").ravel()
        view("shared")[:] = rng.uniform(-1, 1, (root, lanes))
        vector[:root] += view("shared").sum(axis=1)
    for kernel in (factorise, solve):
        python.function(program.kernels[kernel], program.layout)(w)
    expected = np.linalg.solve(matrix, vector)
    assert view("x") == pytest.approx(expected[:root], rel=1e-11, abs=1e-12)
    if branch:
        assert view("bx").ravel() == pytest.approx(expected[root:], rel=1e-11, abs=1e-12)


def test_elimination_order_avoids_fill_in():
    """An arrow matrix has no fill-in with the hub last, and full fill-in with the hub first."""
    g = Graph()
    system = System(g)
    hub, *spokes = (system.coordinate(n, 0, g.zero) for n in "habcde")
    pattern = [(hub, s) for s in spokes]
    order = elimination_order(pattern, system.coordinates)
    assert order.index(hub) >= len(spokes) - 1
    values = {p: g.symbol(f"{n}") for n, p in enumerate([*pattern, *((c, c) for c in system.coordinates)])}
    assert len(Factorisation(g, order, {}, values).lower) == len(spokes)
