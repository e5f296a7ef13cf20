"""Sums of angles in place of products of sines and cosines, where an identity applies."""

from __future__ import annotations

import numpy as np
import pytest

from vehicled.symbolic.function import CompiledFunction
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.trigonometry import join_angles


def build(joins_angles: bool):
    g = Graph(join_angles if joins_angles else None)
    x, y, m = (g.symbol(n) for n in ("x", "y", "m"))
    sx, cx, sy, cy = g.sin(x), g.cos(x), g.sin(y), g.cos(y)
    sums = [
        cx * cy - sx * sy,
        cx * cy + sx * sy,
        sx * sy - cx * cy,
        sx * sy + cx * cy,
        sx * cy + cx * sy,
        sx * cy - cx * sy,
        cx * sy - sx * cy,
        m * (cx * m) * cy - sy * m * (sx * m),
        cx * cx - sx * sx,
    ]
    others = [
        cx * cy - sx * sx,
        cx * cy + sx * cy,
        cx * sy + cx * sy,
        m * cx * cy - sx * sy,
        cx * cx - sy * sy,
        cx + sx,
        m * m + x * y,
    ]
    return g, (x, y, m), sums, others


def count_products(g, e):
    return sum(a.op == "mul" for a in g.reachable([e]))


def test_identities_have_the_same_values():
    found = []
    for joins_angles in (False, True):
        _, symbols, sums, others = build(joins_angles)
        found.append(CompiledFunction([symbols], [[*sums, *others]]))
    for values in np.random.default_rng(0).uniform(-3.0, 3.0, (50, 3)):
        (expected,), (joined,) = (f(values) for f in found)
        assert joined == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_products_disappear_only_where_an_identity_applies():
    g, _, sums, others = build(True)
    assert [count_products(g, e) for e in sums] == [0, 0, 0, 0, 0, 0, 0, 2, 0]
    plain, _, _, unchanged = build(False)
    assert [count_products(g, e) for e in others] == [count_products(plain, e) for e in unchanged]


def test_squares_of_sine_and_cosine_add_up_to_one():
    g = Graph(join_angles)
    x, m = g.symbol("x"), g.symbol("m")
    s, c = g.sin(x), g.cos(x)
    assert c * c + s * s is g.one
    assert m * c * c + s * m * s is m
