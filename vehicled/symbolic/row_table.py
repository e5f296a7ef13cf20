"""Rows of integers for compiled code, added at the end and dropped at the beginning."""

from __future__ import annotations

import numpy as np

from vehicled.symbolic.record_code import OfRows

_FIRST, _COUNT, _LIMIT, _DROPPED = map(int, OfRows)
"""As plain integers, which are faster than members of an enumeration."""


class RowTable:
    """Rows of a fixed number of 64-bit integers, contiguous in memory; compiled code adds and drops them."""

    def __init__(self, numbers: int) -> None:
        self._numbers, self._bytes_of_row = numbers, 8 * numbers
        head = np.zeros(len(OfRows), dtype=np.int64)
        self.address = head.ctypes.data
        """Address of the table `OfRows`."""
        # Reading a few numbers by this takes a fraction of the time that NumPy needs.
        self._head = head.data
        self._allocate(256)

    def _allocate(self, rows: int) -> None:
        self._rows = np.zeros((rows, self._numbers), dtype=np.int64)
        self._address = self._rows.ctypes.data
        self._head[_FIRST], self._head[_LIMIT] = self._address, self._address + self._rows.nbytes

    @property
    def count(self) -> int:
        """Number of rows."""
        return self._head[_COUNT]

    @property
    def rows(self) -> np.ndarray:
        """View of the rows (count, numbers); `make_room` may move them."""
        begin = (self._head[_FIRST] - self._address) // self._bytes_of_row
        return self._rows[begin : begin + self.count]

    def find(self, place: int) -> int:
        """Address of a row, by its index from the first row on."""
        return self._head[_FIRST] + self._bytes_of_row * place

    def make_room(self, count: int) -> None:
        """Make room for `count` more rows."""
        if self.find(self.count + count) <= self._head[_LIMIT]:
            return
        kept = self.rows.copy()
        if 2 * (len(kept) + count) > len(self._rows):
            self._allocate(2 * (len(self._rows) + count))
        self._head[_FIRST] = self._address
        self._rows[: len(kept)] = kept

    def clear(self) -> None:
        """Drop all rows."""
        self._head[_FIRST] = self.find(self.count)
        self._head[_DROPPED] += self.count
        self._head[_COUNT] = 0
