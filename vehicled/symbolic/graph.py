"""Expression atoms: every operation, once applied, is a shared node.

The same operation on the same operands yields the same atom, so that common sub-expressions need no search
afterwards (atomisation on creation; Plaza et al., recursive operators and atomised symbolic expressions).
Derivatives and substitutions walk the atoms, memoised, and never expand.

An atom has a *rank*: 0 for a plain number, 1 for a lane vector, which holds one number per repeated branch
of a model (the four corners of a car). Operations on a lane vector and a plain number give a lane vector;
`lane_sum` gives a plain number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

Number = int | float

_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "atan": math.atan,
    "exp": math.exp,
    "abs": abs,
}


class Atom:
    """One node of a `Graph`: an operation and its operands. Made by operators, never directly."""

    __slots__ = ("args", "depends", "graph", "id", "name", "op", "rank", "value")

    def __init__(self, graph: Graph, op: str, args: tuple[Atom, ...], rank: int) -> None:
        self.graph = graph
        self.op = op
        self.args = args
        self.rank = rank
        self.id = len(graph.atoms)
        self.name = ""
        self.value = 0.0
        depends = 0
        for a in args:
            depends |= a.depends
        self.depends: int = depends
        """Bit set of the symbols that this atom depends on (bit = `Graph.bit` of the symbol)."""

    def __add__(self, other: Atom | Number) -> Atom:
        return self.graph.add(self, self.graph.atom(other))

    def __sub__(self, other: Atom | Number) -> Atom:
        return self.graph.sub(self, self.graph.atom(other))

    def __mul__(self, other: Atom | Number) -> Atom:
        return self.graph.mul(self, self.graph.atom(other))

    def __truediv__(self, other: Atom | Number) -> Atom:
        return self.graph.div(self, self.graph.atom(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Number) -> Atom:
        return self.graph.sub(self.graph.atom(other), self)

    def __rtruediv__(self, other: Number) -> Atom:
        return self.graph.div(self.graph.atom(other), self)

    def __neg__(self) -> Atom:
        return self.graph.neg(self)

    def label(self, name: str) -> None:
        """Name an intermediate result for readers of generated code; its first name stays."""
        if self.op == "neg":
            self.args[0].label(f"minus_{name}")
        elif self.args and not self.name:
            self.name = name

    def is_constant(self, value: float) -> bool:
        """Whether it is a constant of exactly this value."""
        return self.op == "const" and self.value == value

    def __repr__(self) -> str:
        if self.op == "const":
            return repr(self.value)
        if self.op == "symbol":
            return self.name
        return f"{self.op}({', '.join(f'#{a.id}' for a in self.args)})"


class Graph:
    """Owner of the atoms of one model."""

    def __init__(self, join: Callable[[Graph, Atom, Atom, int], Atom | None] | None = None) -> None:
        """`join`: another form of a + b, or of a − b with sign −1, such as `trigonometry.join_angles`."""
        self._join = join
        self.atoms: list[Atom] = []
        self._known: dict[tuple[object, ...], Atom] = {}
        self._symbols: dict[str, Atom] = {}
        self.zero = self.constant(0.0)
        self.one = self.constant(1.0)

    # -- leaves ---------------------------------------------------------------------------------------

    def constant(self, value: Number) -> Atom:
        """The atom of a number; −0.0 is 0.0."""
        value = float(value) + 0.0  # −0.0 becomes 0.0
        key = ("const", value)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._append("const", (), 0)
            known.value = value
        return known

    def symbol(self, name: str, rank: int = 0) -> Atom:
        """A new independent variable. Raises ValueError when the name is taken."""
        if name in self._symbols:
            raise ValueError(f"symbol {name!r} exists already")
        atom = self._append("symbol", (), rank)
        atom.name = name
        atom.depends = 1 << len(self._symbols)
        self._symbols[name] = atom
        return atom

    def atom(self, x: Atom | Number) -> Atom:
        """An atom as it is, a number as a constant."""
        return x if isinstance(x, Atom) else self.constant(x)

    def _append(self, op: str, args: tuple[Atom, ...], rank: int) -> Atom:
        atom = Atom(self, op, args, rank)
        self.atoms.append(atom)
        return atom

    def _make(self, op: str, args: tuple[Atom, ...], rank: int | None = None) -> Atom:
        key = (op, args)
        known = self._known.get(key)
        if known is None:
            if rank is None:
                rank = 0
                for a in args:
                    if a.rank:
                        rank = 1
            known = self._known[key] = self._append(op, args, rank)
        return known

    # -- arithmetic -----------------------------------------------------------------------------------
    # Signs are pulled outwards (−a·b is −(a·b), a + (−b) is a − b) and commutative operands ordered, so
    # that equal values meet in one atom.

    def neg(self, a: Atom) -> Atom:
        """−a."""
        if a.op == "const":
            return self.constant(-a.value)
        if a.op == "neg":
            return a.args[0]
        if a.op == "sub":
            return self.sub(a.args[1], a.args[0])
        return self._make("neg", (a,))

    def add(self, a: Atom, b: Atom) -> Atom:
        """a + b."""
        if a.op == "const" and b.op == "const":
            return self.constant(a.value + b.value)
        if a is self.zero:
            return b
        if b is self.zero:
            return a
        if b.op == "neg":
            return self.sub(a, b.args[0])
        if a.op == "neg":
            return self.sub(b, a.args[0])
        if self._join is not None and (joined := self._join(self, a, b, 1)) is not None:
            return joined
        return self._make("add", (a, b) if a.id <= b.id else (b, a))

    def sub(self, a: Atom, b: Atom) -> Atom:
        """a − b."""
        if a.op == "const" and b.op == "const":
            return self.constant(a.value - b.value)
        if b is self.zero:
            return a
        if a is self.zero:
            return self.neg(b)
        if a is b:
            return self.zero
        if b.op == "neg":
            return self.add(a, b.args[0])
        if a.op == "neg":
            return self.neg(self.add(a.args[0], b))
        if self._join is not None and (joined := self._join(self, a, b, -1)) is not None:
            return joined
        return self._make("sub", (a, b))

    def mul(self, a: Atom, b: Atom) -> Atom:
        """a · b."""
        if a.op == "const" and b.op == "const":
            return self.constant(a.value * b.value)
        if a is self.zero or b is self.zero:
            return self.zero
        if a is self.one:
            return b
        if b is self.one:
            return a
        if a.is_constant(-1.0):
            return self.neg(b)
        if b.is_constant(-1.0):
            return self.neg(a)
        if a.op == "neg":
            return self.neg(self.mul(a.args[0], b))
        if b.op == "neg":
            return self.neg(self.mul(a, b.args[0]))
        return self._make("mul", (a, b) if a.id <= b.id else (b, a))

    def div(self, a: Atom, b: Atom) -> Atom:
        """a/b; a constant divisor becomes a factor. Raises ZeroDivisionError for a constant zero."""
        if b is self.zero:
            raise ZeroDivisionError("division by a constant zero in a symbolic expression")
        if a.op == "const" and b.op == "const":
            return self.constant(a.value / b.value)
        if a is self.zero or b is self.one:
            return a
        if a is b:
            return self.one
        if b.op == "const":
            return self.mul(a, self.constant(1.0 / b.value))
        if a.op == "neg":
            return self.neg(self.div(a.args[0], b))
        if b.op == "neg":
            return self.neg(self.div(a, b.args[0]))
        return self._make("div", (a, b))

    # -- functions ------------------------------------------------------------------------------------

    def function(self, op: str, a: Atom | Number) -> Atom:
        """A function of one argument by its name, such as `sqrt`; of a constant, a constant."""
        a = self.atom(a)
        if a.op == "const":
            return self.constant(_FUNCTIONS[op](a.value))
        return self._make(op, (a,))

    def sqrt(self, a: Atom | Number) -> Atom:
        """√a."""
        return self.function("sqrt", a)

    def sin(self, a: Atom | Number) -> Atom:
        """Sine of a (rad)."""
        return self.function("sin", a)

    def cos(self, a: Atom | Number) -> Atom:
        """Cosine of a (rad)."""
        return self.function("cos", a)

    def tanh(self, a: Atom | Number) -> Atom:
        """Hyperbolic tangent."""
        return self.function("tanh", a)

    def atan(self, a: Atom | Number) -> Atom:
        """Arc tangent, rad in (−π/2, π/2)."""
        return self.function("atan", a)

    def exp(self, a: Atom | Number) -> Atom:
        """eᵃ."""
        return self.function("exp", a)

    def abs(self, a: Atom | Number) -> Atom:
        """|a|."""
        return self.function("abs", a)

    def atan2(self, y: Atom | Number, x: Atom | Number) -> Atom:
        """Angle of the point (x, y), rad in (−π, π]."""
        y, x = self.atom(y), self.atom(x)
        if y.op == "const" and x.op == "const":
            return self.constant(math.atan2(y.value, x.value))
        return self._make("atan2", (y, x))

    def where_less(
        self, a: Atom | Number, b: Atom | Number, then: Atom | Number, other: Atom | Number
    ) -> Atom:
        """`then` where a < b, else `other` (both are evaluated)."""
        a, b, then, other = self.atom(a), self.atom(b), self.atom(then), self.atom(other)
        if then is other:
            return then
        if a.op == "const" and b.op == "const":
            return then if a.value < b.value else other
        return self._make("where_less", (a, b, then, other))

    def max(self, a: Atom | Number, b: Atom | Number) -> Atom:
        """The larger of two."""
        return self.where_less(a, b, b, a)

    def min(self, a: Atom | Number, b: Atom | Number) -> Atom:
        """The smaller of two."""
        return self.where_less(a, b, a, b)

    def clamp(self, a: Atom | Number, low: Atom | Number, high: Atom | Number) -> Atom:
        """The value within low … high that is nearest to a."""
        return self.min(self.max(a, low), high)

    # -- lanes ----------------------------------------------------------------------------------------

    def lane_sum(self, a: Atom) -> Atom:
        """Sum over the lanes of a lane vector (rank 1 → 0). Raises ValueError for a plain number."""
        if a.rank == 0:
            raise ValueError("lane_sum of a plain number")
        if a.op == "neg":
            return self.neg(self.lane_sum(a.args[0]))
        return self._make("lane_sum", (a,), 0)

    def lane_swap(self, a: Atom) -> Atom:
        """Neighbouring lanes exchanged (0↔1, 2↔3, …): left and right of an axle."""
        if a.rank == 0:
            return a
        return self._make("lane_swap", (a,), 1)

    # -- walks over atoms -----------------------------------------------------------------------------

    def reachable(self, outputs: Iterable[Atom], symbols: int | None = None) -> list[Atom]:
        """The atoms that the outputs depend on, operands before results.

        With `symbols` (bits as in `Atom.depends`), only those atoms that depend on one of these symbols.
        """
        seen: set[int] = set()
        stack = list(outputs)
        while stack:
            a = stack.pop()
            if a.id not in seen and (symbols is None or a.depends & symbols):
                seen.add(a.id)
                stack.extend(a.args)
        return [self.atoms[i] for i in sorted(seen)]

    def rebuild(self, atom: Atom, args: Sequence[Atom]) -> Atom:
        """The same operation on other operands. Raises ValueError for a leaf, which has none."""
        op = atom.op
        if op == "add":
            return self.add(args[0], args[1])
        if op == "sub":
            return self.sub(args[0], args[1])
        if op == "mul":
            return self.mul(args[0], args[1])
        if op == "div":
            return self.div(args[0], args[1])
        if op == "neg":
            return self.neg(args[0])
        if op == "atan2":
            return self.atan2(args[0], args[1])
        if op == "where_less":
            return self.where_less(args[0], args[1], args[2], args[3])
        if op == "lane_sum":
            return self.lane_sum(args[0])
        if op == "lane_swap":
            return self.lane_swap(args[0])
        if op in _FUNCTIONS:
            return self.function(op, args[0])
        raise ValueError(f"{op} has no operands")

    def substitute(self, outputs: Sequence[Atom], replacements: Mapping[Atom, Atom]) -> list[Atom]:
        """The outputs with atoms (symbols or any others) replaced."""
        new: dict[int, Atom] = {old.id: by for old, by in replacements.items()}
        for a in self.reachable(outputs):
            if a.id in new:
                continue
            args = tuple(new[b.id] for b in a.args)
            unchanged = all(x is y for x, y in zip(args, a.args, strict=True))
            new[a.id] = a if unchanged else self.rebuild(a, args)
            if a.args and a.name:
                new[a.id].label(a.name)
        return [new[a.id] for a in outputs]

    def directional(self, outputs: Sequence[Atom], seeds: Mapping[Atom, Atom | Number]) -> list[Atom]:
        """Directional derivatives Σ ∂output/∂symbol · seed of the outputs (forward mode, memoised)."""
        mask = 0
        tangent: dict[int, Atom] = {}
        for symbol, seed in seeds.items():
            mask |= symbol.depends
            tangent[symbol.id] = self.atom(seed)
        for a in self.reachable(outputs, mask):
            if a.id not in tangent:
                tangent[a.id] = self._tangent(a, tangent)
        return [tangent.get(a.id, self.zero) for a in outputs]

    def derivative(self, output: Atom, symbol: Atom) -> Atom:
        """∂output/∂symbol."""
        return self.directional([output], {symbol: 1.0})[0] if output.depends & symbol.depends else self.zero

    def jacobian(self, outputs: Sequence[Atom], symbols: Sequence[Atom]) -> dict[tuple[int, int], Atom]:
        """∂output/∂symbol by (row, column), where the output depends on the symbol; in order of rows."""
        found: dict[tuple[int, int], Atom] = {}
        for k, symbol in enumerate(symbols):
            # One walk for all outputs, as most of their atoms are shared.
            rows = [i for i, output in enumerate(outputs) if output.depends & symbol.depends]
            column = self.directional([outputs[i] for i in rows], {symbol: 1.0})
            found.update(((i, k), d) for i, d in zip(rows, column, strict=True))
        return dict(sorted(found.items()))

    def _tangent(self, a: Atom, tangent: Mapping[int, Atom]) -> Atom:
        op, x = a.op, a.args
        d = [tangent.get(b.id, self.zero) for b in x]
        if op == "symbol":
            return self.zero
        if op == "add":
            return d[0] + d[1]
        if op == "sub":
            return d[0] - d[1]
        if op == "mul":
            return d[0] * x[1] + x[0] * d[1]
        if op == "div":
            return (d[0] - a * d[1]) / x[1]
        if op == "neg":
            return -d[0]
        if op == "atan2":
            return (d[0] * x[1] - d[1] * x[0]) / (x[0] * x[0] + x[1] * x[1])
        if op == "where_less":
            return self.where_less(x[0], x[1], d[2], d[3])
        if d[0] is self.zero:
            return self.zero
        if op == "lane_sum":
            # The derivative of a lane sum by a lane symbol is the sum of what each lane contributes.
            return self.lane_sum(d[0]) if d[0].rank else self.lane_sum(d[0] * self.lane_ones())
        if op == "lane_swap":
            return self.lane_swap(d[0])
        if op == "sqrt":
            return d[0] / (2.0 * a)
        if op == "sin":
            return d[0] * self.cos(x[0])
        if op == "cos":
            return -(d[0] * self.sin(x[0]))
        if op == "tanh":
            return d[0] * (1.0 - a * a)
        if op == "atan":
            return d[0] / (1.0 + x[0] * x[0])
        if op == "exp":
            return d[0] * a
        if op == "abs":
            return self.where_less(x[0], 0.0, -d[0], d[0])
        raise ValueError(f"no derivative for {op}")

    def lane_ones(self) -> Atom:
        """A lane vector of ones (a constant that has to be of rank 1)."""
        return self._make("lane_ones", (), 1)
