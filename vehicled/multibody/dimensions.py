"""Units of coordinates and of expressions of them, for the text of generated code."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from vehicled.multibody.system import System
from vehicled.symbolic.graph import Atom
from vehicled.units import Dimension, name_unit, parse_unit

_NUMBER = parse_unit("1")[1]
_WORK = parse_unit("J")[1]


def name_coordinate_units(system: System, angles: Collection[str]) -> list[str]:
    """Units of the coordinates: m, rad for those named in `angles`, or 1 for components of unit vectors."""
    vectors = {c for basic in system.basics if not basic.point for c in system.of(basic)}
    return ["1" if c in vectors else "rad" if c.name in angles else "m" for c in system.coordinates]


def name_units(outputs: Sequence[Atom], known: Mapping[Atom, str]) -> list[str | None]:
    """SI units of expressions, from those of their symbols; an angle is a number.

    None if an expression adds terms of different units, as one in a file may do with numbers without a unit,
    and for an expression with unknown symbols.
    """
    found = _find_dimensions(outputs, known)
    return [None if (d := found[e]) is None else name_unit(d) for e in outputs]


def find_length_powers(outputs: Sequence[Atom], known: Mapping[Atom, str]) -> list[float | None]:
    """As `name_units`, but only the power of length; constants have the unit of the terms to which they are added."""
    found = _find_dimensions(outputs, known, constants_fit=True)
    return [None if (d := found[e]) is None else float(d[1]) for e in outputs]


def name_conjugate(unit: str) -> str:
    """Unit conjugate to a displacement's unit, with which their product is N·m: unit of a force or a multiplier."""
    return name_unit(_times(_WORK, _dimension(unit), -1))


def _dimension(unit: str) -> Dimension:
    mass, length, time, _ = parse_unit(unit)[1]
    return mass, length, time, Fraction(0)


def _find_dimensions(
    outputs: Sequence[Atom], known: Mapping[Atom, str], *, constants_fit: bool = False
) -> dict[Atom, Dimension | None]:
    """Dimensions of all atoms of the outputs; constants other than zero are numbers unless they `fit` in a sum."""
    found: dict[Atom, Dimension | None] = {}
    for atom in outputs[0].graph.reachable(outputs) if outputs else ():
        if atom.op == "symbol":
            found[atom] = _dimension(known[atom]) if atom in known else None
        else:
            found[atom] = _combine(atom, found, constants_fit)
    return found


def _combine(atom: Atom, found: Mapping[Atom, Dimension | None], constants_fit: bool) -> Dimension | None:
    args = atom.args[2:] if atom.op == "where_less" else atom.args
    if atom.op in ("add", "sub", "where_less"):
        # Zero is zero in any unit.
        kinds = {found[a] for a in args if not (a.is_constant(0.0) or (constants_fit and a.op == "const"))}
        return kinds.pop() if len(kinds) == 1 else None
    operands = [found[a] for a in args]
    if None in operands:
        return None
    if atom.op == "mul":
        return _times(operands[0], operands[1], 1)
    if atom.op == "div":
        return _times(operands[0], operands[1], -1)
    if atom.op == "sqrt":
        return _times(_NUMBER, operands[0], Fraction(1, 2))
    if atom.op in ("neg", "abs", "lane_sum", "lane_swap"):
        return operands[0]
    return _NUMBER  # a constant, or a sine and the like


def _times(a: Dimension | None, b: Dimension | None, power: Fraction | int) -> Dimension:
    assert a is not None
    assert b is not None
    mass, length, time, angle = (x + power * y for x, y in zip(a, b, strict=True))
    return mass, length, time, angle
