"""Extensions: further kernels on the state of a car, and the key of their code."""

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
"""Folders whose source determines the code of a car, in addition to the plain ones and the modules in no
folder: here cars, filters and measurement models are made. They import nothing from other folders
(tests/test_imports.py)."""

_HASHED = tuple(f"{_PACKAGE}.{folder}." for folder in FOLDERS)

Result = TypeVar("Result")


class Argument(Protocol):
    """Argument of an extension's function. It is hashable."""

    @property
    def code_key(self) -> str | None:
        """Key of the code: equal keys give equal code from the same source; None if there is no key."""


@dataclass(frozen=True)
class Extension(Generic[Result]):
    """Adds kernels to the program of a car; equal extensions share one compiled program."""

    add: Callable[..., Result]
    """From (program, parts, *arguments) to the handles of the added kernels."""
    result: type[Result]
    """Type of the result: handles, or dataclasses, tuples and dicts of them, which can be kept on disk; no
    atoms."""
    arguments: tuple[Argument, ...] = ()

    @property
    def code_key(self) -> str | None:
        """Key of the code, including those of the arguments; None if there is no key."""
        keys = [get_global_name(self.add), *(a.code_key for a in self.arguments)]
        return None if None in keys else repr(keys)


def get_global_name(function: Callable[..., object]) -> str | None:
    """`module.name` of a function of this package's source.

    None for any other function: a local function may depend on more than its name, and the hash of our source
    does not cover code from elsewhere, including other folders of this package.
    """
    if not isinstance(function, FunctionType) or not function.__module__.startswith(_HASHED):
        return None
    name = function.__qualname__
    there = getattr(sys.modules.get(function.__module__), name, None)
    return f"{function.__module__}.{name}" if there is function else None
