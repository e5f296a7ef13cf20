"""From a finished program to its machine code."""

from __future__ import annotations

from collections.abc import Sequence

from vehicled.symbolic import llvm, loop, machine
from vehicled.symbolic.code import Interface, ProgramCode
from vehicled.symbolic.differentiation import PREFIX
from vehicled.symbolic.loop import Routine
from vehicled.symbolic.program import Program
from vehicled.symbolic.tangent import Tangents


def emit(program: Program, routines: Sequence[Routine], tangents: Tangents | None) -> str:
    """IR text of a program; with its `tangents`, of the differentiated functions too."""
    prefixes = ("",) if tangents is None else ("", PREFIX)
    text = [loop.declarations(program.layout.width)] if routines else []
    text += [loop.emit_routine(r, program, prefix) for prefix in prefixes for r in routines]
    text += [llvm.emit_sequences(program.sequences, prefix) for prefix in prefixes]
    text += [llvm.emit_conditions(program.conditions, prefix) for prefix in prefixes]
    sizes: tuple[int, ...] = ()
    if tangents is not None:
        text.append(tangents.emit())
        sizes = tangents.sizes
    text += [*program.texts, *program.replaced.values()]
    kernels = [k for handle, k in program.kernels.items() if handle not in program.replaced]
    return llvm.emit(kernels, program.layout, "", "".join(text), sizes)


def make_interface(program: Program, routines: Sequence[Routine], tangents: Tangents | None) -> Interface:
    """Interface of the code that `emit` writes."""
    kernels = (*program.kernels, *program.sequences, *program.conditions)
    return Interface(kernels, tuple(r.handle for r in routines), tangents is not None)


def compile_program(
    program: Program,
    routines: Sequence[Routine] = (),
    tangents: Tangents | None = None,
    optimisation: int = machine.OPTIMISATION,
) -> ProgramCode:
    """Compile a program, or take it from the cache; with its `tangents`, the differentiated functions too.

    `optimisation`: 0 for code that is called only a few times, which compiles many times faster.
    """
    object_code = machine.get_object(emit(program, routines, tangents), optimisation)
    return ProgramCode(make_interface(program, routines, tangents), object_code)
