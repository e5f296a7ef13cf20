"""Atoms evaluated with numbers of any kind, operation by operation: slow, with the precision of these numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, getcontext, localcontext
from typing import Any

from vehicled.symbolic.graph import Atom

Arithmetic = Mapping[str, Callable[..., Any]]
"""The operations on one kind of number, by the atom's `op`; `const` converts a float."""


def evaluate(outputs: Sequence[Atom], values: Mapping[int, Any], arithmetic: Arithmetic) -> list[Any]:
    """Values of the outputs, given known `values` of atoms (by id, usually of symbols).

    Raises KeyError for an operation that the arithmetic lacks, and for a symbol without value.
    """
    known = dict(values)
    stack = list(outputs)
    while stack:
        a = stack[-1]
        missing = [] if a.id in known else [b for b in a.args if b.id not in known]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        if a.id not in known:
            operation = arithmetic[a.op]
            known[a.id] = operation(a.value) if a.op == "const" else operation(*[known[b.id] for b in a.args])
    return [known[a.id] for a in outputs]


_COMMON: Arithmetic = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "abs": abs,
    "where_less": lambda a, b, then, other: then if a < b else other,
}

FLOAT: Arithmetic = {
    **_COMMON,
    "const": float,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "atan": math.atan,
    "atan2": math.atan2,
}


def sine_and_cosine(x: Decimal) -> tuple[Decimal, Decimal]:
    """Sine and cosine to the precision of the decimal context: Taylor series of a part of the angle, doubled."""
    with localcontext() as context:
        doublings = max(0, x.adjusted() + 1) * 4 + 8
        context.prec += doublings + 5
        part = x / 2**doublings
        sine, term, n = part, part, 1
        versine = Decimal(0)  # 1 − cos: small, so that doubling does not lose digits
        half = term * part / 2
        versine += half
        while abs(term) > Decimal(10) ** -context.prec:
            term = -term * part * part / ((n + 1) * (n + 2))
            n += 2
            sine += term
            versine += term * part / (n + 1)
        for _ in range(doublings):
            sine, versine = 2 * sine * (1 - versine), 2 * versine * (2 - versine)
        cosine = 1 - versine
    return +sine, +cosine


def angle_of(y: Decimal, x: Decimal) -> Decimal:
    """atan2(y, x) to the precision of the decimal context, from double precision; each step triples the digits."""
    size = (x * x + y * y).sqrt()
    if not size:
        return Decimal(0)
    angle, digits = Decimal(math.atan2(y / size, x / size)), 15
    while digits < getcontext().prec:
        sine, cosine = sine_and_cosine(angle)
        angle += (y * cosine - x * sine) / size
        digits *= 3
    return angle


DECIMAL: Arithmetic = {
    **_COMMON,
    "const": Decimal,
    "sqrt": Decimal.sqrt,
    "exp": Decimal.exp,
    "sin": lambda a: sine_and_cosine(a)[0],
    "cos": lambda a: sine_and_cosine(a)[1],
    "atan2": angle_of,
}
"""Arithmetic with as many digits as the decimal context has."""
