"""Yaw rates by all sensors that show one, over short intervals of the time of measurement.

Of each interval the median of each gyroscope's samples counts, so that single wild samples do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import NamedTuple

from vehicled.messages import Measurement
from vehicled.sources.by_channels import ByChannels
from vehicled.sources.checks.yaw_channels import YawChannels
from vehicled.sources.imu.imu import GYROSCOPES, Imu
from vehicled.sources.yaw_rate import CHANNEL, YawRate
from vehicled.vehicle.parameters import Vehicle

BLOCK = 0.05
"""s: length of an interval."""
_BLOCK_NS = round(BLOCK * 1e9)
_WAIT = 4
"""Intervals after which samples of a sensor are no longer waited for."""
_LONGEST = 0.2
"""s: longest time between rotation rates of a wheel that are integrated."""


class YawRates(NamedTuple):
    """Yaw rates of an interval, rad/s, to the left positive; None where not measured."""

    gyro: float | None
    own: float | None
    """By the car's own sensor."""
    course: float | None
    """By lateral acceleration over speed."""
    steering: float | None
    wheels: float | None
    """Angle by the ways of the wheels of an axle, rad: it is its change that counts."""


class _Open:
    """Samples of an interval that has not ended."""

    __slots__ = ("gyro", "left", "own", "steering", "wheels")

    def __init__(self) -> None:
        self.gyro: list[float] = []
        self.own: list[float] = []
        self.left: list[float] = []
        """Lateral accelerations, m/s²."""
        self.steering: float | None = None
        self.wheels: float | None = None


class RateBlocks:
    """Gathers samples into intervals."""

    def __init__(self, imu: Imu, own: YawRate, vehicle: Vehicle) -> None:
        self._channels = YawChannels(vehicle)
        place = vehicle.axle(self._channels.wheel)
        self._per_angle = place.tyre.radius / (2.0 * place.hard_points.wheel_center[1])
        self._parts = ByChannels(partial(self._channels.find, imu))
        self._late_imu, self._late_own = (round(s.latency * 1e9) for s in (imu, own))
        self.watched = frozenset((CHANNEL, *GYROSCOPES, *self._channels.others))
        """Channels that it reads."""
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._open: dict[int, _Open] = {}
        self._newest_gyro = self._newest_own = self._next = 0
        """Numbers of the latest intervals with samples, and of the next one that is to be given."""
        self._angles: list[float | None] = [None, None]
        self._angles_at = [0.0, 0.0]

    def take(self, m: Measurement, ahead: float, steering: float | None) -> Sequence[YawRates]:
        """Take a measurement; returns the intervals that it ends, in their order.

        `ahead`: speed, m/s; `steering`: yaw rate by the steering angle, rad/s, None where not measured.
        """
        wheels, lateral, turn = self._parts[tuple(m.values)]
        has_own = CHANNEL in m.values
        values, t_ns = m.values, m.t - self._late_imu
        if wheels:
            self._take_wheels(m, wheels)
        if turn or lateral:
            block = self._find_block(t_ns)
            if lateral:
                block.left.append(sum(share * values[c] for c, share in lateral))
            if turn:
                block.gyro.append(sum(share * values[c] for c, share in turn))
                block.steering = steering
                self._newest_gyro = max(self._newest_gyro, t_ns // _BLOCK_NS)
        if has_own:
            t_ns = m.t - self._late_own
            block = self._find_block(t_ns)
            block.own.append(values[CHANNEL])
            block.steering = steering
            self._newest_own = max(self._newest_own, t_ns // _BLOCK_NS)
        if not (turn or has_own):
            return ()
        end = max(min(self._newest_gyro, self._newest_own), max(self._newest_gyro, self._newest_own) - _WAIT)
        return () if end <= self._next else list(self._finish(end, ahead))

    def _find_block(self, t_ns: int) -> _Open:
        """The interval of a time; one that has ended takes no more samples."""
        number = t_ns // _BLOCK_NS
        if number < self._next:
            return _Open()
        block = self._open.get(number)
        if block is None:
            block = self._open[number] = _Open()
            block.wheels = self._find_turned()
        return block

    def _take_wheels(self, m: Measurement, wheels: Sequence[tuple[int, str]]) -> None:
        t = m.t * 1e-9
        for n, channel in wheels:
            value = m.values[channel]
            if channel == self._channels.wheels[n][1]:
                dt = t - self._angles_at[n]
                value = (self._angles[n] or 0.0) + (value * dt if 0.0 < dt < _LONGEST else 0.0)
            self._angles[n], self._angles_at[n] = value, t

    def _find_turned(self) -> float | None:
        """Angle by the wheels, rad, as far as they are measured now."""
        left, right = self._angles
        return None if left is None or right is None else self._per_angle * (right - left)

    def _finish(self, end: int, ahead: float) -> Iterator[YawRates]:
        """Give the intervals up to the number `end`; one without samples in place of any number of these."""
        first, self._next = self._next, end
        ended = sorted(number for number in self._open if number < end)
        if not ended or ended[0] > first > 0:
            yield YawRates(None, None, None, None, None)
        for number in ended:
            block = self._open.pop(number)
            yield YawRates(
                median(block.gyro) if block.gyro else None,
                median(block.own) if block.own else None,
                sum(block.left) / (len(block.left) * ahead) if block.left and ahead else None,
                block.steering,
                block.wheels,
            )
