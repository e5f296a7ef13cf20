"""Shifts of the heading of two antennas against the estimate: wrong ambiguities turn their baseline by degrees.

A car does not turn without its gyroscopes: if they are sound, a heading that stays beside the estimate shows another
angle of the baseline.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vehicled.sources.shifts import Shifts
from vehicled.vehicle.arrays import YAW_RATE

if TYPE_CHECKING:
    from vehicled.filter.boundary import ObservedFilter
    from vehicled.sources.gnss.model import ReceiverErrors
    from vehicled.sources.updates import MeasurementUpdates


class HeadingShifts(Shifts):
    """Compares headings with the estimate."""

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
