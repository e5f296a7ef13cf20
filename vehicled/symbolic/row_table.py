"""Rows of integers for compiled code, which are added at the end and forgotten from the beginning on."""

from __future__ import annotations

import numpy as np

_SIZE = 8
"""Bytes of a number."""


class RowTable:
    """Rows of so many numbers of 64 bits, one after the other in memory."""

    def __init__(self, numbers: int) -> None:
        self._numbers, self._bytes_of_row = numbers, _SIZE * numbers
        self._begin = self.count = 0
        self._allocate(256)

    def _allocate(self, rows: int) -> None:
        self._rows = np.zeros((rows, self._numbers), dtype=np.int64)
        self._address, self._room = self._rows.ctypes.data, rows
        # So a few rows are written in a fraction of the time that NumPy takes.
        self.bytes = self._rows.data.cast("B")

    def find(self, place: int) -> int:
        """Address of a row, counted from the first one on. Adding rows may move all of them."""
        return self._address + self._bytes_of_row * (self._begin + place)

    @property
    def end(self) -> int:
        """Behind the last row, in `bytes`."""
        return self._bytes_of_row * (self._begin + self.count)

    def append(self, rows: bytes) -> int:
        """Add rows. Returns how many there are."""
        count = len(rows) // self._bytes_of_row
        self.make_room(count)
        begin = self.end
        self.bytes[begin : begin + len(rows)] = rows
        self.count += count
        return self.count

    def make_room(self, count: int) -> None:
        """For so many rows more."""
        if self._begin + self.count + count <= self._room:
            return
        kept = self._rows[self._begin : self._begin + self.count].copy()
        if 2 * (self.count + count) > self._room:
            self._allocate(2 * (self._room + count))
        self._begin = 0
        self._rows[: self.count] = kept

    def drop(self, count: int) -> None:
        """Forget so many, the first ones."""
        self._begin += count
        self.count -= count
