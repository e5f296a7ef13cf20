"""The machine code of a finished program: kernels and sequences by handle, routines by their description."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from vehicled.symbolic import llvm, loop
from vehicled.symbolic.loop import Count, Routine
from vehicled.symbolic.program import KernelHandle, Program
from vehicled.symbolic.tangent import PREFIX, Tangents


class Functions:
    """Functions on the address of a workspace."""

    def __init__(
        self, code: llvm.MachineCode, program: Program, routines: Sequence[Routine], prefix: str
    ) -> None:
        self.kernels: dict[KernelHandle, Callable[[int], None]] = {
            handle: code.function(prefix + handle.name, None, ctypes.c_void_p)
            for handle in (*program.kernels, *program.sequences)
        }
        self._routines = {r: code.function(prefix + r.name, ctypes.c_int, *_types(r)) for r in routines}

    def routine(self, routine: Routine) -> Callable[..., int]:
        """Takes the address of a workspace, then the routine's arguments. Raises KeyError."""
        return self._routines[routine]


def _types(routine: Routine) -> list[type]:
    arguments = [ctypes.c_int if isinstance(a, Count) else ctypes.c_double for a in routine.arguments]
    return [ctypes.c_void_p, *arguments]


class ProgramCode:
    """Compiled, or taken from the cache; immutable."""

    def __init__(
        self, program: Program, routines: Sequence[Routine] = (), tangents: Tangents | None = None
    ) -> None:
        """With `tangents` of the program there are the differentiated functions too."""
        prefixes = ("",) if tangents is None else ("", PREFIX)
        text = [loop.declarations(program.layout.width)] if routines else []
        text += [loop.emit_routine(r, program, prefix) for prefix in prefixes for r in routines]
        text += [llvm.emit_sequences(program.sequences, prefix) for prefix in prefixes]
        sizes: tuple[int, ...] = ()
        if tangents is not None:
            text.append(tangents.emit())
            sizes = tangents.sizes
        ir = llvm.emit(program.kernels.values(), program.layout, "", "".join(text), sizes)
        code = llvm.MachineCode(ir)
        self.functions = Functions(code, program, routines, "")
        self.differentiated = None if tangents is None else Functions(code, program, routines, PREFIX)
        """As `functions`."""
