"""Scripts: kernels, copies of records and gates between them, which run one after the other in one call.

A visit is a record with the kernels that may be run on it; visits that lie one after the other are run as one
operation.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from vehicled.symbolic.record_code import COPY, KEEP, OPERATION, RESTORE, VISIT, load


def _split(view: np.ndarray) -> Sequence[np.ndarray]:
    """Pieces whose numbers lie one after the other: those of derivatives may have room after each row."""
    return (view,) if view.flags.c_contiguous else [piece for row in view for piece in _split(row)]


class RecordCopies:
    """Copies of numbers between a record and a workspace, all in one call."""

    def __init__(
        self, workspace: np.ndarray, parts: Iterable[tuple[np.ndarray, Sequence[np.ndarray]]]
    ) -> None:
        """`parts`: numbers of the record (k,), and the arrays of the workspace that they are of, in C order."""
        begin, rows = workspace.ctypes.data, []
        self._records = []
        """They must not be freed before their addresses are."""
        for numbers, views in parts:
            self._records.append(numbers)
            address = numbers.ctypes.data
            for piece in (piece for view in views for piece in _split(view)):
                rows.append((address, (piece.ctypes.data - begin) // piece.itemsize, piece.size))
                address += piece.nbytes
        self._rows = np.array(rows, dtype=np.int64).reshape(-1, COPY)
        self.address, self.count = self._rows.ctypes.data, len(rows)
        """Of the list of copies, for operations of scripts."""
        # As objects of ctypes, so that they are not converted at each call.
        given = ctypes.c_void_p(begin), ctypes.c_void_p(self.address), ctypes.c_longlong(self.count)
        self.keep: Callable[[], None] = partial(load().copy, *given, ctypes.c_longlong(KEEP))
        """Take what the workspace has now."""
        self.restore: Callable[[], None] = partial(load().copy, *given, ctypes.c_longlong(RESTORE))
        """Put it back."""


def make_visit(copies: RecordCopies, kernels: Sequence[int], changes: bool) -> np.ndarray:
    """(1, VISIT) where a record is copied to, and the addresses of the kernels that may then be run.

    `changes`: whether some of these change the record.
    """
    row = np.zeros((1, VISIT), dtype=np.int64)
    row[0, : 3 + len(kernels)] = copies.address, copies.count, copies.count * changes, *kernels
    return row


class Script:
    """Operations in an order."""

    def __init__(self, workspace: np.ndarray, operations: Sequence[tuple[int, ...]]) -> None:
        """`operations`: which one, and what it is given; zeros for what is given later, by `writer`."""
        rows = np.zeros((len(operations), OPERATION), dtype=np.int64)
        for row, operation in zip(rows, operations, strict=True):
            row[: len(operation)] = operation
        self._rows, self._pointer = rows, ctypes.c_void_p(workspace.ctypes.data)

    def part(self, begin: int, end: int) -> Callable[[], int]:
        """These operations as a function, which returns how many of them are done."""
        address = ctypes.c_void_p(self._rows.ctypes.data + self._rows.strides[0] * begin)
        return partial(load().run, self._pointer, address, ctypes.c_longlong(end - begin))

    def writer(self, operation: int, count: int) -> Callable[..., Any]:
        """A function that takes the first `count` numbers that an operation is given."""
        place = self._rows.itemsize * (OPERATION * operation + 1)
        return partial(struct.Struct(f"={count}q").pack_into, self._rows.data.cast("B"), place)
