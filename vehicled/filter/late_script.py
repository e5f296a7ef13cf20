"""Late observations in one call: runs `late_kernels.py` on the records of `history.py`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vehicled.filter.history import LatePlace
from vehicled.filter.late_kernels import LateKernels
from vehicled.symbolic.kept_records import KeptRecord
from vehicled.symbolic.past_moments import ROW
from vehicled.symbolic.program import KernelHandle
from vehicled.symbolic.record_code import VISIT, Do
from vehicled.symbolic.scripts import Script


class LateScript:
    """Evaluates late observations of m components, and enters them into the past and the present."""

    def __init__(
        self,
        workspace: np.ndarray,
        gate: tuple[int, int],
        records: tuple[KeptRecord, KeptRecord],
        kernels: LateKernels,
        address: Callable[[KernelHandle], int],
        m: int,
    ) -> None:
        """`gate`: places of NIS and limit; `address`: gives that of a kernel.

        `records`: of the present step before its correction; and of G, C and ν.
        """
        self._records = records  # must live as long as their addresses are used
        present, at_step = ((each.address, each.layout) for each in records)
        late, size = kernels.updates[m - 1], len(kernels.updates)
        whiten = Do.RUN, address(late.whiten)
        evaluation: list[tuple[int, ...]] = [
            (Do.KEEP, *present),
            (Do.RESTORE,),
            (Do.RUN,),
            (Do.KEEP, *at_step),
            (Do.VISIT, 0, 0, m - 1, 0),
            whiten,
        ]
        entry: list[tuple[int, ...]] = [
            (Do.RESTORE, *at_step),
            whiten,
            (Do.KEEP,),
            (Do.MOVE,),
            (Do.MOVE, 0, 0, ROW),
            (Do.VISIT, 0, 0, size + m - 1, 1),
            (Do.RESTORE, *present),
            whiten,
        ]
        update = Do.RUN, address(late.update)
        script = Script(workspace, [*evaluation, (Do.PASS, *gate), *entry, update])
        begin, end = len(evaluation) + 1, len(evaluation) + 1 + len(entry)
        self._all, self._end = script.part(0, end + 1), end + 1
        self._evaluate, self._return = script.part(0, len(evaluation)), records[0].restore
        self._enter = script.part(begin, end)
        self._write_rest, self._write_kernel = script.writer(1, 2), script.writer(2, 1)
        self._write_followed, self._write_event = script.writer(4, 2), script.writer(begin + 2, 2)
        self._write_moved, self._write_visit = script.writer(begin + 3, 3), script.writer(begin + 4, 2)
        self._write_amended = script.writer(begin + 5, 2)
        visit = np.zeros(VISIT, dtype=np.int64)
        self._visits, self._visit, self._visit_address = 0, visit.data, visit.ctypes.data

    def give(self, place: LatePlace, kernel: int) -> None:
        """Set the place of the observation, and the address of the kernel that evaluates it."""
        rest, visits, count = place
        self._write_rest(*rest)
        self._write_kernel(kernel)
        self._write_followed(visits, count)
        self._write_moved(visits + ROW, visits, count * ROW)
        self._write_amended(visits + ROW, count)
        self._visits = visits

    def evaluate(self) -> None:
        """Calculate innovation, S, NIS and gain at the present."""
        self._evaluate()
        self._return()

    def observe(self, record: int, layout: int, kind: int) -> bool:
        """Evaluate; if within the limit, enter it into the history and update P and x. Returns whether it was.

        Takes the addresses of the event's record, of its layout and of its kind.
        """
        self._give_event(record, layout, kind)
        if self._all() == self._end:
            return True
        self._return()
        return False

    def enter(self, record: int, layout: int, kind: int) -> bool:
        """Enter the last evaluated observation into the history; the caller has to update the present."""
        self._give_event(record, layout, kind)
        self._enter()
        return True

    def _give_event(self, record: int, layout: int, kind: int) -> None:
        self._write_event(record, layout)
        self._visit[0], self._visit[1] = record, kind
        self._write_visit(self._visits, self._visit_address)
