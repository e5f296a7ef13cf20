"""Further kernels on the state of a car, and what determines their code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Generic, Protocol, TypeVar

_PACKAGE = __name__.partition(".")[0]
PLAIN = ("maths", "reading", "terminal", "trust")
"""Folders of this package that any module may import."""
FOLDERS = ("symbolic", "multibody", "vehicle", "filter", "sources")
"""Those whose source determines the code of a car, beside the plain ones and the modules that stand in no folder:
where cars, filters and measurement models are made. They import nothing of the other folders
(tests/test_imports.py)."""

_HASHED = tuple(f"{_PACKAGE}.{folder}." for folder in FOLDERS)

Result = TypeVar("Result")


class Argument(Protocol):
    """What an extension depends on beside its function. It is hashable."""

    @property
    def code_key(self) -> str | None:
        """A text: equal keys give equal code from the same source; None when there is no such text."""


@dataclass(frozen=True)
class Extension(Generic[Result]):
    """Adds kernels to the program of a car; equal extensions share one compiled program."""

    add: Callable[..., Result]
    """(program, parts, *arguments) to the handles of what it has added."""
    result: type[Result]
    """What `add` returns: handles, or dataclasses, tuples and dicts of them, which can be kept on disk; no atoms."""
    arguments: tuple[Argument, ...] = ()

    @property
    def code_key(self) -> str | None:
        """As that of its arguments."""
        keys = [get_global_name(self.add), *(a.code_key for a in self.arguments)]
        return None if None in keys else repr(keys)


def get_global_name(function: Callable[..., object]) -> str | None:
    """`module.name` of a function of this package's source.

    None for any other: a local function may depend on more than its name, and code from elsewhere, also from other
    folders of this package, is not in the hash of our source.
    """
    if not isinstance(function, FunctionType) or not function.__module__.startswith(_HASHED):
        return None
    name = function.__qualname__
    there = getattr(sys.modules.get(function.__module__), name, None)
    return f"{function.__module__}.{name}" if there is function else None
