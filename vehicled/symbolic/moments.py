"""Moments of a past, of each of which a record of before and one of after are kept: found by time, in one call."""

from __future__ import annotations

import ctypes
import struct
from functools import partial
from typing import NamedTuple

import numpy as np

from vehicled.symbolic.record_code import MOMENT, load
from vehicled.symbolic.row_table import RowTable
from vehicled.symbolic.scripts import RecordCopies

_pack_moment = struct.Struct(f"={MOMENT}q").pack_into
_ASKED, _FIXED = struct.Struct("=4qd"), struct.Struct("=3qd5q")
"""What is looked for, which changes from call to call; and what does not."""


class MomentPlaces(NamedTuple):
    """Where a moment goes to in a workspace."""

    age: int
    """Places of numbers: by how much a time is before the moment at or after it, s;"""
    lead: int
    """by how much it is after the last one, s, at most `longest`;"""
    latency: int
    """what is given beside it;"""
    share: int
    """and its share of the way from the moment before it."""
    kernel: int
    """Address of the one that makes use of these numbers and of both records."""
    longest: float
    """s"""


class MomentTable(RowTable):
    """Moments in order of time."""

    def __init__(self, workspace: np.ndarray, memory_ns: int, places: MomentPlaces) -> None:
        """`memory_ns`: by how much before the last moment a time is too old."""
        super().__init__(MOMENT)
        self._memory_ns, self._places = memory_ns, places
        self._given = np.zeros(_ASKED.size + _FIXED.size, dtype=np.uint8)
        buffer = self._given.data
        self._ask = partial(_ASKED.pack_into, buffer, 0)
        self._fix = partial(_FIXED.pack_into, buffer, _ASKED.size)
        addresses = workspace.ctypes.data, self._given.ctypes.data
        self._seek = partial(load().find_moment, *map(ctypes.c_void_p, addresses))

    def add(self, t_ns: int, before: RecordCopies, after: RecordCopies) -> None:
        """A moment later than all others. Records of all moments have as many copies."""
        if not self.count:
            places = self._places
            self._fix(self._memory_ns, before.count, after.count, places.longest, *places[:4], places.kernel)
        self.make_room(1)
        _pack_moment(self.bytes, self.end, t_ns, before.address, after.address)
        self.count += 1

    def seek(self, t_ns: int, latency: float, has_changed: bool) -> int:
        """Restore what was before the moment at or after a time, and what was after the one before it.

        `has_changed`: whether what is after the last moment is kept by now. Returns the number of the former, counted
        from the first that is kept; LAST_MOMENT for the last one, and NO_MOMENT where there is none, and nothing is
        done.
        """
        self._ask(self.find(0), self.count, t_ns, has_changed, latency)
        return self._seek()
