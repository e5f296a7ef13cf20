"""The state of a filter before and after the correction of each of its last steps, and its observations.

Late observations need them. Records of steps and observations lie outside the workspace. `PastMoments` lists visits
of them one after the other, from any step on up to the present, for the kernels of `late_kernels.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from vehicled.symbolic.kept_records import KeptLayout, KeptRecord, ObservationKind, RecordKind
from vehicled.symbolic.past_moments import Chain, Limits, MomentPlaces, MomentRecord, PastMoments

FASTEST = 2000
"""Steps per second for which the memory suffices: the highest rate that the daemon takes."""
MOST_EVENTS = 20_000
"""Observations that are kept at most. Those of a faster flood shorten the memory."""


class Kept(NamedTuple):
    """What is kept of each step or observation."""

    now: tuple[np.ndarray, ...]
    """Views of the workspace: values, and their tangents if there are any."""
    then: tuple[np.ndarray, ...]
    """Where kernels read those of the past; of the same shapes."""
    kernels: Sequence[int] = ()
    """Addresses of those that visits run (`late.py`), 0 for one that does not; none: the record is not visited."""
    changes: bool = True
    """Whether these change it."""


class LatePlace(NamedTuple):
    """Where a late observation belongs in what is kept of the past."""

    rest: tuple[int, int]
    """Addresses of what was before a step's correction, but for the pose, and of its layout."""
    visits: int
    """Address of those from that step on; behind them there is room for one more."""
    number: int
    """Of these visits."""


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
        """`memory`: how far back it reaches, s, at up to FASTEST steps per second.

        `moment`: where the time goes to of which a past pose is. Kept are `before` and `after` a step's correction,
        the pose first; and of an observation that of `events` by the number of its components less one. `gate`:
        places of two numbers, of which the first is less where a kernel of `update` has corrected. `begin`: address
        of a kernel to be run where a step begins; 0: none.
        """
        kept, pose, rest = [*before, after], before[0], before[1:]
        begins = [*accumulate((sum(view.size for view in part.now) for part in kept), initial=0)]
        self._parts = [*map(slice, begins, begins[1:])]
        """Of `before` and `after`, in the record of a step."""
        self._rest = KeptLayout(workspace, [view for part in rest for view in part.then])
        self._rest_begin = 8 * self._parts[0].stop
        """Bytes."""
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
        """For `LateObservations`: what was before the present step's correction, but for the pose."""
        self.step = self._past.begin
        """Keep a new step of a time, ns, before any correction."""
        self.correct = self._past.correct
        """Keep what the last step's correction has made."""
        self.find = self._past.seek
        """Restore the pose of a time, between that before a step and that after the correction of the one before it.

        Takes a time, ns, and the latency that it was found with, s. At a time after the last step, the pose is that
        of the last one. Returns the number of the step at or after it, for the methods for late observations;
        LAST_MOMENT for the last step, and NO_MOMENT where there is none."""

    def clear(self) -> None:
        """Forget all steps, as the filter begins anew."""
        self._past.clear()

    # -- observations --------------------------------------------------------------------------------------

    def make_chain(self, links: Sequence[tuple[int, int]]) -> Chain:
        """Kernels of which some correct the last step with an observation if that is within limits; it is kept then.

        `links`: addresses of kernels, and the number of components of what each observes; 0: nothing.
        """
        of_links = [(kernel, self._kinds[m - 1] if m else None) for kernel, m in links]
        return self._past.make_chain(self.gate, of_links)

    def note(self, components: int) -> None:
        """Keep the observation that corrects the last step."""
        self._notes[components - 1].run()

    # -- late observations ---------------------------------------------------------------------------------

    def locate(self, step: int) -> LatePlace:
        """What a script needs that evaluates an observation of the time just before a step."""
        record, visits, number = self._past.locate(step)
        return LatePlace((record + self._rest_begin, self._rest.address), visits, number)

    def enter(self, step: int, components: int, script: Callable[[int, int, int], bool]) -> bool:
        """Keep a late observation as the first one of a step, unless a script does not do that.

        `script`: enters its visit in front of those that `locate` has given, and the late observation into all that
        has been kept since. It is given the addresses of its record, of the layout of that and of its kind. Returns
        its result.
        """
        kind = self._kinds[components - 1]
        record = kind.store.take()
        if not script(record, kind.present, kind.address):
            kind.store.give_back(record)
            return False
        self._past.count_inserted(step)
        return True

    def parts_of_steps(self, part: int) -> Iterator[np.ndarray]:
        """Of each step what is kept of a part of `before`, by its number; to be changed in place."""
        return (record[self._parts[part]] for record in self._past.list_records())

    def parts_of_events(self) -> Iterator[tuple[int, np.ndarray]]:
        """The same of each observation, with the number of its components."""
        events = self._past.list_events()
        return ((self._kinds.index(kind) + 1, kind.store.rows[record]) for kind, record in events)

    def parts_after(self) -> Iterator[np.ndarray]:
        """The same of what was after each step's correction."""
        return (record[self._parts[-1]] for record in self._past.list_records())
