"""Records that lie outside a workspace, brought into it one after the other, each for a kernel of its own.

Kernels work on fixed places. Where there are many equal things, each is a record that is copied to these places, and
back after the kernel where that has changed it. A `VisitTable` lists records and kernels in an order; one call runs
any tail of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from vehicled.symbolic.machine import MachineCode, get_object
from vehicled.symbolic.program import Span

VISIT = 7
"""Numbers of a visit: address of the record, place and count of two spans, and two kernels."""
_READ, _CHANGE = 0, 1
_IR = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @visit(ptr %w, ptr %table, i64 %count, i64 %change) nounwind {
entry:
  %changes = icmp ne i64 %change, 0
  br label %top
top:
  %i = phi i64 [0, %entry], [%following, %next]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %begin = mul i64 %i, VISIT
  %row = getelementptr i64, ptr %table, i64 %begin
  %column = add i64 %change, 5
  %kernels = getelementptr i64, ptr %row, i64 %column
  %kernel = load i64, ptr %kernels, align 8
  %none = icmp eq i64 %kernel, 0
  br i1 %none, label %next, label %visit
visit:
  %address = load i64, ptr %row, align 8
  %p1 = getelementptr i64, ptr %row, i64 1
  %place1 = load i64, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %row, i64 2
  %count1 = load i64, ptr %p2, align 8
  %p3 = getelementptr i64, ptr %row, i64 3
  %place2 = load i64, ptr %p3, align 8
  %p4 = getelementptr i64, ptr %row, i64 4
  %count2 = load i64, ptr %p4, align 8
  %record1 = inttoptr i64 %address to ptr
  %record2 = getelementptr double, ptr %record1, i64 %count1
  %there1 = getelementptr double, ptr %w, i64 %place1
  %there2 = getelementptr double, ptr %w, i64 %place2
  %bytes1 = shl i64 %count1, 3
  %bytes2 = shl i64 %count2, 3
  call void @llvm.memcpy.p0.p0.i64(ptr %there1, ptr %record1, i64 %bytes1, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %there2, ptr %record2, i64 %bytes2, i1 false)
  %function = inttoptr i64 %kernel to ptr
  call void %function(ptr %w)
  br i1 %changes, label %back, label %next
back:
  call void @llvm.memcpy.p0.p0.i64(ptr %record1, ptr %there1, i64 %bytes1, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %record2, ptr %there2, i64 %bytes2, i1 false)
  br label %next
next:
  %following = add i64 %i, 1
  br label %top
end:
  ret void
}
""".replace("VISIT", str(VISIT))


@lru_cache
def _load() -> Callable[..., None]:
    code = MachineCode(get_object(_IR))
    types = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong, ctypes.c_longlong
    return code.function("visit", None, *types, keeps_lock=True)


def make_visit(address: int, spans: Sequence[Span], read: int, change: int) -> np.ndarray:
    """(7,) one row of a table: a record at an address, and one or two spans that it is copied to in turn.

    `read` and `change`: addresses of the kernels that read the record and that change it; 0 where none does.
    """
    places = [number for span in spans for number in span]
    return np.array([address, *places, *[0] * (4 - len(places)), read, change], dtype=np.int64)


class VisitTable:
    """Visits in an order. They are known by numbers that count from the first one ever, and grow with each."""

    def __init__(self, workspace: np.ndarray) -> None:
        self._visit, self._pointer = _load(), workspace.ctypes.data
        self._allocate(256)
        self._first = self._begin = self._end = 0

    def _allocate(self, rows: int) -> None:
        self._rows = np.zeros((rows, VISIT), dtype=np.int64)
        self._address = self._rows.ctypes.data

    @property
    def end(self) -> int:
        """The number that the next visit gets."""
        return self._first + self._end - self._begin

    def append(self, visits: np.ndarray) -> None:
        """Add visits, (k, 7)."""
        end = self._end + len(visits)
        if end > len(self._rows):
            self._make_room(len(visits))
            end = self._end + len(visits)
        self._rows[self._end : end] = visits
        self._end = end

    def insert(self, number: int, visit: np.ndarray) -> None:
        """Add a visit, (1, 7), in front of that number; those behind it count one more from now on."""
        if self._end == len(self._rows):
            self._make_room(1)
        place = self._begin + number - self._first
        self._rows[place + 1 : self._end + 1] = self._rows[place : self._end].copy()
        self._rows[place : place + 1] = visit
        self._end += 1

    def drop_before(self, number: int) -> None:
        """Forget the visits up to before that number."""
        self._begin += number - self._first
        self._first = number

    def clear(self) -> None:
        """Forget all."""
        self.drop_before(self.end)

    def read(self, number: int) -> None:
        """Run the kernels that read, from a visit on to the last one."""
        self._run(number, _READ)

    def change(self, number: int) -> None:
        """Run those that change, and copy each record back."""
        self._run(number, _CHANGE)

    def _run(self, number: int, how: int) -> None:
        place = self._begin + number - self._first
        self._visit(self._pointer, self._address + place * self._rows.strides[0], self._end - place, how)

    def _make_room(self, count: int) -> None:
        kept = self._rows[self._begin : self._end].copy()
        if 2 * (len(kept) + count) > len(self._rows):
            self._allocate(2 * (len(self._rows) + count))
        self._begin, self._end = 0, len(kept)
        self._rows[: len(kept)] = kept
