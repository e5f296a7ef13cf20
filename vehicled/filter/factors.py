"""Products and factorisations of small matrices, as expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vehicled.symbolic.graph import Atom, Graph


def list_pairs(m: int) -> list[tuple[int, int]]:
    """Pairs of m components, in the order of `expected`: those of fewer components come first."""
    return [(k, i) for i in range(m) for k in range(i + 1)]


def calc_dot(g: Graph, a: Iterable[Atom], b: Sequence[Atom]) -> Atom:
    """Sum of products in four independent chains, which the processor can calculate in parallel."""
    chains = [g.zero] * 4
    for k, (x, y) in enumerate(zip(a, b, strict=True)):
        chains[k % 4] = chains[k % 4] + x * y
    return (chains[0] + chains[1]) + (chains[2] + chains[3])


def calc_share(g: Graph, change: Atom, small: float) -> Atom:
    """0 up to the size of a small change, rising to 1 at twice that."""
    return g.clamp(g.abs(change) * (1.0 / small) - 1.0, 0.0, 1.0)


def calc_ldl(s: dict[tuple[int, int], Atom], m: int) -> tuple[dict[tuple[int, int], Atom], list[Atom]]:
    """L (unit lower) and D of a symmetric matrix given by its upper triangle."""
    lower: dict[tuple[int, int], Atom] = {}
    diagonal: list[Atom] = []
    for k in range(m):
        d = s[k, k]
        for i in range(k):
            d = d - lower[k, i] * lower[k, i] * diagonal[i]
        diagonal.append(d)
        for i in range(k + 1, m):
            value = s[k, i]
            for j in range(k):
                value = value - lower[i, j] * lower[k, j] * diagonal[j]
            lower[i, k] = value / d
    return lower, diagonal
