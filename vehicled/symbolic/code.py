"""The machine code of a program: kernels, sequences and routines, looked up by handle."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from vehicled.symbolic.differentiation import PREFIX
from vehicled.symbolic.machine import MachineCode
from vehicled.symbolic.program import KernelHandle, RoutineHandle


@dataclass(frozen=True)
class Interface:
    """Functions in the machine code of a program."""

    kernels: tuple[KernelHandle, ...]
    """Kernels and sequences."""
    routines: tuple[RoutineHandle, ...]
    is_differentiated: bool
    """Whether the code has the differentiated functions as well."""


class Functions:
    """Functions that take the address of a workspace."""

    def __init__(self, code: MachineCode, interface: Interface, prefix: str, keeps_lock: bool) -> None:
        """`keeps_lock`: whether calls keep the interpreter's lock."""
        self.kernels: dict[KernelHandle, Callable[[int], None]] = {
            handle: code.function(prefix + handle.name, None, ctypes.c_void_p, keeps_lock=keeps_lock)
            for handle in interface.kernels
        }
        self._routines = {
            r: code.function(prefix + r.name, ctypes.c_int, *_types(r), keeps_lock=keeps_lock)
            for r in interface.routines
        }

    def routine(self, routine: RoutineHandle) -> Callable[..., int]:
        """A function of the address of a workspace and the routine's arguments. Raises KeyError."""
        return self._routines[routine]


def _types(routine: RoutineHandle) -> list[type]:
    return [ctypes.c_void_p, *(ctypes.c_int if i else ctypes.c_double for i in routine.integers)]


class ProgramCode:
    """The loaded machine code of a program; immutable."""

    def __init__(self, interface: Interface, object_code: bytes, keeps_lock: bool = False) -> None:
        """Raises KeyError if the code lacks a function of the interface.

        `keeps_lock`: whether calls keep the interpreter's lock, which is better for short calls; those of
        differentiated functions always release it.
        """
        code = MachineCode(object_code)
        self.functions = Functions(code, interface, "", keeps_lock)
        self.differentiated = (
            Functions(code, interface, PREFIX, False) if interface.is_differentiated else None
        )
        """The differentiated functions, as `functions`; None if the code has none."""
