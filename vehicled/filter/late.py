"""Late observations: evaluated with all that has been observed since, and entered into the past.

The mathematics is in `late_kernels.py`, what has been in `history.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from vehicled.filter.covariance import MISSING, Covariance, Workspace
from vehicled.filter.history import History, Kept
from vehicled.filter.late_kernels import EVENT, OBSERVED, LateKernels
from vehicled.symbolic.program import KernelHandle, Span

_BY_COMPONENT = ("crossed", "rows", "more_noise", "innovation")
POSE, TRANSITION, COVARIANCE, ESTIMATES = range(4)
"""Parts of what is kept before a step's correction."""


class LateWorkspace(Workspace, Protocol):
    """A running model that the kernels have been added to."""

    workspace: np.ndarray

    def span(self, first: str, last: str) -> tuple[Span, ...]:
        """Where the arrays from one to another lie, and their tangents if there are any. Raises KeyError."""

    def address(self, kernel: KernelHandle) -> int:
        """Of a kernel's machine code."""


def keep_arrays(
    workspace: LateWorkspace, kernels: LateKernels, pose: Sequence[str], others: Sequence[tuple[str, str]]
) -> tuple[list[Kept], Kept, Kept]:
    """What a history keeps before and after a step's correction, and of an observation.

    `pose`: arrays that lie one after the other; those of the past are the arrays `before.0` and so on, and `after.0`.
    `others`: further arrays that observations read and that change from one step to the next, from one to another of
    those that lie one after the other. The first are the states that are estimates of their own.
    """
    address, span, tangent = workspace.address, workspace.span, workspace.tangent

    def view(*arrays: str) -> tuple[np.ndarray, ...]:
        return tuple(workspace.workspace[s.slice] for s in span(arrays[0], arrays[-1]))

    def view_past(when: str) -> tuple[np.ndarray, ...]:
        names = [f"{when}.{k}" for k in range(len(pose))]
        tangents = [
            tangent(there).reshape(tangent(here).shape) for here, there in zip(pose, names, strict=True)
        ]
        return view(*names)[0], *(d for d in tangents if d.size)

    now = view(*pose)[0], *(tangent(name) for name in pose if tangent(name).size)
    carry, correct = address(kernels.carry), address(kernels.correct)
    transition, covariance = view("transition"), view("covariance", "x")
    before = [
        Kept(now, view_past("before")),
        Kept(transition, transition, span("transition", "transition"), (carry,), (carry,)),
        Kept(covariance, covariance, span("covariance", "x"), (0,), (correct,)),
        *(Kept(view(*arrays), view(*arrays)) for arrays in others),
    ]
    event = Kept(
        view("rows", "precision"),
        view(*EVENT),
        span(EVENT[0], EVENT[-1]),
        tuple(map(address, kernels.follow)),
        tuple(map(address, kernels.enter)),
    )
    return before, Kept(now, view_past("after")), event


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
        """`pose`: the arrays that make it, one after the other.

        `estimates`: array of the states that are no errors of the simulation; they are the last ones.
        """
        self._pose, self._name = pose, estimates
        self._errors, self._history = errors, history
        self._settle = workspace.bind(kernels.settle)
        self._step = 0
        """That of the observation evaluated last."""
        views = [workspace.workspace[s.slice] for name in OBSERVED for s in workspace.span(name, name)]
        self._begun = [(view, view.copy()) for view in views]
        """What is observed at that step, without what has been observed since."""
        components = len(errors.noise)
        both = [f(name) for name in _BY_COMPONENT for f in (workspace.view, workspace.tangent)]
        self._by_component = [view.reshape(components, -1) for view in both if view.size]
        self._expected, d_expected = workspace.view("expected"), workspace.tangent("expected")
        self._by_pair = [self._expected, *([d_expected] if d_expected.size else [])]
        self._workspace = workspace
        self._rows, self._columns = np.array(kernels.places, dtype=np.intp).reshape(-1, 2).T
        self._estimates = workspace.view(estimates), workspace.tangent(estimates)
        self._first_estimate = errors.size - len(self._estimates[0])

    def evaluate(self, step: int, observe: Callable[[], None], components: int) -> None:
        """Evaluate an observation of the time before a step: innovation, S, NIS and gain are those of the present.

        `observe` is the kernel that evaluates it with what the filter was then.
        """
        self._step, errors, m = step, self._errors, components
        self._history.bring(step)
        observe()
        self._history.bring_present()
        if m < len(errors.noise):
            # What it lacks of the largest observation was not measured.
            for view in self._by_component:
                view[m:] = 0.0
            for view in self._by_pair:
                view[m * (m + 1) // 2 :] = 0.0
            errors.noise[m:] = MISSING
        for view, begun in self._begun:
            begun[:] = view
        self._history.read(step)
        self._settle()

    def update(self, components: int) -> None:
        """Update P and x with the observation evaluated last, and enter it into the past."""
        for view, begun in self._begun:
            view[:] = begun
        self._settle()
        self._history.enter(self._step, components)
        self._settle()
        self._errors.update_late()

    def note(self, components: int) -> None:
        """Keep the observation that is about to correct the present, or that just has, and was evaluated last."""
        self._history.note(components)

    def forget(self, i: int, variance: float) -> None:
        """State i is another one from now on, with no correlation with any other, as `estimates` has it.

        To late observations it is as if it had been that all along: of the one that it has been they know nothing.
        """
        place, errors, history = self._find_places, self._errors, self._history
        with_others = place(("covariance", "x"), "covariance", errors.find_touched(i))
        where = np.concatenate([with_others, place(("covariance", "x"), "x", [i])])
        values = np.zeros(len(where))
        values[i] = variance
        for part in history.parts_of_steps(COVARIANCE):
            part[where] = values
        # What it was has made others, and others it.
        touched = np.flatnonzero((self._rows == i) | (self._columns == i))
        where = place(("transition", "transition"), "transition", touched)
        values = np.zeros(len(where))
        values[: len(touched)] = self._rows[touched] == self._columns[touched]
        for part in history.parts_of_steps(TRANSITION):
            part[where] = values
        if i >= self._first_estimate:
            k, (estimates, tangents) = i - self._first_estimate, self._estimates
            where = place((self._name, self._name), self._name, [k])
            values = np.concatenate([estimates[k : k + 1], tangents[k]])
            for part in history.parts_of_steps(ESTIMATES):
                part[where] = values
        of_event = np.arange(len(errors.noise)) * errors.size + i
        where = np.concatenate([place((EVENT[0], EVENT[-1]), name, of_event) for name in EVENT[:2]])
        for part in history.parts_of_events():
            part[where] = 0.0

    def move(self, array: str, i: int, change: float, d_change: np.ndarray) -> None:
        """Number i of an array of the pose was wrong all along, by a change that has been made of the present one."""
        values = self._workspace.span(self._pose[0], self._pose[-1])[0]
        own = self._workspace.span(array, array)[0]
        others = self._pose[: self._pose.index(array)]
        begin = values.size + sum(self._workspace.tangent(name).size for name in others)
        directions = len(d_change)
        where = [own.place - values.place + i, *range(begin + i * directions, begin + (i + 1) * directions)]
        by = np.concatenate([[change], d_change])
        for parts in (self._history.parts_of_steps(POSE), self._history.parts_after()):
            for part in parts:
                part[where] += by

    def _find_places(
        self, arrays: tuple[str, str], name: str, numbers: Sequence[int] | np.ndarray
    ) -> np.ndarray:
        """Where numbers of an array, and their tangents, are in what is kept of arrays from one to another."""
        spans, own = self._workspace.span(*arrays), self._workspace.span(name, name)
        numbers = np.asarray(numbers, dtype=np.intp)
        found = [own[0].place - spans[0].place + numbers]
        if len(spans) > 1:
            tangent = self._workspace.tangent(name)
            begin = spans[0].size + own[1].place - spans[1].place
            stride = tangent.strides[0] // tangent.itemsize
            found.append((begin + numbers[:, None] * stride + np.arange(tangent.shape[-1])).ravel())
        return np.concatenate(found)
