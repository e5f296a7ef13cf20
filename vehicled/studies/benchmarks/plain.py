"""Operations and size of expressions that are written out in full, without shared terms.

They are computed atom by atom, operands first: the text itself would take a gigabyte for the locomotive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vehicled.symbolic.graph import Atom
from vehicled.symbolic.text import ATOMIC, INFIX, identifier

_PRECEDENCE = {"neg": 1} | {op: precedence for op, (_, precedence) in INFIX.items()}


@dataclass(frozen=True)
class Plain:
    """Size of several expressions together."""

    operations: int
    """Every +, −, ×, ÷, negation and function call counts one each time it is written."""
    characters: int
    """Characters of the expressions in C, with symbols by their names, without the code around them."""


def measure_plain(outputs: Sequence[Atom]) -> Plain:
    """Size of expressions of plain numbers."""
    operations: dict[Atom, int] = {}
    characters: dict[Atom, int] = {}
    for atom in outputs[0].graph.reachable(outputs):
        is_leaf = atom.op in ("const", "symbol")
        operations[atom] = (not is_leaf) + sum(operations[a] for a in atom.args)
        characters[atom] = _count_characters(atom, characters)
    return Plain(sum(operations[e] for e in outputs), sum(characters[e] for e in outputs))


def _count_characters(atom: Atom, known: dict[Atom, int]) -> int:
    if atom.op == "symbol":
        return len(identifier(atom.name))
    if atom.op == "const":
        return len(repr(atom.value))

    def operand(a: Atom, binding: int) -> int:
        own = 1 if a.op == "const" and a.value < 0.0 else _PRECEDENCE.get(a.op, ATOMIC)
        return known[a] + (0 if own >= binding else len("()"))

    if atom.op == "neg":
        return len("-") + operand(atom.args[0], 3)
    if atom.op in _PRECEDENCE:
        binding = _PRECEDENCE[atom.op]
        return operand(atom.args[0], binding) + len(" + ") + operand(atom.args[1], binding + 1)
    return len(f"{atom.op}()") + sum(known[a] for a in atom.args) + len(", ") * (len(atom.args) - 1)
