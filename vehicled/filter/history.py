"""The state of a filter before and after the correction of each of its last steps, and its observations.

Late observations need them. Records of steps and observations lie outside the workspace. `VisitTable` copies them
into it one after the other, from any step on up to the present, for the kernels of `late_kernels.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from vehicled.symbolic.moments import MomentPlaces, MomentTable
from vehicled.symbolic.record_code import VISIT
from vehicled.symbolic.scripts import RecordCopies, make_visit
from vehicled.symbolic.visits import Chain, VisitTable

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
    """Of what is kept of the past."""

    rest: RecordCopies
    """What was before a step's correction, but for the pose."""
    visits: int
    """Address of those from that step on; behind them there is room for one more."""
    number: int
    """Of these visits."""


class _Record:
    """The numbers of one step or observation, in parts one after the other."""

    def __init__(self, workspace: np.ndarray, kept: Sequence[Kept]) -> None:
        self._workspace, self._kept = workspace, kept
        self.parts = [np.zeros(sum(view.size for view in part.now)) for part in kept]
        self.now = self.copy_now(range(len(kept)))
        """All parts, where they are in the present."""
        # These must not be freed before the visits are, which have their addresses.
        self._visited = [(self.copy_then([k]), part) for k, part in enumerate(kept) if part.kernels]
        visits = [make_visit(copies, part.kernels, part.changes) for copies, part in self._visited]
        self.visits = np.concatenate([np.zeros((0, VISIT), dtype=np.int64), *visits])
        """(k, VISIT), of the parts that kernels visit."""
        self.packed = self.visits.tobytes()
        """The same as the table takes them."""

    def copy_now(self, parts: Iterable[int]) -> RecordCopies:
        """Of some parts, where they are in the present."""
        return RecordCopies(self._workspace, [(self.parts[k], self._kept[k].now) for k in parts])

    def copy_then(self, parts: Iterable[int]) -> RecordCopies:
        """Of some parts, where kernels read those of the past."""
        return RecordCopies(self._workspace, [(self.parts[k], self._kept[k].then) for k in parts])


class _Event(_Record):
    """An observation of so many components that has corrected a step."""

    def __init__(self, workspace: np.ndarray, kept: Kept, components: int) -> None:
        super().__init__(workspace, [kept])
        self.components = components
        self.link = self.now, self.visits.ctypes.data
        """For a chain."""


class _Step(_Record):
    """What was before the correction of a step, and what after it."""

    def __init__(self, workspace: np.ndarray, before: Sequence[Kept], after: Kept) -> None:
        super().__init__(workspace, [*before, after])
        n = len(before)
        self.pose, self.corrected = self.copy_then([0]), self.copy_then([n])
        self.corrected_now = self.copy_now([n])
        self.rest = self.copy_then(range(1, n))
        """What observations need beside the pose."""
        self.events: list[_Event] = []
        self.t_ns = self.begin = 0
        """Its time, and the visit of the first of its observations."""


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
    ) -> None:
        """`memory`: how far back it reaches, s, at up to FASTEST steps per second.

        `moment`: where the time goes to of which a past pose is. Kept are `before` and `after` a step's correction,
        the pose first; and of an observation that of `events` by the number of its components less one. `gate`:
        places of two numbers, of which the first is less where a kernel of `update` has corrected.
        """
        self._memory_ns = round(memory * 1e9)
        self._most = int(np.ceil(memory * FASTEST)) + 2
        self._workspace, self._before, self._after = workspace, before, after
        self._events = events
        self._steps: list[_Step] = []
        # What has been allocated is used again, so that nothing is while the filter runs.
        self._free: list[_Step] = []
        self._free_events: list[list[_Event]] = [[] for _ in events]
        """By number of components less one."""
        self._count = 0
        """Observations that are kept."""
        self._corrected = False
        self._moments = MomentTable(workspace, self._memory_ns, moment)
        self.gate, self._table = gate, VisitTable()
        self.present = _Record(workspace, before[1:]).now
        """For `LateObservations`: what was before the present step's correction, but for the pose."""

    # -- steps ---------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget all steps, as the filter begins anew."""
        while self._steps:
            self._drop()
        self._table.clear()

    def step(self, t_ns: int) -> None:
        """Keep a new step, before any correction."""
        steps, limit = self._steps, t_ns - self._memory_ns
        while len(steps) > 1 and (
            steps[1].t_ns <= limit or len(steps) >= self._most or self._count > MOST_EVENTS
        ):
            self._drop()
        step = self._free.pop() if self._free else _Step(self._workspace, self._before, self._after)
        step.now.keep()
        step.t_ns, step.begin = t_ns, self._table.append(step.packed)
        steps.append(step)
        self._moments.add(t_ns, step.pose, step.corrected)
        self._corrected = False

    def _drop(self) -> None:
        self._moments.drop(1)
        step = self._steps.pop(0)
        self._free.append(step)
        self._count -= len(step.events)
        for event in step.events:
            self._free_events[event.components - 1].append(event)
        step.events.clear()
        if self._steps:
            following = self._steps[0]
            self._table.drop_before(following.begin - len(following.visits))

    def correct(self) -> None:
        """Keep what the last step's correction has made."""
        self._steps[-1].corrected_now.keep()
        self._corrected = True

    def find(self, t_ns: int, latency: float) -> int:
        """Restore the pose of a time, between that before a step and that after the correction of the step before it.

        At a time after the last step, it is that of the last one. `latency`: that the time was found with, s. Returns
        the number of the step at or after it, for the methods for late observations; LAST_MOMENT for the last step,
        and NO_MOMENT where there is none.
        """
        return self._moments.seek(t_ns, latency, self._corrected)

    # -- observations --------------------------------------------------------------------------------------

    def make_chain(self, links: Sequence[tuple[int, int]]) -> Chain:
        """For `run_chain`: addresses of kernels, and the number of components of what each observes; 0: nothing."""
        return Chain(self._workspace, self.gate, links)

    def run_chain(self, chain: Chain) -> int:
        """Run kernels of which some correct the last step with an observation if that is within limits; keep it then.

        The records of the chain are numbers of components. Returns how many kernels have run and corrected.
        """
        events = [self._take_event(components) for components in chain.records]
        done = self._table.run_chain(chain, [event.link for event in events])
        kept = chain.records_done[done]
        self._steps[-1].events += events[:kept]
        self._count += kept
        for event in events[kept:]:
            self._give_back(event)
        return chain.links_done[done]

    def note(self, components: int) -> None:
        """Keep the observation that corrects the last step."""
        event = self._take_event(components)
        event.now.keep()
        self._count += 1
        self._steps[-1].events.append(event)
        self._table.append(event.packed)

    def _take_event(self, components: int) -> _Event:
        free = self._free_events[components - 1]
        return free.pop() if free else _Event(self._workspace, self._events[components - 1], components)

    def _give_back(self, event: _Event) -> None:
        self._free_events[event.components - 1].append(event)

    # -- late observations ---------------------------------------------------------------------------------

    def locate(self, step: int) -> LatePlace:
        """What a script needs that evaluates an observation of the time just before a step."""
        record = self._steps[step]
        self._table.make_room(1)
        return LatePlace(record.rest, *self._table.locate(record.begin))

    def enter(self, step: int, components: int, script: Callable[[RecordCopies, int], bool]) -> bool:
        """Keep a late observation as the first one of a step, unless a script does not do that.

        `script`: enters its visit in front of those that `locate` has given, and the late observation into all that
        has been kept since. It is given the copies of its record, and the address of the visit. Returns its result.
        """
        event, record = self._take_event(components), self._steps[step]
        if not script(*event.link):
            self._give_back(event)
            return False
        self._count += 1
        record.events.insert(0, event)
        self._table.count_inserted()
        for later in self._steps[step + 1 :]:
            later.begin += 1
        return True

    def parts_of_steps(self, part: int) -> Iterator[np.ndarray]:
        """Of each step what is kept of a part of `before`, by its number; to be changed in place."""
        return (step.parts[part] for step in self._steps)

    def parts_of_events(self) -> Iterator[tuple[int, np.ndarray]]:
        """The same of each observation, with the number of its components."""
        return ((event.components, event.parts[0]) for step in self._steps for event in step.events)

    def parts_after(self) -> Iterator[np.ndarray]:
        """The same of what was after each step's correction."""
        return (step.parts[-1] for step in self._steps)
