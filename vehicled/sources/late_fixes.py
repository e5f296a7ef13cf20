"""Latencies of fixes that an observation does not correct, and the place that goes with them (`considered.py`).

Of a car that drives on, a latency and a place that errs by the speed times it have the same fixes. Were the place
corrected without the latency, it would leave those fixes, by several times what they err by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from vehicled.filter.considered import Considered
from vehicled.filter.states import POSITION

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom


def consider_latencies(
    model: ErrorModel, share: Atom, velocity: Iterable[Atom], others: Iterable[int] = ()
) -> Considered:
    """A share of the latencies of all receivers' fixes is considered, and of other states, given by their places.

    `velocity`: of the car or an antenna, m/s in world axes.
    """
    states = model.states
    late = [i for group in states.groups if group.carries_place for i in states.places(group)]
    shares = dict.fromkeys([*late, *others], share)
    return Considered(shares, carry_place(model, late, [share * v for v in velocity]))


def carry_place(
    model: ErrorModel, late: Sequence[int], changes: Sequence[Atom]
) -> dict[int, tuple[Sequence[int], Atom]]:
    """The place, by what it changes by for each second of latency. It is where all receivers agree on it."""
    if not late:
        return {}
    each = 1.0 / len(late)
    return {
        i: (late, each * change) for i, change in zip(model.states.places(POSITION), changes, strict=True)
    }
