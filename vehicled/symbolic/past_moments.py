"""Past moments, each with a record of the state before and after it, and records of its observations.

Machine code adds moments and observations, drops those that are too old, and finds a moment by its time. Each
moment has visits of parts of its own record, followed by one visit of each of its observations.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from vehicled.symbolic.kept_records import KeptLayout, ObservationKind, RecordKind, RecordStore
from vehicled.symbolic.record_code import MOMENT, VISIT, Do, OfPast, load
from vehicled.symbolic.row_table import RowTable
from vehicled.symbolic.scripts import Script

ROW = 8 * VISIT
"""Bytes of a visit."""


class MomentPlaces(NamedTuple):
    """Places in a workspace to which data of a found moment are copied."""

    age: int
    """Places of numbers: time from the sought time to the moment at or after it, s;"""
    lead: int
    """time from the last moment to a later sought time, s, at most `longest`;"""
    latency: int
    """the latency passed to `seek`;"""
    share: int
    """and the sought time's fraction of the interval from the preceding moment."""
    kernel: int
    """Address of the kernel that uses these numbers and both records."""
    longest: float
    """s"""


class MomentRecord(NamedTuple):
    """Parts of a moment's record: first the state before it, then the state after it."""

    begin: KeptLayout
    """Layout of the whole record in the workspace when the moment begins, before anything has changed;"""
    before: KeptLayout
    """places to which the first numbers of the record are copied when a moment is found;"""
    corrected: KeptLayout
    """layout from which the state after the moment is kept,"""
    after: KeptLayout
    """and places to which that is copied."""
    after_begin: int
    """Index in the record at which the state after the moment begins."""
    visits: Sequence[tuple[int, RecordKind]]
    """Parts of the record that are visited: index at which each begins, and its kind."""


class Limits(NamedTuple):
    """Limits of the memory of the past."""

    memory_ns: int
    """Age, relative to the last moment, above which a time is too old."""
    moments: int
    """Largest number of moments,"""
    events: int
    """and largest number of their observations when a moment begins."""


class PastMoments:
    """Moments in order of time, with their observations."""

    def __init__(
        self,
        workspace: np.ndarray,
        limits: Limits,
        record: MomentRecord,
        places: MomentPlaces,
        kernel: int = 0,
    ) -> None:
        """`kernel`: address of the kernel to be run when a moment begins, before it is recorded; 0: none."""
        self._workspace, self._record = workspace, record  # the layouts have to exist as long as this
        self._kinds: dict[int, ObservationKind] = {}
        """Kinds of observations, by address."""
        self.moments, self.visits = RowTable(MOMENT), RowTable(VISIT)
        """Tables with rows of `MOMENT` and `VISIT` numbers."""
        self.records = RecordStore(record.begin.size)
        """Records of the moments."""
        self.own = len(record.visits)
        """Number of visits of each moment's own record."""
        given = np.zeros(OfPast.OWN + 1 + 2 * self.own, dtype=np.int64)
        given[OfPast.MEMORY], given[OfPast.MOST_MOMENTS], given[OfPast.MOST_EVENTS] = limits
        given[OfPast.MOMENTS], given[OfPast.VISITS] = self.moments.address, self.visits.address
        given[OfPast.FREE_RECORDS], given[OfPast.RECORD] = self.records.address, record.begin.address
        given[OfPast.BEFORE], given[OfPast.AFTER] = record.before.address, record.after.address
        given[OfPast.AFTER_BEGIN], given[OfPast.CORRECTED] = record.after_begin, record.corrected.address
        given[OfPast.KERNEL_OF_BEGIN] = kernel
        given.view(np.float64)[OfPast.LONGEST] = places.longest
        given[OfPast.AGE : OfPast.LOCATED] = *places[:4], places.kernel
        visits = [number for begin, kind in record.visits for number in (begin, kind.address)]
        given[OfPast.OWN :] = self.own, *visits
        self.address = given.ctypes.data
        numbers = given.data.cast("B")
        self._set_time: Callable[..., None] = partial(struct.Struct("=q").pack_into, numbers, 0)
        self._ask: Callable[..., None] = partial(struct.Struct("=qd").pack_into, numbers, 0)
        self._read_located: Callable[..., tuple[int, int, int]]
        self._read_located = partial(struct.Struct("=3q").unpack_from, numbers, 8 * OfPast.LOCATED)
        code, addresses = load(), [ctypes.c_void_p(a) for a in (workspace.ctypes.data, self.address)]
        self._begin, self._find = partial(code.begin, *addresses), partial(code.find_moment, *addresses)
        self._locate = partial(code.locate, addresses[1])
        self.count_inserted: Callable[[int], None] = partial(code.count_inserted, addresses[1])
        """Note that an observation was inserted before those of a moment, which moves the later visits by one."""
        self.correct: Callable[[], None] = partial(code.correct, *addresses)
        """Keep the state after the last moment."""

    def begin(self, t_ns: int) -> None:
        """Keep a moment later than all others, and drop those that are too old."""
        self._set_time(t_ns)
        while not self._begin():
            self.records.grow()
            self.moments.make_room(1)
            self.visits.make_room(self.own)

    def seek(self, t_ns: int, latency: float) -> int:
        """Restore the state before the moment at or after a time, and the state after the preceding moment.

        Returns the index of the former, counted from the first kept moment; LAST_MOMENT for the last one;
        NO_MOMENT if the time is too old: then nothing is changed.
        """
        self._ask(t_ns, latency)
        return self._find()

    def make_chain(self, gate: tuple[int, int], links: Sequence[tuple[int, ObservationKind | None]]) -> Chain:
        """`gate`: as for `Do.PASS`. `links`: address of a kernel (0: none), and kind of the observation it makes."""
        self._kinds |= {kind.address: kind for _, kind in links if kind is not None}
        return Chain(self._workspace, self, gate, links)

    def locate(self, moment: int) -> tuple[int, int, int]:
        """Addresses of a moment's record and of the visit of its first observation, by the moment's index.

        Also the number of visits from there up to the present; behind them there is room for one more.
        """
        while not self._locate(moment):
            self.visits.make_room(1)
        return self._read_located()

    def list_events(self) -> list[tuple[ObservationKind, int]]:
        """Kind of each kept observation, and address of its record."""
        rows, kinds = self.visits.rows.tolist(), self._kinds
        return [(kinds[kind], record) for record, kind in rows if kind in kinds]

    def clear(self) -> None:
        """Forget all moments and observations."""
        for kind, record in self.list_events():
            kind.store.give_back(record)
        for _, record, _ in self.moments.rows.tolist():
            self.records.give_back(record)
        self.moments.clear()
        self.visits.clear()


class Chain:
    """Kernels that run in sequence in one call; some have a record and a gate that has to be passed."""

    def __init__(
        self,
        workspace: np.ndarray,
        past: PastMoments,
        gate: tuple[int, int],
        links: Sequence[tuple[int, ObservationKind | None]],
    ) -> None:
        operations: list[tuple[int, ...]] = []
        self.links_done: list[int] = []
        """Number of completed links, by number of completed operations."""
        self._past, self._stores = past, dict[int, RecordStore]()
        """Store of records, by the place of an operation that keeps a record."""
        for k, (kernel, kind) in enumerate(links):
            of_link: list[tuple[int, ...]] = [(Do.RUN, kernel)] if kernel else []
            if kernel and kind is not None:
                of_link.append((Do.PASS, *gate))
            if kind is not None:
                self._stores[len(operations) + len(of_link)] = kind.store
                of_link.append((Do.NOTE, past.address, kind.address))
            operations += of_link
            self.links_done += [k] * len(of_link)
        self.links_done.append(len(links))
        self._script, self._count = Script(workspace, operations), len(operations)
        self._run = self._script.part(0, self._count)

    def run(self) -> int:
        """Run until one of the kernels does not pass the gate. Returns how many links are done."""
        done = self._run()
        while (store := self._stores.get(done)) is not None:  # there was no room for a record
            store.grow()
            self._past.visits.make_room(1)
            done += self._script.part(done, self._count)()
        return self.links_done[done]
