"""Machine code that brings records from outside of a workspace into it, and runs kernels on them.

Kernels work on fixed places. Where there are many equal things, each is a record that is copied to these places, and
back after a kernel that has changed it. What the functions are given lies in tables of integers; `scripts.py` and
`moments.py` make them.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from vehicled.symbolic.machine import MachineCode, get_object

COPY = 3
"""Numbers of a copy: address in a record, place in the workspace, count."""
KEEP, RESTORE = 0, 1
"""What is done with the copies of a record: it takes what the workspace has, or that is put back."""
KERNELS = 6
"""Of a visit, at most."""
VISIT = 3 + KERNELS
"""Numbers of a visit: address and number of the copies of its record, how many of these are copied back where kernels
change records, and addresses of kernels; 0 where there is none, and nothing is done."""
OPERATION = 5
"""Numbers of an operation of a script: which one, and up to four that it is given."""
MOMENT = 3
"""Numbers of a moment: its time, and addresses of the copies of what was before it and of what was after it."""
NO_MOMENT, LAST_MOMENT = -2, -1
"""Of `find_moment`, in place of the number of the moment at or after a time."""


class Do(IntEnum):
    """The operations of scripts, and what each is given."""

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

define i64 @find_moment(ptr %w, ptr %given) nounwind {
entry:
  %moments = load ptr, ptr %given, align 8
  %p1 = getelementptr i64, ptr %given, i64 1
  %count = load i64, ptr %p1, align 8
  %p2 = getelementptr i64, ptr %given, i64 2
  %t = load i64, ptr %p2, align 8
  %p3 = getelementptr i64, ptr %given, i64 3
  %changed = load i64, ptr %p3, align 8
  %p4 = getelementptr i64, ptr %given, i64 4
  %latency = load double, ptr %p4, align 8
  %p5 = getelementptr i64, ptr %given, i64 5
  %memory = load i64, ptr %p5, align 8
  %last = sub i64 %count, 1
  %last_begin = mul i64 %last, MOMENT
  %p_now = getelementptr i64, ptr %moments, i64 %last_begin
  %now = load i64, ptr %p_now, align 8
  %first = load i64, ptr %moments, align 8
  %oldest = sub i64 %now, %memory
  %is_forgotten = icmp slt i64 %t, %oldest
  %is_before = icmp slt i64 %t, %first
  %is_too_old = or i1 %is_forgotten, %is_before
  br i1 %is_too_old, label %none, label %begin
none:
  ret i64 TOO_OLD
begin:
  %is_past = icmp slt i64 %t, %now
  %has_changed = icmp ne i64 %changed, 0
  %lies_between = or i1 %is_past, %has_changed
  br i1 %lies_between, label %top, label %found
top:
  %low = phi i64 [0, %begin], [%next_low, %halve]
  %high = phi i64 [%count, %begin], [%next_high, %halve]
  %more = icmp slt i64 %low, %high
  br i1 %more, label %halve, label %end
halve:
  %sum = add i64 %low, %high
  %middle = ashr i64 %sum, 1
  %middle_begin = mul i64 %middle, MOMENT
  %p_middle = getelementptr i64, ptr %moments, i64 %middle_begin
  %t_middle = load i64, ptr %p_middle, align 8
  %is_earlier = icmp slt i64 %t_middle, %t
  %above = add i64 %middle, 1
  %next_low = select i1 %is_earlier, i64 %above, i64 %low
  %next_high = select i1 %is_earlier, i64 %high, i64 %middle
  br label %top
end:
  %is_within = icmp slt i64 %low, %last
  %at = select i1 %is_within, i64 %low, i64 %last
  %is_first = icmp eq i64 %at, 0
  br i1 %is_first, label %found, label %between
between:
  %one_before = sub i64 %at, 1
  %before_begin = mul i64 %one_before, MOMENT
  %p_before = getelementptr i64, ptr %moments, i64 %before_begin
  %t_before = load i64, ptr %p_before, align 8
  %at_begin = mul i64 %at, MOMENT
  %p_at = getelementptr i64, ptr %moments, i64 %at_begin
  %t_at = load i64, ptr %p_at, align 8
  %since = sub i64 %t, %t_before
  %step = sub i64 %t_at, %t_before
  %since_double = sitofp i64 %since to double
  %step_double = sitofp i64 %step to double
  %quotient = fdiv double %since_double, %step_double
  %is_share = fcmp olt double %quotient, 1.0
  %limited = select i1 %is_share, double %quotient, double 1.0
  br label %found
found:
  %k = phi i64 [%last, %begin], [%at, %end], [%at, %between]
  %after = phi i64 [%last, %begin], [%at, %end], [%one_before, %between]
  %share = phi double [1.0, %begin], [1.0, %end], [%limited, %between]
  %p6 = getelementptr i64, ptr %given, i64 6
  %copies_before = load i64, ptr %p6, align 8
  %p7 = getelementptr i64, ptr %given, i64 7
  %copies_after = load i64, ptr %p7, align 8
  %after_begin = mul i64 %after, MOMENT
  %p_after = getelementptr i64, ptr %moments, i64 %after_begin
  %p_corrected = getelementptr i64, ptr %p_after, i64 2
  %corrected = load ptr, ptr %p_corrected, align 8
  call void @copy(ptr %w, ptr %corrected, i64 %copies_after, i64 1)
  %k_begin = mul i64 %k, MOMENT
  %p_k = getelementptr i64, ptr %moments, i64 %k_begin
  %t_k = load i64, ptr %p_k, align 8
  %p_pose = getelementptr i64, ptr %p_k, i64 1
  %pose = load ptr, ptr %p_pose, align 8
  call void @copy(ptr %w, ptr %pose, i64 %copies_before, i64 1)
  %age_ns = sub i64 %t_k, %t
  %age_number = sitofp i64 %age_ns to double
  %age = fmul double %age_number, NANO
  %is_behind = fcmp ogt double %age, 0.0
  %behind = select i1 %is_behind, double %age, double 0.0
  %minus = fneg double %age
  %is_ahead = fcmp ogt double %minus, 0.0
  %ahead = select i1 %is_ahead, double %minus, double 0.0
  %p8 = getelementptr i64, ptr %given, i64 8
  %longest = load double, ptr %p8, align 8
  %is_near = fcmp olt double %ahead, %longest
  %lead = select i1 %is_near, double %ahead, double %longest
  %p9 = getelementptr i64, ptr %given, i64 9
  call void @put(ptr %w, ptr %p9, double %behind)
  %p10 = getelementptr i64, ptr %given, i64 10
  call void @put(ptr %w, ptr %p10, double %lead)
  %p11 = getelementptr i64, ptr %given, i64 11
  call void @put(ptr %w, ptr %p11, double %latency)
  %p12 = getelementptr i64, ptr %given, i64 12
  call void @put(ptr %w, ptr %p12, double %share)
  %p13 = getelementptr i64, ptr %given, i64 13
  %kernel = load ptr, ptr %p13, align 8
  call void %kernel(ptr %w)
  %is_last = icmp eq i64 %k, %last
  %result = select i1 %is_last, i64 LAST, i64 %k
  ret i64 %result
}

define internal void @put(ptr %w, ptr %p_place, double %value) nounwind alwaysinline {
  %place = load i64, ptr %p_place, align 8
  %there = getelementptr double, ptr %w, i64 %place
  store double %value, ptr %there, align 8
  ret void
}
"""
_NUMBERS = {
    **{"DO_VISIT": Do.VISIT, "VISIT": VISIT, "COPY": COPY, "OPERATION": OPERATION, "MOMENT": MOMENT},
    **{each.name: each for each in Do if each is not Do.VISIT},
    **{"TOO_OLD": NO_MOMENT, "LAST": LAST_MOMENT},
}


class _Functions(NamedTuple):
    copy: Callable[..., None]
    """Workspace, address and number of copies, KEEP or RESTORE."""
    run: Callable[..., int]
    """Workspace, address and number of operations; returns how many are done."""
    find_moment: Callable[..., int]
    """Workspace, and address of what `MomentTable` gives."""


@lru_cache
def load() -> _Functions:
    """The functions, compiled once for all workspaces."""
    ir = _IR.replace("NANO", f"0x{struct.unpack('=Q', struct.pack('=d', 1e-9))[0]:016X}")
    for name, number in _NUMBERS.items():
        ir = ir.replace(name, str(int(number)))
    code = MachineCode(get_object(ir))
    pointer, integer = ctypes.c_void_p, ctypes.c_longlong
    return _Functions(
        code.function("copy", None, pointer, pointer, integer, integer, keeps_lock=True),
        code.function("run", ctypes.c_int, pointer, pointer, integer, keeps_lock=True),
        code.function("find_moment", integer, pointer, pointer, keeps_lock=True),
    )
