"""The state of a filter before and after the correction of each of its last steps, and its observations.

Late observations need them. Records of steps and observations lie outside the workspace. `VisitTable` copies them
into it one after the other, from any step on up to the present, for the kernels of `late_kernels.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from vehicled.symbolic.visits import VISIT, Chain, RecordCopies, VisitTable, make_visit

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
    read: int = 0
    """Address of a kernel that brings a late observation past the record; 0: none, it is not visited."""
    change: int = 0
    """The same of one that updates the record by the late observation as well."""


class Moment(NamedTuple):
    """A time between two steps."""

    share: float
    """Of the way from the step before it to the step after."""
    age_ns: int
    """By how much it is before the step after it; negative after the last one."""
    late: int | None
    """That step, to be given to the methods for late observations; None for the last one."""


class _Record:
    """The numbers of one step or observation, in parts one after the other."""

    def __init__(self, workspace: np.ndarray, kept: Sequence[Kept]) -> None:
        self._workspace, self._kept = workspace, kept
        self.parts = [np.zeros(sum(view.size for view in part.now)) for part in kept]
        self.now = self.copy_now(range(len(kept)))
        """All parts, where they are in the present."""
        # These must not be freed before the visits are, which have their addresses.
        self._visited = [
            (self.copy_then([k]), part) for k, part in enumerate(kept) if part.read or part.change
        ]
        visits = [make_visit(copies, part.read, part.change) for copies, part in self._visited]
        self.visits = np.concatenate([np.zeros((0, VISIT), dtype=np.int64), *visits])
        """(k, 4), of the parts that kernels visit."""
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
        self.begin = 0
        """The visit of the first of them."""


class History:
    """The last steps, each with what it was before and after its correction, and its observations."""

    def __init__(
        self,
        memory: float,
        workspace: np.ndarray,
        before: Sequence[Kept],
        after: Kept,
        events: Sequence[Kept] = (),
        gate: tuple[int, int] = (0, 0),
    ) -> None:
        """`memory`: how far back it reaches, s, at up to FASTEST steps per second.

        Kept are `before` and `after` a step's correction, the pose first; and of an observation that of `events` by
        the number of its components less one. `gate`: places of two numbers, of which the first is less where a
        kernel of `update` has corrected.
        """
        self._memory_ns = round(memory * 1e9)
        self._most = int(np.ceil(memory * FASTEST)) + 2
        self._workspace, self._before, self._after = workspace, before, after
        self._events = events
        self._times: list[int] = []
        self._steps: list[_Step] = []
        # What has been allocated is used again, so that nothing is while the filter runs.
        self._free: list[_Step] = []
        self._free_events: list[list[_Event]] = [[] for _ in events]
        """By number of components less one."""
        self._count = 0
        """Observations that are kept."""
        self._corrected = False
        self._table = VisitTable(workspace, gate)
        self._present = _Record(workspace, before[1:]).now

    # -- steps ---------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget all steps, as the filter begins anew."""
        while self._times:
            self._drop()
        self._table.clear()

    def step(self, t_ns: int) -> None:
        """Keep a new step, before any correction."""
        times, limit = self._times, t_ns - self._memory_ns
        while len(times) > 1 and (times[1] <= limit or len(times) >= self._most or self._count > MOST_EVENTS):
            self._drop()
        step = self._free.pop() if self._free else _Step(self._workspace, self._before, self._after)
        step.now.keep()
        step.begin = self._table.append(step.packed)
        times.append(t_ns)
        self._steps.append(step)
        self._corrected = False

    def _drop(self) -> None:
        self._times.pop(0)
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

    def find(self, t_ns: int) -> Moment | None:
        """Restore the pose of the step at or after a time, uncorrected, and that of the step before it, corrected.

        None when too old. At a time after the last step, it is the last one.
        """
        times = self._times
        n = last = len(times) - 1
        share, now = 1.0, times[last]
        if t_ns < now - self._memory_ns or t_ns < times[0]:
            return None
        after = last
        if t_ns < now or self._corrected:
            n = min(bisect_left(times, t_ns), last)
            if n > 0:
                after = n - 1
                share = min((t_ns - times[after]) / (times[n] - times[after]), 1.0)
            else:
                after = n
        self._steps[after].corrected.restore()
        self._steps[n].pose.restore()
        return Moment(share, times[n] - t_ns, None if n == last else n)

    # -- late observations ---------------------------------------------------------------------------------

    def run_chain(self, chain: Chain) -> int:
        """Run kernels of which some correct the last step with an observation if that is within limits; keep it then.

        The records of the chain are numbers of components. Returns how many kernels have run and corrected.
        """
        events = [self._take_event(components) for components in chain.records]
        done = self._table.run_chain(chain, [event.link for event in events])
        kept = chain.count_records[done]
        self._steps[-1].events += events[:kept]
        self._count += kept
        for event in events[kept:]:
            self._free_events[event.components - 1].append(event)
        return done

    def note(self, components: int) -> None:
        """Keep the observation that corrects the last step."""
        event = self._keep_event(components)
        self._steps[-1].events.append(event)
        self._table.append(event.packed)

    def _make_event(self, components: int) -> _Event:
        return _Event(self._workspace, self._events[components - 1], components)

    def _take_event(self, components: int) -> _Event:
        free = self._free_events[components - 1]
        return free.pop() if free else self._make_event(components)

    def _keep_event(self, components: int) -> _Event:
        event = self._take_event(components)
        event.now.keep()
        self._count += 1
        return event

    def restore(self, step: int) -> None:
        """Put the state before a step's correction in the place of the present one, until `restore_present`."""
        self._present.keep()
        self._steps[step].rest.restore()

    def restore_present(self) -> None:
        """Undo `restore`."""
        self._present.restore()

    def follow(self, step: int) -> None:
        """Bring a late observation from before a step's correction to the present."""
        self._table.read(self._steps[step].begin)

    def enter(self, step: int, components: int) -> None:
        """Keep the late observation as the first one of a step, and update by it what has been kept since."""
        event, record = self._keep_event(components), self._steps[step]
        record.events.insert(0, event)
        self._table.insert(record.begin, event.packed)
        for later in self._steps[step + 1 :]:
            later.begin += 1
        self._present.keep()
        self._table.change(record.begin + 1)
        self.restore_present()

    def parts_of_steps(self, part: int) -> Iterator[np.ndarray]:
        """Of each step what is kept of a part of `before`, by its number; to be changed in place."""
        return (step.parts[part] for step in self._steps)

    def parts_of_events(self) -> Iterator[tuple[int, np.ndarray]]:
        """The same of each observation, with the number of its components."""
        return ((event.components, event.parts[0]) for step in self._steps for event in step.events)

    def parts_after(self) -> Iterator[np.ndarray]:
        """The same of what was after each step's correction."""
        return (step.parts[-1] for step in self._steps)
