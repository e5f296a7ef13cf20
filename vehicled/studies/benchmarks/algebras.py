"""SymPy and CasADi on the functions of `vehicled bench codegen`, if they are installed.

Each derives the function in its own expressions by the same explicit derivation, then searches for common
sub-expressions; operations are counted in the same way as for this program.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from vehicled.multibody.system import Coordinate
from vehicled.studies.benchmarks.explicit import Row
from vehicled.symbolic.graph import Atom

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "neg": lambda x: -x,
}


class _Peer:
    """A package as an algebra (see `explicit.Algebra`) that converts the atoms of a description."""

    def __init__(self, package: ModuleType) -> None:
        self.package = package
        self.sin, self.cos, self.sqrt = package.sin, package.cos, package.sqrt
        self._known: dict[int, Any] = {}

    def take(self, atom: Atom) -> Any:
        known = self._known.get(atom.id)
        if known is None:
            if atom.op == "symbol":
                known = self.symbol(atom.name)
            elif atom.op == "const":
                known = self.constant(atom.value)
            else:
                known = _ARITHMETIC[atom.op](*(self.take(a) for a in atom.args))
            self._known[atom.id] = known
        return known

    def symbol(self, name: str) -> Any:
        raise NotImplementedError

    def constant(self, value: float) -> Any:
        raise NotImplementedError


class Sympy(_Peer):
    """SymPy with its default `cse`: 295 operations of the four-bar function, 259 with `optimizations="basic"`."""

    def symbol(self, name: str) -> Any:
        """A symbol of that name."""
        return self.package.Symbol(name)

    def constant(self, value: float) -> Any:
        """A number, as an integer if it is one."""
        return self.package.Integer(value) if value.is_integer() else self.package.Float(value)

    def gradient(self, values: Row, coordinates: Sequence[Coordinate]) -> list[Row]:
        """∂values/∂q, a row per coordinate, by `diff`."""
        return [[self.package.diff(v, self.take(c.q)) for v in values] for c in coordinates]

    def rate(self, values: Row, coordinates: Sequence[Coordinate]) -> Row:
        """Σ ∂values/∂q · q̇: rates of functions of q."""
        slopes = self.gradient(values, coordinates)
        rates = [self.take(c.qd) for c in coordinates]
        return [sum(s * r for s, r in zip(row, rates, strict=True)) for row in zip(*slopes, strict=True)]

    def operations(self, outputs: Row) -> int:
        """Operations of shared expressions and results after `cse`."""
        shared, results = self.package.cse(outputs)
        return sum(int(self.package.count_ops(e)) for e in (*(e for _, e in shared), *results))


class Casadi(_Peer):
    """Scalar expressions (SX), its own derivatives, and its `cse`."""

    def symbol(self, name: str) -> Any:
        """A symbol of that name."""
        return self.package.SX.sym(name)

    def constant(self, value: float) -> Any:
        """A number."""
        return self.package.SX(value)

    def gradient(self, values: Row, coordinates: Sequence[Coordinate]) -> list[Row]:
        """∂values/∂q, a row per coordinate, by `jacobian`."""
        slopes = self.package.jacobian(
            self._column(values), self._column([self.take(c.q) for c in coordinates])
        )
        return [[slopes[i, k] for i in range(len(values))] for k in range(len(coordinates))]

    def rate(self, values: Row, coordinates: Sequence[Coordinate]) -> Row:
        """Rates of functions of q, by `jtimes`."""
        q, qd = (
            [self.take(s) for s in symbols]
            for symbols in zip(*((c.q, c.qd) for c in coordinates), strict=True)
        )
        rates = self.package.jtimes(self._column(values), self._column(q), self._column(qd))
        return [rates[i] for i in range(len(values))]

    def operations(self, outputs: Row) -> int:
        """Instructions of the function after `cse`, without loads, stores and constants."""
        casadi = self.package
        result = casadi.cse(self._column(outputs))
        function = casadi.Function("f", [casadi.vertcat(*casadi.symvar(result))], [result])
        moves = (casadi.OP_INPUT, casadi.OP_OUTPUT, casadi.OP_CONST)
        return sum(function.instruction_id(k) not in moves for k in range(function.n_instructions()))

    def _column(self, values: Row) -> Any:
        return self.package.vertcat(*values)


Peer = Sympy | Casadi
PEERS: dict[str, type[Sympy] | type[Casadi]] = {"sympy": Sympy, "casadi": Casadi}


def installed() -> dict[str, ModuleType]:
    """The installed packages."""
    found = {}
    for name in PEERS:
        try:
            found[name] = importlib.import_module(name)
        except ImportError:
            continue
    return found
