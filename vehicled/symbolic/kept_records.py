"""Records outside of a workspace, of numbers that are copied to it and from it by machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from vehicled.symbolic.record_code import KEEP, KERNELS, RESTORE, OfKind, load

_CHUNK = 64
"""Records that are allocated at once."""


def _split(view: np.ndarray) -> Sequence[np.ndarray]:
    """Pieces whose numbers lie one after the other: those of derivatives may have room after each row."""
    return (view,) if view.flags.c_contiguous else [piece for row in view for piece in _split(row)]


class KeptLayout:
    """Of which numbers of a workspace a record consists, in C order."""

    def __init__(self, workspace: np.ndarray, views: Sequence[np.ndarray]) -> None:
        """`views`: arrays of the workspace."""
        begin, table = workspace.ctypes.data, [0]
        for piece in (piece for view in views for piece in _split(view)):
            table += (piece.ctypes.data - begin) // piece.itemsize, piece.size
            table[0] += 1
        self._table = np.array(table, dtype=np.int64)
        self.address = self._table.ctypes.data
        """Valid as long as this object is."""
        self.size = sum(view.size for view in views)
        """Of a record, numbers."""


class KeptRecord:
    """One record."""

    def __init__(self, workspace: np.ndarray, views: Sequence[np.ndarray]) -> None:
        """`views`: as of a layout."""
        self._layout = KeptLayout(workspace, views)
        self._numbers = np.zeros(self._layout.size)
        self.address, self.layout = self._numbers.ctypes.data, self._layout.address
        """For operations of scripts; valid as long as this object is."""
        # As objects of ctypes, so that they are not converted at each call.
        given = (ctypes.c_void_p(a) for a in (workspace.ctypes.data, self.address, self.layout))
        copy = partial(load().copy, *given)
        self.keep: Callable[[], None] = partial(copy, ctypes.c_longlong(KEEP))
        """Take what the workspace has now."""
        self.restore: Callable[[], None] = partial(copy, ctypes.c_longlong(RESTORE))
        """Put it back."""


class RecordStore:
    """Records of so many numbers, which are taken and given back; what has been allocated is used again."""

    def __init__(self, numbers: int) -> None:
        self._numbers = numbers
        self.rows: dict[int, np.ndarray] = {}
        """(numbers,) each, by address."""
        head = np.zeros(2, dtype=np.int64)
        self.address = head.ctypes.data
        """Of those that are free."""
        # So a few numbers are read in a fraction of the time that NumPy takes.
        self._head = head.data
        self.grow()

    def grow(self) -> None:
        """Allocate more if none is free."""
        if self._head[0]:
            return
        chunk = np.zeros((_CHUNK, self._numbers))
        added = {row.ctypes.data: row for row in chunk}
        self.rows |= added
        free = np.zeros(len(self.rows), dtype=np.int64)
        free[:_CHUNK] = [*reversed(added)]
        self._free, self._head[0], self._head[1] = free.data, _CHUNK, free.ctypes.data

    def take(self) -> int:
        """Address of one that is not free any more."""
        self.grow()
        self._head[0] -= 1
        return self._free[self._head[0]]

    def give_back(self, address: int) -> None:
        """It is free again."""
        self._free[self._head[0]] = address
        self._head[0] += 1


class RecordKind:
    """A kind of records that visits are of."""

    def __init__(
        self, workspace: np.ndarray, then: Sequence[np.ndarray], kernels: Sequence[int], changes: bool
    ) -> None:
        """`then`: arrays of the workspace that records are copied to.

        `kernels`: addresses of those that may then be run, 0: none. `changes`: whether some of these change it.
        """
        self._layout = KeptLayout(workspace, then)
        self._table = np.zeros(OfKind.KERNEL + KERNELS, dtype=np.int64)
        self._table[OfKind.LAYOUT], self._table[OfKind.CHANGES] = self._layout.address, changes
        self._table[OfKind.KERNEL : OfKind.KERNEL + len(kernels)] = kernels
        self.address = self._table.ctypes.data
        """Valid as long as this object is."""


class ObservationKind(RecordKind):
    """One of which machine code keeps records as observations are made."""

    def __init__(
        self,
        workspace: np.ndarray,
        present: Sequence[np.ndarray],
        then: Sequence[np.ndarray],
        kernels: Sequence[int],
        changes: bool,
    ) -> None:
        """`present`: arrays of the workspace that are kept; `then` and the others: as of any kind."""
        super().__init__(workspace, then, kernels, changes)
        self._present = KeptLayout(workspace, present)
        self.present = self._present.address
        """Of the layout."""
        self.store = RecordStore(self._present.size)
        self._table[OfKind.PRESENT], self._table[OfKind.FREE] = self.present, self.store.address
