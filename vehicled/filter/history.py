"""History of a filter: its state before and after the correction of each recent step, and its observations.

Late observations need it. Records of steps and observations are outside the workspace. `PastMoments` visits
them in order, from any step up to the present, for the kernels of `late_kernels.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from vehicled.symbolic.kept_records import KeptLayout, KeptRecord, ObservationKind, RecordKind
from vehicled.symbolic.past_moments import Chain, Limits, MomentPlaces, MomentRecord, PastMoments

FASTEST = 2000
"""Steps per second for which the memory is sufficient: the highest rate of the daemon."""
MOST_EVENTS = 20_000
"""Largest number of kept observations. A faster flood of them shortens the memory."""


class Kept(NamedTuple):
    """One part of the record of a step or observation."""

    now: tuple[np.ndarray, ...]
    """Views of the workspace: values, and their tangents if there are any."""
    then: tuple[np.ndarray, ...]
    """Where kernels read past values; of the same shapes."""
    kernels: Sequence[int] = ()
    """Addresses of kernels that visits run (`late.py`), 0 for none; if empty, the part is not visited."""
    changes: bool = True
    """Whether these kernels change the record."""


class LatePlace(NamedTuple):
    """Place of a late observation in the history."""

    rest: tuple[int, int]
    """Addresses of the record before a step's correction, without the pose, and of its layout."""
    visits: int
    """Address of the visits from that step on; after them there is room for one more."""
    number: int
    """Number of these visits."""


class History:
    """The last steps, each with what it was before and after its correction, and its observations."""

    def __init__(
        self,
        memory: float,
        workspace: np.ndarray,
        before: Sequence[Kept],
        after: Kept,
        moment: MomentPlaces,
        events: Sequence[Kept] = (),
        gate: tuple[int, int] = (0, 0),
        begin: int = 0,
    ) -> None:
        """`memory`: length of the history, s, at up to FASTEST steps per second.

        `before`, `after`: parts kept before and after a step's correction, the pose first; `events`: part
        kept of an observation, by number of components less one; `moment`: places that the time of a past
        pose is written to; `gate`: places of two numbers, the first of which is smaller if an update kernel
        has corrected; `begin`: address of a kernel to run when a step begins; 0: none.
        """
        kept, pose, rest = [*before, after], before[0], before[1:]
        begins = [*accumulate((sum(view.size for view in part.now) for part in kept), initial=0)]
        self._parts = [*map(slice, begins, begins[1:])]
        """Slices of `before` and `after` in the record of a step."""
        self._rest = KeptLayout(workspace, [view for part in rest for view in part.then])
        self._rest_begin = 8 * self._parts[0].stop
        """Offset in bytes."""
        visits = [
            (at, RecordKind(workspace, part.then, part.kernels, part.changes))
            for at, part in zip(begins, before, strict=False)
            if part.kernels
        ]
        begun = [view for part in kept for view in part.now]
        record = MomentRecord(
            KeptLayout(workspace, begun),
            KeptLayout(workspace, pose.then),
            KeptLayout(workspace, after.now),
            KeptLayout(workspace, after.then),
            self._parts[-1].start,
            visits,
        )
        limits = Limits(round(memory * 1e9), int(np.ceil(memory * FASTEST)) + 2, MOST_EVENTS)
        self._past = PastMoments(workspace, limits, record, moment, begin)
        self._kinds = [ObservationKind(workspace, *event) for event in events]
        """By number of components less one."""
        self.gate = gate
        self._notes = [self._past.make_chain(gate, [(0, kind)]) for kind in self._kinds]
        self.present = KeptRecord(workspace, [view for part in rest for view in part.now])
        """For `LateObservations`: the present step's record before its correction, without the pose."""
        self.step = self._past.begin
        """Begin the record of a new step at a time, ns, before any correction."""
        self.correct = self._past.correct
        """Record the result of the last step's correction."""
        self.find = self._past.seek
        """Restore the pose at a time, interpolated between that before a step and that after the previous
        step's correction.

        Takes a time, ns, and the latency that has been subtracted from it, s. After the last step, the pose
        is that of the last step. Returns the number of the step at or after the time, for the methods for
        late observations; LAST_MOMENT for the last step, and NO_MOMENT if the time is not in the history."""

    def clear(self) -> None:
        """Forget all steps, when the filter restarts."""
        self._past.clear()

    # -- observations --------------------------------------------------------------------------------------

    def make_chain(self, links: Sequence[tuple[int, int]]) -> Chain:
        """Chain of kernels; some correct the last step with an observation within limits, which is then kept.

        `links`: address of each kernel, and the number of components that it observes; 0: none.
        """
        of_links = [(kernel, self._kinds[m - 1] if m else None) for kernel, m in links]
        return self._past.make_chain(self.gate, of_links)

    def note(self, components: int) -> None:
        """Record the observation that corrects the last step."""
        self._notes[components - 1].run()

    # -- late observations ---------------------------------------------------------------------------------

    def locate(self, step: int) -> LatePlace:
        """Data for a script that evaluates an observation of the time just before a step."""
        record, visits, number = self._past.locate(step)
        return LatePlace((record + self._rest_begin, self._rest.address), visits, number)

    def enter(self, step: int, components: int, script: Callable[[int, int, int], bool]) -> bool:
        """Keep a late observation as the first one of a step, if a script enters it.

        `script`: inserts its visit before those that `locate` has given, and updates all later records with
        the late observation. Its arguments are the addresses of the observation's record, of the record's
        layout and of its kind. Returns the result of `script`.
        """
        kind = self._kinds[components - 1]
        record = kind.store.take()
        if not script(record, kind.present, kind.address):
            kind.store.give_back(record)
            return False
        self._past.count_inserted(step)
        return True

    # Numbers are changed at all times together, also in free records, which are written anew when they are taken.

    def parts_of_steps(self, part: int) -> Iterator[np.ndarray]:
        """Part number `part` of `before` of all steps: arrays (records, numbers), to be changed in place."""
        return (chunk[:, self._parts[part]] for chunk in self._past.records.chunks)

    def parts_after(self) -> Iterator[np.ndarray]:
        """The same of the parts after the correction of each step."""
        return self.parts_of_steps(-1)

    def records_of_events(self) -> Iterator[tuple[int, np.ndarray]]:
        """Records (records, numbers) of all observations, with the number of their components."""
        return ((m, chunk) for m, kind in enumerate(self._kinds, start=1) for chunk in kind.store.chunks)
