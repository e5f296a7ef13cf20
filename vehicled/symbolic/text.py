"""Kernels as readable text: a value that is used once stands where it is used, all others have a name.

This module has the parts common to all languages; `python.py` and `c.py` add their syntax. A kernel works on
`m`, which has a member for each array of the workspace.
"""

from __future__ import annotations

import keyword
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Kernel, Layout

INFIX = {"add": ("+", 1), "sub": ("-", 1), "mul": ("*", 2), "div": ("/", 2)}
"""Operator and precedence."""
ATOMIC = 4
"""Precedence of names, numbers and calls."""
_WIDE = 90
"""Number of characters above which an expression gets a line of its own."""
_C_WORDS = (
    "auto break case char const default do double enum extern float goto int long register restrict short signed "
    "sizeof static struct switch typedef union unsigned void volatile bool inline namespace new delete template this "
    "throw typename using virtual operator private protected public friend catch"
)
_RESERVED = {*keyword.kwlist, *_C_WORDS.split()}
_C_LIBRARY = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim "
    "floor fma fmax fmin fmod frexp gamma hypot ilogb isfinite isinf isnan isnormal j0 j1 jn ldexp lgamma "
    "llrint llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter pow remainder "
    "remquo rint round scalbn signbit signgam sin sinh sqrt tan tanh tgamma trunc y0 y1 yn double_t "
    "float_t FP_NAN FP_ZERO HUGE_VAL INFINITY NAN M_PI NULL EOF FILE BUFSIZ main abort abs assert atexit "
    "atof atoi bsearch calloc clock div errno exit fclose fgets fopen fprintf fputs fread free fscanf "
    "fwrite getc getchar getenv gets index labs ldiv malloc memcpy memmove memset perror printf putc "
    "putchar puts qsort raise rand read realloc remove rename rewind scanf setbuf signal size_t snprintf "
    "sprintf srand sscanf stderr stdin stdout strcat strcmp strcpy strlen strtod strtol system time "
    "tmpfile ungetc wait write"
)
"""Names that C programs usually have: from math.h, stdio.h, stdlib.h, string.h and the system."""
_TAKEN = {*_C_LIBRARY.split(), *sys.stdlib_module_names, "numpy"}


def identifier(name: str) -> str:
    """A name that both C and Python accept: `branch.q` is `branch_q`, `lambda` is `lambda_`."""
    plain = re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
    if plain in _RESERVED:
        return f"{plain}_"
    return plain if plain[:1].isalpha() else f"_{plain}"


def library_name(name: str) -> str:
    """As `identifier`, but no name of C's library, Python's modules or NumPy: `sin` becomes `sin_`."""
    plain = identifier(name)
    return f"{plain}_" if plain in _TAKEN else plain


@dataclass(frozen=True)
class Assignment:
    """An assignment: to a new local value, or to a place in the workspace."""

    target: str
    value: str
    rank: int
    """0: a plain number; 1: a value for each lane."""
    is_new: bool
    swapped: frozenset[str]
    """Names of lane vectors of which the neighbouring lane is read."""


class KernelText:
    """The lines of one kernel. An expression is its text and the precedence of its outermost operation."""

    def __init__(self, kernel: Kernel, layout: Layout) -> None:
        """Raises ValueError unless the layout's width is 1."""
        if layout.width != 1:
            raise ValueError("text computes one instance at a time")
        self.kernel, self.layout = kernel, layout
        self.lines: list[Assignment] = []
        self._text: dict[int, tuple[str, int]] = {}
        self._names: dict[int, str] = {}
        self._swapped: dict[int, frozenset[str]] = {}
        self._taken = {identifier(kernel.name), "m", *self.reserved()}
        self._counts: Counter[str] = Counter()

    # -- how a language writes it ---------------------------------------------------------------------------

    def reserved(self) -> set[str]:
        """Names that local values cannot have, in addition to key words."""
        raise NotImplementedError

    def place(self, array: str, index: int, lane: int | None, rank: int) -> str:
        """Element of a member; `lane`: one lane of a lane vector; without it, at `rank` 1, all its lanes."""
        raise NotImplementedError

    def function(self, op: str, arguments: Sequence[str]) -> str:
        """A call of a function of the graph, `where_less` among them."""
        raise NotImplementedError

    def local(self, name: str, rank: int) -> str:
        """A local value within an expression."""
        raise NotImplementedError

    def lane_ones(self) -> str:
        """A lane vector of ones within an expression."""
        raise NotImplementedError

    def lane_sum(self, name: str) -> tuple[str, int]:
        """Sum over the lanes of a local value, and its precedence."""
        raise NotImplementedError

    def lane_swap(self, name: str) -> str:
        """A local value with neighbouring lanes exchanged within an expression."""
        raise NotImplementedError

    # -- lines ------------------------------------------------------------------------------------------------

    def write(self) -> list[Assignment]:
        """All lines, in their order."""
        schedule = [a for a in self.kernel.schedule() if a.op not in ("const", "lane_ones")]
        used = [b for a in schedule for b in a.args] + [e for *_, e in self.kernel.stores]
        uses = Counter(a.id for a in used)
        named = {b.id for a in schedule for b in a.args if a.op in ("lane_sum", "lane_swap")}
        # All inputs get names first, because a kernel may read and write the same place.
        loads = self.kernel.loads
        read = {a.id: a for a in used if a.id in loads}
        for a in sorted(read.values(), key=lambda a: loads[a.id]):
            self._assign(a, self._at(loads[a.id], a.rank), a.name or self.layout.name(loads[a.id]))
        for a in schedule:
            self._text[a.id] = self._expression(a)
            written = self._text[a.id][0]
            if uses[a.id] > 1 or len(written) > _WIDE or a.id in named:
                self._assign(a, written, a.name or self._suggestion(a))
        for offset, rank, e in self.kernel.stores:
            value = self._operand(e, 0)
            self.lines.append(Assignment(self._at(offset, rank), value, rank, False, self._swaps(e)))
        return self.lines

    def _at(self, offset: int, rank: int) -> str:
        name, index, lane = self.layout.find(offset)
        of_lanes = self.layout.places[name].rank == 1
        return self.place(identifier(name), index, lane if of_lanes and rank == 0 else None, rank)

    def _assign(self, a: Atom, written: str, wanted: str) -> None:
        """A line that gives an expression a name: the wanted one, with a number if it is taken."""
        name = plain = identifier(wanted)
        while name in self._taken:
            self._counts[plain] += 1
            name = f"{plain}_{self._counts[plain] + 1}"
        self._taken.add(name)
        self.lines.append(Assignment(name, written, a.rank, True, self._swaps(a)))
        self._text[a.id] = (self.local(name, a.rank), ATOMIC)
        self._names[a.id] = name
        self._swapped[a.id] = frozenset()

    def _suggestion(self, a: Atom) -> str:
        """sin(theta1) is called sin_theta1, and so on; values without such a simple name are numbered."""
        if len(a.args) == 1 and a.args[0].id in self._names and a.op != "neg":
            return f"{a.op}_{self._names[a.args[0].id]}"
        self._counts[""] += 1
        return f"t{self._counts['']}"

    def _swaps(self, a: Atom) -> frozenset[str]:
        """Names of lane vectors that the text of an operand reads at the neighbouring lane."""
        return self._swapped.get(a.id, frozenset())

    def _operand(self, a: Atom, binding: int) -> str:
        """Text of an operand, in brackets when its precedence is lower than its place needs."""
        if a.op == "lane_ones":
            return self.lane_ones()
        if a.op == "const":
            written, own = repr(a.value), ATOMIC if a.value >= 0.0 else 1
        else:
            written, own = self._text[a.id]
        return written if own >= binding else f"({written})"

    def _expression(self, a: Atom) -> tuple[str, int]:
        self._swapped[a.id] = frozenset().union(*(self._swaps(b) for b in a.args))
        if a.op in INFIX:
            sign, binding = INFIX[a.op]
            # a − (b + c) and a / (b · c) need their brackets; rounding needs those of a + (b + c) too.
            left, right = self._operand(a.args[0], binding), self._operand(a.args[1], binding + 1)
            return f"{left} {sign} {right}", binding
        if a.op == "neg":
            return f"-{self._operand(a.args[0], 3)}", 1
        if a.op in ("lane_sum", "lane_swap"):
            return self._across_lanes(a)
        return self.function(a.op, [self._operand(b, 0) for b in a.args]), ATOMIC

    def _across_lanes(self, a: Atom) -> tuple[str, int]:
        name = self._names.get(a.args[0].id, "")  # all but a vector of ones have a name
        if a.op == "lane_sum":
            return self.lane_sum(name) if name else (repr(float(self.layout.lanes)), ATOMIC)
        self._swapped[a.id] = frozenset({name})
        return (self.lane_swap(name) if name else self.lane_ones()), ATOMIC
