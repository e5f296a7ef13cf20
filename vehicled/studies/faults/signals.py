"""Further faults of sensors, in addition to those of `replay.faults`: mounting, wiring, receivers."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from vehicled.maths.geodesy import MEAN_RADIUS
from vehicled.messages import Measurement
from vehicled.points import rotations

_METRES_PER_DEGREE = math.radians(1.0) * MEAN_RADIUS
_AXES = (("imu.ax", "imu.ay", "imu.az"), ("imu.wx", "imu.wy", "imu.wz"))
_FLOAT, _FIXED = 5.0, 4.0


@dataclass(kw_only=True)
class _Fault:
    begin: float = 0.0
    """s from the start of the log."""
    end: float = math.inf

    def apply(self, m: Measurement, t: float) -> Iterable[Measurement]:
        """As `replay.faults.SensorFault`."""
        if not self.begin <= t < self.end:
            return (m,)
        return (msgspec.structs.replace(m, values=self._change(m.values, t - self.begin)),)

    def _change(self, values: Mapping[str, float], since: float) -> dict[str, float]:
        raise NotImplementedError


@dataclass(kw_only=True)
class Exchanged(_Fault):
    """Channels are connected to each other's sensors."""

    pairs: Sequence[tuple[str, str]]

    def __post_init__(self) -> None:
        self._names = dict(self.pairs) | {b: a for a, b in self.pairs}

    def _change(self, values: Mapping[str, float], since: float) -> dict[str, float]:
        return {self._names.get(c, c): v for c, v in values.items()}


@dataclass(kw_only=True)
class Noisy(_Fault):
    """A channel has additional white noise, as with a loose contact or a worn potentiometer."""

    channel: str
    sigma: float
    """In the channel's unit."""

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(1)

    def _change(self, values: Mapping[str, float], since: float) -> dict[str, float]:
        noise = self.sigma * float(self._random.standard_normal())
        return {c: v + noise if c == self.channel else v for c, v in values.items()}


@dataclass(kw_only=True)
class Dead(Noisy):
    """A channel has its noise alone, as an accelerometer whose proof mass is stuck."""

    def _change(self, values: Mapping[str, float], since: float) -> dict[str, float]:
        return super()._change({c: 0.0 if c == self.channel else v for c, v in values.items()}, since)


@dataclass(kw_only=True)
class Turned(_Fault):
    """The IMU is mounted with its axes rolled, pitched and yawed (rad) relative to those configured."""

    roll: float = 0.0
    pitch: float = 0.0
    yaw: float = 0.0

    def __post_init__(self) -> None:
        angles = (np.array([a]) for a in (self.roll, self.pitch, self.yaw))
        self._R = rotations(*angles)[0]

    def _change(self, values: Mapping[str, float], since: float) -> dict[str, float]:
        changed = dict(values)
        for axes in _AXES:
            if all(a in values for a in axes):
                turned = np.array([values[a] for a in axes]) @ self._R
                changed.update(zip(axes, turned.tolist(), strict=True))
        return changed


@dataclass(kw_only=True)
class Displaced(_Fault):
    """Fixes are displaced from the antenna, as by multipath, spoofing or another correction service."""

    north: float = 0.0
    """m."""
    drift: float = 0.0
    """m/s, northward velocity of the displacement since `begin`."""
    period: float = math.inf
    """Period, s; the fault is present in every second half of it."""
    has_velocity: bool = False
    """Whether speed and course agree with the displaced fixes."""

    def _change(self, values: Mapping[str, float], since: float) -> dict[str, float]:
        if "gnss.lat" not in values or (since / self.period) % 1.0 >= 0.5:
            return dict(values)
        by = (self.north + self.drift * since) / _METRES_PER_DEGREE
        changed = {c: v + by if c == "gnss.lat" else v for c, v in values.items()}
        if self.has_velocity:
            velocity = cmath.rect(values["gnss.speed"], values["gnss.course"]) + self.drift
            changed |= {"gnss.speed": abs(velocity), "gnss.course": cmath.phase(velocity) % math.tau}
        return changed


@dataclass(kw_only=True)
class Drifting(_Fault):
    """A sensor's bias grows steadily, as with temperature, but faster."""

    channel: str
    rate: float
    """Drift per second, in the channel's unit."""

    def _change(self, values: Mapping[str, float], since: float) -> dict[str, float]:
        return {c: v + self.rate * since if c == self.channel else v for c, v in values.items()}


@dataclass(kw_only=True)
class Flapping(_Fault):
    """The receiver loses and regains its RTK fix, and reports that; float solutions wander about the antenna."""

    period: float = 0.5
    """s."""
    error: float = 0.3
    """m, error of float solutions."""

    def _change(self, values: Mapping[str, float], since: float) -> dict[str, float]:
        if "gnss.lat" not in values:
            return dict(values)
        if (since / self.period) % 1.0 >= 0.5:
            return {**values, "gnss.quality": _FIXED}
        by = self.error * math.sin(2.0 * math.pi * since / 7.0) / _METRES_PER_DEGREE
        accuracy = {"gnss.h_acc": self.error, "gnss.v_acc": 2.0 * self.error}
        known = {c: v for c, v in accuracy.items() if c in values}
        return {**values, "gnss.quality": _FLOAT, "gnss.lat": values["gnss.lat"] + by, **known}


@dataclass(kw_only=True)
class NoReception(_Fault):
    """The receiver keeps sending, without a position: its antenna cable is disconnected."""

    def _change(self, values: Mapping[str, float], since: float) -> dict[str, float]:
        if "gnss.quality" not in values:
            return dict(values)
        rest = {c: v for c, v in values.items() if not c.startswith("gnss.")}
        return {**rest, "gnss.quality": 0.0}


@dataclass(kw_only=True)
class WrongClock(_Fault):
    """The clock with which a device stamps its samples runs fast."""

    channels: str
    """Prefix of the device's channels."""
    rate: float
    """Rate error of the clock, s per second."""

    def apply(self, m: Measurement, t: float) -> Iterable[Measurement]:
        """As `replay.faults.SensorFault`."""
        if not self.begin <= t < self.end or not any(c.startswith(self.channels) for c in m.values):
            return (m,)
        return (msgspec.structs.replace(m, t=m.t + round(self.rate * (t - self.begin) * 1e9)),)


@dataclass(kw_only=True)
class ClockBeginsAnew(_Fault):
    """A device restarts by itself: its clock returns to its value at the start of the log."""

    channels: str
    """Prefix of the device's channels."""

    def apply(self, m: Measurement, t: float) -> Iterable[Measurement]:
        """As `replay.faults.SensorFault`."""
        if not self.begin <= t < self.end or not any(c.startswith(self.channels) for c in m.values):
            return (m,)
        return (msgspec.structs.replace(m, t=m.t - round(self.begin * 1e9)),)
