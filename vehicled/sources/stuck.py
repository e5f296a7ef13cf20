"""Sensors that repeat their last sample: what a device or a gateway sends on when it has no more to measure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from vehicled.messages import Measurement
from vehicled.sources.updates import MeasurementUpdates

_MOVING = 2.0
"""m/s: a car that is slower may really measure the same again."""


@dataclass(frozen=True)
class _Rule:
    """Channels that are stuck together: none of them has changed."""

    channels: tuple[str, ...]
    repetitions: int
    """Samples in a row that repeat the one before, at least."""
    time: float
    """s since the last change, at least."""
    removes: str
    """Beginning of the channels that are not to be used then."""


_IMU = tuple(f"imu.{axis}" for axis in ("wx", "wy", "wz", "ax", "ay", "az"))
_RULES = (
    # Noise changes the last digit of a sample nearly always; a coarse sensor repeats itself only on a smooth and
    # straight road, where its samples are missed least.
    *(_Rule((channel,), 10, 0.1, channel) for channel in _IMU),
    # A receiver without reception may repeat its last fix.
    _Rule(("gnss.lat", "gnss.lon"), 2, 0.0, "gnss."),
)


class _Run:
    """Samples of a rule's channels that are the same, to the last bit."""

    def __init__(self) -> None:
        self.value: tuple[float, ...] = ()
        self.begun_ns = self.repetitions = 0

    def take(self, t_ns: int, value: tuple[float, ...], moving: bool) -> None:
        """One more sample; `moving`: whether repeating it means anything."""
        if value == self.value and moving:
            self.repetitions += 1
        else:
            self.value, self.begun_ns, self.repetitions = value, t_ns, 0


class StuckChannels:
    """Leaves out samples of channels that are stuck while the car moves, each with a record."""

    def __init__(self) -> None:
        self._rules = [(rule, _Run()) for rule in _RULES]
        self._channels = frozenset(chain.from_iterable(rule.channels for rule in _RULES))

    def reset(self) -> None:
        """Nothing has been measured yet."""
        self._rules = [(rule, _Run()) for rule, _ in self._rules]

    def remove(self, m: Measurement, speed: float, updates: MeasurementUpdates) -> tuple[Measurement, int]:
        """The measurement without values of stuck channels, and how many they were; `speed` of the car, m/s."""
        if self._channels.isdisjoint(m.values):
            return m, 0
        good = m.values
        for rule, run in self._rules:
            if not all(c in m.values for c in rule.channels):
                continue
            run.take(m.t, tuple(m.values[c] for c in rule.channels), abs(speed) > _MOVING)
            if run.repetitions >= rule.repetitions and m.t - run.begun_ns >= rule.time * 1e9:
                good = {c: v for c, v in good.items() if not c.startswith(rule.removes)}
                for channel in rule.channels:
                    updates.record(m, channel, [m.values[channel]], "stuck")
        removed = len(m.values) - len(good)
        return (m if removed == 0 else Measurement(m.source, m.t, m.arrival, good)), removed
