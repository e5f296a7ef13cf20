"""Programs run over records: states of many instances that are stored outside the workspace.

A record is a part of the workspace, some consecutive arrays, for as many instances as the program computes
side by side. The functions over records copy each of them into the workspace, run a kernel or a sequence
there, and copy it back, so that one call from outside serves any number of instances.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.symbolic import llvm, machine
from vehicled.symbolic.program import ALIGNMENT, KernelHandle, Layout, Program

_MEMCPY = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
_LOOP = """
define void @every_{name}(ptr %w, ptr %records, i64 %blocks) nounwind {{
entry:
  %state = getelementptr double, ptr %w, i64 {offset}
  %some = icmp sgt i64 %blocks, 0
  br i1 %some, label %block, label %done
block:
  %i = phi i64 [0, %entry], [%next, %block]
  %place = mul i64 %i, {size}
  %record = getelementptr double, ptr %records, i64 %place
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %state, ptr align 64 %record, i64 {read}, i1 false)
  call void @{name}(ptr %w)
  call void @llvm.memcpy.p0.p0.i64(ptr align 64 %record, ptr align 64 %state, i64 {written}, i1 false)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %blocks
  br i1 %more, label %block, label %done
done:
  ret void
}}
"""
_SELECT = """
define void @select(ptr noalias %to, ptr noalias %from, ptr noalias %indices, i64 %count) nounwind {{
entry:
  br label %instance
instance:
  %i = phi i64 [0, %entry], [%inext, %placed]
  %which = getelementptr i64, ptr %indices, i64 %i
  %k = load i64, ptr %which, align 8
  %kblock = lshr i64 %k, {shift}
  %klane = and i64 %k, {mask}
  %kfirst = mul i64 %kblock, {size}
  %kplace = add i64 %kfirst, %klane
  %source = getelementptr double, ptr %from, i64 %kplace
  %iblock = lshr i64 %i, {shift}
  %ilane = and i64 %i, {mask}
  %ifirst = mul i64 %iblock, {size}
  %iplace = add i64 %ifirst, %ilane
  %target = getelementptr double, ptr %to, i64 %iplace
  br label %row
row:
  %r = phi i64 [0, %instance], [%rnext, %row]
  %source.r = getelementptr double, ptr %source, i64 %r
  %target.r = getelementptr double, ptr %target, i64 %r
  %value = load double, ptr %source.r, align 8
  store double %value, ptr %target.r, align 8
  %rnext = add i64 %r, {width}
  %further = icmp slt i64 %rnext, {rows}
  br i1 %further, label %row, label %placed
placed:
  %inext = add i64 %i, 1
  %more = icmp slt i64 %inext, %count
  br i1 %more, label %instance, label %done
done:
  ret void
}}
"""


@dataclass(frozen=True)
class RecordLayout:
    """Place of a record in the workspace, and the part of it that is state."""

    offset: int
    """Place of its first array in the workspace, in float64."""
    rows: int
    """Numbers per instance."""
    state: int
    """How many of them, the first ones, are state: copied back and selected; the rest are inputs."""
    width: int
    """Instances per record: 8, for which arrays in the workspace are contiguous."""

    @property
    def size(self) -> int:
        """Size of a record, in float64."""
        return self.rows * self.width

    def allocate(self, count: int) -> np.ndarray:
        """Zeroed records (blocks, rows, width) of at least `count` instances, aligned to 64 bytes."""
        blocks = -(-count // self.width)
        raw = np.zeros(blocks * self.size + ALIGNMENT)
        shift = (-raw.ctypes.data // 8) % ALIGNMENT
        return raw[shift : shift + blocks * self.size].reshape(blocks, self.rows, self.width)


def lay_out(
    layout: Layout, state: Sequence[str], inputs: Sequence[str]
) -> tuple[RecordLayout, dict[str, slice]]:
    """Lay out a record of these arrays of plain numbers; also returns the rows of each.

    Raises ValueError unless they are consecutive, in this order, for eight instances.
    """
    offset, end = layout.places[state[0]].offset, 0
    rows: dict[str, slice] = {}
    for name in (*state, *inputs):
        place = layout.places[name]
        if layout.width != ALIGNMENT or place.offset != offset + end * layout.width:
            raise ValueError(
                f"array {name!r} of a record: expected the place after the one before, for 8 instances"
            )
        rows[name] = slice(end, end + place.count)
        end += place.count
    return RecordLayout(offset, end, rows[state[-1]].stop, layout.width), rows


def emit(program: Program, record: RecordLayout) -> str:
    """IR text of a program, with a function `every_NAME` over records for each sequence NAME, and `select`."""
    numbers = {"offset": record.offset, "size": record.size}
    numbers |= {"read": record.size * 8, "written": record.state * record.width * 8}
    loops = _MEMCPY + llvm.emit_sequences(program.sequences)
    loops += "".join(_LOOP.format(name=s.name, **numbers) for s in program.sequences)
    shift, mask = record.width.bit_length() - 1, record.width - 1
    selected = record.state * record.width
    loops += _SELECT.format(shift=shift, mask=mask, size=record.size, width=record.width, rows=selected)
    return llvm.emit(program.kernels.values(), program.layout, loops=loops)


class RecordCode:
    """Machine code of a program over records. Calls release the interpreter's lock."""

    def __init__(self, program: Program, record: RecordLayout) -> None:
        """Compile the program, or take its code from the cache."""
        code = machine.MachineCode(machine.get_object(emit(program, record)))
        types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        self._every = {s: code.function(f"every_{s.name}", None, *types) for s in program.sequences}
        self._select = code.function("select", None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
        self._prepare = code.function(program.prepare.name, None, ctypes.c_void_p)

    def prepare(self, workspace: np.ndarray) -> None:
        """Run the kernel `prepare` on a workspace."""
        self._prepare(workspace.ctypes.data)

    def run(self, sequence: KernelHandle, workspace: np.ndarray, records: np.ndarray) -> None:
        """Run a sequence on each of the records (blocks, rows, width) of `allocate`, in place."""
        self._every[sequence](workspace.ctypes.data, records.ctypes.data, len(records))

    def select(self, target: np.ndarray, source: np.ndarray, indices: np.ndarray) -> None:
        """Set instance k of `target` to instance indices[k] of `source`, both records (blocks, rows, width).

        `indices`: int64, one for each instance of `target`.
        """
        self._select(target.ctypes.data, source.ctypes.data, indices.ctypes.data, len(indices))
