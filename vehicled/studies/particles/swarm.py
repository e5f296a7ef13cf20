"""Any number of particles: states of one mechanism in one array, advanced by one call of machine code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vehicled.multibody.description import Description
from vehicled.multibody.model import MechanismError
from vehicled.studies.particles.kernels import DISTURBANCE, NOISE, STATE, WIDTH, build
from vehicled.symbolic import llvm, machine
from vehicled.symbolic.program import KernelHandle, Program

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
  br label %particle
particle:
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
  %r = phi i64 [0, %particle], [%rnext, %row]
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
  br i1 %more, label %particle, label %done
done:
  ret void
}}
"""
_SEQUENCES = {
    "advance": ("integrate", "project"),
    "advance_noisily": ("integrate", *DISTURBANCE),
    "shift": DISTURBANCE,
    "settle": ("project",),
}


class Swarm:
    """N particles, each a whole state of a mechanism, at one time `t`.

    Their memory is allocated once: blocks of eight particles, within a block coordinate by coordinate. Calls of
    machine code release the interpreter's lock.
    """

    def __init__(self, description: Description, count: int, noisy: Sequence[str] = ()) -> None:
        """`noisy` names the angles, distances and components of points that `advance` and `shift` can disturb.

        All particles are at zero, which is no state of a mechanism: `set_states` follows. Raises MechanismError for
        a mechanism that has coordinates without mass, drives or inputs; ValueError on a count below one.
        """
        if count < 1:
            raise ValueError(f"{count} particles: expected at least one")
        program, model = build(description, noisy)
        self.description, self.count, self.noisy = description, count, tuple(noisy)
        self.coordinates = [c.name for c in model.system.coordinates]
        self.angles, self.distances = list(description.angles), list(description.distances)
        layout = program.layout
        self._rows: dict[str, slice] = {}
        first, end = layout.places[STATE[0]].offset, 0
        for name in (*STATE, *NOISE):
            place = layout.places[name]
            assert place.offset == first + end * WIDTH, "arrays of a particle lie one after the other"
            self._rows[name] = slice(end, end + place.count)
            end += place.count
        written = self._rows[STATE[-1]].stop
        blocks = -(-count // WIDTH)
        raw = np.zeros(blocks * end * WIDTH + WIDTH)
        shift = (-raw.ctypes.data // 8) % WIDTH
        self._records = raw[shift : shift + blocks * end * WIDTH].reshape(blocks, end, WIDTH)
        self._spare = np.empty_like(self._records)
        self._workspace = layout.allocate()
        layout.view(self._workspace, "parameters")[:] = np.array(list(model.values.values()))[:, None]
        self._step = layout.view(self._workspace, "advance_step")
        self._time = layout.view(self._workspace, "time")
        self._call = _compile(program, first, end * WIDTH, end * 8 * WIDTH, written * 8 * WIDTH)
        self._call["prepare"](self._workspace.ctypes.data)
        if not np.all(np.isfinite(layout.view(self._workspace, "constants"))):
            raise MechanismError("particles: the mass matrix is singular, every coordinate needs mass")

    @property
    def t(self) -> float:
        """Time, s."""
        return float(self._time[0, 0])

    def _get(self, rows: slice) -> np.ndarray:
        """(rows, N) copy."""
        block = self._records[:, rows, :].transpose(1, 0, 2)
        return block.reshape(len(block), -1)[:, : self.count].copy()

    def _set(self, rows: slice, values: np.ndarray) -> None:
        """(rows, N); unused places in the last block are copies of the last particle."""
        blocks = len(self._records)
        filled = np.empty((values.shape[0], blocks * WIDTH))
        filled[:, : self.count] = values
        filled[:, self.count :] = values[:, -1:]
        self._records[:, rows, :] = filled.reshape(-1, blocks, WIDTH).transpose(1, 0, 2)

    def get_q(self) -> np.ndarray:
        """(n, N) coordinates, m, in the order of `coordinates`."""
        return self._get(self._rows["q"])

    def get_qd(self) -> np.ndarray:
        """(n, N) velocities, m/s."""
        return self._get(self._rows["qd"])

    def get_angles(self, name: str) -> np.ndarray:
        """(N,) an angle of the description, rad in (−π, π]. Raises ValueError for one that is not there."""
        k = self._rows["sides"].start + 2 * self.angles.index(name)
        sides = self._get(slice(k, k + 2))
        angle: np.ndarray = np.arctan2(sides[0], sides[1])
        return angle

    def get_coordinate(self, name: str) -> np.ndarray:
        """(N,) a distance of the description or a component of a point, m. Raises ValueError."""
        if name in self.distances:
            k = self._rows["distances"].start + self.distances.index(name)
        else:
            k = self.coordinates.index(name)
        values: np.ndarray = self._get(slice(k, k + 1))[0]
        return values

    def get(self, name: str) -> np.ndarray:
        """(N,) an angle in (−π, π] or any other coordinate, rad or m. Raises ValueError."""
        return self.get_angles(name) if name in self.angles else self.get_coordinate(name)

    def get_rates(self, name: str) -> np.ndarray:
        """(N,) how fast an angle or any other coordinate changes, rad/s or m/s. Raises ValueError."""
        relative = [*self.angles, *self.distances]
        if name in relative:
            k = self._rows["rates"].start + relative.index(name)
        else:
            k = self._rows["qd"].start + self.coordinates.index(name)
        values: np.ndarray = self._get(slice(k, k + 1))[0]
        return values

    def set_states(self, q: np.ndarray, qd: np.ndarray, t: float = 0.0) -> None:
        """(n, N) each, brought onto the constraints."""
        self._set(self._rows["q"], np.asarray(q, dtype=float))
        self._set(self._rows["qd"], np.asarray(qd, dtype=float))
        self._time[:] = t
        self._run("settle")

    def advance(self, h: float, moves: np.ndarray | None = None, kicks: np.ndarray | None = None) -> None:
        """All particles to t + h, and there disturbed if `moves` or `kicks` are given, as in `shift`."""
        self._step[:] = h
        if moves is None and kicks is None:
            self._run("advance")
        else:
            self._disturbances(moves, kicks)
            self._run("advance_noisily")
        self._time += h

    def shift(self, moves: np.ndarray | None, kicks: np.ndarray | None = None) -> None:
        """Change each noisy coordinate by `moves` and its rate by `kicks`, both (noisy, N) or None.

        The rest follows along the constraints, the velocities projected onto them.
        """
        self._disturbances(moves, kicks)
        self._run("shift")

    def _disturbances(self, moves: np.ndarray | None, kicks: np.ndarray | None) -> None:
        for name, amounts in zip(NOISE, (moves, kicks), strict=True):
            if amounts is None:
                self._records[:, self._rows[name], :] = 0.0
            else:
                self._set(self._rows[name], amounts)

    def select(self, indices: np.ndarray) -> None:
        """Particle k becomes what particle indices[k] was; (N,)."""
        chosen = np.empty(len(self._records) * WIDTH, dtype=np.int64)
        chosen[: self.count] = indices
        chosen[self.count :] = indices[-1]
        records = (self._spare.ctypes.data, self._records.ctypes.data)
        self._call["select"](*records, chosen.ctypes.data, len(chosen))
        self._records, self._spare = self._spare, self._records

    def _run(self, what: str) -> None:
        self._call[what](self._workspace.ctypes.data, self._records.ctypes.data, len(self._records))


def _compile(
    program: Program, offset: int, size: int, read: int, written: int
) -> dict[str, Callable[..., Any]]:
    """The loops over all particles, and `prepare`. `offset` and `size` count float64, the others bytes."""
    numbers = {"offset": offset, "size": size, "read": read, "written": written}
    sequences = {KernelHandle(name): [*map(KernelHandle, calls)] for name, calls in _SEQUENCES.items()}
    loops = _MEMCPY + llvm.emit_sequences(sequences)
    loops += "".join(_LOOP.format(name=name, **numbers) for name in _SEQUENCES)
    shift, mask = WIDTH.bit_length() - 1, WIDTH - 1
    loops += _SELECT.format(shift=shift, mask=mask, size=size, width=WIDTH, rows=written // 8)
    code = machine.MachineCode(
        machine.get_object(llvm.emit(program.kernels.values(), program.layout, loops=loops))
    )
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    calls = {name: code.function(f"every_{name}", None, *types) for name in _SEQUENCES}
    calls["select"] = code.function("select", None, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    return calls | {"prepare": code.function("prepare", None, ctypes.c_void_p)}
