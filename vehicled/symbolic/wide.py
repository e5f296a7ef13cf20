"""Kernels for several instances of a model side by side (a layout whose `width` is above 1).

Every value is a vector over instances, plain numbers and lanes alike, so that there are no broadcasts and no
shuffles. A kernel is cut into *stages*, each of plain numbers alone or of lanes alone. The code of a stage is
written once for one vector and called for each: for all instances in turn, and in a stage of lanes for all lanes of
them. So it is only as long as the code for one instance. (With all lanes written out for eight instances it is four
times as long, and took nearly twice the time: reading such code from memory takes as long as executing it.) Values
that later stages need are on the stack.

Vectors hold eight instances at most; `Layout` places arrays so that a vector is contiguous.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vehicled.symbolic.emitter import Emitter
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import ALIGNMENT, Kernel, Layout

_LEAVES = ("const", "lane_ones")


def vector_size(layout: Layout) -> int:
    """How many instances one machine vector holds."""
    return min(layout.width, ALIGNMENT)


@dataclass
class _Stage:
    rank: int
    atoms: list[Atom] = field(default_factory=list)
    stores: list[tuple[int, Atom]] = field(default_factory=list)
    """Workspace offset, and the value to be stored there."""


class Plan:
    """The stages of a kernel, and the places on the stack of the values passed between them."""

    def __init__(self, kernel: Kernel) -> None:
        self.loads = kernel.loads
        atoms = [a for a in kernel.schedule() if a.op not in _LEAVES]
        level: dict[int, int] = {}
        for a in atoms:
            # Even levels are of plain numbers, odd ones of lanes; a neighbouring lane has to be of an earlier
            # level.
            least = [level[b.id] + self._waits(a, b) for b in a.args if b.id in level]
            level[a.id] = max(least, default=a.rank)
        order = sorted(set(level.values()))
        self.stages = [_Stage(k % 2) for k in order]
        self._stage = {i: order.index(k) for i, k in level.items()}
        for a in atoms:
            self.stages[self._stage[a.id]].atoms.append(a)
        end = len(self.stages)
        # Last stage that reads each place of the workspace, or each value of an earlier stage.
        read: dict[int, int] = {}
        self._last: dict[int, int] = {}
        for a in atoms:
            here = self._stage[a.id]
            for b in a.args:
                if b.id in kernel.loads:
                    when = end if a.op == "lane_swap" else here
                    read[kernel.loads[b.id]] = max(read.get(kernel.loads[b.id], 0), when)
                elif self._stage.get(b.id, here) != here:
                    self._last[b.id] = max(self._last.get(b.id, 0), here)
        for *_, e in kernel.stores:
            if e.id in kernel.loads:
                read[kernel.loads[e.id]] = end
        # Lanes first: they may read plain numbers that are then overwritten, but not the other way round.
        late = {1: _Stage(1), 0: _Stage(0)}
        for offset, rank, e in kernel.stores:
            made = self._stage.get(e.id)
            if made is not None and e.rank == rank and read.get(offset, 0) <= made:
                self.stages[made].stores.append((offset, e))
            else:
                late[rank].stores.append((offset, e))
                if made is not None:
                    self._last[e.id] = end
        self.slots: dict[int, int] = {}
        self.counts = [0, 0]
        self._assign_slots()
        self.stages += [stage for stage in late.values() if stage.stores]

    @staticmethod
    def _waits(a: Atom, b: Atom) -> int:
        if a.op == "lane_swap":
            return 2
        return int(a.rank != b.rank)

    def _assign_slots(self) -> None:
        """Assign as few slots as possible, by the lifetimes and ranks of values, so that they stay in the cache."""
        free: tuple[list[int], list[int]] = ([], [])
        leaving: dict[int, list[Atom]] = {}
        for n, stage in enumerate(self.stages):
            for a in stage.atoms:
                if a.id in self._last:
                    if not free[a.rank]:
                        free[a.rank].append(self.counts[a.rank])
                        self.counts[a.rank] += 1
                    self.slots[a.id] = free[a.rank].pop()
                    leaving.setdefault(self._last[a.id], []).append(a)
            for a in leaving.get(n, []):
                free[a.rank].append(self.slots[a.id])


POINTERS = ("%w", "%lane", "%other", "%stack", "%stack.lane", "%stack.other")
"""Arguments of a stage: start of the vector's instances in the first plain number, in the first lane vector
and in that of the neighbouring lane; the same on the stack."""


class StageEmitter(Emitter):
    """The code of one stage of a kernel."""

    pointers: tuple[str, ...] = POINTERS

    def __init__(self, layout: Layout, plan: Plan) -> None:
        super().__init__(layout)
        self._plan = plan
        self._names: dict[int, str] = {}
        self._align = 8 * vector_size(layout)

    def size(self, rank: int) -> int:
        """Number of elements, the same for every rank: instances are side by side, lanes one after the other."""
        return vector_size(self.layout)

    def lane_sum(self, a: Atom, value: Callable[[Atom, int], str]) -> str:
        """Sum over the lanes of each instance, pairs first, in the order in which one instance adds them."""
        # The lanes, loaded relative to a plain number; added in pairs, as for one instance.
        if a.op in _LEAVES:
            parts = [value(a, 0)] * self.layout.lanes
        else:
            parts = [self._load(a, 0, k * self.layout.width) for k in range(self.layout.lanes)]
        while len(parts) > 1:
            half = len(parts) // 2
            pairs = zip(parts[:half], parts[half:], strict=True)
            parts = [self.new(f"fadd contract {self.type(0)} {x}, {y}") for x, y in pairs]
        return parts[0]

    def lane_swap(self, a: Atom, value: Callable[[Atom, int], str]) -> str:
        """The neighbouring lane of each instance: a leaf directly, everything else from the stack."""
        return value(a, 1) if a.op in _LEAVES else self._load(a, 2)

    def stage(self, stage: _Stage, name: str) -> str:
        """Text of the function `name` for a stage, which stores the values that later stages need."""
        for a in stage.atoms:
            self._names[a.id] = self.operation(a, self._value)
            if a.id in self._plan.slots:
                self._store(self._names[a.id], self._stack(a), 3 + a.rank)
        results = [(self._value(e, stage.rank), offset) for offset, e in stage.stores]
        for result, offset in results:
            self._store(result, offset, stage.rank)
        pointers = ", ".join(f"ptr noalias {p}" for p in self.pointers)
        return (
            f"define internal void @{name}({pointers}) noinline nounwind {{\n{self.body()}\n  ret void\n}}\n"
        )

    def _value(self, a: Atom, rank: int) -> str:
        if a.op in _LEAVES:
            return self.constant(a.value if a.op == "const" else 1.0, rank)
        if a.id not in self._names:
            self._names[a.id] = self._load(a, a.rank)
        return self._names[a.id]

    def _load(self, a: Atom, base: int, further: int = 0) -> str:
        """An atom of the workspace or from the stack, as seen from one of the first three pointers."""
        place = self._plan.loads.get(a.id)
        if place is None:
            place, base = self._stack(a), base + 3
        pointer = self.pointer(place + further, POINTERS[base])
        return self.new(f"load {self.type(0)}, ptr {pointer}, align {self._align}")

    def _store(self, value: str, place: int, base: int) -> None:
        pointer = self.pointer(place, POINTERS[base])
        self.lines.append(f"  store {self.type(0)} {value}, ptr {pointer}, align {self._align}")

    def _stack(self, a: Atom) -> int:
        """Place on the stack: plain numbers first."""
        first = self._plan.counts[0] * self.layout.stride(0) if a.rank else 0
        return first + self._plan.slots[a.id] * self.layout.stride(a.rank)


def emit_kernel(kernel: Kernel, layout: Layout, prefix: str) -> str:
    """LLVM IR text of `void prefix+kernel(double *workspace)`, and of its stages."""
    text, body = emit_stages(f"{prefix}{kernel.name}", layout, Plan(kernel), StageEmitter)
    return f"{text}define void @{prefix}{kernel.name}(ptr noalias %w) nounwind {{\n{body}  ret void\n}}\n"


def emit_stages(
    name: str,
    layout: Layout,
    plan: Plan,
    emitter: Callable[[Layout, Plan], StageEmitter],
    beside: str | None = None,
) -> tuple[str, str]:
    """IR text of the stages of a kernel as separate functions, and text of the calls of them.

    They run on the workspace `%w`. `beside`: a further workspace, of one instance, which they read: passed as
    it is and at the lane.
    """
    text, lines = [], []
    size = sum(count * layout.stride(rank) for rank, count in enumerate(plan.counts))
    lines.append(f"  %stack = alloca [{max(size, 1)} x double], align 64\n")
    calls = 0
    for n, stage in enumerate(plan.stages):
        text.append(emitter(layout, plan).stage(stage, f"{name}.{n}"))
        for lane in range(layout.lanes if stage.rank else 1):
            for begin in range(0, layout.width, vector_size(layout)):
                shifts = (begin, lane * layout.width + begin, (lane ^ 1) * layout.width + begin)
                places = [(base, shift) for base in ("%w", "%stack") for shift in shifts]
                if beside is not None:
                    places += [(beside, 0), (beside, lane)]
                arguments = []
                for base, shift in places:
                    lines.append(f"  %p{calls} = getelementptr inbounds double, ptr {base}, i64 {shift}\n")
                    arguments.append(f"ptr %p{calls}")
                    calls += 1
                lines.append(f"  call void @{name}.{n}({', '.join(arguments)})\n")
    return "".join(text), "".join(lines)
