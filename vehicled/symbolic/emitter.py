"""LLVM IR text of operations on atoms, one instruction each if the processor has it.

The emitters of `llvm.py` (one instance) and `wide.py` (several) decide how values are held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Layout

_ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTRINSICS = {"sqrt": "sqrt", "abs": "fabs"}
_BLOCK = 300
"""Instructions of a basic block. Compile time of a block grows with its square: models of 10,000 and more
instructions in one block take six times as long to compile as in blocks of 100 to 1,000, and run no
faster."""
_LIBM = {"sin": 1, "cos": 1, "tanh": 1, "atan": 1, "exp": 1, "atan2": 2}


def declarations(sizes: Iterable[int]) -> str:
    """Declarations of the functions that operations on values of these sizes call."""
    text = [f"declare double @{f}({', '.join(['double'] * n)}) nounwind\n" for f, n in _LIBM.items()]
    for n in sorted(set(sizes)):
        suffix, t = ("f64", "double") if n == 1 else (f"v{n}f64", f"<{n} x double>")
        text += [f"declare {t} @llvm.{f}.{suffix}({t})\n" for f in _INTRINSICS.values()]
    return "".join(text)


class Emitter:
    """Lines of one function, with a new name for every value."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.lines: list[str] = []
        self._count = 0

    def size(self, rank: int) -> int:
        """Elements of the vector that holds a value."""
        raise NotImplementedError

    def lane_sum(self, a: Atom, value: Callable[[Atom, int], str]) -> str:
        """Sum of an atom's lanes, a plain number; `value` returns the name of an operand at a rank."""
        raise NotImplementedError

    def lane_swap(self, a: Atom, value: Callable[[Atom, int], str]) -> str:
        """An atom with neighbouring lanes exchanged; `value` returns the name of an operand at a rank."""
        raise NotImplementedError

    def body(self) -> str:
        """Text of all lines, in consecutive basic blocks (see `_BLOCK`)."""
        begins = range(0, len(self.lines), _BLOCK)
        blocks = ["\n".join(self.lines[i : i + _BLOCK]) for i in begins]
        return "".join(
            f"{block}\n  br label %block{n}\nblock{n}:\n" for n, block in enumerate(blocks[:-1], 1)
        ) + "".join(blocks[-1:])

    def type(self, rank: int) -> str:
        """LLVM type of a value of that rank."""
        n = self.size(rank)
        return "double" if n == 1 else f"<{n} x double>"

    def new(self, text: str) -> str:
        """Add an instruction, and return the name of its result."""
        name = f"%v{self._count}"
        self._count += 1
        self.lines.append(f"  {name} = {text}")
        return name

    def constant(self, value: float, rank: int) -> str:
        """A number as an operand of that rank, exactly (its bits in hexadecimal)."""
        bits = f"0x{np.float64(value).view(np.uint64):016X}"
        n = self.size(rank)
        return bits if n == 1 else "<" + ", ".join([f"double {bits}"] * n) + ">"

    def pointer(self, offset: int, base: str = "%w") -> str:
        """Name of the address of a number in the workspace, counted in float64."""
        return self.new(f"getelementptr inbounds double, ptr {base}, i64 {offset}")

    def call(self, function: str, values: Sequence[str], rank: int) -> str:
        """Call a function of the mathematics library for each element."""
        n = self.size(rank)
        if n == 1:
            return self.new(f"call double @{function}({', '.join('double ' + v for v in values)})")
        vector = f"<{n} x double>"
        result = "undef"
        for i in range(n):
            elements = [self.new(f"extractelement {vector} {v}, i32 {i}") for v in values]
            one = self.new(f"call double @{function}({', '.join('double ' + e for e in elements)})")
            result = self.new(f"insertelement {vector} {result}, double {one}, i32 {i}")
        return result

    def operation(self, a: Atom, value: Callable[[Atom, int], str]) -> str:
        """The name of an atom's value; `value` returns the name of an operand at a rank.

        Raises ValueError for an operation without machine code.
        """
        op, rank = a.op, a.rank
        t, n = self.type(rank), self.size(rank)
        if op in _ARITHMETIC:
            x, y = value(a.args[0], rank), value(a.args[1], rank)
            return self.new(f"{_ARITHMETIC[op]} contract {t} {x}, {y}")
        if op == "neg":
            return self.new(f"fneg {t} {value(a.args[0], rank)}")
        if op in _INTRINSICS:
            suffix = "f64" if n == 1 else f"v{n}f64"
            return self.new(f"call {t} @llvm.{_INTRINSICS[op]}.{suffix}({t} {value(a.args[0], rank)})")
        if op == "where_less":
            x, y, then, other = (value(b, rank) for b in a.args)
            flag = self.new(f"fcmp olt {t} {x}, {y}")
            bit = "i1" if n == 1 else f"<{n} x i1>"
            return self.new(f"select {bit} {flag}, {t} {then}, {t} {other}")
        if op in _LIBM:
            return self.call(op, [value(b, rank) for b in a.args], rank)
        if op == "lane_sum":
            return self.lane_sum(a.args[0], value)
        if op == "lane_swap":
            return self.lane_swap(a.args[0], value)
        raise ValueError(f"operation {op!r} has no machine code")
