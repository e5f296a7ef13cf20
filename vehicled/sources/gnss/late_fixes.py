"""Latencies of fixes that an observation does not correct, and their effect on the place (`considered.py`).

While a car drives steadily, fixes cannot distinguish a latency from an error of the place by the speed times
the latency. If an observation corrected the place without the latency, the place would leave its fixes by
several times their error. At lower speeds, fixes correct both at once, which undoes the correction of one of
them by other observations.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vehicled.filter.considered import Considered
from vehicled.filter.factors import calc_share
from vehicled.filter.states import POSITION
from vehicled.vehicle.arrays import AHEAD

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom


_FAST = 15.0
"""m/s: from this speed to twice it, positions in bends show less and less of a latency."""


def calc_fast(model: ErrorModel) -> Atom:
    """Share, 0 to 1, by which the car is too fast for positions in bends to show a latency.

    A sideslip error in proportion to the lateral acceleration moves the car aside like a latency that grows
    with the speed.
    """
    return calc_share(model.g, model.pose[AHEAD], _FAST)


def consider_latencies(
    model: ErrorModel, share: Atom, carried: Atom, velocity: Iterable[Atom], others: Iterable[int] = ()
) -> Considered:
    """Consider a share of all receivers' fix latencies, and of `others`, states given by their places.

    `carried`: share of the latencies whose effect on the place is considered too; `velocity`: of the car or
    an antenna, m/s in world axes.
    """
    states = model.states
    late = [i for group in states.groups if group.carries_place for i in states.places(group)]
    shares = dict.fromkeys([*late, *others], share)
    if not late:
        return Considered(shares)
    # The place is right if all receivers agree on it: each has an equal part.
    each = carried * (1.0 / len(late))
    changes = zip(states.places(POSITION), velocity, strict=True)
    return Considered(shares, {i: (late, each * v) for i, v in changes})
