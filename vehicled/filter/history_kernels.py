"""Kernels of a history: the pose between two steps, and the effect of the last step's corrections on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vehicled.symbolic.program import KernelHandle, Program

if TYPE_CHECKING:
    from vehicled.symbolic.graph import Atom


@dataclass(frozen=True)
class HistoryKernels:
    """Kernels on the arrays that `add_history` adds."""

    past_pose: KernelHandle
    """Calculate a past pose and the corrections since, from `before`, `after`, `share`, `age` and `sums`."""
    sum_corrections: KernelHandle
    """Add the correction `moved` to `sums`."""
    clear: KernelHandle
    """Set `sums` and `forces` to zero, as nothing has been corrected yet."""


def add_history(
    program: Program, pose: Sequence[Sequence[Atom]], since: Sequence[Atom], pairs: int, age: Atom
) -> HistoryKernels:
    """Arrays and kernels of a history.

    `pose`: symbols of the arrays that a past pose is written to; `since`: (2 · pairs + more,) those for the
    corrections, made in the last step so far, of `pairs` of (z, ż) and of more states, for an observation at
    or just before that step; `age`: time from the observation to the step, s.

    Adds the arrays `before.0`, `before.1` … and `after.0` …: past poses as kept, with `after.forces` (more,); `moved`
    (3 · pairs + more,): a correction of z, the drift that it causes, that of ż, and of more states; and `sums`
    (3 · pairs,) and `forces` (more,): the sum of these in the last step; and `lacking` (more,): what a past pose does
    not have of the correction of these states in the step before it. Its accelerations lie between those before that
    correction, and those after it.
    """
    (share,) = program.array("share", 1)
    more = len(since) - 2 * pairs
    before = [program.array(f"before.{k}", len(part)) for k, part in enumerate(pose)]
    after = [program.array(f"after.{k}", len(part)) for k, part in enumerate(pose)]
    of_after, lacking = program.array("after.forces", more), program.array("lacking", more)
    sums, forces = program.array("sums", 3 * pairs), program.array("forces", more)
    moved = program.array("moved", len(sums) + more)
    stores = [
        (target, a + share * (b - a))
        for targets, ones, others in zip(pose, before, after, strict=True)
        for target, b, a in zip(targets, ones, others, strict=True)
    ]
    displaced, drift, rates = sums[:pairs], sums[pairs : 2 * pairs], sums[2 * pairs :]
    corrections = [*(z - age * d for z, d in zip(displaced, drift, strict=True)), *rates, *forces]
    stores += zip(since, corrections, strict=True)
    stores += [(place, (1.0 - share) * force) for place, force in zip(lacking, of_after, strict=True)]
    every = [*sums, *forces]
    return HistoryKernels(
        program.kernel("past_pose", stores),
        program.kernel("sum_corrections", [(s, s + m) for s, m in zip(every, moved, strict=True)]),
        program.kernel("clear_corrections", [(s, program.graph.zero) for s in every]),
    )
