"""Back end to machine code: kernels become LLVM IR text, compiled in the process through llvmlite.

Of one instance plain numbers are `double` and lane vectors `<lanes x double>`; `wide.py` computes several instances
side by side. The object code can be kept and loaded again (`cache.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm

from vehicled.symbolic import cache, wide
from vehicled.symbolic.emitter import Emitter, declarations
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Kernel, KernelHandle, Layout

_OPTIMISATION = 2
"""Level of the compiler's own optimisation."""
_INITIALISED = False


def _initialise() -> None:
    global _INITIALISED
    if not _INITIALISED:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        _INITIALISED = True


def target_description() -> str:
    """What object code depends on beside its source: processor, its features, the compiler and its effort."""
    processor = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    return f"{processor} {llvm.llvm_version_info} O{_OPTIMISATION}"


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
        # Pairs first: a tree is shorter than a chain.
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

        # All loads of targets that are also inputs must precede the stores: values are read when first
        # used, so outputs are stored at the end.
        for a in kernel.schedule():
            if a.op not in ("const", "lane_ones"):
                names[a.id] = self.operation(a, value)
        results = [(offset, value(e, rank), rank) for offset, rank, e in kernel.stores]
        for offset, name, rank in results:
            self.lines.append(f"  store {self.type(rank)} {name}, ptr {self.pointer(offset)}, align 8")
        body = "\n".join(self.lines)
        return f"define void @{prefix}{kernel.name}(ptr noalias %w) nounwind {{\n{body}\n  ret void\n}}\n"


def emit(
    kernels: Iterable[Kernel],
    layout: Layout,
    prefix: str = "",
    loops: str = "",
    sizes: Sequence[int] = (),
) -> str:
    """LLVM IR text of kernels as functions `void prefix+name(double *workspace)`.

    `loops` is further IR text: functions that call the kernels repeatedly; `sizes`: of vectors in it.
    """
    own = (1, layout.lanes) if layout.width == 1 else (wide.vector_size(layout),)
    return "".join([declarations((*own, *sizes)), *emit_kernels(kernels, layout, prefix), loops])


def emit_kernels(kernels: Iterable[Kernel], layout: Layout, prefix: str = "") -> list[str]:
    """As `emit`, without the declarations of what they call."""
    if layout.width == 1:
        return [_KernelEmitter(layout).kernel(k, prefix) for k in kernels]
    return [wide.emit_kernel(k, layout, prefix) for k in kernels]


def emit_sequences(sequences: Mapping[KernelHandle, Sequence[KernelHandle]], prefix: str = "") -> str:
    """LLVM IR text of functions `void prefix+name(double *workspace)` that call kernels in order."""
    text = []
    for handle, kernels in sequences.items():
        calls = "".join(f'  call void @"{prefix}{k.name}"(ptr %w)\n' for k in kernels)
        text.append(f'define void @"{prefix}{handle.name}"(ptr %w) nounwind {{\n{calls}  ret void\n}}\n')
    return "".join(text)


def compile_object(ir: str) -> bytes:
    """Object code for this processor from IR text. Raises RuntimeError when the text is not valid IR."""
    _initialise()
    module = llvm.parse_assembly(ir)
    module.verify()
    machine = _target_machine(_OPTIMISATION)
    code: bytes = machine.emit_object(module)
    return code


def _target_machine(optimisation: int) -> llvm.TargetMachine:
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=features,
        opt=optimisation,
        jit=True,
        reloc="pic",
        codemodel="default",
    )


class MachineCode:
    """Compiled and loaded code. Calls release the interpreter's lock for their duration."""

    def __init__(self, ir: str) -> None:
        """Compile IR text, or take its object code from the cache. Raises RuntimeError if it is not valid."""
        _initialise()
        object_code = cache.load_or_build(ir, target_description(), lambda: compile_object(ir))
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(0))
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
        self._engine.finalize_object()

    def function(self, name: str, result: type | None = None, *arguments: type) -> Callable[..., Any]:
        """The function `name` as a foreign function of ctypes. Raises KeyError when there is none."""
        address = self._engine.get_function_address(name)
        if not address:
            raise KeyError(name)
        function = ctypes.CFUNCTYPE(result, *arguments)(address)
        function.keep = self  # type: ignore[attr-defined]  # the code must outlive the function
        return function
