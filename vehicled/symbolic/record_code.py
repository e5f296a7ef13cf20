"""Machine code that copies records from outside a workspace into it, and runs kernels on them.

Kernels work on fixed places. Where there are many similar objects, each is a record. It is copied to these
places, and copied back after a kernel that has changed it. The functions are given tables of integers;
`kept_records.py`, `scripts.py` and `past_moments.py` make them.

Tables:

- a layout: the number of pieces, and for each its place in the workspace and its number of elements; pieces
  are contiguous in a record,
- a kind of records: `OfKind`,
- free records: their number, and the address of their addresses,
- rows that are added at the end and dropped at the beginning: `OfRows`,
- a past: `OfPast`.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from vehicled.symbolic.machine import MachineCode, get_object
from vehicled.symbolic.past_text import PAST

KEEP, RESTORE = 0, 1
"""Direction of a copy: from the workspace to the record, or back."""
KERNELS = 6
"""Largest number of kernels of a kind."""
VISIT = 2
"""Numbers of a visit: addresses of a record and of its kind."""
OPERATION = 5
"""Numbers of an operation of a script: its code `Do`, and up to four arguments."""
MOMENT = 3
"""Numbers of a moment: its time, address of its record, and index of the first visit of its observations."""
NO_MOMENT, LAST_MOMENT = -2, -1
"""Results of `find_moment` instead of an index: the time is too old, or its moment is the last one."""


class OfKind(IntEnum):
    """Numbers of a kind of records."""

    LAYOUT = 0
    """Address of the layout of what kernels read."""
    CHANGES = 1
    """1 if some kernels change the record, which is then copied back."""
    PRESENT = 2
    """For an observation: address of the layout of what is kept,"""
    FREE = 3
    """and address of the table of free records."""
    KERNEL = 4
    """Address of the first kernel; 0: none, nothing is done. The others follow."""


class OfRows(IntEnum):
    """Numbers of a table of rows."""

    FIRST = 0
    """Address of the first row."""
    COUNT = 1
    LIMIT = 2
    """Address behind the last row for which there is room."""
    DROPPED = 3
    """Number of rows that have been dropped."""


class OfPast(IntEnum):
    """Numbers of a past: moments, each with a record and with the observations that have corrected it."""

    T = 0
    """Time, ns, of the moment that begins or is sought."""
    LATENCY = 1
    """s, as a floating-point number: the latency given with the sought time."""
    CHANGED = 2
    """Whether the state after the last moment has been kept."""
    MEMORY = 3
    """Age, ns, above which a moment is too old."""
    MOST_MOMENTS = 4
    MOST_EVENTS = 5
    MOMENTS = 6
    """Addresses of the tables."""
    VISITS = 7
    FREE_RECORDS = 8
    RECORD = 9
    """Layout of the record of a moment when it begins."""
    BEFORE = 10
    """Layouts of the parts of a record that are restored to find a moment: state before it, and state after it;"""
    AFTER = 11
    AFTER_BEGIN = 12
    """index in a record at which the latter begins;"""
    CORRECTED = 13
    """and layout from which it is kept."""
    KERNEL_OF_BEGIN = 14
    """Address of the kernel that runs when a moment begins; 0: none."""
    LONGEST = 15
    """s, as a floating-point number: largest time from the last moment to a later sought time."""
    AGE = 16
    """Places of numbers to which data of a found moment are copied: see `MomentPlaces`."""
    LEAD = 17
    LATENCY_PLACE = 18
    SHARE = 19
    KERNEL_OF_MOMENT = 20
    LOCATED = 21
    """Results of `locate`: address of a moment's record,"""
    LOCATED_VISITS = 22
    """address of the visit of its first observation, and"""
    LOCATED_COUNT = 23
    """number of visits from that one on."""
    OWN = 24
    """Number of visits of each moment's own record; the next numbers give, for each, its beginning in the
    record and its kind."""


class Do(IntEnum):
    """The operations of scripts, and their arguments."""

    RUN = 0
    """Address of a kernel."""
    KEEP = 1
    """Addresses of a record and its layout: copy the workspace to the record."""
    RESTORE = 2
    """The same: copy the record to the workspace."""
    PASS = 3
    """Two places in the workspace: the script ends unless the number at the first is less than that at the second."""
    MOVE = 4
    """Addresses of destination and source, and number of bytes; the two ranges may overlap."""
    VISIT = 5
    """Address and number of visits, index of the kernel to run for each, and 1 if these kernels change the
    records."""
    NOTE = 6
    """Addresses of a past and of a kind: keep a record of that kind, and add a visit of it. The script ends
    if there is no room for that."""


_IR = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)

; Number k of a table.
define internal i64 @get(ptr %table, i64 %k) nounwind alwaysinline {
  %p = getelementptr i64, ptr %table, i64 %k
  %value = load i64, ptr %p, align 8
  ret i64 %value
}

; The same as an address.
define internal ptr @get_ptr(ptr %table, i64 %k) nounwind alwaysinline {
  %p = getelementptr i64, ptr %table, i64 %k
  %value = load ptr, ptr %p, align 8
  ret ptr %value
}

define internal void @set(ptr %table, i64 %k, i64 %value) nounwind alwaysinline {
  %p = getelementptr i64, ptr %table, i64 %k
  store i64 %value, ptr %p, align 8
  ret void
}

; Write a value to the place in the workspace that number k of a past names.
define internal void @put(ptr %w, ptr %past, i64 %k, double %value) nounwind alwaysinline {
  %place = call i64 @get(ptr %past, i64 %k)
  %there = getelementptr double, ptr %w, i64 %place
  store double %value, ptr %there, align 8
  ret void
}

; Copy between a record and the places of its layout in the workspace: there (restore), or from there.
define void @copy(ptr %w, ptr %record, ptr %layout, i64 %restore) nounwind {
entry:
  %restores = icmp ne i64 %restore, 0
  %count = load i64, ptr %layout, align 8
  br label %top
top:
  %i = phi i64 [0, %entry], [%following, %next]
  %part = phi ptr [%record, %entry], [%behind, %next]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %twice = shl i64 %i, 1
  %k1 = add i64 %twice, 1
  %k2 = add i64 %twice, 2
  %place = call i64 @get(ptr %layout, i64 %k1)
  %numbers = call i64 @get(ptr %layout, i64 %k2)
  %there = getelementptr double, ptr %w, i64 %place
  %bytes = shl i64 %numbers, 3
  br i1 %restores, label %back, label %keep
keep:
  call void @llvm.memcpy.p0.p0.i64(ptr %part, ptr %there, i64 %bytes, i1 false)
  br label %next
back:
  call void @llvm.memcpy.p0.p0.i64(ptr %there, ptr %part, i64 %bytes, i1 false)
  br label %next
next:
  %behind = getelementptr double, ptr %part, i64 %numbers
  %following = add i64 %i, 1
  br label %top
end:
  ret void
}

; Bring each record of some visits into the workspace, run one of its kernels, and copy back what changes.
define void @visit(ptr %w, ptr %rows, i64 %count, i64 %which, i64 %change) nounwind {
entry:
  %column = add i64 %which, KIND_KERNEL
  br label %top
top:
  %i = phi i64 [0, %entry], [%following, %next]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %end
body:
  %k0 = mul i64 %i, VISIT
  %k1 = add i64 %k0, 1
  %kind = call ptr @get_ptr(ptr %rows, i64 %k1)
  %kernel = call i64 @get(ptr %kind, i64 %column)
  %none = icmp eq i64 %kernel, 0
  br i1 %none, label %next, label %visit
visit:
  %record = call ptr @get_ptr(ptr %rows, i64 %k0)
  %layout = call ptr @get_ptr(ptr %kind, i64 KIND_LAYOUT)
  %function = inttoptr i64 %kernel to ptr
  call void @copy(ptr %w, ptr %record, ptr %layout, i64 1)
  call void %function(ptr %w)
  %of_kind = call i64 @get(ptr %kind, i64 KIND_CHANGES)
  %both = and i64 %of_kind, %change
  %changes = icmp ne i64 %both, 0
  br i1 %changes, label %back, label %next
back:
  call void @copy(ptr %w, ptr %record, ptr %layout, i64 0)
  br label %next
next:
  %following = add i64 %i, 1
  br label %top
end:
  ret void
}

; Address behind the last row.
define internal ptr @find_end(ptr %rows, i64 %numbers) nounwind alwaysinline {
  %first = call ptr @get_ptr(ptr %rows, i64 ROWS_FIRST)
  %count = call i64 @get(ptr %rows, i64 ROWS_COUNT)
  %behind = mul i64 %count, %numbers
  %end = getelementptr i64, ptr %first, i64 %behind
  ret ptr %end
}

; Whether so many rows can be added.
define internal i1 @has_room(ptr %rows, i64 %numbers, i64 %count) nounwind alwaysinline {
  %end = call ptr @find_end(ptr %rows, i64 %numbers)
  %more = mul i64 %count, %numbers
  %then = getelementptr i64, ptr %end, i64 %more
  %limit = call ptr @get_ptr(ptr %rows, i64 ROWS_LIMIT)
  %fits = icmp ule ptr %then, %limit
  ret i1 %fits
}

define internal void @count_added(ptr %rows, i64 %added) nounwind alwaysinline {
  %count = call i64 @get(ptr %rows, i64 ROWS_COUNT)
  %now = add i64 %count, %added
  call void @set(ptr %rows, i64 ROWS_COUNT, i64 %now)
  ret void
}

; Forget rows from the beginning on: the first one is further on then.
define internal void @drop_rows(ptr %rows, i64 %numbers, i64 %count) nounwind alwaysinline {
  %first = call ptr @get_ptr(ptr %rows, i64 ROWS_FIRST)
  %by = mul i64 %count, %numbers
  %now = getelementptr i64, ptr %first, i64 %by
  store ptr %now, ptr %rows, align 8
  %less = sub i64 0, %count
  call void @count_added(ptr %rows, i64 %less)
  %dropped = call i64 @get(ptr %rows, i64 ROWS_DROPPED)
  %total = add i64 %dropped, %count
  call void @set(ptr %rows, i64 ROWS_DROPPED, i64 %total)
  ret void
}

; Put a record among the free ones.
define internal void @release(ptr %free, i64 %record) nounwind alwaysinline {
  %count = load i64, ptr %free, align 8
  %records = call ptr @get_ptr(ptr %free, i64 1)
  call void @set(ptr %records, i64 %count, i64 %record)
  %more = add i64 %count, 1
  store i64 %more, ptr %free, align 8
  ret void
}

; Take the last free record: there must be one.
define internal ptr @take(ptr %free) nounwind alwaysinline {
  %count = load i64, ptr %free, align 8
  %less = sub i64 %count, 1
  store i64 %less, ptr %free, align 8
  %records = call ptr @get_ptr(ptr %free, i64 1)
  %record = call ptr @get_ptr(ptr %records, i64 %less)
  ret ptr %record
}

; Keep an observation of a kind, and list its visit; false without room or a free record.
define internal i1 @note(ptr %w, ptr %past, ptr %kind) nounwind {
  %visits = call ptr @get_ptr(ptr %past, i64 OF_VISITS)
  %free = call ptr @get_ptr(ptr %kind, i64 KIND_FREE)
  %records = load i64, ptr %free, align 8
  %has_record = icmp sgt i64 %records, 0
  %has_row = call i1 @has_room(ptr %visits, i64 VISIT, i64 1)
  %has_both = and i1 %has_record, %has_row
  br i1 %has_both, label %keep, label %end
keep:
  %record = call ptr @take(ptr %free)
  %layout = call ptr @get_ptr(ptr %kind, i64 KIND_PRESENT)
  call void @copy(ptr %w, ptr %record, ptr %layout, i64 0)
  %row = call ptr @find_end(ptr %visits, i64 VISIT)
  store ptr %record, ptr %row, align 8
  %p = getelementptr i64, ptr %row, i64 1
  store ptr %kind, ptr %p, align 8
  call void @count_added(ptr %visits, i64 1)
  br label %end
end:
  ret i1 %has_both
}

; Run the operations of a script; returns how many have been done.
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
  %a = call i64 @get(ptr %row, i64 1)
  %b = call i64 @get(ptr %row, i64 2)
  %c = call i64 @get(ptr %row, i64 3)
  %d = call i64 @get(ptr %row, i64 4)
  %there = inttoptr i64 %a to ptr
  %other = inttoptr i64 %b to ptr
  switch i64 %which, label %end [i64 DO_RUN, label %run i64 DO_KEEP, label %keep i64 DO_RESTORE, label %restore
                                 i64 DO_PASS, label %pass i64 DO_MOVE, label %move i64 DO_VISIT, label %visit
                                 i64 DO_NOTE, label %note]
run:
  call void %there(ptr %w)
  br label %next
keep:
  call void @copy(ptr %w, ptr %there, ptr %other, i64 0)
  br label %next
restore:
  call void @copy(ptr %w, ptr %there, ptr %other, i64 1)
  br label %next
pass:
  %p_number = getelementptr double, ptr %w, i64 %a
  %p_bound = getelementptr double, ptr %w, i64 %b
  %number = load double, ptr %p_number, align 8
  %bound = load double, ptr %p_bound, align 8
  %is_less = fcmp olt double %number, %bound
  br i1 %is_less, label %next, label %end
move:
  call void @llvm.memmove.p0.p0.i64(ptr %there, ptr %other, i64 %c, i1 false)
  br label %next
visit:
  call void @visit(ptr %w, ptr %there, i64 %b, i64 %c, i64 %d)
  br label %next
note:
  %noted = call i1 @note(ptr %w, ptr %there, ptr %other)
  br i1 %noted, label %next, label %end
next:
  %following = add i64 %i, 1
  br label %top
end:
  %done = trunc i64 %i to i32
  ret i32 %done
}
"""
_TABLES: dict[str, type[IntEnum]] = {"KIND": OfKind, "ROWS": OfRows, "OF": OfPast, "DO": Do}
"""Tables by the prefix of their names in the text."""
_NUMBERS = {
    **{f"{name}_{each.name}": each for name, table in _TABLES.items() for each in table},
    **{"OF_FIRST_VISIT": OfPast.OWN + 1, "VISIT": VISIT, "OPERATION": OPERATION, "MOMENT": MOMENT},
    **{"TOO_OLD": NO_MOMENT, "LAST": LAST_MOMENT},
}
_NAME = re.compile(r"\b[A-Z][A-Z_]+\b")


class _Functions(NamedTuple):
    copy: Callable[..., None]
    """Arguments: workspace, addresses of a record and of its layout, KEEP or RESTORE."""
    run: Callable[..., int]
    """Arguments: workspace, address and number of operations; returns how many were completed."""
    begin: Callable[..., int]
    """Arguments: workspace and past. Drop moments that are too old, and begin one; returns 0 if there is no
    room for it."""
    correct: Callable[..., None]
    """Arguments: workspace and past. Keep the state after the last moment."""
    locate: Callable[..., int]
    """Arguments: past and index of a moment. Writes the numbers from LOCATED on; returns 0 without room for
    one more visit."""
    count_inserted: Callable[..., None]
    """Arguments as for `locate`. After a visit was inserted at that moment: move the first visits of later
    moments by one."""
    find_moment: Callable[..., int]
    """Arguments: workspace and past. Restore the state before the moment at or after a time, and after the
    preceding one."""


@lru_cache
def load() -> _Functions:
    """The functions, compiled once for all workspaces."""
    numbers = {name: str(int(number)) for name, number in _NUMBERS.items()}
    numbers["NANO"] = f"0x{struct.unpack('=Q', struct.pack('=d', 1e-9))[0]:016X}"
    code = MachineCode(get_object(_NAME.sub(lambda name: numbers[name[0]], _IR + PAST)))
    pointer, integer = ctypes.c_void_p, ctypes.c_longlong
    return _Functions(
        code.function("copy", None, pointer, pointer, pointer, integer, keeps_lock=True),
        code.function("run", ctypes.c_int, pointer, pointer, integer, keeps_lock=True),
        code.function("begin", ctypes.c_int, pointer, pointer, keeps_lock=True),
        code.function("correct", None, pointer, pointer, keeps_lock=True),
        code.function("locate", ctypes.c_int, pointer, integer, keeps_lock=True),
        code.function("count_inserted", None, pointer, integer, keeps_lock=True),
        code.function("find_moment", integer, pointer, pointer, keeps_lock=True),
    )
