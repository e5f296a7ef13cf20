"""Scripts: kernels, copies of records and gates between them, which run one after the other in one call.

Kernels work on fixed places of a workspace. Where there are many equal things, each is a record outside of it that is
copied to these places, and back after a kernel that has changed it. A visit is a record with the kernels that may be
run on it; visits that lie one after the other are run as one operation.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from functools import lru_cache, partial
from typing import Any

import numpy as np

from vehicled.symbolic.machine import MachineCode, get_object

KERNELS = 6
"""Of a visit, at most."""
VISIT = 3 + KERNELS
"""Numbers of a visit: address and number of the copies of its record, how many of these are copied back where kernels
change records, and addresses of kernels; 0 where there is none, and nothing is done."""
_COPY = 3
"""Numbers of a copy: address in a record, place in the workspace, count."""
_OPERATION = 5
"""Numbers of an operation: which one, and up to four that it is given."""
_KEEP, _RESTORE = 0, 1


class Do(IntEnum):
    """The operations, and what each is given."""

    RUN = 0
    """Address of a kernel."""
    KEEP = 1
    """Address and number of the copies of a record: it takes what the workspace has."""
    RESTORE = 2
    """The same: it is put back."""
    PASS = 3
    """Two places in the workspace: the script ends unless the number at the first is less than that at the second."""
    MOVE = 4
    """Addresses to and from, and bytes, which may overlap."""
    VISIT = 5
    """Address and number of visits, which of their kernels, and 1 if these change the records."""


_IR = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)

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

define void @visit(ptr %w, ptr %table, i64 %count, i64 %which, i64 %change) nounwind {
entry:
  %changes = icmp ne i64 %change, 0
  %column = add i64 %which, 3
  br label %top
top:
  %i = phi i64 [0, %entry], [%following, %next]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %begin = mul i64 %i, VISIT
  %row = getelementptr i64, ptr %table, i64 %begin
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
  %p2 = getelementptr i64, ptr %row, i64 2
  %changed = load i64, ptr %p2, align 8
  call void @copy(ptr %w, ptr %copies, i64 %changed, i64 0)
  br label %next
next:
  %following = add i64 %i, 1
  br label %top
end:
  ret void
}

define i32 @run(ptr %w, ptr %operations, i64 %count) nounwind {
entry:
  br label %top
top:
  %i = phi i64 [0, %entry], [%following, %next]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %begin = mul i64 %i, OPERATION
  %row = getelementptr i64, ptr %operations, i64 %begin
  %which = load i64, ptr %row, align 8
  %p1 = getelementptr i64, ptr %row, i64 1
  %a = load i64, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %row, i64 2
  %b = load i64, ptr %p2, align 8
  %p3 = getelementptr i64, ptr %row, i64 3
  %c = load i64, ptr %p3, align 8
  %p4 = getelementptr i64, ptr %row, i64 4
  %d = load i64, ptr %p4, align 8
  %there = inttoptr i64 %a to ptr
  switch i64 %which, label %end [i64 RUN, label %run i64 KEEP, label %keep i64 RESTORE, label %restore
                                 i64 PASS, label %pass i64 MOVE, label %move i64 DO_VISIT, label %visit]
run:
  call void %there(ptr %w)
  br label %next
keep:
  call void @copy(ptr %w, ptr %there, i64 %b, i64 0)
  br label %next
restore:
  call void @copy(ptr %w, ptr %there, i64 %b, i64 1)
  br label %next
pass:
  %p_number = getelementptr double, ptr %w, i64 %a
  %p_bound = getelementptr double, ptr %w, i64 %b
  %number = load double, ptr %p_number, align 8
  %bound = load double, ptr %p_bound, align 8
  %is_less = fcmp olt double %number, %bound
  br i1 %is_less, label %next, label %end
move:
  %from = inttoptr i64 %b to ptr
  call void @llvm.memmove.p0.p0.i64(ptr %there, ptr %from, i64 %c, i1 false)
  br label %next
visit:
  call void @visit(ptr %w, ptr %there, i64 %b, i64 %c, i64 %d)
  br label %next
next:
  %following = add i64 %i, 1
  br label %top
end:
  %done = trunc i64 %i to i32
  ret i32 %done
}
"""


@lru_cache
def _load() -> tuple[Callable[..., None], Callable[..., int]]:
    """`copy` and `run`."""
    numbers = {"DO_VISIT": Do.VISIT, "VISIT": VISIT, "COPY": _COPY, "OPERATION": _OPERATION}
    ir = _IR
    for name, number in (numbers | {each.name: each for each in Do if each is not Do.VISIT}).items():
        ir = ir.replace(name, str(int(number)))
    code = MachineCode(get_object(ir))
    pointer, integer = ctypes.c_void_p, ctypes.c_longlong
    return (
        code.function("copy", None, pointer, pointer, integer, integer, keeps_lock=True),
        code.function("run", ctypes.c_int, pointer, pointer, integer, keeps_lock=True),
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
        """Of the list of copies, for operations of scripts."""
        # As objects of ctypes, so that they are not converted at each call.
        given = ctypes.c_void_p(begin), ctypes.c_void_p(self.address), ctypes.c_longlong(self.count)
        self.keep: Callable[[], None] = partial(_load()[0], *given, ctypes.c_longlong(_KEEP))
        """Take what the workspace has now."""
        self.restore: Callable[[], None] = partial(_load()[0], *given, ctypes.c_longlong(_RESTORE))
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
        rows = np.zeros((len(operations), _OPERATION), dtype=np.int64)
        for row, operation in zip(rows, operations, strict=True):
            row[: len(operation)] = operation
        self._rows, self._pointer = rows, ctypes.c_void_p(workspace.ctypes.data)

    def part(self, begin: int, end: int) -> Callable[[], int]:
        """These operations as a function, which returns how many of them are done."""
        address = ctypes.c_void_p(self._rows.ctypes.data + self._rows.strides[0] * begin)
        return partial(_load()[1], self._pointer, address, ctypes.c_longlong(end - begin))

    def writer(self, operation: int, count: int) -> Callable[..., Any]:
        """A function that takes the first `count` numbers that an operation is given."""
        place = self._rows.itemsize * (_OPERATION * operation + 1)
        return partial(struct.Struct(f"={count}q").pack_into, self._rows.data.cast("B"), place)
