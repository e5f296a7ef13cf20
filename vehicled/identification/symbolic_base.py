"""Base parameters in symbols: each transfer of inertial properties eliminates one parameter.

Transfers at the joints that cut the loops come first, then those from the ends of the remaining tree to the
convergence bodies (Mejía Calderón 2016, section 4.1). Coefficients are expressions of the geometry; which of them
are zero follows from their numerical values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vehicled.identification import parameters
from vehicled.identification.base import BaseSet
from vehicled.identification.body_geometry import Geometry
from vehicled.identification.transfers import Transfer, find_transfers
from vehicled.multibody.body_operators import get_body
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.topology import GROUND
from vehicled.symbolic.evaluate import FLOAT, Arithmetic
from vehicled.symbolic.graph import Atom

_ZERO = 1e-11
"""Largest size of a coefficient (lengths squared) that counts as zero."""


@dataclass
class _Entry:
    """A coefficient as an expression, and its values at several geometries, the mechanism's own first."""

    atom: Atom
    samples: np.ndarray

    def __sub__(self, other: _Entry) -> _Entry:
        return _Entry(self.atom - other.atom, self.samples - other.samples)

    def __mul__(self, other: _Entry) -> _Entry:
        return _Entry(_multiply(self.atom, other.atom), self.samples * other.samples)

    def __truediv__(self, other: _Entry) -> _Entry:
        return _Entry(_divide(self.atom, other.atom), self.samples / other.samples)

    @property
    def is_zero(self) -> bool:
        """Whether it is zero at all geometries."""
        return bool(np.all(np.abs(self.samples) < _ZERO))

    @property
    def is_zero_here(self) -> bool:
        return bool(abs(self.samples[0]) < _ZERO)


def _multiply(a: Atom, b: Atom) -> Atom:
    """The product, in which a factor 1/x becomes a quotient, so that the expression is easier to read."""
    for factor, other in ((a, b), (b, a)):
        if factor.op == "neg":
            return -_multiply(factor.args[0], other)
        if factor.op == "div" and factor.args[0].is_constant(1.0):
            return _divide(other, factor.args[1])
    return a * b


def _divide(a: Atom, b: Atom) -> Atom:
    """The quotient, with a common factor cancelled."""
    if a.op == "neg" or (a.op == "const" and a.value < 0.0):
        return -_divide(-a, b)
    if b.op == "neg":
        return -_divide(a, b.args[0])
    if a.op == "mul" and b in a.args:
        return a.args[a.args[0] is b]
    if b.op == "mul" and a in b.args:
        return 1.0 / b.args[b.args[0] is a]
    return a / b


_Row = dict[int, _Entry]


@dataclass(frozen=True)
class SymbolicBase:
    """A set of base parameters whose β are expressions of the geometry."""

    geometry: Geometry
    base: BaseSet
    """With the numbers of the mechanism's geometry."""
    beta: Mapping[tuple[int, int], Atom]
    """By independent and dependent parameter; missing entries are zero."""

    def calc_beta(self, arithmetic: Arithmetic = FLOAT) -> list[list[Any]]:
        """(r, d) β in numbers of any kind, for the present parameters of the mechanism."""
        values = dict(
            zip(self.beta, self.geometry.evaluate(list(self.beta.values()), arithmetic), strict=True)
        )
        zero = arithmetic["const"](0.0)
        return [
            [values.get((int(i), int(k)), zero) for k in self.base.dependent] for i in self.base.independent
        ]

    def describe(self, names: Sequence[str]) -> list[str]:
        """(r,) texts of the base parameters, with the geometry's symbols."""
        lines = []
        for i in self.base.independent:
            text = names[i]
            for k in self.base.dependent:
                atom = self.beta.get((int(i), int(k)))
                if atom is not None:
                    text += _term(atom, names[k])
            lines.append(text)
        return lines


def find_symbolic_base(mechanism: Mechanism, convergence: Sequence[str] | None = None) -> SymbolicBase:
    """Base parameters by transfers between bodies.

    First to the ground and at the joints that are cut to open all loops, then from the ends of the remaining tree
    to the convergence bodies. Each independent transfer makes a parameter of its source body dependent: the one
    that occurs in the fewest other transfers.

    `convergence`: bodies; by default those with the most neighbours. Raises UsageError for unknown bodies.
    """
    geometry = Geometry(mechanism)
    ordered = _in_order(mechanism, find_transfers(mechanism, geometry), convergence)
    count = sum(len(parameters.get_kinds(len(b.moments))) for b in mechanism.placement.bodies.values())
    owner = [
        name
        for name, body in mechanism.placement.bodies.items()
        for _ in parameters.get_kinds(len(body.moments))
    ]
    atoms = [x for t in ordered for x in t.change.values()]
    samples = iter(geometry.sample(atoms).T)
    uses = Counter(k for t in ordered for k in t.change)
    reduced: dict[int, _Row] = {}
    """By dependent parameter: the other parameters of its change."""
    for transfer in ordered:
        row: _Row = {k: _Entry(x, next(samples)) for k, x in transfer.change.items()}
        for k in [k for k in row if k in reduced]:
            _subtract(row, row.pop(k), reduced[k])
        own = [k for k, e in row.items() if not e.is_zero_here]
        if not own:
            continue
        # The parameter that occurs in the fewest transfers keeps the expressions small (Markowitz's rule).
        pivot = max(own, key=lambda k: (owner[k] == transfer.source, -uses[k], abs(row[k].samples[0]), -k))
        divisor = row.pop(pivot)
        row = {k: e / divisor for k, e in row.items() if not e.is_zero}
        for other in reduced.values():
            if pivot in other:
                _subtract(other, other.pop(pivot), row)
        reduced[pivot] = row
    return _collect(geometry, count, reduced)


def _subtract(row: _Row, factor: _Entry, other: _Row) -> None:
    """row −= factor · other."""
    for k, e in other.items():
        product = factor * e
        zero = _Entry(factor.atom.graph.zero, np.zeros(len(factor.samples)))
        row[k] = row.get(k, zero) - product
        if row[k].is_zero:
            del row[k]


def _collect(geometry: Geometry, count: int, reduced: Mapping[int, _Row]) -> SymbolicBase:
    # Each body has its own symbols for shared geometry: at the mechanism's geometry, where these agree, more
    # coefficients can be zero than at the random geometries.
    reduced = {k: {i: e for i, e in row.items() if not e.is_zero_here} for k, row in reduced.items()}
    null = np.array(sorted(k for k, row in reduced.items() if not row), dtype=int)
    dependent = np.array(sorted(k for k, row in reduced.items() if row), dtype=int)
    independent = np.setdiff1d(np.arange(count), list(reduced))
    place = {int(i): n for n, i in enumerate(independent)}
    beta = np.zeros((len(independent), len(dependent)))
    symbolic = {}
    for n, k in enumerate(dependent):
        for i, e in reduced[int(k)].items():
            beta[place[i], n] = -e.samples[0]
            symbolic[i, int(k)] = -e.atom
    return SymbolicBase(geometry, BaseSet(independent, dependent, null, beta), symbolic)


def _in_order(
    mechanism: Mechanism, transfers: Sequence[Transfer], convergence: Sequence[str] | None
) -> list[Transfer]:
    """The transfers in the order of elimination, each from the body farther from the convergence bodies."""
    bodies = list(mechanism.placement.bodies)
    neighbours: dict[str, set[str]] = {b: set() for b in bodies}
    for t in transfers:
        if t.target != GROUND:
            neighbours[t.source].add(t.target)
            neighbours[t.target].add(t.source)
    if convergence is None:
        most = max(map(len, neighbours.values()))
        convergence = [b for b in bodies if len(neighbours[b]) == most]
    for name in convergence:
        get_body(mechanism, name)
    distance = dict.fromkeys(convergence, 0)
    tree: set[tuple[str, str]] = set()
    queue = list(convergence)
    for root in [*convergence, *bodies]:  # parts of a mechanism may be connected by the ground alone
        if root not in distance:
            distance[root] = 0
            queue.append(root)
        while queue:
            body = queue.pop(0)
            for other in sorted(neighbours[body], key=bodies.index):
                if other not in distance:
                    distance[other] = distance[body] + 1
                    tree.add((other, body))
                    queue.append(other)

    def rank(t: Transfer) -> tuple[int, int]:
        if t.target == GROUND:
            return 0, 0
        if (t.source, t.target) not in tree:
            return 1, 0
        return 2, -distance[t.source]

    turned = [
        t if t.target == GROUND or distance[t.source] >= distance[t.target] else _turned(t) for t in transfers
    ]
    return sorted(turned, key=rank)


def _turned(t: Transfer) -> Transfer:
    return Transfer(t.kind, t.target, t.source, {k: -x for k, x in t.change.items()})


# -- text ---------------------------------------------------------------------------------------------------------

_SIGNS = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}


def _term(atom: Atom, name: str) -> str:
    sign = "+"
    if atom.op == "neg":
        sign, atom = "-", atom.args[0]
    elif atom.op == "const" and atom.value < 0.0:
        sign, atom = "-", atom.graph.constant(-atom.value)
    factor = "" if atom.is_constant(1.0) else f"{_text(atom, 2)} * "
    return f" {sign} {factor}{name}"


def _text(atom: Atom, binding: int) -> str:
    """The text, in brackets where its operator has less precedence than `binding`."""
    if atom.op == "symbol":
        return atom.name
    if atom.op == "const":
        return f"{atom.value:g}"
    if atom.op in _SIGNS:
        sign, own = _SIGNS[atom.op]
        left, right = atom.args
        closer = own + (atom.op in ("sub", "div"))
        text = f"{_text(left, own)} {sign} {_text(right, closer)}"
    elif atom.op == "neg":
        text, own = f"-{_text(atom.args[0], 3)}", 1
    else:
        text, own = f"{atom.op}({', '.join(_text(a, 0) for a in atom.args)})", 4
    return text if own >= binding else f"({text})"
