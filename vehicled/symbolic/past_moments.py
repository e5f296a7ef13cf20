"""Moments of a past, each with a record of what was before and after it, and with records of its observations.

Machine code adds moments and observations, forgets those that are too old, and finds a moment by its time. Each
moment itself lists visits of its record, and behind them one of each of its observations.
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


class MomentRecord(NamedTuple):
    """What the record of a moment consists of: what was before it, and behind that what was after it."""

    begin: KeptLayout
    """Where all of it is in the workspace as the moment begins, when nothing has changed yet;"""
    before: KeptLayout
    """where the first numbers of it go to as a moment is found;"""
    corrected: KeptLayout
    """where what is after it is as that is kept,"""
    after: KeptLayout
    """and where that goes to."""
    after_begin: int
    """Where that begins in the record."""
    visits: Sequence[tuple[int, RecordKind]]
    """Of parts of the record: where they begin in it, and their kind."""


class Limits(NamedTuple):
    """How far a past reaches."""

    memory_ns: int
    """By how much before the last moment a time is too old."""
    moments: int
    """How many are kept at most,"""
    events: int
    """and, as a moment begins, how many of their observations."""


class PastMoments:
    """Moments in order of time, and their observations."""

    def __init__(
        self,
        workspace: np.ndarray,
        limits: Limits,
        record: MomentRecord,
        places: MomentPlaces,
        kernel: int = 0,
    ) -> None:
        """`kernel`: address of the one to be run as a moment begins; 0: none."""
        self._workspace, self._record = workspace, record  # layouts must not be freed before
        self._kinds: dict[int, ObservationKind] = {}
        """Of observations, by address."""
        self.moments, self.visits = RowTable(MOMENT), RowTable(VISIT)
        """Rows `MOMENT`, and `VISIT`."""
        self.records = RecordStore(record.begin.size)
        """Of the moments."""
        self.own = len(record.visits)
        """Visits of each moment itself."""
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
        """An observation has been put in front of those of a moment, and the visits behind it one further."""
        self.correct: Callable[[], None] = partial(code.correct, *addresses)
        """Keep what is after the last moment."""

    def begin(self, t_ns: int) -> None:
        """Keep a moment later than all others, and forget those that are too old."""
        self._set_time(t_ns)
        while not self._begin():
            self.records.grow()
            self.moments.make_room(1)
            self.visits.make_room(self.own)

    def seek(self, t_ns: int, latency: float) -> int:
        """Restore what was before the moment at or after a time, and what was after the one before it.

        Returns the number of the former, counted from the first that is kept; LAST_MOMENT for the last one, and
        NO_MOMENT where there is none, and nothing is done.
        """
        self._ask(t_ns, latency)
        return self._find()

    def make_chain(self, gate: tuple[int, int], links: Sequence[tuple[int, ObservationKind | None]]) -> Chain:
        """`gate`: as of `Do.PASS`. `links`: address of a kernel, 0: none, and kind of the observation it makes."""
        self._kinds |= {kind.address: kind for _, kind in links if kind is not None}
        return Chain(self._workspace, self, gate, links)

    def locate(self, moment: int) -> tuple[int, int, int]:
        """Of a moment by its number: address of its record, and of its first observation's visit.

        And how many visits there are from there on up to the present; behind them there is room for one more.
        """
        while not self._locate(moment):
            self.visits.make_room(1)
        return self._read_located()

    def list_records(self) -> list[np.ndarray]:
        """Of the moments."""
        return [self.records.rows[record] for _, record, _ in self.moments.rows.tolist()]

    def list_events(self) -> list[tuple[ObservationKind, int]]:
        """Kind of each observation that is kept, and address of its record."""
        rows, kinds = self.visits.rows.tolist(), self._kinds
        return [(kinds[kind], record) for record, kind in rows if kind in kinds]

    def clear(self) -> None:
        """Forget all."""
        for kind, record in self.list_events():
            kind.store.give_back(record)
        for _, record, _ in self.moments.rows.tolist():
            self.records.give_back(record)
        self.moments.clear()
        self.visits.clear()


class Chain:
    """Kernels that run one after the other in one call; with some of them goes a record, and a gate to be passed."""

    def __init__(
        self,
        workspace: np.ndarray,
        past: PastMoments,
        gate: tuple[int, int],
        links: Sequence[tuple[int, ObservationKind | None]],
    ) -> None:
        operations: list[tuple[int, ...]] = []
        self.links_done: list[int] = []
        """How many links are done, by how many operations are done."""
        self._past, self._stores = past, dict[int, RecordStore]()
        """By place of an operation that keeps a record."""
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
