"""Units of coordinates and of expressions of them, for the text of generated code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from vehicled.multibody.model import Model
from vehicled.symbolic.graph import Atom
from vehicled.units import Dimension, name_unit, parse_unit

_NUMBER = parse_unit("1")[1]
_WORK = parse_unit("J")[1]


def name_coordinate_units(model: Model) -> list[str]:
    """m, rad, or 1 for components of unit vectors."""
    system, angles = model.system, model.description.angles
    vectors = {c for basic in system.basics if not basic.point for c in system.of(basic)}
    return ["1" if c in vectors else "rad" if c.name in angles else "m" for c in system.coordinates]


def name_units(model: Model, outputs: Sequence[Atom]) -> list[str | None]:
    """Units in SI of expressions of q, t and parameters, an angle being a number.

    None where an expression adds what has not the same unit, as one in a file may do by numbers without a unit, and
    for an expression of inputs, which have none.
    """
    known = {atom: _dimension(model.units[name]) for name, atom in model.symbols.items()}
    coordinates = zip(model.system.coordinates, name_coordinate_units(model), strict=True)
    known |= {c.q: _dimension(unit) for c, unit in coordinates}
    known[model.t] = _dimension("s")
    found: dict[Atom, Dimension | None] = {}
    for atom in model.graph.reachable(outputs):
        found[atom] = known.get(atom) if atom.op == "symbol" else _combine(atom, found)
    return [None if (d := found[e]) is None else name_unit(d) for e in outputs]


def name_conjugate(unit: str) -> str:
    """Unit of what has the work N·m on a displacement in a unit: of a force, of a multiplier."""
    return name_unit(_times(_WORK, _dimension(unit), -1))


def _dimension(unit: str) -> Dimension:
    mass, length, time, _ = parse_unit(unit)[1]
    return mass, length, time, Fraction(0)


def _combine(atom: Atom, found: Mapping[Atom, Dimension | None]) -> Dimension | None:
    if atom.op == "const":
        return _NUMBER
    operands = [found[a] for a in (atom.args[2:] if atom.op == "where_less" else atom.args)]
    first = operands[0]
    if first is None or None in operands:
        return None
    if atom.op == "mul":
        return _times(first, operands[1], 1)
    if atom.op == "div":
        return _times(first, operands[1], -1)
    if atom.op == "sqrt":
        return _times(_NUMBER, first, Fraction(1, 2))
    if atom.op in ("neg", "abs"):
        return first
    if atom.op in ("add", "sub", "where_less"):
        return first if operands[1] == first else None
    return _NUMBER  # of sines and the like


def _times(a: Dimension, b: Dimension | None, power: Fraction | int) -> Dimension:
    assert b is not None
    mass, length, time, angle = (x + power * y for x, y in zip(a, b, strict=True))
    return mass, length, time, angle
