"""Straight-line functions over one flat workspace, described independently of how they are executed.

A `Program` holds the place of each stored symbol and the kernels. A kernel reads symbols and stores
the values of expressions into other symbols' places. All kernels work on the same workspace, one array of
float64, so that a model (immutable, shareable) and its workspaces (one per running estimator) are separate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from vehicled.symbolic.graph import Atom, Graph
    from vehicled.symbolic.loop import Routine

ALIGNMENT = 8
"""Places of arrays are multiples of this many float64, so that vector loads are aligned."""


class KernelHandle(NamedTuple):
    """A kernel of a program, or a sequence of kernels, by which its machine code is looked up and called.

    `Program.kernel` and `Program.sequence` return it. The same model built for another number of instances
    gives equal handles. (It is a tuple, because it is hashed at every call.)
    """

    name: str


class RoutineHandle(NamedTuple):
    """Handle by which the machine code of a routine is looked up and called."""

    name: str
    integers: tuple[bool, ...]
    """Whether each argument is a 32-bit integer; otherwise it is a float64."""


@dataclass(frozen=True)
class ArrayPlace:
    """Place of an array in the workspace: `count` numbers of rank 0, or `count` lane vectors of rank 1."""

    offset: int
    count: int
    rank: int


class Span(NamedTuple):
    """Consecutive numbers of a workspace."""

    place: int
    size: int

    @property
    def slice(self) -> slice:
        """The same as a slice of the workspace."""
        return slice(self.place, self.place + self.size)


@dataclass
class Layout:
    """The named arrays of a workspace."""

    lanes: int
    """Branches of a model that are computed side by side."""
    width: int = 1
    """Instances of the model that are computed side by side: 1, 2, 4 or a multiple of 8."""
    size: int = 0
    """Size of a workspace, in float64."""
    places: dict[str, ArrayPlace] = field(default_factory=dict)

    def add(self, name: str, count: int, rank: int = 0) -> ArrayPlace:
        """Append an array of `count` numbers or lane vectors, aligned. Raises ValueError for a name that is taken."""
        if name in self.places:
            raise ValueError(f"array {name!r} exists already")
        place = self.places[name] = ArrayPlace(self.size, count, rank)
        stride = self.stride(rank)
        self.size += -(-count * stride // ALIGNMENT) * ALIGNMENT
        return place

    def stride(self, rank: int) -> int:
        """Distance in float64 from one element of an array to the next.

        For several instances it is an odd number of cache lines: otherwise code that goes through one lane of
        all arrays would find most of them in the same few sets of the cache.
        """
        size = self.width * (self.lanes if rank else 1)
        return size if self.width == 1 else (-(-size // ALIGNMENT) | 1) * ALIGNMENT

    def span(self, first: str, last: str) -> Span:
        """Span of all numbers from array `first` to array `last`. Raises KeyError."""
        begin, end = self.places[first], self.places[last]
        return Span(begin.offset, end.offset + end.count * self.stride(end.rank) - begin.offset)

    def find(self, offset: int) -> tuple[str, int, int]:
        """Array, index and lane (0 in an array of plain numbers) of the number at an offset of the first instance.

        Raises KeyError if there is none.
        """
        for name, place in self.places.items():
            index, within = divmod(offset - place.offset, self.stride(place.rank))
            if 0 <= index < place.count:
                return name, index, within // self.width
        raise KeyError(offset)

    def name(self, offset: int) -> str:
        """Name of the number at an offset: "array[index]", or "array[index, lane]" beyond the first lane.

        An offset of the first instance. Raises KeyError if there is none.
        """
        name, index, lane = self.find(offset)
        return f"{name}[{index}, {lane}]" if lane else f"{name}[{index}]"

    def allocate(self) -> np.ndarray:
        """A zeroed workspace, (size,) float64, aligned to 64 bytes."""
        raw = np.zeros(self.size + 8)
        shift = (-raw.ctypes.data // 8) % 8
        return raw[shift : shift + self.size]

    def view(self, workspace: np.ndarray, name: str) -> np.ndarray:
        """The array `name` in a workspace: (count,) or (count, lanes); plus a last axis `width` if above 1."""
        place = self.places[name]
        stride, axes = self.stride(place.rank), (self.lanes,) if place.rank else ()
        if self.width > 1:
            axes = (*axes, self.width)
        rows = workspace[place.offset : place.offset + place.count * stride].reshape(place.count, stride)
        return rows[:, : math.prod(axes)].reshape(place.count, *axes)


@dataclass(frozen=True)
class Kernel:
    """A straight-line function: the value of each expression is stored at its target's offset."""

    name: str
    stores: tuple[tuple[int, int, Atom], ...]
    """Workspace offset and rank of the target, and its value (of that rank, or a number for all lanes)."""
    loads: dict[int, int]
    """Atom id to workspace offset, of every atom that is read rather than computed."""

    def schedule(self) -> list[Atom]:
        """The atoms to compute, operands first, each close to its first use (few live values)."""
        done = set(self.loads)
        order: list[Atom] = []
        for *_, output in self.stores:
            stack = [output]
            while stack:
                a = stack[-1]
                if a.id in done:
                    stack.pop()
                    continue
                missing = [b for b in a.args if b.id not in done]
                if missing:
                    stack.extend(reversed(missing))
                else:
                    done.add(a.id)
                    order.append(a)
                    stack.pop()
        return order

    def operations(self) -> dict[str, int]:
        """Operations by kind; one on a lane vector counts once."""
        counts: dict[str, int] = {}
        for a in self.schedule():
            if a.op not in ("const", "lane_ones"):
                counts[a.op] = counts.get(a.op, 0) + 1
        return counts


class Program:
    """The kernels of one model and the storage that they share."""

    def __init__(self, graph: Graph, lanes: int = 1, width: int = 1) -> None:
        self.graph = graph
        self.layout = Layout(lanes, width)
        self.kernels: dict[KernelHandle, Kernel] = {}
        """Filled by `finish`."""
        self.prepare = KernelHandle("prepare")
        """The kernel that computes the values that depend on the parameters only: see `finish`."""
        self.sequences: dict[KernelHandle, tuple[KernelHandle, ...]] = {}
        """Functions that call kernels in sequence."""
        self.routines: list[Routine] = []
        """Functions with arguments that call kernels (`loop.py`), in addition to those of the program's owner."""
        self.conditions: dict[KernelHandle, tuple[int, int, KernelHandle]] = {}
        """Functions that call a kernel if the number at one place is less than that at another."""
        self.replaced: dict[KernelHandle, str] = {}
        """LLVM IR text of the functions that replace kernels: see `replace`."""
        self.texts: list[str] = []
        """LLVM IR text of the functions that these call."""
        self.arrays: dict[str, list[Atom]] = {}
        """Symbols by the name of the array in which they are stored."""
        self._lanes: dict[str, list[list[Atom]]] = {}
        self._offset: dict[int, int] = {}
        self._pending: dict[KernelHandle, list[tuple[Atom, Atom]]] = {}

    def store(self, name: str, symbols: Sequence[Atom]) -> None:
        """Give symbols a place: the array `name`, in their order. Raises ValueError unless all are of one rank."""
        rank = symbols[0].rank if symbols else 0
        if any(s.rank != rank or s.op != "symbol" for s in symbols):
            raise ValueError(f"array {name!r} takes symbols of one rank")
        place = self.layout.add(name, len(symbols), rank)
        self.arrays[name] = list(symbols)
        for i, s in enumerate(symbols):
            self._offset[s.id] = place.offset + i * self.layout.stride(rank)

    def array(self, name: str, count: int, rank: int = 0) -> list[Atom]:
        """New symbols `name[i]`, stored as the array `name`."""
        symbols = [self.graph.symbol(f"{name}[{i}]", rank) for i in range(count)]
        self.store(name, symbols)
        return symbols

    def lanes(self, name: str) -> list[list[Atom]]:
        """The lane array `name` as plain numbers, by element and lane: other symbols for the same places.

        A kernel that stores the lane vectors themselves must not read these, nor the other way round.
        """
        if name in self._lanes:
            return self._lanes[name]
        place, layout = self.layout.places[name], self.layout
        symbols = [
            [self.graph.symbol(f"{name}[{i}] of lane {k}") for k in range(layout.lanes)]
            for i in range(place.count)
        ]
        for i, row in enumerate(symbols):
            for k, s in enumerate(row):
                self._offset[s.id] = place.offset + i * layout.stride(1) + k * layout.width
        self._lanes[name] = symbols
        return symbols

    def sparse_array(self, name: str, count: int, indices: Sequence[int]) -> list[Atom]:
        """New symbols for some elements of a new array of plain numbers; the others stay zero."""
        place = self.layout.add(name, count)
        symbols = [self.graph.symbol(f"{name}[{i}]") for i in indices]
        for i, s in zip(indices, symbols, strict=True):
            self._offset[s.id] = place.offset + i * self.layout.stride(0)
        return symbols

    def kernel(self, name: str, stores: Iterable[tuple[Atom, Atom]]) -> KernelHandle:
        """Declare a kernel that computes expressions and stores them into symbols: (symbol, expression).

        Raises ValueError for a name that is taken.
        """
        handle = self._new(name)
        self._pending[handle] = list(stores)
        return handle

    def sequence(self, name: str, *kernels: KernelHandle) -> KernelHandle:
        """Declare a function that calls kernels in this order: cheaper than separate calls from outside.

        Raises ValueError for a name that is taken.
        """
        handle = self._new(name)
        self.sequences[handle] = kernels
        return handle

    def condition(self, name: str, less: Atom, limit: Atom, kernel: KernelHandle) -> KernelHandle:
        """Declare a function that calls a kernel if one stored number is less than another, and is not NaN.

        Raises ValueError for a name that is taken, and for several instances.
        """
        if self.layout.width != 1:
            raise ValueError(f"condition {name!r} is that of one instance")
        handle = self._new(name)
        self.conditions[handle] = self.offset(less), self.offset(limit), kernel
        return handle

    def replace(self, kernel: KernelHandle, text: str) -> None:
        """Replace a kernel by an IR function of the same name that computes its expressions (`array_loops.py`).

        The differentiated kernel is still made from the expressions. Raises ValueError for several instances.
        """
        if self.layout.width != 1:
            raise ValueError(f"kernel {kernel.name!r} is replaced by code for one instance")
        self.replaced[kernel] = text

    def _new(self, name: str) -> KernelHandle:
        handle = KernelHandle(name)
        if handle == self.prepare or any(
            handle in taken for taken in (self._pending, self.sequences, self.conditions)
        ):
            raise ValueError(f"kernel {name!r} exists already")
        return handle

    def outputs(self, kernel: KernelHandle) -> list[Atom]:
        """Expressions that a declared kernel computes. Raises KeyError for a sequence or a condition."""
        return [e for _, e in self._pending[kernel]]

    def offset(self, symbol: Atom) -> int:
        """Place of a stored symbol in the workspace (of the first instance and lane). Raises KeyError."""
        return self._offset[symbol.id]

    def finish(self, parameters: Iterable[Atom]) -> None:
        """Complete all kernels, and add `prepare` for the values that depend on the parameters only.

        Those values are moved out of the other kernels into the array `constants`: they are computed once per
        vehicle, not per step.
        """
        mask = 0
        for p in parameters:
            mask |= p.depends
        varying = ~mask
        hoisted: dict[int, Atom] = {}

        def hoist(a: Atom) -> None:
            if a.op not in ("const", "symbol", "lane_ones"):
                hoisted[a.id] = a

        needed = {handle: self.graph.reachable(self.outputs(handle)) for handle in self._pending}
        for handle, atoms in needed.items():
            for e in self.outputs(handle):
                if not e.depends & varying:
                    hoist(e)
            for a in atoms:
                if a.depends & varying:
                    for b in a.args:
                        if not b.depends & varying:
                            hoist(b)
        prepare: list[tuple[Atom, Atom]] = []
        for rank in (0, 1):
            atoms = [a for a in hoisted.values() if a.rank == rank]
            slots = self.array("constants" if rank == 0 else "lane_constants", len(atoms), rank)
            prepare += zip(slots, atoms, strict=True)
        of_parameters = self.graph.reachable([a for _, a in prepare])
        self.kernels[self.prepare] = self._kernel(self.prepare, prepare, of_parameters, {})
        places = {a.id: self._offset[s.id] for s, a in prepare}
        for handle, stores in self._pending.items():
            self.kernels[handle] = self._kernel(handle, stores, needed[handle], places)

    def _kernel(
        self,
        handle: KernelHandle,
        stores: list[tuple[Atom, Atom]],
        needed: Iterable[Atom],
        places: Mapping[int, int],
    ) -> Kernel:
        name = handle.name
        loads = dict(places)
        for a in needed:
            if a.op == "symbol":
                if a.id not in self._offset:
                    raise ValueError(f"kernel {name!r} reads {a.name!r}, which has no place")
                loads[a.id] = self._offset[a.id]
        for s, e in stores:
            if s.rank < e.rank:
                raise ValueError(f"kernel {name!r} stores a lane vector into {s.name!r}, a plain number")
        return Kernel(name, tuple((self._offset[s.id], s.rank, e) for s, e in stores), loads)
