"""Sums of products of sines and cosines replaced by functions of sums of angles when atoms are made.

cos x cos y ∓ sin x sin y = cos(x ± y), sin x cos y ± cos x sin y = sin(x ± y), also with common factors. Thus
successive rotations about one axis become one rotation by the sum of the angles, and cos² + sin² becomes 1.

An option of a `Graph` for expressions that are derived by hand. No model of this program uses it: the
operators of `multibody` hardly form such products, and a processor needs longer for a sine than for a product
(`vehicled bench codegen` counts the operations with and without it).
"""

from __future__ import annotations

from collections import Counter

from vehicled.symbolic.graph import Atom, Graph

_MOST_FACTORS = 8
"""Products of more factors are not changed."""


def join_angles(graph: Graph, a: Atom, b: Atom, sign: int) -> Atom | None:
    """a + b, or a − b with negative `sign`, as a function of a sum of angles; None if they are no such products."""
    first, second = _factors(a), _factors(b)
    common = first & second
    joined = _join(graph, list((first - common).elements()), list((second - common).elements()), sign)
    if joined is not None:
        for factor in common.elements():
            joined = joined * factor
    return joined


def _join(graph: Graph, first: list[Atom], second: list[Atom], sign: int) -> Atom | None:
    """Join two products of two factors each; None if no identity applies."""
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
    """Factors of a product; none if there are too many."""
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
