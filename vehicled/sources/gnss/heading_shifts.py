"""Shifts of the heading of two antennas against the estimate: wrong ambiguities turn their baseline by degrees.

A car does not turn without its gyroscopes: if they are sound, a heading that stays beside the estimate shows another
angle of the baseline or, while the car turns, another age of the heading.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vehicled.sources.gnss.model import LATEST_HEADING
from vehicled.sources.shifts import Shifts
from vehicled.vehicle.arrays import YAW_RATE

if TYPE_CHECKING:
    from vehicled.filter.boundary import ObservedFilter
    from vehicled.sources.gnss.model import ReceiverErrors
    from vehicled.sources.updates import MeasurementUpdates

_SLOW_TURN = 0.05
"""rad/s: a slower turn shows no age."""


class HeadingShifts(Shifts):
    """Compares headings with the estimate."""

    def look(self, filter: ObservedFilter, updates: MeasurementUpdates, receiver: ReceiverErrors) -> None:
        """Look at the heading that the filter has been offered last: if it shifts, find baseline and age anew."""
        record = updates.records[-1]
        if not (record.innovation and updates.is_imu_sound):
            return
        ages = [group for group in (receiver.latency, receiver.heading_latency) if group in filter.states]
        turning = abs(filter.pose.item(YAW_RATE))
        turned = turning * turning * sum(map(filter.get_variance, ages))
        shift = self.take(record.t, record.innovation[0], math.sqrt(record.variance[0] + turned))
        if shift:
            filter.add_variance(receiver.baseline, "", shift**2)
            if receiver.heading_latency in ages:
                older = min(shift / max(turning, _SLOW_TURN), LATEST_HEADING)
                filter.add_variance(receiver.heading_latency, "", older**2)
            updates.health[record.sensor].bias_changed_ns = updates.step_ns
