"""Evaluation of atoms in floats, fractions and decimals."""

import math
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction

import pytest

from vehicled.symbolic.evaluate import DECIMAL, FLOAT, angle_of, evaluate, sine_and_cosine
from vehicled.symbolic.graph import Graph


@pytest.fixture
def graph():
    return Graph()


def test_floats_agree_with_the_math_module(graph):
    x, y = graph.symbol("x"), graph.symbol("y")
    outputs = [
        graph.sqrt(x * x + y * y) / (x - 2.0),
        graph.sin(x) * graph.cos(y) - graph.atan2(y, x),
        graph.max(x, y) + graph.abs(-x),
        graph.tanh(x) + graph.exp(y) + graph.atan(x * y),
    ]
    a, b = 0.7, -1.3
    expected = [
        math.hypot(a, b) / (a - 2.0),
        math.sin(a) * math.cos(b) - math.atan2(b, a),
        max(a, b) + abs(a),
        math.tanh(a) + math.exp(b) + math.atan(a * b),
    ]
    assert evaluate(outputs, {x.id: a, y.id: b}, FLOAT) == pytest.approx(expected, rel=1e-15)


def test_fractions_are_exact(graph):
    x = graph.symbol("x")
    arithmetic = {**FLOAT, "const": Fraction}
    (value,) = evaluate([(x + 1.0) / (x * x - 0.25)], {x.id: Fraction(1, 3)}, arithmetic)
    assert value == Fraction(4, 3) / (Fraction(1, 9) - Fraction(1, 4))


def test_decimals_have_the_digits_asked_for(graph):
    x = graph.symbol("x")
    with localcontext() as context:
        context.prec = 60
        (root, sine, cosine) = evaluate(
            [graph.sqrt(x), graph.sin(x / 2.0), graph.cos(x / 2.0)], {x.id: Decimal(2)}, DECIMAL
        )
    # Published digits of √2, sin 1, cos 1.
    assert str(root).startswith("1.4142135623730950488016887242096980785696718753769")
    assert str(sine).startswith("0.8414709848078965066525023216302989996225630607983")
    assert str(cosine).startswith("0.5403023058681397174009366074429766037323104206179")


@pytest.mark.parametrize("x", ["0", "1e-30", "-0.5", "3.14159", "51.7", "-1234.5"])
def test_sine_and_cosine_of_decimals_are_precise(x):
    with localcontext() as context:
        context.prec = 50
        sine, cosine = sine_and_cosine(Decimal(x))
        assert abs(sine * sine + cosine * cosine - 1) < Decimal("1e-48")
        double, _ = sine_and_cosine(2 * Decimal(x))
        assert abs(double - 2 * sine * cosine) < Decimal("1e-47")
    assert float(sine) == pytest.approx(math.sin(float(x)), abs=1e-12)
    assert float(cosine) == pytest.approx(math.cos(float(x)), abs=1e-12)
    assert len(sine.as_tuple().digits) <= 50
    assert getcontext().prec == 28


@pytest.mark.parametrize(("y", "x"), [("0", "1"), ("1", "-2"), ("-3", "-1e-20"), ("5", "0"), ("0", "-1")])
def test_the_angle_of_a_direction_in_decimals_is_precise(y, x):
    with localcontext() as context:
        context.prec = 60
        angle = angle_of(Decimal(y), Decimal(x))
        sine, cosine = sine_and_cosine(angle)
        size = (Decimal(y) ** 2 + Decimal(x) ** 2).sqrt()
        assert abs(sine * size - Decimal(y)) < Decimal("1e-57") * size
        assert abs(cosine * size - Decimal(x)) < Decimal("1e-57") * size
        assert angle_of(Decimal(0), Decimal(0)) == 0
    assert float(angle) == pytest.approx(math.atan2(float(y), float(x)))


def test_unknown_symbols_and_unsupported_operations_are_refused(graph):
    x = graph.symbol("x")
    with pytest.raises(KeyError):
        evaluate([x + 1.0], {}, FLOAT)
    with pytest.raises(KeyError):
        evaluate([graph.tanh(x)], {x.id: Decimal(1)}, DECIMAL)
