"""Back end to Python that people can read: for inspection, and as the slow reference for the machine code."""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Kernel, Layout

_INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}
"""Sign and precedence."""
_ATOMIC = 4
_CALLS = {
    "sqrt": "np.sqrt",
    "sin": "np.sin",
    "cos": "np.cos",
    "tanh": "np.tanh",
    "atan": "np.arctan",
    "atan2": "np.arctan2",
    "exp": "np.exp",
    "abs": "np.abs",
}
_WIDE = 90
"""Characters beyond which an expression gets a line of its own."""


class _Writer:
    """The text of one kernel. An expression is its text and the precedence of its outermost operation."""

    def __init__(self, kernel: Kernel, layout: Layout) -> None:
        self.kernel = kernel
        self.layout = layout
        self.lines: list[str] = []
        self.text: dict[int, tuple[str, int]] = {}
        self._taken = {kernel.name, "w", "np", *keyword.kwlist}
        self._counts: Counter[str] = Counter()

    def write(self) -> str:
        schedule = [a for a in self.kernel.schedule() if a.op not in ("const", "lane_ones")]
        used = [b for a in schedule for b in a.args] + [e for *_, e in self.kernel.stores]
        uses = Counter(a.id for a in used)
        # All inputs get names first, because a kernel may read and write the same place.
        loads = self.kernel.loads
        read = {a.id: a for a in used if a.id in loads}
        for a in sorted(read.values(), key=lambda a: loads[a.id]):
            offset = loads[a.id]
            copy = "" if self.layout.stride(a.rank) == 1 else ".copy()"
            self.assign(a, self.place(offset, a.rank) + copy, a.name or self.layout.name(offset))
        for a in schedule:
            self.text[a.id] = self.expression(a)
            written = self.text[a.id][0]
            if uses[a.id] > 1 or len(written) > _WIDE:
                self.assign(a, written, a.name or self.suggestion(a))
        for offset, rank, e in self.kernel.stores:
            target = self.place(offset, rank)
            self.lines.append(f"{target} = {self.operand(e, 0)}  # {self.layout.name(offset)}")
        body = "".join(f"    {line}\n" for line in self.lines or ["pass"])
        return f"def {self.kernel.name}(w):\n{body}"

    def assign(self, a: Atom, written: str, wanted: str) -> None:
        """A line that gives an expression a name: the wanted one, numbered when it is taken."""
        plain = re.sub(r"\W+", "_", wanted).strip("_")
        name = plain = plain if plain.isidentifier() else f"_{plain}"
        while name in self._taken:
            self._counts[plain] += 1
            name = f"{plain}_{self._counts[plain] + 1}"
        self._taken.add(name)
        self.text[a.id] = (name, _ATOMIC)
        self.lines.append(f"{name} = {written}")

    def suggestion(self, a: Atom) -> str:
        """sin(theta1) is called sin_theta1, and so on; values without such a simple name are numbered."""
        argument = self.operand(a.args[0], _ATOMIC)
        if a.op in _CALLS and argument.isidentifier():
            return f"{a.op}_{argument}"
        self._counts[""] += 1
        return f"t{self._counts['']}"

    def place(self, offset: int, rank: int) -> str:
        n = self.layout.stride(rank)
        return f"w[{offset}]" if n == 1 else f"w[{offset}:{offset + n}]"

    def operand(self, a: Atom, binding: int) -> str:
        """Text of an operand, in brackets when its precedence is lower than its place needs."""
        if a.op == "lane_ones":
            return f"np.ones({self.layout.stride(1)})"
        if a.op == "const":
            written, own = repr(a.value), _ATOMIC if a.value >= 0.0 else 1
        else:
            written, own = self.text[a.id]
        return written if own >= binding else f"({written})"

    def expression(self, a: Atom) -> tuple[str, int]:
        if a.op in _INFIX:
            sign, binding = _INFIX[a.op]
            # a − (b + c) and a / (b · c) need their brackets; rounding needs those of a + (b + c) too.
            left, right = self.operand(a.args[0], binding), self.operand(a.args[1], binding + 1)
            return f"{left} {sign} {right}", binding
        if a.op == "neg":
            return f"-{self.operand(a.args[0], 3)}", 1
        plain = [self.operand(b, 0) for b in a.args]
        if a.op == "where_less":
            return f"np.where({plain[0]} < {plain[1]}, {plain[2]}, {plain[3]})", _ATOMIC
        if a.op == "lane_sum":
            return f"np.sum({plain[0]})", _ATOMIC
        if a.op == "lane_swap":
            return f"{self.operand(a.args[0], _ATOMIC)}.reshape(-1, 2)[:, ::-1].ravel()", _ATOMIC
        return f"{_CALLS[a.op]}({', '.join(plain)})", _ATOMIC


def source(kernel: Kernel, layout: Layout) -> str:
    """Python source of `def name(w)`: values that are used once are inlined, the others get names."""
    return _Writer(kernel, layout).write()


def function(kernel: Kernel, layout: Layout) -> Callable[[np.ndarray], None]:
    """The kernel as a Python function on a workspace. Raises ValueError unless the layout's width is 1."""
    if layout.width != 1:
        raise ValueError("the Python back end computes one instance at a time")
    namespace: dict[str, Any] = {"np": np}
    exec(source(kernel, layout), namespace)
    compiled: Callable[[np.ndarray], None] = namespace[kernel.name]
    return compiled
