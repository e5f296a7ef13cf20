"""Shifts of the heading of two antennas against the estimate: wrong ambiguities turn their baseline by degrees.

The gate takes single outliers for chance, and uses those of a few standard deviations with less weight. Fifty of them
per second, all to one side, would turn the estimate within seconds. A car does not turn without its gyroscopes: if
they are sound, a heading that stays beside the estimate shows another angle of the baseline.

The test is Page's cumulative sum, which finds a shift the sooner, the larger it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vehicled.vehicle.arrays import YAW_RATE

if TYPE_CHECKING:
    from vehicled.filter.boundary import ObservedFilter
    from vehicled.sources.gnss.model import ReceiverErrors
    from vehicled.sources.updates import MeasurementUpdates

_TOLERATED = 1.0
"""Standard deviations of one heading: shifts up to that are not found, and do little harm."""
_BOUND = 10.0
"""Of the sum, standard deviations. White noise reaches it once in exp(2 · 1 · 10) = 5·10⁸ headings."""
_MOST = 4.0
"""Standard deviations that one heading counts at most: four in a row show a shift, one outlier in four does not."""
_LONGEST_NS = 1_200_000_000
"""Longest time between two headings that are compared; the slowest receivers measure once a second."""


class _Side:
    """Sum of the deviations to one side."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._sum, self._whole, self._count = 0.0, 0.0, 0

    def take(self, deviation: float, sigma: float) -> float:
        """Take a deviation, positive to this side, rad: the mean since it lasts if it is a shift, else 0."""
        self._sum += min(deviation / sigma, _MOST) - _TOLERATED
        if self._sum <= 0.0:
            self.clear()
            return 0.0
        self._whole += deviation
        self._count += 1
        return self._whole / self._count if self._sum > _BOUND else 0.0


class HeadingShifts:
    """Compares headings with the estimate."""

    def __init__(self) -> None:
        self._sides = _Side(), _Side()
        self._last_ns = 0

    def reset(self) -> None:
        """Restart with the filter."""
        for side in self._sides:
            side.clear()

    def look(self, filter: ObservedFilter, updates: MeasurementUpdates, receiver: ReceiverErrors) -> None:
        """Look at the heading that the filter has been offered last: if it shifts, find the baseline anew."""
        record = updates.records[-1]
        if not (record.innovation and updates.is_imu_sound):
            return
        # The age of the heading is known no better than that of the fix.
        turned = filter.get_variance(receiver.latency) * filter.pose.item(YAW_RATE) ** 2
        shift = self.take(record.t, record.innovation[0], math.sqrt(record.variance[0] + turned))
        if shift:
            filter.add_variance(receiver.baseline, "", shift**2)
            updates.health[record.sensor].bias_changed_ns = updates.step_ns

    def take(self, t_ns: int, deviation: float, sigma: float) -> float:
        """Take the deviation of a heading from its estimate, and the σ expected of it, rad.

        Returns the shift, rad without sign, if this heading is the one that shows it; else 0.
        """
        if not 0 < t_ns - self._last_ns < _LONGEST_NS:
            self.reset()
        self._last_ns = t_ns
        left, right = self._sides
        shift = max(left.take(deviation, sigma), right.take(-deviation, sigma))
        if shift:
            self.reset()
        return shift
