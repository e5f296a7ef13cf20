"""Lists of visits that grow with time, and chains of kernels whose records they take.

A `VisitTable` lists visits in an order; one operation of a script runs any tail of it. A `Chain` is a script of
kernels that run one after the other; with some of them goes a record, which is kept where a gate is passed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vehicled.symbolic.record_code import VISIT, Do
from vehicled.symbolic.row_table import RowTable
from vehicled.symbolic.scripts import RecordCopies, Script

ROW = 8 * VISIT
"""Bytes of a visit."""
_KEPT = 7
"""Numbers that the operations of a kept record are given, from the first one on: copies of the record, and where its
visit goes and comes from."""
_MOVE = int(Do.MOVE)


class Chain:
    """Kernels that run one after the other in one call; with some of them goes a record, and a gate to be passed."""

    def __init__(
        self, workspace: np.ndarray, gate: tuple[int, int], links: Sequence[tuple[int, int]]
    ) -> None:
        """`gate`: as of `Do.PASS`. `links`: address of a kernel, and which record goes with it; 0: none."""
        operations: list[tuple[int, ...]] = []
        kept: list[int] = []
        self.records: list[int] = []
        """Which they are, in their order."""
        self.links_done, self.records_done = [], []
        """How many links are done, and records kept, by how many operations are done."""
        for k, (kernel, record) in enumerate(links):
            of_link: list[tuple[int, ...]] = [(Do.RUN, kernel)]
            if record:
                kept.append(len(operations) + 2)
                of_link += [(Do.PASS, *gate), (Do.KEEP,), (Do.MOVE, 0, 0, ROW)]
            operations += of_link
            self.links_done += [k] * len(of_link)
            self.records_done += [len(self.records)] * len(of_link)
            if record:
                self.records.append(record)
        self.links_done.append(len(links))
        self.records_done.append(len(self.records))
        self._script = script = Script(workspace, operations)
        self.run = script.part(0, len(operations))
        """Returns how many operations are done."""
        self.write = [script.writer(k, _KEPT) for k in kept]
        """By record: takes these numbers."""


class VisitTable(RowTable):
    """Visits in an order. They are known by numbers that count from the first one ever, and grow with each."""

    def __init__(self) -> None:
        super().__init__(VISIT)
        self._first = 0

    def append(self, rows: bytes) -> int:
        """Add visits, one after the other. Returns the number that the next one gets."""
        return self._first + super().append(rows)

    def run_chain(self, chain: Chain, records: Sequence[tuple[RecordCopies, int]]) -> int:
        """Run a chain until one of its kernels does not pass the gate; keep its records, and add their visits.

        `records`: copies, and address of the visit. Returns how many operations are done.
        """
        self.make_room(len(records))
        slot = self.find(self.count)
        for write, (copies, visit) in zip(chain.write, records, strict=True):
            write(copies.address, copies.count, 0, 0, _MOVE, slot, visit)
            slot += ROW
        done = chain.run()
        self.count += chain.records_done[done]
        return done

    def locate(self, number: int) -> tuple[int, int]:
        """Address of a visit, and how many there are from it on."""
        place = number - self._first
        return self.find(place), self.count - place

    def count_inserted(self) -> None:
        """A script has put one among the others, and those behind it one further: these count one more."""
        self.count += 1

    def drop_before(self, number: int) -> None:
        """Forget the visits up to before that number."""
        self.drop(number - self._first)
        self._first = number

    def clear(self) -> None:
        """Forget all."""
        self.drop_before(self._first + self.count)
