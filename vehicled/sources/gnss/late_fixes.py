"""Latencies of fixes that an observation does not correct, and the place that goes with them (`considered.py`).

While a car drives on, fixes are the same for a latency and for a place that errs by the speed times it. Corrected
without the latency, the place would leave its fixes, by several times what they err by. At lower speeds, fixes
correct both at once, which takes back what other observations have moved one of them by.
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
"""m/s: from there to twice that, positions in bends show less and less of a latency."""


def calc_fast(model: ErrorModel) -> Atom:
    """Whether the car is so fast that positions in bends show no latency any more: 0 to 1.

    A sideslip that is wrong in proportion to the lateral acceleration moves the car aside as a latency does which
    grows with the speed.
    """
    return calc_share(model.g, model.pose[AHEAD], _FAST)


def consider_latencies(
    model: ErrorModel, share: Atom, carried: Atom, velocity: Iterable[Atom], others: Iterable[int] = ()
) -> Considered:
    """A share of the latencies of all receivers' fixes is considered, and of other states, given by their places.

    `carried`: of that, the share that the place goes with; `velocity`: of the car or an antenna, m/s in world axes.
    """
    states = model.states
    late = [i for group in states.groups if group.carries_place for i in states.places(group)]
    shares = dict.fromkeys([*late, *others], share)
    if not late:
        return Considered(shares)
    # The place is where all receivers agree on it.
    each = carried * (1.0 / len(late))
    changes = zip(states.places(POSITION), velocity, strict=True)
    return Considered(shares, {i: (late, each * v) for i, v in changes})
