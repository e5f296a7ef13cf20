"""Roads that turn the car: banks of a track, ramps, hairpins, kerbs under one side, by gyroscopes.

The model drives on a plane, and springs hold its body near that. Where the attitude that gyroscopes add up to differs
from the estimated one, other springs than the model's make a few degrees of it; what is beyond, the road has turned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vehicled.filter.boundary import ObservedFilter
from vehicled.vehicle.arrays import AHEAD, V1Z, V2Z

_MOST = 0.06
"""rad, by which the body may lean on its springs beside the model."""
_TIME = 5.0
"""s, over which such a lean, and what the bias of a gyroscope makes of it, is forgotten."""
_CURVED, _CURVING_TIME = 0.03, 1.0
"""rad/s, and s over which that is averaged: slower turns of the road's slope are none, those twice as fast are
wholly. A car that brakes dives for a shorter time."""
_SETTLED = 3.0
"""s, within which an attitude that has begun as level may become any other one."""
_SLOWEST = 2.0
"""m/s: a car that stands sways on its tyres, and no road turns it."""
_INTERVAL, _LONGEST = 0.01, 0.2
"""s between samples that are used, and beyond which they are not continuous."""


class RoadRotation:
    """Adds up what gyroscopes measure beside the estimate, and turns the road by what springs cannot have done."""

    def __init__(self, filter: ObservedFilter) -> None:
        self._filter = filter
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self._t, self._running, self._curving = -math.inf, 0.0, 0.0
        self._filter.road_lift[0] = 0.0
        self._estimated = self._lean = 0.0, 0.0
        """Upward ends of the axes ahead and to the left at that time: of the estimate, and by how much more they have
        risen by the gyroscopes."""

    @property
    def lean(self) -> tuple[float, float]:
        """rad, by how much more than in the estimate the axes ahead and to the left have risen by the gyroscopes."""
        return self._lean

    def is_due(self, t: float) -> bool:
        """Whether rates at t (s) are of use: those that follow the last ones closely are not."""
        return not 0.0 <= t - self._t < _INTERVAL

    def take(self, t: float, rates: Sequence[float]) -> None:
        """Rates at t (s), which are due, without bias, rad/s in vehicle axes."""
        since = t - self._t
        read = self._filter.pose.item
        estimated = ahead, left = read(V1Z), read(V2Z)
        before, self._estimated, self._t = self._estimated, estimated, t
        if not 0.0 < since < _LONGEST:
            return
        self._running += since
        wx, wy, wz = rates
        up = math.sqrt(max(1.0 - ahead * ahead - left * left, 0.0))
        turned = wz * left - wy * up, wx * up - wz * ahead
        self._curving += since / _CURVING_TIME * (-wy - self._curving)
        share = min(max(abs(self._curving) / _CURVED - 1.0, 0.0), 1.0)
        self._filter.road_lift[0] = share * self._curving * read(AHEAD)
        if self._running < _SETTLED or abs(read(AHEAD)) < _SLOWEST:
            self._lean = 0.0, 0.0
            return
        lean = [
            lean + since * (rate - lean / _TIME) - (now - then)
            for lean, rate, now, then in zip(self._lean, turned, estimated, before, strict=True)
        ]
        (slope, bank), self._lean = lean, (_limit(lean[0]), _limit(lean[1]))
        slope, bank = slope - self._lean[0], bank - self._lean[1]
        if slope or bank:
            self._filter.tilt_road(slope, bank)
            self._estimated = ahead + slope, left + bank


def _limit(angle: float) -> float:
    return min(max(angle, -_MOST), _MOST)
