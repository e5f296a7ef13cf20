"""Sums of products of sines and cosines, where an atom is made: those of the sum of the angles in their place.

cos x cos y ∓ sin x sin y = cos(x ± y), sin x cos y ± cos x sin y = sin(x ± y), also with common factors. A chain of
turns about one axis thus becomes one turn by the sum of its angles, and cos² + sin² one.

An option of a `Graph` for expressions that are derived by hand. No model of this program uses it: the operators of
`multibody` hardly form such products, and a sine takes a processor longer than a product (`vehicled bench codegen`
has the operations with it and without).
"""

from __future__ import annotations

from collections import Counter

from vehicled.symbolic.graph import Atom, Graph

_MOST_FACTORS = 8
"""Products of more are left as they are."""


def join_angles(graph: Graph, a: Atom, b: Atom, sign: int) -> Atom | None:
    """a + b, or with a negative `sign` a − b, by a sum of angles; None where they are no such products."""
    first, second = _factors(a), _factors(b)
    common = first & second
    joined = _join(graph, list((first - common).elements()), list((second - common).elements()), sign)
    if joined is not None:
        for factor in common.elements():
            joined = joined * factor
    return joined


def _join(graph: Graph, first: list[Atom], second: list[Atom], sign: int) -> Atom | None:
    """Of two products of two factors each."""
    kinds = ["".join(sorted(f.op for f in factors)) for factors in (first, second)]
    if kinds in (["coscos", "sinsin"], ["sinsin", "coscos"]):
        x, y = (f.args[0] for f in first)
        if Counter((x, y)) != Counter(f.args[0] for f in second):
            return None
        if sign > 0:
            return graph.cos(x - y)
        return graph.cos(x + y) if kinds[0] == "coscos" else -graph.cos(x + y)
    if kinds == ["cossin", "cossin"]:
        (x, y), (v, u) = ([f.args[0] for f in sorted(fs, key=lambda f: f.op)] for fs in (first, second))
        if (x, y) == (u, v):
            return graph.sin(x + y if sign > 0 else y - x)
    return None


def _factors(a: Atom) -> Counter[Atom]:
    """Of a product; none for too many."""
    found: Counter[Atom] = Counter()
    stack = [a]
    while stack:
        b = stack.pop()
        if b.op == "mul":
            stack.extend(b.args)
        else:
            found[b] += 1
        if found.total() + len(stack) > _MOST_FACTORS:
            return Counter()
    return found
