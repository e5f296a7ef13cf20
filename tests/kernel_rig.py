"""Expressions compiled as kernels of a small program."""

from __future__ import annotations

import numpy as np

from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.program import KernelHandle, Program


class KernelRig:
    """A finished program's kernels, and its arrays by name."""

    def __init__(self, program: Program) -> None:
        program.finish([])
        self._functions, self._layout = compile_program(program).functions.kernels, program.layout
        self.workspace = program.layout.allocate()

    def __getitem__(self, array: str) -> np.ndarray:
        """A view."""
        return self._layout.view(self.workspace, array)

    def run(self, kernel: str) -> None:
        self._functions[KernelHandle(kernel)](self.workspace.ctypes.data)
