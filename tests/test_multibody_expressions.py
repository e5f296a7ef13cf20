"""Expressions of force laws: their values, and the refusal of any other text."""

from __future__ import annotations

import math

import pytest

from vehicled.multibody.expressions import ExpressionError, parse
from vehicled.symbolic.graph import Graph


@pytest.fixture
def graph():
    return Graph()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2*3 - 4/8", 6.5),
        ("-(2)**3", -8.0),
        ("2**-2 + 3**0", 1.25),
        ("+a.x*b", 6.0),
        ("sin(pi/6) + cos(0) + sqrt(16)", 5.5),
        ("tanh(0.5) + exp(-1) + abs(-2)", math.tanh(0.5) + math.exp(-1) + 2),
        ("min(a.x, b) + 10*max(a.x, b)", 32.0),
        (1.5, 1.5),
    ],
)
def test_expressions_have_the_value_of_the_text(graph, text, value):
    names = {"a.x": graph.constant(2.0), "b": graph.constant(3.0)}
    assert parse(text, graph, names).value == pytest.approx(value, rel=1e-15)


def test_rate_is_calculated_by_the_given_function(graph):
    x, v = graph.symbol("x"), graph.symbol("v")
    rate = parse("rate(x**2)", graph, {"x": x}, lambda e: graph.directional([e], {x: v})[0])
    assert rate is graph.add(v * x, x * v)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 +", "'1 +' is not an expression"),
        ("", "'' is not an expression"),
        ("y", "unknown name 'y'; known here: x"),
        ("x.real", "unknown name 'x.real'"),
        ("x**y", "unknown name 'y'"),
        ("x**0.5", "expected a whole number up to 16 as exponent"),
        ("2**x", "expected a whole number"),
        ("x**1000", "expected a whole number"),
        ("log(x)", "unknown function 'log'"),
        ("x.conjugate()", "unknown function 'x.conjugate'"),
        ("rate(x)", "unknown function 'rate'"),
        ("sin(x, x)", "sin takes 1 argument"),
        ("min(x)", "min takes 2 arguments"),
        ("max(x, x, key=1)", "unknown function 'max'"),
        ("1/0", "'1/0' divides by zero or overflows"),
        ("exp(1e9)", "'exp(1e9)' divides by zero or overflows"),
        ("sqrt(-1)", "'sqrt(-1)' has no value"),
        ("x if x else 1", "is not understood"),
        ("x[0]", "is not understood"),
        ("'a'", "is not understood"),
        ("True", "is not understood"),
        ("1j", "is not understood"),
        ("x % 2", "is not understood"),
        ("~x", "is not understood"),
        ("__import__('os').system('true')", "unknown function"),
        ("(lambda: 1)()", "unknown function"),
        ("[x for x in 'a']", "is not understood"),
        ("(" * 300 + "x" + ")" * 300, "is"),
        ("-" * 5000 + "x", "is"),
    ],
)
def test_text_that_is_no_expression_is_refused(graph, text, says):
    with pytest.raises(ExpressionError) as error:
        parse(text, graph, {"x": graph.symbol("x")})
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 300
