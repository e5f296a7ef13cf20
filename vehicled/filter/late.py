"""Late observations: evaluated at the present with all that has been observed since, and entered into the past.

`late_kernels.py` has the mathematics, `history.py` what is kept of the past.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from vehicled.filter.covariance import Covariance, Workspace
from vehicled.filter.history import History, Kept
from vehicled.filter.late_kernels import EVENT, OBSERVED, UPDATED, LateKernels
from vehicled.filter.late_script import LateScript
from vehicled.symbolic.kept_records import KeptRecord
from vehicled.symbolic.past_moments import MomentPlaces
from vehicled.symbolic.program import KernelHandle, Span

_LONGEST_LEAD = 0.2
"""s: motion is extrapolated no further ahead."""
POSE, TRANSITION, COVARIANCE, ESTIMATES = range(4)
"""Numbers of the first parts of the record before a step's correction."""


class LateWorkspace(Workspace, Protocol):
    """A running model that the kernels have been added to."""

    workspace: np.ndarray

    def span(self, first: str, last: str) -> tuple[Span, ...]:
        """Spans of the arrays from one to another, and of their tangents if there are any. Raises KeyError."""

    def address(self, kernel: KernelHandle) -> int:
        """Address of a kernel's machine code."""


def keep_arrays(
    workspace: LateWorkspace,
    kernels: LateKernels,
    pose: Sequence[str],
    others: Sequence[tuple[str, str]],
    corrected: Sequence[str] = (),
) -> tuple[list[Kept], Kept, list[Kept]]:
    """Parts that a history keeps before and after a step's correction, and of observations.

    The parts of observations are by number of components less one.

    `pose`: adjacent arrays; past ones are restored to the arrays `before.0` … and `after.0` …. `others`:
    first and last of adjacent arrays that observations read and that change from step to step. The first pair
    has the slow states. `corrected`: arrays kept after a correction only, and restored to `after.…`.
    """
    span, tangent = workspace.span, workspace.tangent
    components = len(kernels.updates)

    def view(*arrays: str) -> tuple[np.ndarray, ...]:
        return tuple(workspace.workspace[s.slice] for s in span(arrays[0], arrays[-1]))

    def view_components(names: Sequence[str], m: int) -> tuple[np.ndarray, ...]:
        arrays = [f(name) for f in (workspace.view, tangent) for name in names]
        return tuple(array[: len(array) * m // components] for array in arrays if array.size)

    def view_past(when: str) -> tuple[np.ndarray, ...]:
        names = [f"{when}.{k}" for k in range(len(pose))]
        tangents = [
            tangent(there).reshape(tangent(here).shape) for here, there in zip(pose, names, strict=True)
        ]
        return view(*names)[0], *(d for d in tangents if d.size)

    now = view(*pose)[0], *(tangent(name) for name in pose if tangent(name).size)
    made = [each for name in corrected for each in view(name, name)]
    kept = [each for name in corrected for each in view(f"after.{name}", f"after.{name}")]

    def find(kernels: Iterable[KernelHandle]) -> list[int]:
        return [workspace.address(kernel) for kernel in kernels]

    by_size = kernels.updates
    propagate, correct = find(late.propagate for late in by_size), find(late.correct for late in by_size)
    transition, covariance = view("transition"), view("covariance", "x")
    before = [
        Kept(now, view_past("before")),
        Kept(transition, transition, propagate * 2, changes=False),
        Kept(covariance, covariance, [0] * components + correct),
        *(Kept(view(*arrays), view(*arrays)) for arrays in others),
    ]
    events = []
    for m in range(components):
        follow, amend = find(late.follow[m] for late in by_size), find(late.amend[m] for late in by_size)
        arrays = view_components(UPDATED, m + 1), view_components(EVENT, m + 1)
        events.append(Kept(*arrays, follow + amend))
    return before, Kept((*now, *made), (*view_past("after"), *kept)), events


def place_moment(workspace: LateWorkspace, past_pose: KernelHandle) -> MomentPlaces:
    """Places that the time of a past pose is written to, and the kernel of the pose."""
    begin, names = workspace.workspace.ctypes.data, ("age", "lead", "latency", "share")
    age, lead, latency, share = ((workspace.view(n).ctypes.data - begin) // 8 for n in names)
    return MomentPlaces(age, lead, latency, share, workspace.address(past_pose), _LONGEST_LEAD)


class LateObservations:
    """Evaluates late observations of one filter, and updates with them."""

    def __init__(
        self,
        workspace: LateWorkspace,
        kernels: LateKernels,
        errors: Covariance,
        history: History,
        pose: Sequence[str],
        estimates: str,
    ) -> None:
        """`pose`: its arrays, which are adjacent.

        `estimates`: array of the slow states, which the simulation does not have; they are the last states.
        """
        self._pose, self._name = pose, estimates
        self._errors, self._history = errors, history
        self._evaluated = 0, 0
        """Step of the last evaluated observation, and the kernel that evaluates it."""
        self._workspace = workspace
        self._limit = workspace.view("limit")
        views = [workspace.workspace[s.slice] for name in OBSERVED for s in workspace.span(name, name)]
        at_step = KeptRecord(workspace.workspace, views)
        given = workspace.workspace, history.gate, (history.present, at_step), kernels, workspace.address
        self._scripts = [LateScript(*given, m) for m in range(1, len(kernels.updates) + 1)]
        """By number of components less one."""
        self._rows, self._columns = np.array(kernels.places, dtype=np.intp).reshape(-1, 2).T
        self._estimates = workspace.view(estimates), workspace.tangent(estimates)
        self._first_estimate = errors.size - len(self._estimates[0])

    def observe(self, step: int, kernel: int, components: int) -> bool:
        """Evaluate an observation of the time just before a step; update with it if its NIS is within the limit.

        `kernel`: address of the kernel that evaluates it, at the state of that step. Returns whether it is
        within.
        """
        if self._errors.tape is None:
            script = self._locate(step, kernel, components)
            return self._history.enter(step, components, script.observe)
        self.evaluate(step, kernel, components)
        is_within: bool = self._errors.nis.item() < self._limit.item()
        if is_within:
            self.update(components)
        return is_within

    def evaluate(self, step: int, kernel: int, components: int) -> None:
        """Evaluate it only; innovation, S, NIS and gain are then those at the present."""
        self._locate(step, kernel, components).evaluate()

    def update(self, components: int) -> None:
        """Update P and x with the observation evaluated last, and enter it into the past."""
        script = self._locate(*self._evaluated, components)
        self._history.enter(self._evaluated[0], components, script.enter)
        self._errors.update_late(components)

    def _locate(self, step: int, kernel: int, components: int) -> LateScript:
        self._evaluated, script = (step, kernel), self._scripts[components - 1]
        script.give(self._history.locate(step), kernel)
        return script

    def note(self, components: int) -> None:
        """Record the observation evaluated last, which corrects the present."""
        self._history.note(components)

    def forget(self, i: int, variance: float) -> None:
        """Reset state i: it keeps its estimate, and gets that variance and no correlation with any other state.

        This is done at all recorded times: late observations update it as if it had never been another state.
        """
        place, errors, history = self._find_places, self._errors, self._history
        with_others = place(("covariance", "x"), "covariance", errors.find_touched(i))
        where = np.concatenate([with_others, place(("covariance", "x"), "x", [i])])
        values = np.zeros(len(where))
        values[i] = variance
        for part in history.parts_of_steps(COVARIANCE):
            part[:, where] = values
        # Transitions then neither lead from its old value to other states, nor from these to it.
        touched = np.flatnonzero((self._rows == i) | (self._columns == i))
        where = place(("transition", "transition"), "transition", touched)
        values = np.zeros(len(where))
        values[: len(touched)] = self._rows[touched] == self._columns[touched]
        for part in history.parts_of_steps(TRANSITION):
            part[:, where] = values
        if i >= self._first_estimate:
            k, (estimates, tangents) = i - self._first_estimate, self._estimates
            where = place((self._name, self._name), self._name, [k])
            values = np.concatenate([estimates[k : k + 1], tangents[k]])
            for part in history.parts_of_steps(ESTIMATES):
                part[:, where] = values
        of_events = [self._find_in_event(i, m) for m in range(1, len(errors.noise) + 1)]
        for m, records in history.records_of_events():
            records[:, of_events[m - 1]] = 0.0

    def _find_in_event(self, i: int, m: int) -> np.ndarray:
        """Indices of h_i and (P hᵀ)_i in the record of an observation of m components, and of their tangents."""
        n, directions = self._errors.size, self._workspace.tangent(EVENT[0]).shape[-1]
        numbers = np.arange(2 * m) * n + i
        begin = 2 * m * (n + 1)
        tangents = begin + numbers[:, None] * directions + np.arange(directions)
        return np.concatenate([numbers, tangents.ravel()])

    def move(self, array: str, i: int, change: float, d_change: np.ndarray) -> None:
        """Change number i of an array of the pose at all recorded times, as the present one has been changed."""
        values = self._workspace.span(self._pose[0], self._pose[-1])[0]
        own = self._workspace.span(array, array)[0]
        others = self._pose[: self._pose.index(array)]
        begin = values.size + sum(self._workspace.tangent(name).size for name in others)
        directions = len(d_change)
        where = [own.place - values.place + i, *range(begin + i * directions, begin + (i + 1) * directions)]
        by = np.concatenate([[change], d_change])
        for parts in (self._history.parts_of_steps(POSE), self._history.parts_after()):
            for part in parts:
                part[:, where] += by

    def _find_places(
        self, arrays: tuple[str, str], name: str, numbers: Sequence[int] | np.ndarray
    ) -> np.ndarray:
        """Indices of numbers of an array, then of their tangents, in the record of arrays from one to another."""
        spans, own = self._workspace.span(*arrays), self._workspace.span(name, name)
        numbers = np.asarray(numbers, dtype=np.intp)
        found = [own[0].place - spans[0].place + numbers]
        if len(spans) > 1:
            tangent = self._workspace.tangent(name)
            begin = spans[0].size + own[1].place - spans[1].place
            stride = tangent.strides[0] // tangent.itemsize
            found.append((begin + numbers[:, None] * stride + np.arange(tangent.shape[-1])).ravel())
        return np.concatenate(found)
