"""Loops over kernels: the control flow of an algorithm as a small tree, and its LLVM IR text.

A `Routine` is a function on a workspace that calls kernels, with loops and conditions on numbers in the
workspace. With several instances side by side, a condition is evaluated for each of them, but all follow the
same control flow.
"""

from __future__ import annotations

from dataclasses import dataclass

from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import KernelHandle, Program, RoutineHandle


@dataclass(frozen=True)
class Count:
    """An argument of a routine: a 32-bit integer."""

    name: str


@dataclass(frozen=True)
class Bound:
    """An argument of a routine: a float64, the same for all instances."""

    name: str


@dataclass(frozen=True)
class Below:
    """Whether a stored plain number is less than a bound, by instance; false for NaN."""

    symbol: Atom
    bound: Bound


@dataclass(frozen=True)
class Above:
    """Whether a stored plain number is greater than a bound, by instance; false for NaN."""

    symbol: Atom
    bound: Bound


@dataclass(frozen=True)
class Not:
    """The opposite of a condition, by instance."""

    condition: Condition


Condition = Below | Above | Not


@dataclass(frozen=True)
class Call:
    """Run a kernel or a sequence."""

    kernel: KernelHandle


@dataclass(frozen=True)
class StoreFlag:
    """Store 1.0 where a condition holds, else 0.0, into a stored plain number, by instance."""

    symbol: Atom
    condition: Condition


@dataclass(frozen=True)
class IfAny:
    """Run the body when a condition holds for any instance."""

    condition: Condition
    body: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """Run the body `times` times, at least once."""

    times: Count
    body: tuple[Node, ...]


@dataclass(frozen=True)
class Iterate:
    """Run the body until a condition holds for all instances, or it has run `limit` times; at least once.

    `between` runs after each iteration except the last. This node may stand in the body of a routine only,
    not in another node.
    """

    body: tuple[Node, ...]
    until: Condition
    limit: Count
    between: tuple[Node, ...] = ()


Node = Call | StoreFlag | IfAny | Repeat


@dataclass(frozen=True)
class Routine:
    """A function `int32 name(double *workspace, arguments…)`.

    It returns how often the last `Iterate` ran, negative if its condition did not hold for all instances at
    the end; 0 without an `Iterate`.
    """

    name: str
    arguments: tuple[Count | Bound, ...]
    body: tuple[Node | Iterate, ...]

    @property
    def handle(self) -> RoutineHandle:
        """Handle by which its machine code is looked up."""
        return RoutineHandle(self.name, tuple(isinstance(a, Count) for a in self.arguments))


def declarations(width: int) -> str:
    """IR text that declares the functions called by routines, for this number of instances."""
    return "".join(f"declare i1 @llvm.vector.reduce.{r}.v{width}i1(<{width} x i1>)\n" for r in ("and", "or"))


def emit_routine(routine: Routine, program: Program, prefix: str = "") -> str:
    """IR text of `int32 prefix+name(…)`, which calls the kernels of that prefix. It needs `declarations`."""
    return _RoutineEmitter(program, prefix).routine(routine)


@dataclass(frozen=True)
class _LoopNames:
    top: str
    again: str
    """Label of the code between two runs."""
    back: str
    """Label from which the next run starts."""
    end: str
    before: str
    """Number of completed runs when a run starts."""
    runs: str
    """Number of runs, including the present one."""


class _RoutineEmitter:
    """Lines of one routine. A number of all instances is one vector."""

    def __init__(self, program: Program, prefix: str) -> None:
        self._program, self._prefix = program, prefix
        self._width = program.layout.width
        self._vector, self._flags = f"<{self._width} x double>", f"<{self._width} x i1>"
        self._lines: list[str] = []
        self._values = self._labels = 0
        self._block = "entry"
        """Label of the current basic block."""
        self._result = "0"

    def routine(self, routine: Routine) -> str:
        arguments = ["ptr %w"]
        arguments += [f"{'i32' if isinstance(a, Count) else 'double'} %{a.name}" for a in routine.arguments]
        self._body(routine.body)
        self._line(f"ret i32 {self._result}")
        head = f'define i32 @"{self._prefix}{routine.name}"({", ".join(arguments)}) nounwind {{\nentry:\n'
        return head + "".join(self._lines) + "}\n"

    # -- nodes --------------------------------------------------------------------------------------------

    def _body(self, body: tuple[Node | Iterate, ...]) -> None:
        for node in body:
            match node:
                case Call(kernel):
                    self._line(f'call void @"{self._prefix}{kernel.name}"(ptr %w)')
                case StoreFlag(symbol, condition):
                    flags = self._new(f"uitofp {self._flags} {self._condition(condition)} to {self._vector}")
                    self._line(f"store {self._vector} {flags}, ptr {self._pointer(symbol)}, align 8")
                case IfAny(condition, inner):
                    self._if_any(condition, inner)
                case Repeat(times, inner):
                    self._repeat(times, inner)
                case Iterate():
                    self._iterate(node)

    def _if_any(self, condition: Condition, body: tuple[Node, ...]) -> None:
        self._labels += 1
        then, end = f"then{self._labels}", f"end{self._labels}"
        any_holds = self._reduce("or", condition)
        self._line(f"br i1 {any_holds}, label %{then}, label %{end}")
        self._begin(then)
        self._body(body)
        self._line(f"br label %{end}")
        self._begin(end)

    def _repeat(self, times: Count, body: tuple[Node, ...]) -> None:
        loop = self._begin_loop()
        self._body(body)
        self._line(f"{loop.runs} = add i32 {loop.before}, 1")
        spent = self._new(f"icmp sge i32 {loop.runs}, %{times.name}")
        self._line(f"br i1 {spent}, label %{loop.end}, label %{loop.again}")
        self._end_loop(loop, ())

    def _iterate(self, node: Iterate) -> None:
        loop = self._begin_loop()
        self._body(node.body)
        self._line(f"{loop.runs} = add i32 {loop.before}, 1")
        reached = self._reduce("and", node.until)
        spent = self._new(f"icmp sge i32 {loop.runs}, %{node.limit.name}")
        leave = self._new(f"or i1 {reached}, {spent}")
        self._line(f"br i1 {leave}, label %{loop.end}, label %{loop.again}")
        self._end_loop(loop, node.between)
        negative = self._new(f"sub i32 0, {loop.runs}")
        self._result = self._new(f"select i1 {reached}, i32 {loop.runs}, i32 {negative}")

    def _begin_loop(self) -> _LoopNames:
        self._labels += 1
        n, before = self._labels, self._block
        loop = _LoopNames(f"loop{n}", f"again{n}", f"back{n}", f"end{n}", f"%before{n}", f"%runs{n}")
        self._line(f"br label %{loop.top}")
        self._begin(loop.top)
        self._line(f"{loop.before} = phi i32 [0, %{before}], [{loop.runs}, %{loop.back}]")
        return loop

    def _end_loop(self, loop: _LoopNames, between: tuple[Node, ...]) -> None:
        self._begin(loop.again)
        self._body(between)
        self._line(f"br label %{loop.back}")
        self._begin(loop.back)
        self._line(f"br label %{loop.top}")
        self._begin(loop.end)

    # -- values -------------------------------------------------------------------------------------------

    def _condition(self, condition: Condition) -> str:
        match condition:
            case Not(opposite):
                return self._new(f"xor {self._flags} {self._condition(opposite)}, splat (i1 true)")
            case Below(symbol, bound):
                return self._compare("olt", symbol, bound)
            case Above(symbol, bound):
                return self._compare("ogt", symbol, bound)

    def _compare(self, how: str, symbol: Atom, bound: Bound) -> str:
        vector, n = self._vector, self._width
        numbers = self._new(f"load {vector}, ptr {self._pointer(symbol)}, align 8")
        first = self._new(f"insertelement {vector} undef, double %{bound.name}, i32 0")
        bounds = self._new(f"shufflevector {vector} {first}, {vector} undef, <{n} x i32> zeroinitializer")
        return self._new(f"fcmp {how} {vector} {numbers}, {bounds}")

    def _reduce(self, how: str, condition: Condition) -> str:
        flags = self._condition(condition)
        return self._new(f"call i1 @llvm.vector.reduce.{how}.v{self._width}i1({self._flags} {flags})")

    def _pointer(self, symbol: Atom) -> str:
        return self._new(f"getelementptr double, ptr %w, i64 {self._program.offset(symbol)}")

    # -- lines --------------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._lines.append(f"  {text}\n")

    def _new(self, text: str) -> str:
        name = f"%v{self._values}"
        self._values += 1
        self._line(f"{name} = {text}")
        return name

    def _begin(self, label: str) -> None:
        self._lines.append(f"{label}:\n")
        self._block = label
