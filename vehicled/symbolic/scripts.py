"""Scripts: kernels, copies of records and gates between them, which run in sequence in one call.

A visit is a record with the kernels that may be run on it; consecutive visits are run as one operation.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from vehicled.symbolic.record_code import OPERATION, load


class Script:
    """Operations in sequence."""

    def __init__(self, workspace: np.ndarray, operations: Sequence[tuple[int, ...]]) -> None:
        """`operations`: code `Do` and arguments of each; zeros for arguments that are given later, by `writer`."""
        rows = np.zeros((len(operations), OPERATION), dtype=np.int64)
        for row, operation in zip(rows, operations, strict=True):
            row[: len(operation)] = operation
        self._rows, self._pointer = rows, ctypes.c_void_p(workspace.ctypes.data)

    def part(self, begin: int, end: int) -> Callable[[], int]:
        """These operations as a function, which returns how many of them were completed."""
        address = ctypes.c_void_p(self._rows.ctypes.data + self._rows.strides[0] * begin)
        return partial(load().run, self._pointer, address, ctypes.c_longlong(end - begin))

    def writer(self, operation: int, count: int) -> Callable[..., Any]:
        """A function that writes the first `count` arguments of an operation."""
        place = self._rows.itemsize * (OPERATION * operation + 1)
        return partial(struct.Struct(f"={count}q").pack_into, self._rows.data.cast("B"), place)
