"""Functions with loops over the arrays of a workspace, as LLVM IR text, where straight-line code would be long.

Straight-line code is read from memory again in every step, a few bytes for each operation. Where thousands of
operations follow one pattern (a covariance and its updates), loops of a few hundred bytes run faster. Such a
function replaces a kernel (`Program.replace`). The kernel remains declared by its expressions: these are
differentiated, and tests compare the loops with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vehicled.symbolic.program import KernelHandle, Program

_SIDE_BY_SIDE = 4
"""How many consecutive numbers `each` computes at once."""


Table = Callable[[str], str]
"""A function that loads the constant at an index."""


@dataclass(frozen=True)
class BegunLoop:
    """A loop that has been started."""

    index: str
    """Name of the index, an i64."""
    carried: tuple[str, ...]
    """Names of the values carried from one iteration to the next, as of the present iteration."""
    number: int
    heads: tuple[int, ...]
    """Lines that are completed at the end of the loop: those of the index and of the carried values."""


class ArrayLoops:
    """The text of one function `void name(ptr %w, …)` on the workspace of one instance.

    Operands are names of values or literals; places count float64 from the start of the workspace.
    """

    def __init__(self, program: Program, name: str, *arguments: str) -> None:
        """`arguments`: type and name of each argument in addition to the workspace, such as `i64 %row`."""
        self._layout, self._name, self._arguments = program.layout, name, arguments
        self._lines: list[str] = []
        self._tables: list[str] = []
        self._count, self._block = 0, "entry"

    @property
    def text(self) -> str:
        """The text of the function and of its tables."""
        head = f'define void @"{self._name}"({", ".join(("ptr %w", *self._arguments))}) nounwind'
        return "".join([*self._tables, head, " {\nentry:\n", *self._lines, "  ret void\n}\n"])

    def place(self, array: str) -> int:
        """Place of an array of plain numbers. Raises KeyError."""
        return self._layout.places[array].offset

    # -- control ------------------------------------------------------------------------------------------

    def begin(self, first: str | int, end: str | int, *carried: tuple[str, str]) -> BegunLoop:
        """Begin a loop over indices from `first` to below `end`; `carried`: types and first values."""
        self._count += 1
        n, before = self._count, self._block
        self._line(f"br label %top{n}")
        self._begin_block(f"top{n}")
        heads, names = [], []
        for k, (kind, value) in enumerate((("i64", str(first)), *carried)):
            names.append(f"%turn{n}.{k}")
            heads.append(len(self._lines))
            self._line(f"{names[-1]} = phi {kind} [{value}, %{before}], ")
        more = self.new(f"icmp slt i64 {names[0]}, {end}")
        self._line(f"br i1 {more}, label %body{n}, label %end{n}")
        self._begin_block(f"body{n}")
        return BegunLoop(names[0], tuple(names[1:]), n, tuple(heads))

    def end(self, loop: BegunLoop, *values: str, step: str | int = 1) -> None:
        """End a loop, with the values for its next iteration.

        After the loop, `carried` has those of the last iteration.
        """
        following = self.new(f"add i64 {loop.index}, {step}")
        for head, value in zip(loop.heads, (following, *values), strict=True):
            self._lines[head] = self._lines[head].rstrip() + f" [{value}, %{self._block}]\n"
        self._line(f"br label %top{loop.number}")
        self._begin_block(f"end{loop.number}")

    def each(self, first: str | int, end: str | int, body: Callable[[str, int], None]) -> None:
        """Call `body(index, size)` for consecutive numbers: `size` at once while enough remain, then singly."""
        whole = self.new(f"sub i64 {end}, {_SIDE_BY_SIDE - 1}")
        wide = self.begin(first, whole)
        body(wide.index, _SIDE_BY_SIDE)
        self.end(wide, step=_SIDE_BY_SIDE)
        single = self.begin(wide.index, end)
        body(single.index, 1)
        self.end(single)

    def unless_zero(self, value: str, body: Callable[[], None]) -> None:
        """Run what `body` adds only if a float64 is not zero."""
        self._count += 1
        n = self._count
        other = self.new(f"fcmp une double {value}, 0.0")
        self._line(f"br i1 {other}, label %then{n}, label %after{n}")
        self._begin_block(f"then{n}")
        body()
        self._line(f"br label %after{n}")
        self._begin_block(f"after{n}")

    def call(self, kernel: KernelHandle) -> None:
        """Run a kernel."""
        self._line(f'call void @"{kernel.name}"(ptr %w)')

    def call_function(self, name: str, *arguments: str) -> None:
        """Call another such function with further arguments, each with its type."""
        self._line(f'call void @"{name}"({", ".join(("ptr %w", *arguments))})')

    # -- values -------------------------------------------------------------------------------------------

    def new(self, text: str) -> str:
        """Add an instruction, and return the name of its result."""
        self._count += 1
        self._line(f"%v{self._count} = {text}")
        return f"%v{self._count}"

    def sum(self, *terms: str | int) -> str:
        """Sum of integers, an i64."""
        total, *more = terms
        for term in more:
            total = self.new(f"add i64 {total}, {term}")
        return str(total)

    def load(self, place: str | int, size: int = 1) -> str:
        """Load a float64, or a vector of `size` of them."""
        return self.new(f"load {_type(size)}, ptr {self._pointer(place)}, align 8")

    def store(self, value: str, place: str | int, size: int = 1) -> None:
        """Store a float64, or a vector of `size` of them."""
        self._line(f"store {_type(size)} {value}, ptr {self._pointer(place)}, align 8")

    def clear(self, first: int, end: int) -> None:
        """Store zeros in the places from `first` to before `end`."""
        zero = self.begin(first, end)
        self.store("0.0", zero.index)
        self.end(zero)

    def broadcast(self, value: str, size: int) -> str:
        """A float64 as a vector of `size` equal elements."""
        if size == 1:
            return value
        one = self.new(f"insertelement {_type(size)} undef, double {value}, i32 0")
        mask = f"<{size} x i32> zeroinitializer"
        return self.new(f"shufflevector {_type(size)} {one}, {_type(size)} undef, {mask}")

    def multiply(self, a: str, b: str, size: int = 1) -> str:
        """Product of two float64, or of two vectors."""
        return self.new(f"fmul contract {_type(size)} {a}, {b}")

    def add(self, a: str, b: str, size: int = 1) -> str:
        """Sum of two float64."""
        return self.new(f"fadd contract {_type(size)} {a}, {b}")

    def subtract(self, a: str, b: str, size: int = 1) -> str:
        """Difference of two float64."""
        return self.new(f"fsub contract {_type(size)} {a}, {b}")

    def table(self, values: Sequence[int]) -> Table:
        """Store constants in a table; the returned function loads the one at an index, as an i64."""
        name = f'@"{self._name}.table{len(self._tables)}"'
        content = ", ".join(f"i64 {v}" for v in values)
        self._tables.append(f"{name} = private unnamed_addr constant [{len(values)} x i64] [{content}]\n")

        def load_constant(index: str) -> str:
            pointer = self.new(f"getelementptr inbounds i64, ptr {name}, i64 {index}")
            return self.new(f"load i64, ptr {pointer}, align 8")

        return load_constant

    def _pointer(self, place: str | int) -> str:
        return self.new(f"getelementptr inbounds double, ptr %w, i64 {place}")

    # -- lines --------------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._lines.append(f"  {text}\n")

    def _begin_block(self, label: str) -> None:
        self._lines.append(f"{label}:\n")
        self._block = label


def _type(size: int) -> str:
    return "double" if size == 1 else f"<{size} x double>"
