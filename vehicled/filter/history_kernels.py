"""What a history computes: the pose between two steps, the corrections since, and the sums that these follow from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vehicled.symbolic.program import KernelHandle, Program

if TYPE_CHECKING:
    from vehicled.symbolic.graph import Atom


@dataclass(frozen=True)
class HistoryKernels:
    """Of the arrays that `add_history` adds."""

    past_pose: KernelHandle
    """The pose at a moment and the corrections since, of `before`, `after`, `sums_then`, `share` and `elapsed`."""
    sum_corrections: KernelHandle
    """Add the correction `moved`, of the time `corrected_at`, to `sums`."""


def add_sums(program: Program, pairs: int, more: int) -> list[Atom]:
    """Array `sums`: of δz − s d, of d, of δż and of `more` corrections that move no z, for `pairs` of (z, ż)."""
    return program.array("sums", 3 * pairs + more)


def add_history(
    program: Program, pose: Sequence[Sequence[Atom]], since: Sequence[Atom], pairs: int
) -> HistoryKernels:
    """Arrays and kernels of a history, after `add_sums`.

    `pose`: symbols of the arrays that a past pose is put into; `since`: (2 · pairs + more,) that for the corrections
    (Δz, Δż, more) since then.

    Adds the arrays `before.0`, `before.1` … and `sums_then`, which lie one after the other, and `after.0` …: past
    poses as kept; and `moved` (3 · pairs + more,), a correction of z, the drift that it makes, that of ż, and more.
    """
    sums = program.arrays["sums"]
    before = [program.array(f"before.{k}", len(part)) for k, part in enumerate(pose)]
    sums_then = program.array("sums_then", len(sums))
    after = [program.array(f"after.{k}", len(part)) for k, part in enumerate(pose)]
    (share,), (elapsed,) = program.array("share", 1), program.array("elapsed", 1)
    (corrected_at,) = program.array("corrected_at", 1)
    moved = program.array("moved", len(sums))
    stores = [
        (target, a + share * (b - a))
        for targets, ones, others in zip(pose, before, after, strict=True)
        for target, b, a in zip(targets, ones, others, strict=True)
    ]
    made = [now - then for now, then in zip(sums, sums_then, strict=True)]
    displaced, drift, rest = made[:pairs], made[pairs : 2 * pairs], made[2 * pairs :]
    corrections = [z + elapsed * d for z, d in zip(displaced, drift, strict=True)] + rest
    stores += zip(since, corrections, strict=True)
    added = list(moved)
    for k in range(pairs):
        added[k] = moved[k] - corrected_at * moved[pairs + k]
    return HistoryKernels(
        program.kernel("past_pose", stores),
        program.kernel("sum_corrections", [(s, s + a) for s, a in zip(sums, added, strict=True)]),
    )
