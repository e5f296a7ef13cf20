"""The state of a filter before and after the correction of each of its last steps, and its observations.

Late observations need them. Records of steps and observations lie outside the workspace. `VisitTable` copies them
into it one after the other, from any step on up to the present, for the kernels of `late_kernels.py`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from vehicled.symbolic.program import Span
from vehicled.symbolic.visits import VISIT, VisitTable, make_visit

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
    visited: tuple[Span, ...] = ()
    """The places of `then`, if kernels visit each record."""
    read: tuple[int, ...] = ()
    """Addresses of kernels that bring a late observation past the record; by number of components if it has some."""
    change: tuple[int, ...] = ()
    """The same of those that update the record by the late observation as well."""


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

    def __init__(self, kept: Sequence[Kept]) -> None:
        numbers = np.zeros(sum(view.size for part in kept for view in part.now))
        begin, visits = 0, []
        self.parts: list[np.ndarray] = []
        self._now: list[tuple[np.ndarray, np.ndarray]] = []
        """(record, workspace)"""
        self._then: list[list[tuple[np.ndarray, np.ndarray]]] = []
        """By part: (workspace, record)."""
        for part in kept:
            address, first = numbers.ctypes.data + 8 * begin, begin
            kernels = zip(part.read, part.change, strict=True)
            visits += [make_visit(address, part.visited, *pair) for pair in kernels]
            self._then.append([])
            for now, then in zip(part.now, part.then, strict=True):
                kept_of = numbers[begin : begin + now.size].reshape(now.shape)
                self._now.append((kept_of, now))
                self._then[-1].append((then, kept_of))
                begin += now.size
            self.parts.append(numbers[first:begin])
        self.visits = np.array(visits, dtype=np.int64).reshape(-1, VISIT)
        self.each = [self.visits[k : k + 1] for k in range(len(visits))]
        self.events: list[_Record] = []
        """Of a step: the observations that have corrected it."""
        self.begin = 0
        """Of a step: the visit of its first observation."""

    def keep(self) -> None:
        """Take what the workspace has now."""
        for numbers, now in self._now:
            numbers[:] = now

    def restore(self, part: int) -> None:
        """Copy a part to where kernels read it."""
        for then, numbers in self._then[part]:
            then[:] = numbers


class History:
    """The last steps, each with what it was before and after its correction, and its observations."""

    def __init__(
        self,
        memory: float,
        workspace: np.ndarray,
        before: Sequence[Kept],
        after: Kept,
        event: Kept | None = None,
    ) -> None:
        """`memory`: how far back it reaches, s, at up to FASTEST steps per second.

        Kept are `before` and `after` a step's correction, the pose first; and of each observation `event`.
        """
        self._memory_ns = round(memory * 1e9)
        self._most = int(np.ceil(memory * FASTEST)) + 2
        self._before, self._after = before, [after]
        self._event = [] if event is None else [event]
        self._times: list[int] = []
        self._steps: list[_Record] = []
        self._afters: list[_Record] = []
        # What has been allocated is used again, so that nothing is while the filter runs.
        self._free: list[tuple[_Record, _Record]] = []
        self._free_events: list[_Record] = []
        self._count = 0
        """Observations that are kept."""
        self._corrected = False
        self._table = VisitTable(workspace)
        self._exchanged = range(1, len(before))
        self._present = _Record([Kept(part.now, part.now) for part in before])

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
        step, after = self._free.pop() if self._free else self._make_step()
        step.keep()
        after.keep()
        self._table.append(step.visits)
        step.begin = self._table.end
        times.append(t_ns)
        self._steps.append(step)
        self._afters.append(after)
        self._corrected = False

    def _make_step(self) -> tuple[_Record, _Record]:
        return _Record(self._before), _Record(self._after)

    def _drop(self) -> None:
        self._times.pop(0)
        step, after = self._steps.pop(0), self._afters.pop(0)
        self._free.append((step, after))
        self._count -= len(step.events)
        self._free_events += step.events
        step.events.clear()
        if self._steps:
            following = self._steps[0]
            self._table.drop_before(following.begin - len(following.visits))

    def correct(self) -> None:
        """Keep what the last step's correction has made."""
        self._afters[-1].keep()
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
        self._afters[after].restore(0)
        self._steps[n].restore(0)
        return Moment(share, times[n] - t_ns, None if n == last else n)

    # -- late observations ---------------------------------------------------------------------------------

    def note(self, components: int) -> None:
        """Keep the observation that corrects the last step."""
        event = self._make_event()
        self._steps[-1].events.append(event)
        self._table.append(event.each[components - 1])

    def _make_event(self) -> _Record:
        event = self._free_events.pop() if self._free_events else _Record(self._event)
        event.keep()
        self._count += 1
        return event

    def restore(self, step: int) -> None:
        """Put the state before a step's correction in the place of the present one, until `restore_present`."""
        self._present.keep()
        for part in self._exchanged:
            self._steps[step].restore(part)

    def restore_present(self) -> None:
        """Undo `restore`."""
        for part in self._exchanged:
            self._present.restore(part)

    def follow(self, step: int) -> None:
        """Bring a late observation from before a step's correction to the present."""
        self._table.read(self._steps[step].begin)

    def enter(self, step: int, components: int) -> None:
        """Keep the late observation as the first one of a step, and update by it what has been kept since."""
        event, record = self._make_event(), self._steps[step]
        record.events.insert(0, event)
        self._table.insert(record.begin, event.each[components - 1])
        for later in self._steps[step + 1 :]:
            later.begin += 1
        self._present.keep()
        self._table.change(record.begin + 1)
        self.restore_present()

    def parts_of_steps(self, part: int) -> Iterator[np.ndarray]:
        """Of each step what is kept of a part of `before`, by its number; to be changed in place."""
        return (step.parts[part] for step in self._steps)

    def parts_of_events(self) -> Iterator[np.ndarray]:
        """The same of each observation."""
        return (event.parts[0] for step in self._steps for event in step.events)

    def parts_after(self) -> Iterator[np.ndarray]:
        """The same of what was after each step's correction."""
        return (after.parts[0] for after in self._afters)
