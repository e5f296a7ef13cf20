"""Machine code for this processor: LLVM IR text compiled in the process by llvmlite, and loaded.

The object code is kept on disk and loaded again (`cache.py`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm

from vehicled.symbolic import cache

OPTIMISATION = 2
"""Optimisation level of the compiler."""
_OPTIONS = ("-disable-cgp", "-disable-post-ra")
"""Options of the code generator. The first pass would merge the basic blocks of straight-line code into one,
the second is another scheduler. The time of each grows with the square of a block, and the code runs no
faster."""
_LIBRARY = "vehicled"
"""Name of the loaded object, the only one in its linker."""
_INITIALISED = False


def _initialise() -> None:
    global _INITIALISED
    if not _INITIALISED:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        for option in _OPTIONS:
            llvm.set_option("", option)
        _INITIALISED = True


def target_description(optimisation: int = OPTIMISATION) -> str:
    """What object code depends on in addition to its source: processor, its features, compiler and settings."""
    processor = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    return f"{processor} {llvm.llvm_version_info} O{optimisation} {_OPTIONS}"


def compile_object(ir: str, optimisation: int = OPTIMISATION) -> bytes:
    """Object code for this processor from IR text, optimised at a level from 0 to 3.

    Raises RuntimeError if the text is not valid IR.
    """
    _initialise()
    module = llvm.parse_assembly(ir)
    module.verify()
    machine = _target_machine(optimisation)
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


def get_object(ir: str, optimisation: int = OPTIMISATION) -> bytes:
    """As `compile_object`, but from the cache if possible."""
    return cache.load_or_build(ir, target_description(optimisation), lambda: compile_object(ir, optimisation))


def get_object_key(ir: str) -> str:
    """Key in the cache for the result of `get_object`."""
    return cache.object_key(ir, target_description())


class MachineCode:
    """Loaded code."""

    def __init__(self, object_code: bytes) -> None:
        """`object_code`: for this processor."""
        _initialise()
        # Linked by JITLink, as one block of memory: calls and constants are addressed within 2 GB. The older
        # linker (MCJIT's) maps each section separately, and aborts if the process has no room for them close
        # together.
        self._engine = llvm.create_lljit_compiler(_target_machine(0), use_jit_link=True)
        library = llvm.JITLibraryBuilder().add_object_img(object_code).add_current_process()
        self._trackers = [library.link(self._engine, _LIBRARY)]
        """Each tracker unloads the code when it is deleted, and with it the functions."""

    def function(
        self, name: str, result: type | None = None, *arguments: type, keeps_lock: bool = False
    ) -> Callable[..., Any]:
        """The function `name` as a foreign function of ctypes. Raises KeyError if it does not exist.

        `keeps_lock`: calls keep the interpreter's lock; otherwise they release it for their duration.
        Acquiring it again may take as long as another thread is busy, so calls of microseconds should keep
        it.
        """
        try:
            found = self._engine.lookup(_LIBRARY, name)
        except RuntimeError:
            raise KeyError(name) from None
        self._trackers.append(found)
        kind = ctypes.PYFUNCTYPE if keeps_lock else ctypes.CFUNCTYPE
        function = kind(result, *arguments)(found[name])
        function.keep = self  # type: ignore[attr-defined]  # the code must outlive the function
        return function
