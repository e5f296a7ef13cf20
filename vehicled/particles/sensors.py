"""Makes instruments on a mechanism from channels of devices."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from vehicled.errors import UsageError
from vehicled.maths.angles import wrap
from vehicled.messages import CHANNELS, Innovation, Measurement
from vehicled.particles.configuration import SensorOptions
from vehicled.particles.instruments import (
    CoordinateInstrument,
    Instrument,
    RateInstrument,
)
from vehicled.particles.observability import Measured
from vehicled.particles.swarm import Swarm

_ABSURD = 1e6
"""Largest plausible reading, SI units, of any encoder or gyroscope."""
_CHANGES = 16
"""Number of recent readings whose changes give the rate of change."""


@dataclass
class MechanismSensor:
    """One channel of one device: what it measures, and counts of its readings."""

    device: str
    channel: str
    options: SensorOptions
    instrument: Instrument
    angle: bool
    """Whether it measures an angle, or the rate of one."""
    counts: Counter[str] = field(default_factory=Counter)
    """Number of readings by outcome: the reasons of `Innovation`."""
    _last: tuple[int, float] | None = None
    """Time (ns) and value of the last reading."""
    _changes: deque[float] = field(default_factory=lambda: deque(maxlen=_CHANGES))
    """Rates of change between successive readings, per second."""

    @property
    def name(self) -> str:
        """Name in `status`."""
        return f"{self.device}.{self.channel}"

    @property
    def measured(self) -> Measured:
        """What it measures, with the standard deviation used by the filter."""
        o = self.options
        return Measured(o.measured, o.rate is not None, o.sigma * o.multiplier)

    def read(self, value: float) -> float | None:
        """The reading in the mechanism from a value of its channel; None if that is invalid."""
        reading = value * self.options.scale + self.options.offset
        return reading if math.isfinite(reading) and abs(reading) <= _ABSURD else None

    def follow(self, t: int, reading: float) -> None:
        """Update the rate of change of the measured quantity; t in ns."""
        if self.options.rate is not None:
            self._changes.append(abs(reading))
        elif self._last is not None and t > self._last[0]:
            change = reading - self._last[1]
            self._changes.append(abs(wrap(change) if self.angle else change) / (t - self._last[0]) * 1e9)
        self._last = t, reading

    @property
    def change(self) -> float | None:
        """Recent rate of change of the measured quantity, rad/s or m/s; None without two readings."""
        return median(self._changes) if self._changes else None

    def refuse(self, t: int, step: int, value: float) -> Innovation:
        """Record of an invalid value."""
        return Innovation(t, step, self.channel, self.device, [value], [], [], [], 0.0, 0.0, False, "absurd")

    def compare(self, swarm: Swarm, weights: np.ndarray, t: int, step: int, reading: float) -> Innovation:
        """Record of the reading compared with the particles' prediction; not yet accepted or rejected."""
        sigma, multiplier = self.options.sigma, self.instrument.multiplier
        off = self.instrument.calc_errors(swarm, np.array(reading))[0]
        off = np.where(np.isfinite(off), off, 0.0)
        mean = float(weights @ off)
        variance = float(weights @ (off - mean) ** 2) + multiplier**2
        nis = mean**2 / variance
        return Innovation(
            t,
            step,
            self.channel,
            self.device,
            [reading],
            [reading - mean * sigma],
            [mean * sigma],
            [variance * sigma**2],
            nis,
            0.0,
            True,
            "fused",
        )

    def status(self) -> dict[str, int]:
        """Counts for `status`."""
        rejected = sum(n for reason, n in self.counts.items() if reason != "fused")
        return {"accepted": self.counts["fused"], "rejected": rejected, **self.counts}


class MechanismSensors:
    """All sensors of a mechanism, in the order of the configuration."""

    def __init__(self, options: Mapping[str, Mapping[str, SensorOptions]], swarm: Swarm) -> None:
        """Raises UsageError naming the sensor that does not fit the mechanism."""
        self.all = [
            MechanismSensor(
                device,
                channel,
                o,
                _make_instrument(f"sensors.{device}.{channel}", channel, o, swarm),
                o.measured in swarm.angles,
            )
            for device, channels in options.items()
            for channel, o in channels.items()
        ]
        self._by_place = {(s.device, s.channel): k for k, s in enumerate(self.all)}
        self._by_channel: dict[str, int] = {}
        devices = Counter(s.channel for s in self.all)
        for k, s in enumerate(self.all):
            if devices[s.channel] == 1:
                self._by_channel[s.channel] = k

    def find(self, m: Measurement) -> list[tuple[int, float]]:
        """Sensor and value for each used channel of a measurement.

        The device matters only if several have the same channel, as tables do not name it.
        """
        found = []
        for channel, value in m.values.items():
            k = self._by_place.get((m.source, channel), self._by_channel.get(channel))
            if k is not None:
                found.append((k, value))
        return found


def check_channel(name: str, channel: str, o: SensorOptions, angle: bool, known: Collection[str]) -> None:
    """Raise UsageError where a sensor measures none of the `known` coordinates, or in another unit.

    `angle`: whether what it measures is one.
    """
    if o.measured not in known:
        raise UsageError(f"{name}: no coordinate {o.measured!r}; expected one of {', '.join(known)}")
    unit = ("rad" if angle else "m") + ("/s" if o.rate else "")
    if CHANNELS[channel] != unit:
        what = f"the rate of {o.measured}" if o.rate else o.measured
        raise UsageError(f"{name}: {channel} is in {CHANNELS[channel]}, but {what} is in {unit}")


def _make_instrument(name: str, channel: str, o: SensorOptions, swarm: Swarm) -> Instrument:
    known = [*swarm.angles, *swarm.distances, *swarm.coordinates]
    check_channel(name, channel, o, o.measured in swarm.angles, known)
    if o.rate is not None:
        return RateInstrument(o.measured, o.sigma, o.multiplier)
    return CoordinateInstrument(o.measured, o.sigma, o.multiplier)
