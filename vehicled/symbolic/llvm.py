"""Back end to machine code: kernels become LLVM IR text, compiled in the process through llvmlite.

Plain numbers are `double` (or `<width x double>`, several instances side by side); lane vectors are
`<lanes·width x double>`, lane by lane. The emitted object code can be kept and loaded again (`cache.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence

import llvmlite.binding as llvm
import numpy as np

from vehicled.symbolic import cache
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Kernel, Layout

_ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_LIBM = {"sin": 1, "cos": 1, "tanh": 1, "atan": 1, "exp": 1, "atan2": 2}
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


class _Emitter:
    """LLVM IR text of one kernel."""

    def __init__(self, layout: Layout):
        self.layout = layout
        self.lines: list[str] = []
        self.count = 0

    def type(self, rank: int) -> str:
        n = self.layout.stride(rank)
        return "double" if n == 1 else f"<{n} x double>"

    def new(self, text: str) -> str:
        name = f"%v{self.count}"
        self.count += 1
        self.lines.append(f"  {name} = {text}")
        return name

    def constant(self, value: float, rank: int) -> str:
        bits = f"0x{np.float64(value).view(np.uint64):016X}"
        n = self.layout.stride(rank)
        return bits if n == 1 else "<" + ", ".join([f"double {bits}"] * n) + ">"

    def pointer(self, offset: int) -> str:
        return self.new(f"getelementptr inbounds double, ptr %w, i64 {offset}")

    def broadcast(self, value: str) -> str:
        """Plain number to lane vector."""
        n, w = self.layout.stride(1), self.layout.width
        if n == w:
            return value
        if w == 1:
            one = self.new(f"insertelement <{n} x double> undef, double {value}, i32 0")
            return self.shuffle(one, n, [0] * n)
        return self.shuffle(value, w, list(range(w)) * self.layout.lanes)

    def shuffle(self, value: str, size: int, mask: Sequence[int]) -> str:
        vector = f"<{size} x double>"
        indices = ", ".join(f"i32 {i}" for i in mask)
        return self.new(f"shufflevector {vector} {value}, {vector} undef, <{len(mask)} x i32> <{indices}>")

    def call(self, function: str, values: Sequence[str], rank: int) -> str:
        """A function of the mathematics library, element by element."""
        n = self.layout.stride(rank)
        if n == 1:
            return self.new(f"call double @{function}({', '.join('double ' + v for v in values)})")
        vector = f"<{n} x double>"
        result = "undef"
        for i in range(n):
            elements = [self.new(f"extractelement {vector} {v}, i32 {i}") for v in values]
            one = self.new(f"call double @{function}({', '.join('double ' + e for e in elements)})")
            result = self.new(f"insertelement {vector} {result}, double {one}, i32 {i}")
        return result

    def lane_sum(self, value: str) -> str:
        n, w, lanes = self.layout.stride(1), self.layout.width, self.layout.lanes
        if lanes == 1:
            return value
        if w == 1:
            # Pairs first: a tree is shorter than a chain.
            size = n
            while size > 1:
                half = size // 2
                low = self.shuffle(value, size, list(range(half)))
                high = self.shuffle(value, size, list(range(half, size)))
                t = f"<{half} x double>"
                value = self.new(f"fadd contract {t} {low}, {high}")
                size = half
            return self.new(f"extractelement <1 x double> {value}, i32 0")
        parts = [self.shuffle(value, n, list(range(k * w, (k + 1) * w))) for k in range(lanes)]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.new(f"fadd contract {self.type(0)} {a}, {b}") for a, b in pairs]
        return parts[0]

    def operation(self, a: Atom, value: Callable[[Atom, int], str]) -> str:
        op, rank = a.op, a.rank
        t = self.type(rank)
        if op in _ARITHMETIC:
            x, y = value(a.args[0], rank), value(a.args[1], rank)
            return self.new(f"{_ARITHMETIC[op]} contract {t} {x}, {y}")
        if op == "neg":
            return self.new(f"fneg {t} {value(a.args[0], rank)}")
        if op in ("sqrt", "abs"):
            n = self.layout.stride(rank)
            suffix = "f64" if n == 1 else f"v{n}f64"
            name = "sqrt" if op == "sqrt" else "fabs"
            return self.new(f"call {t} @llvm.{name}.{suffix}({t} {value(a.args[0], rank)})")
        if op == "where_less":
            low, high = a.args[:2]
            test = max(low.rank, high.rank)
            if test < rank:
                test = rank
            flag = self.new(f"fcmp olt {self.type(test)} {value(low, test)}, {value(high, test)}")
            n = self.layout.stride(test)
            bit = "i1" if n == 1 else f"<{n} x i1>"
            x, y = value(a.args[2], rank), value(a.args[3], rank)
            return self.new(f"select {bit} {flag}, {t} {x}, {t} {y}")
        if op in _LIBM:
            return self.call(op, [value(b, rank) for b in a.args], rank)
        if op == "lane_sum":
            return self.lane_sum(value(a.args[0], 1))
        if op == "lane_swap":
            w, n = self.layout.width, self.layout.stride(1)
            mask = [(i // w ^ 1) * w + i % w for i in range(n)]
            return self.shuffle(value(a.args[0], 1), n, mask)
        raise ValueError(f"operation {op!r} has no machine code")

    def kernel(self, kernel: Kernel, prefix: str) -> str:
        names: dict[int, str] = {}
        broadcasts: dict[int, str] = {}

        def load(a: Atom) -> str:
            stride = self.layout.stride(a.rank)
            align = 8 * (1 if stride == 1 else min(8, stride & -8 or 1))
            t = self.type(a.rank)
            return self.new(f"load {t}, ptr {self.pointer(kernel.loads[a.id])}, align {align}")

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


def emit(kernels: Sequence[Kernel], layout: Layout, prefix: str = "", loops: str = "") -> str:
    """LLVM IR text of kernels as functions `void prefix+name(double *workspace)`.

    `loops` is further IR text: functions that call the kernels repeatedly.
    """
    text = [f"declare double @{f}({', '.join(['double'] * n)}) nounwind\n" for f, n in _LIBM.items()]
    for n in {layout.stride(0), layout.stride(1)}:
        suffix = "f64" if n == 1 else f"v{n}f64"
        t = "double" if n == 1 else f"<{n} x double>"
        text += [f"declare {t} @llvm.{f}.{suffix}({t})\n" for f in ("sqrt", "fabs")]
    text += [_Emitter(layout).kernel(k, prefix) for k in kernels]
    text.append(loops)
    return "".join(text)


def emit_sequences(sequences: Mapping[str, Sequence[str]], prefix: str = "") -> str:
    """LLVM IR text of functions `void prefix+name(double *workspace)` that call kernels in order."""
    text = []
    for name, kernels in sequences.items():
        calls = "".join(f'  call void @"{prefix}{k}"(ptr %w)\n' for k in kernels)
        text.append(f'define void @"{prefix}{name}"(ptr %w) nounwind {{\n{calls}  ret void\n}}\n')
    return "".join(text)


def compile_object(ir: str) -> bytes:
    """Object code for this processor from IR text. Raises RuntimeError when the text is not valid IR."""
    _initialise()
    module = llvm.parse_assembly(ir)
    module.verify()
    machine = _target_machine(_OPTIMISATION)
    return machine.emit_object(module)


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

    def __init__(self, ir: str):
        """Compile IR text, or take its object code from the cache. Raises RuntimeError if it is not valid."""
        _initialise()
        object_code = cache.load_or_build(ir, target_description(), lambda: compile_object(ir))
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine(0))
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(object_code))
        self._engine.finalize_object()

    def function(self, name: str, result: type | None = None, *arguments: type) -> Callable:
        """The function `name` as a foreign function of ctypes. Raises KeyError when there is none."""
        address = self._engine.get_function_address(name)
        if not address:
            raise KeyError(name)
        function = ctypes.CFUNCTYPE(result, *arguments)(address)
        function.keep = self  # type: ignore[attr-defined]  # the code must outlive the function
        return function
