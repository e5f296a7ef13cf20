"""Atoms: shared nodes, derivatives compared with finite differences, substitution, lanes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.symbolic import python
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import Program
from vehicled.symbolic.vector import Vector


def evaluate(outputs: list[Atom], values: dict[Atom, float]) -> list[float]:
    """Plain interpretation, independent of both back ends."""
    functions = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "neg": lambda a: -a,
        "sqrt": math.sqrt,
        "sin": math.sin,
        "cos": math.cos,
        "tanh": math.tanh,
        "atan": math.atan,
        "atan2": math.atan2,
        "exp": math.exp,
        "abs": abs,
        "where_less": lambda a, b, c, d: c if a < b else d,
    }
    known = {s.id: v for s, v in values.items()}

    def value(a: Atom) -> float:
        if a.op == "const":
            return a.value
        if a.id not in known:
            known[a.id] = functions[a.op](*map(value, a.args))
        return known[a.id]

    return [value(a) for a in outputs]


OPERATIONS = {
    "add": lambda g, x, y: x + y,
    "sub": lambda g, x, y: x - y,
    "mul": lambda g, x, y: x * y,
    "div": lambda g, x, y: x / y,
    "neg": lambda g, x, y: -(x * y),
    "sqrt": lambda g, x, y: g.sqrt(x * x + y * y),
    "sin": lambda g, x, y: g.sin(x * y),
    "cos": lambda g, x, y: g.cos(x * y),
    "tanh": lambda g, x, y: g.tanh(x - y),
    "atan": lambda g, x, y: g.atan(x / y),
    "atan2": lambda g, x, y: g.atan2(x, y),
    "exp": lambda g, x, y: g.exp(x - y),
    "abs": lambda g, x, y: g.abs(x) * y,
    "where_less": lambda g, x, y: g.where_less(x, y, x * x, y * y * x),
    "max": lambda g, x, y: g.max(x * y, y),
    "min": lambda g, x, y: g.min(x * y, y),
    "clamp": lambda g, x, y: g.clamp(x * y, -0.5, 0.5),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("point", [(0.7, 1.3), (-0.4, 0.9), (1.9, -0.6), (-0.3, -1.2)])
def test_derivatives_agree_with_finite_differences(name, point):
    g = Graph()
    x, y = g.symbol("x"), g.symbol("y")
    f = OPERATIONS[name](g, x, y)
    at = dict(zip((x, y), point, strict=True))
    for s in (x, y):
        e = 1e-6
        up, down = (evaluate([f], {**at, s: at[s] + d})[0] for d in (e, -e))
        derivative = evaluate([g.derivative(f, s)], at)[0]
        assert derivative == pytest.approx((up - down) / (2 * e), rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("name", OPERATIONS)
def test_constants_are_folded_to_the_same_value(name):
    g = Graph()
    x, y = g.symbol("x"), g.symbol("y")
    value = evaluate([OPERATIONS[name](g, x, y)], {x: 0.6, y: 1.7})[0]
    folded = OPERATIONS[name](g, g.constant(0.6), g.constant(1.7))
    assert folded.op == "const"
    assert folded.value == pytest.approx(value, rel=1e-15)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "sub", "mul", "neg", "sin", "tanh"]),
            st.integers(0, 50),
            st.integers(0, 50),
        ),
        min_size=1,
        max_size=30,
    ),
    st.floats(-2, 2),
    st.floats(-2, 2),
)
def test_simplification_never_changes_the_value(steps, x_value, y_value):
    """Random expressions, built in the graph and in plain floats side by side."""
    g = Graph()
    x, y = g.symbol("x"), g.symbol("y")
    atoms, values = [x, y, g.zero, g.one, g.constant(-1.0)], [x_value, y_value, 0.0, 1.0, -1.0]
    for op, i, j in steps:
        a, b, va, vb = (
            atoms[i % len(atoms)],
            atoms[j % len(atoms)],
            values[i % len(atoms)],
            values[j % len(atoms)],
        )
        if op in ("add", "sub", "mul"):
            atoms.append({"add": g.add, "sub": g.sub, "mul": g.mul}[op](a, b))
            values.append({"add": va + vb, "sub": va - vb, "mul": va * vb}[op])
        elif op == "neg":
            atoms.append(-a)
            values.append(-va)
        else:
            atoms.append(g.function(op, g.tanh(a)))
            values.append({"sin": math.sin, "tanh": math.tanh}[op](math.tanh(va)))
    if all(abs(v) < 1e9 for v in values):
        scale = max(1.0, *map(abs, values))
        for atom, value in zip(atoms, values, strict=True):
            assert evaluate([atom], {x: x_value, y: y_value})[0] == pytest.approx(value, abs=1e-9 * scale)


def test_equal_expressions_are_one_atom():
    g = Graph()
    x, y = g.symbol("x"), g.symbol("y")
    assert x * y is y * x
    assert x + y is y + x
    assert (-x) * y is -(x * y)
    assert x - (-y) is x + y
    assert -(x - y) is y - x
    assert x - x is g.zero
    assert x / x is g.one
    assert 1.0 * x is x
    assert g.sin(x * y) is g.sin(y * x)
    program = Program(g)
    program.store("given", [x, y])
    kernel = program.kernel("run", [(program.array("out", 1)[0], x * y + g.sin(x * y))])
    program.finish([])
    assert program.kernels[kernel].operations() == {"mul": 1, "add": 1, "sin": 1}


def test_a_jacobian_has_the_derivatives_that_are_not_zero_by_their_place():
    g = Graph()
    x, y, z = g.symbol("x"), g.symbol("y"), g.symbol("z")
    found = g.jacobian([x * y, g.sin(z), g.constant(2.0)], [x, y, z])
    assert list(found) == [(0, 0), (0, 1), (1, 2)]
    assert found[0, 0] is y
    assert found[0, 1] is x
    assert found[1, 2] is g.cos(z)


def test_the_first_name_of_an_intermediate_result_is_kept():
    g = Graph()
    x, y = g.symbol("x"), g.symbol("y")
    total, negated = x + y, -(x * y)
    total.label("total")
    total.label("sum")
    negated.label("torque")
    assert total.name == "total"
    assert (x * y).name == "minus_torque"
    # Symbols and constants have names of their own.
    x.label("other")
    g.one.label("one")
    assert (x.name, g.one.name) == ("x", "")
    (again,) = g.substitute([total], {y: x * x})
    assert again is x + x * x
    assert again.name == "total"


def test_a_name_of_a_symbol_cannot_be_used_twice():
    g = Graph()
    g.symbol("x")
    with pytest.raises(ValueError, match="x"):
        g.symbol("x")


def test_division_by_a_constant_zero_is_refused():
    g = Graph()
    with pytest.raises(ZeroDivisionError):
        g.symbol("x") / 0.0


def test_substitution_rebuilds_and_simplifies():
    g = Graph()
    x, y, z = g.symbol("x"), g.symbol("y"), g.symbol("z")
    f = x * y + g.sin(x) * z
    (new,) = g.substitute([f], {x: g.zero})
    assert new is g.zero
    (new,) = g.substitute([f], {z: y, y: z})
    assert new is x * z + g.sin(x) * y
    (same,) = g.substitute([f], {g.symbol("w"): x})
    assert same is f


def test_derivatives_along_a_motion_agree_with_finite_differences():
    g = Graph()
    q, qd, qdd = g.symbol("q"), g.symbol("qd"), g.symbol("qdd")
    f = g.sin(q) * q
    (first,) = g.directional([f], {q: qd})
    (second,) = g.directional([first], {q: qd, qd: qdd})
    at = {q: 0.4, qd: 1.1, qdd: -0.3}

    def motion(t: float) -> float:
        return evaluate([f], {q: 0.4 + 1.1 * t - 0.15 * t * t})[0]

    e = 1e-4
    assert evaluate([first], at)[0] == pytest.approx((motion(e) - motion(-e)) / (2 * e), rel=1e-7)
    assert evaluate([second], at)[0] == pytest.approx(
        (motion(e) - 2 * motion(0) + motion(-e)) / e**2, rel=1e-5
    )


def test_derivatives_over_lanes_agree_with_finite_differences():
    """Sums over lanes and exchange of neighbours, along a direction that differs from lane to lane."""
    g = Graph()
    x, dx = g.symbol("x", 1), g.symbol("dx", 1)
    y = g.symbol("y")
    outputs = [g.lane_sum(g.sin(x) * y), g.lane_sum(x * g.lane_swap(x) * x)]
    derivatives = [*g.directional(outputs, {x: dx}), g.derivative(outputs[0], y)]
    program = Program(g, 4)
    program.store("x", [x])
    program.store("dx", [dx])
    program.store("y", [y])
    results = program.array("results", 5)
    kernel = program.kernel("run", zip(results, [*outputs, *derivatives], strict=True))
    program.finish([])
    run = python.function(program.kernels[kernel], program.layout)
    w = program.layout.allocate()
    at, along = np.array([0.3, -0.8, 1.2, 0.5]), np.array([1.0, 0.2, -0.7, 0.4])

    def values(shift: float) -> np.ndarray:
        program.layout.view(w, "x")[0] = at + shift * along
        program.layout.view(w, "dx")[0] = along
        program.layout.view(w, "y")[0] = 1.7
        run(w)
        return program.layout.view(w, "results").copy()

    e = 1e-6
    numeric = (values(e) - values(-e)) / (2 * e)
    now = values(0.0)
    assert now[0] == pytest.approx(1.7 * np.sin(at).sum())
    assert now[1] == pytest.approx((at * at[[1, 0, 3, 2]] * at).sum())
    assert now[2:4] == pytest.approx(numeric[:2], rel=1e-8)
    assert now[4] == pytest.approx(np.sin(at).sum())


def test_vector_operations_agree_with_numpy():
    g = Graph()
    a = Vector.of([g.symbol(f"a{i}") for i in range(3)])
    b = Vector.of([g.symbol(f"b{i}") for i in range(3)])
    va, vb = np.array([0.3, -1.2, 0.8]), np.array([2.0, 0.4, -0.5])
    at = dict(zip([*a, *b], [*va, *vb], strict=True))
    assert evaluate([a.dot(b)], at)[0] == pytest.approx(va @ vb)
    assert evaluate(list(a.cross(b)), at) == pytest.approx(np.cross(va, vb))
    assert evaluate(list(a.unit()), at) == pytest.approx(va / np.linalg.norm(va))
    assert evaluate(list(2.0 * a - b / g.constant(4.0)), at) == pytest.approx(2 * va - vb / 4)
