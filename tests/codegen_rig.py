"""Compares generated source code with the machine code of the same kernels on the same numbers."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from vehicled.symbolic import python_library
from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.library import Library
from vehicled.symbolic.text import identifier

COMPILER = shutil.which("gcc") or shutil.which("cc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


class CompiledC:
    """A library's compiled C code, with its struct as one array of numbers."""

    def __init__(self, library: Library, files: dict[str, str], folder: Path) -> None:
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        shared = folder / f"{library.name}.so"
        command = [COMPILER, "-std=c99", "-O0", *WARNINGS, "-shared", "-fPIC", "-o", shared]
        subprocess.run([*command, folder / f"{library.name}.c", "-lm"], check=True, timeout=100)
        self.library, self.code = library, ctypes.CDLL(str(shared))
        self.shapes = {name: library.shape(name) for name in library.members()}
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        self.numbers = np.zeros(sum(sizes))
        parts = np.split(self.numbers, np.cumsum(sizes)[:-1])
        self.members = {n: p.reshape(s) for (n, s), p in zip(self.shapes.items(), parts, strict=True)}

    def call(self, function: str, *arguments: float) -> int:
        run = getattr(self.code, f"{self.library.name}_{identifier(function)}")
        typed = [ctypes.c_int(a) if isinstance(a, int) else ctypes.c_double(a) for a in arguments]
        return run(ctypes.c_void_p(self.numbers.ctypes.data), *typed)


def load_python(library: Library) -> ModuleType:
    """Write the library's Python module and execute it."""
    (text,) = python_library.write(library).values()
    module = ModuleType(library.name)
    exec(text, module.__dict__)
    return module


class LoadedPython:
    """A library's Python module with a state of its own."""

    def __init__(self, library: Library, module: ModuleType) -> None:
        self.module, self.state = module, module.State()
        self.members = {name: getattr(self.state, identifier(name)) for name in library.members()}

    def call(self, function: str, *arguments: float) -> int:
        return getattr(self.module, identifier(function))(self.state, *arguments)


def assert_same(found, expected, name):
    scale = np.abs(expected).max(initial=1e-300)
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-12 * scale), name


def compare_with_machine_code(library, text):
    """Compare every function on random values near the start values, to 1e-12 of the largest result."""
    program = library.program
    (routine,) = library.routines
    code = compile_program(program, (routine,)).functions
    workspace = program.layout.allocate()
    views = {name: program.layout.view(workspace, name) for name in text.members}
    random = np.random.default_rng(1)
    for _ in range(3):
        for name, view in views.items():
            start = np.zeros(view.size)
            given = library.start(name)
            start[: len(given)] = given
            view.flat[:] = start * random.uniform(0.9, 1.1, view.size) + 0.01 * random.normal(size=view.size)
            text.members[name][...] = view
        for handle in library.functions:
            code.kernels[handle](workspace.ctypes.data)
            text.call(handle.name)
            for name in library.written(program.kernels[handle]):
                assert_same(text.members[name], views[name], f"{handle.name}: {name}")
