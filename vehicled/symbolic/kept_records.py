"""Records outside a workspace: numbers that machine code copies to and from the workspace."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from vehicled.symbolic.record_code import KEEP, KERNELS, RESTORE, OfKind, load

_CHUNK = 64
"""How many records are allocated at once."""


def _split(view: np.ndarray) -> Sequence[np.ndarray]:
    """Split into pieces of contiguous numbers: views of derivatives may have gaps after each row."""
    return (view,) if view.flags.c_contiguous else [piece for row in view for piece in _split(row)]


class KeptLayout:
    """The numbers of a workspace that make up a record, in C order."""

    def __init__(self, workspace: np.ndarray, views: Sequence[np.ndarray]) -> None:
        """`views`: arrays of the workspace."""
        begin, table = workspace.ctypes.data, [0]
        for piece in (piece for view in views for piece in _split(view)):
            table += (piece.ctypes.data - begin) // piece.itemsize, piece.size
            table[0] += 1
        self._table = np.array(table, dtype=np.int64)
        self.address = self._table.ctypes.data
        """Valid as long as this object exists."""
        self.size = sum(view.size for view in views)
        """Numbers in a record."""


class KeptRecord:
    """One record."""

    def __init__(self, workspace: np.ndarray, views: Sequence[np.ndarray]) -> None:
        """`views`: arrays of the workspace, as for `KeptLayout`."""
        self._layout = KeptLayout(workspace, views)
        self._numbers = np.zeros(self._layout.size)
        self.address, self.layout = self._numbers.ctypes.data, self._layout.address
        """For operations of scripts; valid as long as this object exists."""
        # As ctypes objects, so that they are not converted at each call.
        given = (ctypes.c_void_p(a) for a in (workspace.ctypes.data, self.address, self.layout))
        copy = partial(load().copy, *given)
        self.keep: Callable[[], None] = partial(copy, ctypes.c_longlong(KEEP))
        """Copy the present numbers of the workspace to the record."""
        self.restore: Callable[[], None] = partial(copy, ctypes.c_longlong(RESTORE))
        """Copy the record back to the workspace."""


class RecordStore:
    """Records of equal size, taken and given back; memory that has been allocated is used again."""

    def __init__(self, numbers: int) -> None:
        self._numbers = numbers
        self.chunks: list[np.ndarray] = []
        """Arrays (records, numbers) of all records, taken and free ones."""
        head = np.zeros(2, dtype=np.int64)
        self.address = head.ctypes.data
        """Address of the table of free records."""
        # Reading a few numbers by this takes a fraction of the time that NumPy needs.
        self._head = head.data
        self.grow()

    def grow(self) -> None:
        """Allocate more records if none is free."""
        if self._head[0]:
            return
        chunk = np.zeros((_CHUNK, self._numbers))
        self.chunks.append(chunk)
        free = np.zeros(_CHUNK * len(self.chunks), dtype=np.int64)
        free[:_CHUNK] = [row.ctypes.data for row in reversed(chunk)]
        self._free, self._head[0], self._head[1] = free.data, _CHUNK, free.ctypes.data

    def take(self) -> int:
        """Take a free record: its address."""
        self.grow()
        self._head[0] -= 1
        return self._free[self._head[0]]

    def give_back(self, address: int) -> None:
        """Mark a record as free again."""
        self._free[self._head[0]] = address
        self._head[0] += 1


class RecordKind:
    """Kind of the records of visits: layout, and kernels that are run on them."""

    def __init__(
        self, workspace: np.ndarray, then: Sequence[np.ndarray], kernels: Sequence[int], changes: bool
    ) -> None:
        """`then`: arrays of the workspace that records are copied to.

        `kernels`: addresses of the kernels that may then be run, 0: none. `changes`: whether some of these
        change the record.
        """
        self._layout = KeptLayout(workspace, then)
        self._table = np.zeros(OfKind.KERNEL + KERNELS, dtype=np.int64)
        self._table[OfKind.LAYOUT], self._table[OfKind.CHANGES] = self._layout.address, changes
        self._table[OfKind.KERNEL : OfKind.KERNEL + len(kernels)] = kernels
        self.address = self._table.ctypes.data
        """Valid as long as this object exists."""


class ObservationKind(RecordKind):
    """A kind whose records are kept by machine code when observations are made."""

    def __init__(
        self,
        workspace: np.ndarray,
        present: Sequence[np.ndarray],
        then: Sequence[np.ndarray],
        kernels: Sequence[int],
        changes: bool,
    ) -> None:
        """`present`: arrays of the workspace that are kept; `then` and the others: as for `RecordKind`."""
        super().__init__(workspace, then, kernels, changes)
        self._present = KeptLayout(workspace, present)
        self.present = self._present.address
        """Address of the layout of `present`."""
        self.store = RecordStore(self._present.size)
        self._table[OfKind.PRESENT], self._table[OfKind.FREE] = self.present, self.store.address
