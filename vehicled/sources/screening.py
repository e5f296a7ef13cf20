"""What no filter should see: values that cannot be, that only repeat the last one, or that other sensors deny."""

from __future__ import annotations

from vehicled.messages import Measurement
from vehicled.sources.imu import GYROSCOPES
from vehicled.sources.limits import without_absurd
from vehicled.sources.sensors import Sensors, find_limits
from vehicled.sources.stuck import StuckChannels
from vehicled.sources.updates import MeasurementUpdates
from vehicled.sources.yaw_vote import YawVote
from vehicled.vehicle.parameters import Vehicle

REASONS = ("absurd", "stuck", "denied")


class Screening:
    """Removes such values from measurements, each with a record that has the reason."""

    def __init__(self, sensors: Sensors, vehicle: Vehicle) -> None:
        self._limits, self._stuck = find_limits(), StuckChannels()
        self._vote = YawVote(sensors.imu, vehicle)
        self.removed = dict.fromkeys(REASONS, 0)
        """How many values, by reason."""

    def reset(self) -> None:
        """The filter begins anew: nothing has been measured yet."""
        self._stuck.reset()
        self._vote.reset()

    def remove(
        self, m: Measurement, ahead: float, steering: float | None, updates: MeasurementUpdates
    ) -> Measurement:
        """The rest of a measurement. `ahead`: speed, m/s; `steering`: yaw rate by the steering angle, rad/s."""
        m, absurd = without_absurd(m, self._limits, updates)
        m, stuck = self._stuck.remove(m, ahead, updates)
        denied = 0
        if not self._vote.take(m, ahead, steering):
            m, denied = _without_gyroscopes(m, updates)
        for reason, count in zip(REASONS, (absurd, stuck, denied), strict=True):
            if count:
                self.removed[reason] += count
        return m


def _without_gyroscopes(m: Measurement, updates: MeasurementUpdates) -> tuple[Measurement, int]:
    found = [c for c in GYROSCOPES if c in m.values]
    if not found:
        return m, 0
    for channel in found:
        updates.record(m, channel, [m.values[channel]], "denied")
    good = {c: v for c, v in m.values.items() if c not in found}
    return Measurement(m.source, m.t, m.arrival, good), len(found)
