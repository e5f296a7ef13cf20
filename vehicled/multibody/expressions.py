"""Expressions of a mechanism's file, such as `-k*(s - s0) - c*rate(s)`, parsed into atoms.

Only the following is understood: + − * / **, numbers, names (dotted ones too), `pi` and the functions
sin, cos, sqrt, tanh, exp, abs, min, max and `rate` (d/dt of any expression). Numbers are in SI and radians.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Mapping

from vehicled.symbolic.graph import Atom, Graph

_FUNCTIONS = ("sin", "cos", "sqrt", "tanh", "exp", "abs")
RESERVED = {*_FUNCTIONS, "min", "max", "rate", "pi", "t"}
"""Words that cannot be names of coordinates or parameters."""

_LARGEST_POWER = 16


class ExpressionError(ValueError):
    """A text that is not an expression; the message gives the reason."""


def parse(
    text: str | float, graph: Graph, names: Mapping[str, Atom], rate: Callable[[Atom], Atom] | None = None
) -> Atom:
    """The atom of an expression.

    `names`: names that it may use; `rate`: function that returns the time derivative of an atom, if
    available. Raises ExpressionError.
    """
    if not isinstance(text, str):
        return graph.constant(text)
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (RecursionError, MemoryError):
        raise ExpressionError(
            f"{text[:60]!r} … is too long, or nested too deeply; expected parts of it"
        ) from None
    except (SyntaxError, ValueError):
        raise ExpressionError(f"{text[:60]!r} is not an expression") from None
    try:
        return _Parser(graph, names, rate).visit(tree.body)
    except RecursionError:
        raise ExpressionError(f"{text[:60]!r} is nested too deeply") from None
    except (ZeroDivisionError, OverflowError):
        raise ExpressionError(f"{text[:60]!r} divides by zero or overflows") from None
    except ValueError as error:
        if isinstance(error, ExpressionError):
            raise
        raise ExpressionError(f"{text[:60]!r} has no value") from None


class _Parser:
    def __init__(self, graph: Graph, names: Mapping[str, Atom], rate: Callable[[Atom], Atom] | None) -> None:
        self.graph, self.names, self.rate = graph, names, rate

    def visit(self, node: ast.expr) -> Atom:
        if isinstance(node, ast.Constant):
            number = node.value
            if isinstance(number, (int, float)) and not isinstance(number, bool):
                return self.graph.constant(number)
        if isinstance(node, (ast.Name, ast.Attribute)):
            return self.name(node)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            value = self.visit(node.operand)
            return -value if isinstance(node.op, ast.USub) else value
        if isinstance(node, ast.BinOp):
            return self.binary(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        raise ExpressionError(f"{ast.unparse(node)[:60]!r} is not understood")

    def name(self, node: ast.expr) -> Atom:
        name = ast.unparse(node)
        if name == "pi":
            return self.graph.constant(3.141592653589793)
        if name not in self.names:
            near = difflib.get_close_matches(name[:60], self.names, n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"known here: {', '.join([*self.names][:12])}"
            raise ExpressionError(f"unknown name {name[:60]!r}; {hint}")
        return self.names[name]

    def binary(self, node: ast.BinOp) -> Atom:
        a, b = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.Add):
            return a + b
        if isinstance(node.op, ast.Sub):
            return a - b
        if isinstance(node.op, ast.Mult):
            return a * b
        if isinstance(node.op, ast.Div):
            return a / b
        if isinstance(node.op, ast.Pow):
            return self.power(a, b)
        raise ExpressionError(f"{ast.unparse(node)[:60]!r} is not understood")

    def power(self, base: Atom, exponent: Atom) -> Atom:
        n = exponent.value
        if exponent.op != "const" or n != int(n) or abs(n) > _LARGEST_POWER:
            raise ExpressionError(f"expected a whole number up to {_LARGEST_POWER} as exponent")
        result = self.graph.one
        for _ in range(abs(int(n))):
            result = result * base
        return result if n >= 0 else 1.0 / result

    def call(self, node: ast.Call) -> Atom:
        name = ast.unparse(node.func)
        count = 2 if name in ("min", "max") else 1
        if name not in RESERVED - {"pi", "t"} or node.keywords or (name == "rate" and self.rate is None):
            raise ExpressionError(f"unknown function {name[:60]!r}")
        arguments = [self.visit(a) for a in node.args]
        if len(arguments) != count:
            raise ExpressionError(f"{name} takes {count} argument{'s' if count > 1 else ''}")
        if name == "rate" and self.rate is not None:
            return self.rate(arguments[0])
        if count == 2:
            atom: Atom = getattr(self.graph, name)(*arguments)
            return atom
        return self.graph.function(name, arguments[0])
