"""Tangents of a program: the derivatives of all that its kernels compute, in several directions side by side.

Forward mode, written by the compiler. A second workspace has the same arrays, their *tangents*:
one number per direction for every number of the first. The differentiated kernel of a kernel computes the same
values and their tangents: d target = Σ ∂value/∂symbol · d symbol. The factors of the d symbol, the *coefficients*,
are the same for all directions: they are computed once, beside the kernel's own values, and stored; the rest is
linear, and is computed for all directions as a vector, in the stages of `wide.py`.

Both workspaces are one piece of memory, so that a function which calls kernels in turn (a sequence, a routine)
becomes the differentiated one when it calls the differentiated kernels.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import replace

from vehicled.symbolic import wide
from vehicled.symbolic.differentiation import PREFIX, Differentiation, TangentLayout
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.llvm import emit_kernels
from vehicled.symbolic.program import Kernel, KernelHandle, Layout, Program

_VALUES = "values."
"""Prefix of a kernel's name for the kernel that computes its values and the coefficients of its tangents."""


class Tangents:
    """The differentiated kernels of a finished program of one instance.

    Adds to the layout of the program the arrays `tangents`, `coefficients` and `lane_coefficients`; so it has to be
    made before a workspace is allocated.
    """

    def __init__(self, program: Program, by: Differentiation) -> None:
        """Raises ValueError for several instances, and for arrays and kernels that the program does not have."""
        if program.layout.width != 1:
            raise ValueError("tangents are taken of one instance")
        unknown = [name for name in by.fixed if name not in program.layout.places]
        unknown += [k.name for k in by.plain if k not in program.kernels]
        if unknown:
            raise ValueError(f"the program has no {', '.join(unknown)}")
        self.directions = by.directions
        self._program, self._graph = program, program.graph
        layout = program.layout
        self._primal = sorted((p.offset, name) for name, p in layout.places.items())
        self._layout = Layout(layout.lanes, by.directions)
        for name, place in list(layout.places.items()):
            if name not in by.fixed:
                self._layout.add(name, place.count, place.rank)
        self._symbols: dict[tuple[int, int], Atom] = {}
        self._mask = 0
        self._differentiated = {
            handle: _Differentiated(kernel, self)
            for handle, kernel in program.kernels.items()
            if handle not in by.plain
        }
        self._plain = by.plain
        counts = [max((d.counts[r] for d in self._differentiated.values()), default=0) for r in (0, 1)]
        places = [layout.add(n, c, r) for r, (n, c) in enumerate(zip(_COEFFICIENTS, counts, strict=True))]
        begin = layout.add("tangents", self._layout.size).offset
        self.layout = TangentLayout(begin, self._layout)
        for d in self._differentiated.values():
            d.place([p.offset for p in places], layout)

    # -- places -------------------------------------------------------------------------------------------

    def place(self, offset: int) -> int | None:
        """Place of the tangent of the number at a place of the workspace; None if it has no tangent."""
        begin, name = self._primal[bisect_right(self._primal, (offset, chr(0x10FFFF))) - 1]
        there = self._layout.places.get(name)
        if there is None:
            return None
        index, lane = divmod(offset - begin, self._program.layout.stride(there.rank))
        return there.offset + index * self._layout.stride(there.rank) + lane * self.directions

    def symbol(self, offset: int, rank: int) -> Atom | None:
        """The tangent of the number at a place, as a symbol."""
        there = self.place(offset)
        if there is None:
            return None
        if (there, rank) not in self._symbols:
            made = self._graph.symbol(f"tangent of {offset} as {rank}", rank)
            self._symbols[there, rank] = made
            self._mask |= made.depends
        return self._symbols[there, rank]

    def moves(self, a: Atom) -> bool:
        """Whether an atom is a tangent, not a coefficient."""
        return bool(a.depends & self._mask)

    @property
    def graph(self) -> Graph:
        """Graph of the program, and of the tangents."""
        return self._graph

    # -- code ---------------------------------------------------------------------------------------------

    def emit(self) -> str:
        """LLVM IR text of the differentiated kernels: functions `void PREFIX+name(double *workspace)`.

        The text of the program's own kernels is needed as well.
        """
        values = [d.values for d in self._differentiated.values()]
        text = emit_kernels(values, self._program.layout, _VALUES)
        text += [d.emit(self._layout, self.layout.begin) for d in self._differentiated.values()]
        for handle in self._plain:
            call = f'  call void @"{handle.name}"(ptr %w)\n'
            text.append(f'define void @"{PREFIX}{handle.name}"(ptr %w) nounwind {{\n{call}  ret void\n}}\n')
        return "".join(text)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the vectors in that text, for their declarations."""
        return (wide.vector_size(self._layout),)

    def operations(self) -> Mapping[KernelHandle, tuple[int, int]]:
        """Operations by kernel.

        First those of values and coefficients, then those of the tangents on vectors of directions (one on a
        lane vector counts once).
        """
        return {
            handle: (sum(d.values.operations().values()), sum(d.tangent.operations().values()))
            for handle, d in self._differentiated.items()
        }


_COEFFICIENTS = ("coefficients", "lane_coefficients")


class _Differentiated:
    """The two parts of a differentiated kernel: values with coefficients, and tangents."""

    def __init__(self, kernel: Kernel, tangents: Tangents) -> None:
        self.kernel, self._tangents = kernel, tangents
        graph = tangents.graph
        known = {a.id: a for a in graph.atoms}
        seeds: dict[Atom, Atom] = {}
        loads: dict[int, int] = {}
        for i, offset in kernel.loads.items():
            atom = known[i]
            seed = tangents.symbol(offset, atom.rank)
            there = tangents.place(offset)
            if seed is not None and there is not None:
                seeds[atom] = seed
                loads[seed.id] = there
        moving = [
            (offset, rank, e) for offset, rank, e in kernel.stores if tangents.place(offset) is not None
        ]
        changes = graph.directional([e for *_, e in moving], seeds)
        stores = []
        for (offset, rank, _), change in zip(moving, changes, strict=True):
            there = tangents.place(offset)
            assert there is not None
            stores.append((there, rank, change))
        self._coefficients = _boundary(tangents, [e for *_, e in stores])
        # A quotient by a coefficient is a product with its inverse, which is computed once for all directions.
        self.inverses: dict[int, Atom] = {}
        for a in graph.reachable([e for *_, e in stores]):
            if a.op == "div" and tangents.moves(a) and not tangents.moves(a.args[1]):
                inverse = graph.div(graph.one, a.args[1])
                self.inverses[a.id] = inverse
                self._coefficients.setdefault(inverse.id, inverse)
        self.counts = [sum(1 for a in self._coefficients.values() if a.rank == r) for r in (0, 1)]
        self.tangent = Kernel(kernel.name, tuple(stores), loads)

    def place(self, begins: list[int], layout: Layout) -> None:
        """Give the coefficients their places."""
        following = list(begins)
        self.places: dict[int, tuple[int, int]] = {}
        stores = []
        for a in self._coefficients.values():
            offset = following[a.rank]
            following[a.rank] += layout.stride(a.rank)
            self.places[a.id] = offset, a.rank
            stores.append((offset, a.rank, a))
        self.values = replace(self.kernel, stores=(*self.kernel.stores, *stores))
        # As leaves of the linear part: they are outside the workspace of the tangents.
        outside = {i: -1 - n for n, i in enumerate(self.places)}
        self.tangent = replace(self.tangent, loads=self.tangent.loads | outside)

    def emit(self, layout: Layout, begin: int) -> str:
        name = f"{PREFIX}{self.kernel.name}"

        def make(layout: Layout, plan: wide.Plan) -> wide.StageEmitter:
            return _LinearStage(layout, plan, self)

        text, body = wide.emit_stages(f"{name}.stage", layout, wide.Plan(self.tangent), make, "%values")
        return (
            f'{text}define void @"{name}"(ptr %values) nounwind {{\n'
            f'  call void @"{_VALUES}{self.kernel.name}"(ptr %values)\n'
            f"  %w = getelementptr inbounds double, ptr %values, i64 {begin}\n{body}  ret void\n}}\n"
        )


def _boundary(tangents: Tangents, outputs: list[Atom]) -> dict[int, Atom]:
    """The coefficients among the operands of tangents, and among the outputs themselves."""
    found: dict[int, Atom] = {}
    for a in tangents.graph.reachable(outputs):
        if tangents.moves(a):
            for b in a.args:
                if not tangents.moves(b) and b.op not in ("const", "lane_ones"):
                    found[b.id] = b
    return found


class _LinearStage(wide.StageEmitter):
    """A stage of tangents, which reads coefficients from outside its workspace."""

    pointers = (*wide.POINTERS, "%values", "%values.lane")

    def __init__(self, layout: Layout, plan: wide.Plan, kernel: _Differentiated) -> None:
        super().__init__(layout, plan)
        self._kernel = kernel

    def operation(self, a: Atom, value: Callable[[Atom, int], str]) -> str:
        inverse = self._kernel.inverses.get(a.id)
        if inverse is None:
            return super().operation(a, value)
        return self.new(
            f"fmul contract {self.type(a.rank)} {value(a.args[0], a.rank)}, {value(inverse, a.rank)}"
        )

    def _load(self, a: Atom, base: int, further: int = 0) -> str:
        place = self._kernel.places.get(a.id)
        if place is None:
            return super()._load(a, base, further)
        offset, rank = place
        one = self.new(f"load double, ptr {self.pointer(offset, self.pointers[6 + rank])}, align 8")
        n = self.size(0)
        vector = f"<{n} x double>"
        first = self.new(f"insertelement {vector} undef, double {one}, i32 0")
        return self.new(f"shufflevector {vector} {first}, {vector} undef, <{n} x i32> zeroinitializer")
