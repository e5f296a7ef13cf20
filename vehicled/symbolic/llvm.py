"""Back end to machine code: kernels become LLVM IR text, which `machine.py` compiles.

For one instance, plain numbers are `double` and lane vectors `<lanes x double>`; `wide.py` computes several
instances side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from vehicled.symbolic import wide
from vehicled.symbolic.emitter import Emitter, declarations
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Kernel, KernelHandle, Layout


class _KernelEmitter(Emitter):
    """One instance: plain numbers are `double`, lane vectors `<lanes x double>`."""

    def size(self, rank: int) -> int:
        return self.layout.lanes if rank else 1

    def shuffle(self, value: str, size: int, mask: Sequence[int]) -> str:
        vector = f"<{size} x double>"
        indices = ", ".join(f"i32 {i}" for i in mask)
        return self.new(f"shufflevector {vector} {value}, {vector} undef, <{len(mask)} x i32> <{indices}>")

    def broadcast(self, value: str) -> str:
        """Plain number to lane vector."""
        n = self.layout.lanes
        if n == 1:
            return value
        one = self.new(f"insertelement <{n} x double> undef, double {value}, i32 0")
        return self.shuffle(one, n, [0] * n)

    def lane_sum(self, a: Atom, value: Callable[[Atom, int], str]) -> str:
        total, size = value(a, 1), self.layout.lanes
        if size == 1:
            return total
        # Add in pairs: a tree is shorter than a chain.
        while size > 1:
            half = size // 2
            low = self.shuffle(total, size, list(range(half)))
            high = self.shuffle(total, size, list(range(half, size)))
            total = self.new(f"fadd contract <{half} x double> {low}, {high}")
            size = half
        return self.new(f"extractelement <1 x double> {total}, i32 0")

    def lane_swap(self, a: Atom, value: Callable[[Atom, int], str]) -> str:
        n = self.layout.lanes
        return self.shuffle(value(a, 1), n, [i ^ 1 for i in range(n)])

    def kernel(self, kernel: Kernel, prefix: str) -> str:
        names: dict[int, str] = {}
        broadcasts: dict[int, str] = {}

        def load(a: Atom) -> str:
            n = self.size(a.rank)
            align = 8 * (1 if n == 1 else min(8, n & -8 or 1))
            return self.new(
                f"load {self.type(a.rank)}, ptr {self.pointer(kernel.loads[a.id])}, align {align}"
            )

        def value(a: Atom, rank: int) -> str:
            if a.op == "const":
                return self.constant(a.value, rank)
            if a.op == "lane_ones":
                return self.constant(1.0, 1)
            if a.id not in names:
                names[a.id] = load(a)
            if a.rank == rank:
                return names[a.id]
            if a.id not in broadcasts:
                broadcasts[a.id] = self.broadcast(names[a.id])
            return broadcasts[a.id]

        # Targets may also be inputs: they have to be loaded before they are stored. Values are read when
        # first used, so outputs are stored at the end.
        for a in kernel.schedule():
            if a.op not in ("const", "lane_ones"):
                names[a.id] = self.operation(a, value)
        results = [(offset, value(e, rank), rank) for offset, rank, e in kernel.stores]
        for offset, name, rank in results:
            self.lines.append(f"  store {self.type(rank)} {name}, ptr {self.pointer(offset)}, align 8")
        head = f"define void @{prefix}{kernel.name}(ptr noalias %w) nounwind"
        return f"{head} {{\n{self.body()}\n  ret void\n}}\n"


def emit(
    kernels: Iterable[Kernel],
    layout: Layout,
    prefix: str = "",
    loops: str = "",
    sizes: Sequence[int] = (),
) -> str:
    """LLVM IR text of kernels as functions `void prefix+name(double *workspace)`.

    `loops` is further IR text: functions that call the kernels repeatedly; `sizes`: of the vectors in it.
    """
    own = (1, layout.lanes) if layout.width == 1 else (wide.vector_size(layout),)
    return "".join([declarations((*own, *sizes)), *emit_kernels(kernels, layout, prefix), loops])


def emit_kernels(kernels: Iterable[Kernel], layout: Layout, prefix: str = "") -> list[str]:
    """IR text as by `emit`, without the declarations of called functions."""
    if layout.width == 1:
        return [_KernelEmitter(layout).kernel(k, prefix) for k in kernels]
    return [wide.emit_kernel(k, layout, prefix) for k in kernels]


def emit_conditions(
    conditions: Mapping[KernelHandle, tuple[int, int, KernelHandle]], prefix: str = ""
) -> str:
    """LLVM IR text of functions `void prefix+name(double *workspace)`: call a kernel on a `Program.condition`."""
    text = []
    for handle, (less, limit, kernel) in conditions.items():
        numbers = "".join(
            f"  %p{n} = getelementptr double, ptr %w, i64 {place}\n  %v{n} = load double, ptr %p{n}, align 8\n"
            for n, place in enumerate((less, limit))
        )
        text.append(
            f'define void @"{prefix}{handle.name}"(ptr %w) nounwind {{\n{numbers}'
            "  %holds = fcmp olt double %v0, %v1\n  br i1 %holds, label %then, label %end\nthen:\n"
            f'  call void @"{prefix}{kernel.name}"(ptr %w)\n  br label %end\nend:\n  ret void\n}}\n'
        )
    return "".join(text)


def emit_sequences(sequences: Mapping[KernelHandle, Sequence[KernelHandle]], prefix: str = "") -> str:
    """LLVM IR text of functions `void prefix+name(double *workspace)` that call kernels in order."""
    text = []
    for handle, kernels in sequences.items():
        calls = "".join(f'  call void @"{prefix}{k.name}"(ptr %w)\n' for k in kernels)
        text.append(f'define void @"{prefix}{handle.name}"(ptr %w) nounwind {{\n{calls}  ret void\n}}\n')
    return "".join(text)
