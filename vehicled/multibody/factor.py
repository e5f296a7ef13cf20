"""Symmetric factorisation L D Lᵀ written out as atoms, with a fixed elimination order.

The matrix has branch unknowns (rank 1) and root unknowns (rank 0). Branch unknowns are eliminated first,
all branches side by side; their contribution to the root is summed over the branches once.
"""

from __future__ import annotations

from collections.abc import Iterable

from vehicled.multibody.system import Coordinate
from vehicled.symbolic.graph import Atom, Graph

Pair = tuple[Coordinate, Coordinate]


def elimination_order(pattern: Iterable[Pair], unknowns: Iterable[Coordinate]) -> list[Coordinate]:
    """Least-fill order, branch unknowns before root unknowns."""
    left = list(unknowns)
    neighbours: dict[Coordinate, set[Coordinate]] = {c: set() for c in left}
    for a, b in pattern:
        if a is not b:
            neighbours[a].add(b)
            neighbours[b].add(a)
    # The same sets as bits of integers: each of a car's 200 unknowns has up to a hundred neighbours.
    bit = {c: 1 << k for k, c in enumerate(left)}
    bits = {c: sum(bit[b] for b in near) for c, near in neighbours.items()}
    fills: dict[Coordinate, tuple[int, int]] = {}

    def fill(c: Coordinate) -> tuple[int, int]:
        if c not in fills:
            # A neighbour is not in its own set; this is no missing pair.
            missing = sum((bits[c] & ~bits[a]).bit_count() - 1 for a in neighbours[c])
            fills[c] = missing, len(neighbours[c])
        return fills[c]

    order = []
    while left:
        rank = max(c.rank for c in left)
        best = min((c for c in left if c.rank == rank), key=fill)
        near = neighbours.pop(best)
        for a in near:
            neighbours[a].discard(best)
            neighbours[a] |= near - {a, best}
            bits[a] = (bits[a] | bits[best]) & ~(bit[a] | bit[best])
        for c in near.union(*(neighbours[a] for a in near)):
            fills.pop(c, None)
        left.remove(best)
        order.append(best)
    return order


class Factorisation:
    """L and D⁻¹ as atoms, ready to be stored and used for any number of right-hand sides."""

    def __init__(
        self, graph: Graph, order: list[Coordinate], matrix: dict[Pair, Atom], root_matrix: dict[Pair, Atom]
    ) -> None:
        """Exactly one of (a, b) and (b, a) of each symmetric pair is given.

        `matrix` has the entries that belong to a branch, also on pairs of root unknowns (lane vectors, to be
        summed); `root_matrix` has plain numbers.
        """
        self.graph = graph
        self.order = order
        position = {c: k for k, c in enumerate(order)}
        rows: dict[Coordinate, dict[Coordinate, Atom]] = {c: {} for c in order}
        plain: dict[Pair, Atom] = {}
        for (a, b), value in matrix.items():
            first, second = (a, b) if position[a] <= position[b] else (b, a)
            row = rows[first]
            row[second] = row[second] + value if second in row else value
        for (a, b), value in root_matrix.items():
            pair = (a, b) if position[a] <= position[b] else (b, a)
            plain[pair] = plain[pair] + value if pair in plain else value
        self.lower: dict[Pair, Atom] = {}
        self.inverse: dict[Coordinate, Atom] = {}
        summed = False
        for k in order:
            if k.rank == 0 and not summed:
                summed = True
                for a in order:
                    if a.rank == 0:
                        row = {b: graph.lane_sum(v) for b, v in rows[a].items() if v is not graph.zero}
                        for (x, y), v in plain.items():
                            if x is a:
                                row[y] = row[y] + v if y in row else v
                        rows[a] = row
            row = rows[k]
            inverse = self.inverse[k] = 1.0 / row[k]
            near = [c for c in row if c is not k]
            near.sort(key=position.__getitem__)
            for n, a in enumerate(near):
                l_ak = self.lower[a, k] = row[a] * inverse
                for b in near[n:]:
                    update = l_ak * row[b]
                    target = rows[a]
                    target[b] = target[b] - update if b in target else -update

    def entries(self) -> list[tuple[int, Atom]]:
        """(rank, atom) of everything to be stored: L by pair, then D⁻¹, in a fixed order."""
        lower = [(k.rank, v) for (_, k), v in self.lower.items()]
        return lower + [(k.rank, v) for k, v in self.inverse.items()]

    def with_entries(self, symbols: Iterable[Atom]) -> Factorisation:
        """The same factorisation read back from storage, symbols in the order of `entries`."""
        other = object.__new__(Factorisation)
        other.graph, other.order = self.graph, self.order
        it = iter(symbols)
        other.lower = {pair: next(it) for pair in self.lower}
        other.inverse = {k: next(it) for k in self.inverse}
        return other

    def solve(self, rhs: dict[Coordinate, Atom], root_rhs: dict[Coordinate, Atom]) -> dict[Coordinate, Atom]:
        """Solve L D Lᵀ x = b for x.

        `rhs`: branch rows, and lane vectors to be summed into root rows; `root_rhs`: plain numbers of root
        rows.
        """
        graph = self.graph
        b = dict(rhs)
        columns: dict[Coordinate, list[tuple[Coordinate, Atom]]] = {k: [] for k in self.order}
        for (a, k), value in self.lower.items():
            columns[k].append((a, value))
        summed = False
        for k in self.order:
            if k.rank == 0 and not summed:
                summed = True
                for a in self.order:
                    if a.rank == 0:
                        total = root_rhs.get(a, graph.zero)
                        if a in b and b[a] is not graph.zero:
                            total = total + graph.lane_sum(b[a])
                        b[a] = total
            value = b.setdefault(k, graph.zero)
            if value is graph.zero:
                continue
            for a, l_ak in columns[k]:
                update = l_ak * value
                b[a] = b[a] - update if a in b else -update
        x: dict[Coordinate, Atom] = {}
        for k in reversed(self.order):
            value = b[k] * self.inverse[k]
            for a, l_ak in columns[k]:
                value = value - l_ak * x[a]
            x[k] = value
        return x
