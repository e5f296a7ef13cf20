"""Common parts of the text of routines in all languages."""

from __future__ import annotations

from typing import ClassVar

from vehicled.symbolic.graph import Atom
from vehicled.symbolic.loop import Above, Below, Condition, Not
from vehicled.symbolic.program import Program
from vehicled.symbolic.text import identifier


class RoutineText:
    """Text of conditions and places."""

    member: ClassVar[str]
    """Operator between `m` and its member."""
    negation: ClassVar[str]

    def __init__(self, program: Program) -> None:
        self.program = program

    def condition(self, condition: Condition) -> str:
        """Text of a condition as a logical expression."""
        match condition:
            case Not(opposite):
                return f"{self.negation}({self.condition(opposite)})"
            case Below(symbol, bound):
                return f"{self.place(symbol)} < {bound.name}"
            case Above(symbol, bound):
                return f"{self.place(symbol)} > {bound.name}"

    def place(self, symbol: Atom) -> str:
        """Text of a stored plain number."""
        array, index, _ = self.program.layout.find(self.program.offset(symbol))
        return f"m{self.member}{identifier(array)}[{index}]"
