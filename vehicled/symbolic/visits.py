"""Records that lie outside a workspace, brought into it one after the other, each for a kernel of its own.

Kernels work on fixed places. Where there are many equal things, each is a record that is copied to these places, and
back after the kernel where that has changed it. A `VisitTable` lists records and kernels in an order; one call runs
any tail of it. `RecordCopies` are made in one call as well, and in one runs a `Chain` of kernels, some of which have
records.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from vehicled.symbolic.machine import MachineCode, get_object

VISIT = 4
"""Numbers of a visit: address and number of the copies of a record, and two kernels."""
_ROW = 8 * VISIT
"""Bytes of that."""
_COPY = 3
"""Numbers of a copy: address in a record, place in the workspace, count."""
_LINK = 5
"""Numbers of a link of a chain: kernel; address and number of the copies of its record, its visit, and where that
goes. All but the first are zero where it has no record."""
_READ, _CHANGE = 0, 1
_KEEP, _RESTORE = 0, 1
_IR = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @copy(ptr %w, ptr %table, i64 %count, i64 %restore) nounwind {
entry:
  %restores = icmp ne i64 %restore, 0
  br label %top
top:
  %i = phi i64 [0, %entry], [%following, %next]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %begin = mul i64 %i, COPY
  %row = getelementptr i64, ptr %table, i64 %begin
  %address = load i64, ptr %row, align 8
  %p1 = getelementptr i64, ptr %row, i64 1
  %place = load i64, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %row, i64 2
  %numbers = load i64, ptr %p2, align 8
  %record = inttoptr i64 %address to ptr
  %there = getelementptr double, ptr %w, i64 %place
  %bytes = shl i64 %numbers, 3
  br i1 %restores, label %back, label %keep
keep:
  call void @llvm.memcpy.p0.p0.i64(ptr %record, ptr %there, i64 %bytes, i1 false)
  br label %next
back:
  call void @llvm.memcpy.p0.p0.i64(ptr %there, ptr %record, i64 %bytes, i1 false)
  br label %next
next:
  %following = add i64 %i, 1
  br label %top
end:
  ret void
}

define i32 @run_chain(ptr %w, i64 %less, i64 %limit, ptr %links, i64 %count) nounwind {
entry:
  %p_number = getelementptr double, ptr %w, i64 %less
  %p_bound = getelementptr double, ptr %w, i64 %limit
  br label %top
top:
  %i = phi i64 [0, %entry], [%following, %next]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %begin = mul i64 %i, LINK
  %link = getelementptr i64, ptr %links, i64 %begin
  %kernel = load i64, ptr %link, align 8
  %function = inttoptr i64 %kernel to ptr
  call void %function(ptr %w)
  %p3 = getelementptr i64, ptr %link, i64 3
  %visit = load i64, ptr %p3, align 8
  %none = icmp eq i64 %visit, 0
  br i1 %none, label %next, label %gate
gate:
  %number = load double, ptr %p_number, align 8
  %bound = load double, ptr %p_bound, align 8
  %is_less = fcmp olt double %number, %bound
  br i1 %is_less, label %keep, label %end
keep:
  %p1 = getelementptr i64, ptr %link, i64 1
  %address = load i64, ptr %p1, align 8
  %copies = inttoptr i64 %address to ptr
  %p2 = getelementptr i64, ptr %link, i64 2
  %copied = load i64, ptr %p2, align 8
  %p4 = getelementptr i64, ptr %link, i64 4
  %slot = load i64, ptr %p4, align 8
  %from = inttoptr i64 %visit to ptr
  %to = inttoptr i64 %slot to ptr
  call void @copy(ptr %w, ptr %copies, i64 %copied, i64 0)
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 VISIT_BYTES, i1 false)
  br label %next
next:
  %following = add i64 %i, 1
  br label %top
end:
  %done = trunc i64 %i to i32
  ret i32 %done
}

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
  %column = add i64 %change, 2
  %kernels = getelementptr i64, ptr %row, i64 %column
  %kernel = load i64, ptr %kernels, align 8
  %none = icmp eq i64 %kernel, 0
  br i1 %none, label %next, label %visit
visit:
  %address = load i64, ptr %row, align 8
  %copies = inttoptr i64 %address to ptr
  %p1 = getelementptr i64, ptr %row, i64 1
  %number = load i64, ptr %p1, align 8
  %function = inttoptr i64 %kernel to ptr
  call void @copy(ptr %w, ptr %copies, i64 %number, i64 1)
  call void %function(ptr %w)
  br i1 %changes, label %back, label %next
back:
  call void @copy(ptr %w, ptr %copies, i64 %number, i64 0)
  br label %next
next:
  %following = add i64 %i, 1
  br label %top
end:
  ret void
}
"""


class _Functions(NamedTuple):
    visit: Callable[..., None]
    copy: Callable[..., None]
    run_chain: Callable[..., int]


@lru_cache
def _load() -> _Functions:
    numbers = {"VISIT_BYTES": _ROW, "VISIT": VISIT, "COPY": _COPY, "LINK": _LINK}
    ir = _IR
    for name, number in numbers.items():
        ir = ir.replace(name, str(number))
    code = MachineCode(get_object(ir))
    pointer, integer = ctypes.c_void_p, ctypes.c_longlong
    table = pointer, pointer, integer, integer
    return _Functions(
        code.function("visit", None, *table, keeps_lock=True),
        code.function("copy", None, *table, keeps_lock=True),
        code.function(
            "run_chain", ctypes.c_int, pointer, integer, integer, pointer, integer, keeps_lock=True
        ),
    )


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
        self._rows = np.array(rows, dtype=np.int64).reshape(-1, _COPY)
        self.address, self.count = self._rows.ctypes.data, len(rows)
        """Of the list of copies, for other compiled functions."""
        # As objects of ctypes, so that they are not converted at each call.
        self.arguments = ctypes.c_void_p(self.address), ctypes.c_longlong(self.count)
        copy = partial(_load().copy, ctypes.c_void_p(begin), *self.arguments)
        self.keep: Callable[[], None] = partial(copy, ctypes.c_longlong(_KEEP))
        """Take what the workspace has now."""
        self.restore: Callable[[], None] = partial(copy, ctypes.c_longlong(_RESTORE))
        """Put it back."""


def make_visit(copies: RecordCopies, read: int, change: int) -> np.ndarray:
    """(1, 4) a row of a table: where a record is copied to in turn, and the kernels that read and that change it.

    `read` and `change`: addresses; 0 where there is none.
    """
    return np.array([[copies.address, copies.count, read, change]], dtype=np.int64)


class Chain:
    """Kernels that run one after the other in one call; with some of them goes a record, and a gate to be passed."""

    def __init__(self, links: Sequence[tuple[int, int]]) -> None:
        """`links`: address of a kernel, and a number that says which record goes with it; 0: none."""
        rows = np.zeros((len(links), _LINK), dtype=np.int64)
        rows[:, 0] = [address for address, _ in links]
        self._rows = rows
        self.arguments = ctypes.c_void_p(rows.ctypes.data), ctypes.c_longlong(len(rows))
        """Of the compiled function."""
        gated = [k for k, (_, record) in enumerate(links) if record]
        self.records = [links[k][1] for k in gated]
        """Numbers of the records, in their order."""
        self.count_records = [sum(k < done for k in gated) for done in range(len(links) + 1)]
        """How many of them are kept when so many links are done."""
        pack, buffer = struct.Struct("=4q").pack_into, rows.data.cast("B")
        self.write = [partial(pack, buffer, 8 * (_LINK * k + 1)) for k in gated]
        """By record: takes the numbers of its link but for the kernel."""


class VisitTable:
    """Visits in an order. They are known by numbers that count from the first one ever, and grow with each."""

    def __init__(self, workspace: np.ndarray, gate: tuple[int, int] = (0, 0)) -> None:
        """`gate`: places of two numbers of the workspace: records are kept where the first is less."""
        self._visit, _, run_chain = _load()
        self._pointer = workspace.ctypes.data
        given = ctypes.c_void_p(self._pointer), *map(ctypes.c_longlong, gate)
        self._run_chain: Callable[..., int] = partial(run_chain, *given)
        self._allocate(256)
        self._first = self._begin = self._end = 0

    def _allocate(self, rows: int) -> None:
        self._rows = np.zeros((rows, VISIT), dtype=np.int64)
        self._address = self._rows.ctypes.data
        # So a few rows are written in a fraction of the time that NumPy takes.
        self._bytes = self._rows.data.cast("B")

    def append(self, visits: bytes) -> int:
        """Add visits, one after the other. Returns the number that the next one gets."""
        count = len(visits) // _ROW
        if self._end + count > len(self._rows):
            self._make_room(count)
        begin = _ROW * self._end
        self._bytes[begin : begin + len(visits)] = visits
        self._end += count
        return self._first + self._end - self._begin

    def run_chain(self, chain: Chain, records: Sequence[tuple[RecordCopies, int]]) -> int:
        """Run a chain until one of its kernels does not pass the gate; keep its records, and add their visits.

        `records`: copies, and address of the visit. Returns how many links are done.
        """
        if self._end + len(records) > len(self._rows):
            self._make_room(len(records))
        slot = self._address + _ROW * self._end
        for write, (copies, visit) in zip(chain.write, records, strict=True):
            write(copies.address, copies.count, visit, slot)
            slot += _ROW
        done = self._run_chain(*chain.arguments)
        self._end += chain.count_records[done]
        return done

    def insert(self, number: int, visit: bytes) -> None:
        """Add a visit in front of that number; those behind it count one more from now on."""
        if self._end == len(self._rows):
            self._make_room(1)
        begin, end = (_ROW * place for place in (self._begin + number - self._first, self._end))
        self._bytes[begin + _ROW : end + _ROW] = self._bytes[begin:end].tobytes()
        self._bytes[begin : begin + _ROW] = visit
        self._end += 1

    def drop_before(self, number: int) -> None:
        """Forget the visits up to before that number."""
        self._begin += number - self._first
        self._first = number

    def clear(self) -> None:
        """Forget all."""
        self.drop_before(self._first + self._end - self._begin)

    def read(self, number: int) -> None:
        """Run the kernels that read, from a visit on to the last one."""
        self._run(number, _READ)

    def change(self, number: int) -> None:
        """Run those that change, and copy each record back."""
        self._run(number, _CHANGE)

    def _run(self, number: int, how: int) -> None:
        place = self._begin + number - self._first
        self._visit(self._pointer, self._address + _ROW * place, self._end - place, how)

    def _make_room(self, count: int) -> None:
        kept = self._rows[self._begin : self._end].copy()
        if 2 * (len(kept) + count) > len(self._rows):
            self._allocate(2 * (len(self._rows) + count))
        self._begin, self._end = 0, len(kept)
        self._rows[: len(kept)] = kept
