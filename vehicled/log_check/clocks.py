"""Clocks of loggers that are seconds apart, by cross-correlation of yaw rates and accelerations of whole drives.

Signals are shifted by up to a minute. An offset is reported only if it fits far better than any other, so not
for a steady or repetitive drive.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.fft

from vehicled.messages import WHEELS, Measurement
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.sensors import Sensors

SMALLEST = 0.5
"""Smallest offset reported, s; `LagFinder` finds smaller ones more exactly."""
LARGEST = 60.0
"""s."""
_STEP = 0.1
"""s, of the grid."""
_LAGS = round(LARGEST / _STEP)
_LONGEST_NS = 6 * 3600 * 10**9
"""Longest part of a log, from its beginning, ns: an hour takes some megabytes of memory."""
_LONGEST_INTERVAL = 1.3
"""Longest interval between samples that is interpolated, s."""
_SMOOTHED = 11
"""Length of the symmetric average of all signals, steps."""
_SLOWEST = 3.0
"""m/s: courses below it are noise."""
_LEAST_OVERLAP = 300
"""Least number of steps at which both signals are known."""
_LEAST = {"turns": 0.02, "changes of speed": 0.15}
"""Least root mean square of the motion, rad/s and m/s², for a comparison."""
_ALIKE = 0.7
"""Least correlation of signals that show the same motion."""
_SURE = 12.0
"""Least evidence: twice the logarithm of the likelihood ratio of an offset to the next best one."""
_RESIDUAL = 0.05
"""Share of the variance that two sensors never have in common, whatever their correlation."""
_SHARE = 2.0
"""Factor on the effective duration, by which motion spread evenly over time counts fully; for a normally
distributed motion it would be 3."""
_RESOLUTION = 0.05
"""Standard deviation, s, due to the grid and the averages."""

_STEERING = ("steer.wheel", "steer.rack", "steer.fl", "steer.fr")
_ANGLES = ("gnss.course", "reference.yaw")
_RIGHT, _LEFT = ("fr", "rr"), ("fl", "rl")
_WATCHED = frozenset(
    (
        *ACCELEROMETERS,
        *GYROSCOPES,
        *(f"wheel.{w}.{of}" for w in WHEELS for of in ("speed", "angle")),
        *_STEERING,
        "vehicle.speed",
        "gnss.speed",
        "gnss.vn",
        "gnss.ve",
        *_ANGLES,
    )
)


@dataclass(frozen=True)
class ClockOffset:
    """Time by which all signals of one kind of sensor are later than those of another."""

    source: str
    """`gnss`, `wheel`, …"""
    reference: str
    """Kind of sensor that it is compared with."""
    motion: str
    """What both show: `turns` or `changes of speed`."""
    offset: float
    """s by which the source is later."""
    sigma: float
    """Standard deviation of the offset, s."""
    correlation: float
    """Correlation at the offset."""
    rival: float
    """Largest magnitude of the correlation at any other offset."""
    evidence: float
    """See `_SURE`."""


class _Thinned:
    """Averages of a channel over the steps of the grid; for angles, which may wrap, each step's last sample."""

    def __init__(self, is_angle: bool) -> None:
        self._is_angle = is_angle
        self.times, self.values = array("d"), array("d")
        self._bin, self._count = -1, 0

    def take(self, t: float, value: float) -> None:
        at = int(t / _STEP)
        if at < self._bin:
            return
        if at > self._bin:
            self._bin, self._count = at, 1
            self.times.append(t)
            self.values.append(value)
            return
        self._count = 1 if self._is_angle else self._count + 1
        self.times[-1] += (t - self.times[-1]) / self._count
        self.values[-1] += (value - self.values[-1]) / self._count


class ClockFinder:
    """Takes the measurements of a log, and keeps ten values a second of each channel."""

    def __init__(self, sensors: Sensors | None = None) -> None:
        """`sensors`: gives the IMU's mounting; None: it points ahead."""
        imu = None if sensors is None else sensors.imu
        self._axes = np.eye(3) if imu is None else imu.R_imu_vehicle.T
        self._begun_ns: int | None = None
        self._channels: dict[str, _Thinned] = {}

    def take(self, m: Measurement) -> None:
        """Take a measurement, in the order of the log."""
        if self._begun_ns is None:
            # Measurements that arrive later may have been made earlier than the first that arrived.
            self._begun_ns = m.t - round(LARGEST * 1e9)
        if not 0 <= m.t - self._begun_ns < _LONGEST_NS:
            return
        t = (m.t - self._begun_ns) * 1e-9
        for channel, value in m.values.items():
            if channel in _WATCHED and math.isfinite(value):
                thinned = self._channels.get(channel)
                if thinned is None:
                    thinned = self._channels[channel] = _Thinned(channel in _ANGLES)
                thinned.take(t, value)

    def find(self) -> list[ClockOffset]:
        """Kinds of sensors whose clock is off by more than `SMALLEST`, each with the best reference."""
        ends = [thinned.times[-1] for thinned in self._channels.values()]
        grid = np.arange(0.0, max(ends, default=0.0) + _STEP, _STEP)
        signals = {"turns": self._find_turns(grid), "changes of speed": self._find_changes(grid)}
        sources = dict.fromkeys(source for found in signals.values() for source in found)
        known: dict[str, float] = {}
        """Delay of each source relative to the first one, s."""
        found = []
        for source in sources:
            offsets = [
                (best, known[reference] + best.offset)
                for motion, moving in signals.items()
                for reference in known
                if source in moving and reference in moving
                if (best := _compare(motion, reference, source, moving)) is not None
            ]
            if not known:
                known[source] = 0.0
            if not offsets:
                continue
            best, total = max(offsets, key=lambda pair: pair[0].evidence)
            if any(abs(other - total) > SMALLEST for _, other in offsets):
                continue  # they contradict each other
            known[source] = total
            if abs(total) > SMALLEST:
                found.append(replace(best, reference=next(iter(known)), offset=total))
        return found

    # Signals, each (n,) on the grid; NaN where it is not known

    def _find_turns(self, grid: np.ndarray) -> dict[str, np.ndarray]:
        """By source, a signal proportional to the yaw rate, positive to the left."""
        found: dict[str, np.ndarray] = {}
        rate = self._along(GYROSCOPES, 2, grid)
        if rate is not None:
            found["imu"] = rate
        right, left = (self._find_wheels(side, grid) for side in (_RIGHT, _LEFT))
        if right is not None and left is not None:
            found["wheel"] = right - left
        course, speed = self._interpolate("gnss.course", grid), self._find_receiver_speed(grid)
        if course is not None and speed is not None:
            found["gnss"] = np.where(speed > _SLOWEST, -_derive(course), np.nan)
        steering = next((s for c in _STEERING if (s := self._interpolate(c, grid)) is not None), None)
        own = self._find_car_speed(grid)  # the receiver's speed may have another clock
        if steering is not None and own is not None:
            found["steer"] = steering * own
        yaw = self._interpolate("reference.yaw", grid)
        if yaw is not None:
            found["reference"] = _derive(yaw)
        return {source: _smooth(signal) for source, signal in found.items()}

    def _find_changes(self, grid: np.ndarray) -> dict[str, np.ndarray]:
        """By source, acceleration along the car."""
        found: dict[str, np.ndarray] = {}
        forward = self._along(ACCELEROMETERS, 0, grid)
        if forward is not None:
            found["imu"] = forward
        speeds = {
            "wheel": self._find_wheels(WHEELS, grid),
            "vehicle": self._interpolate("vehicle.speed", grid),
            "gnss": self._find_receiver_speed(grid),
        }
        found |= {source: _derive(speed) for source, speed in speeds.items() if speed is not None}
        return {source: _smooth(signal) for source, signal in found.items()}

    def _interpolate(self, channel: str, grid: np.ndarray) -> np.ndarray | None:
        thinned = self._channels.get(channel)
        if thinned is None or len(thinned.times) < _LEAST_OVERLAP * _STEP:
            return None
        times, values = np.array(thinned.times), np.array(thinned.values)
        if channel in _ANGLES:
            values = np.unwrap(values)
        found: np.ndarray = np.interp(grid, times, values, left=np.nan, right=np.nan)
        after = np.clip(np.searchsorted(times, grid), 1, len(times) - 1)
        found[times[after] - times[after - 1] > _LONGEST_INTERVAL] = np.nan
        return found

    def _along(self, channels: tuple[str, ...], axis: int, grid: np.ndarray) -> np.ndarray | None:
        parts = [
            r * values
            for r, channel in zip(self._axes[axis], channels, strict=True)
            if abs(r) > 1e-6 and (values := self._interpolate(channel, grid)) is not None
        ]
        return np.sum(parts, axis=0) if parts else None

    def _find_wheels(self, wheels: Sequence[str], grid: np.ndarray) -> np.ndarray | None:
        """Mean rate of the wheels that were measured, rad/s; None if none was."""
        found = []
        for wheel in wheels:
            speed, angle = (self._interpolate(f"wheel.{wheel}.{of}", grid) for of in ("speed", "angle"))
            if speed is not None:
                found.append(speed)
            elif angle is not None:
                found.append(_derive(angle))
        return np.mean(found, axis=0) if found else None

    def _find_car_speed(self, grid: np.ndarray) -> np.ndarray | None:
        wheels = self._find_wheels(WHEELS, grid)
        return self._interpolate("vehicle.speed", grid) if wheels is None else wheels

    def _find_receiver_speed(self, grid: np.ndarray) -> np.ndarray | None:
        speed = self._interpolate("gnss.speed", grid)
        north, east = (self._interpolate(c, grid) for c in ("gnss.vn", "gnss.ve"))
        return speed if north is None or east is None or speed is not None else np.hypot(north, east)


def describe_clock(clock: ClockOffset) -> str:
    """In words, with how sure it is."""
    late = "later" if clock.offset > 0.0 else "earlier"
    return (
        f"{abs(clock.offset):.1f} s (± {max(clock.sigma, 0.1):.1f} s) {late} than {clock.reference}, as of another "
        f"clock (correlation of {clock.motion} {clock.correlation:.2f}, at no other offset up to {LARGEST:g} s "
        f"beyond {clock.rival:.2f})"
    )


def _derive(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.gradient(values, _STEP)
    return found


def _smooth(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.convolve(values, np.full(_SMOOTHED, 1.0 / _SMOOTHED), mode="same")
    return found


def _compare(
    motion: str, reference: str, source: str, moving: Mapping[str, np.ndarray]
) -> ClockOffset | None:
    """Delay of the source relative to the reference; None if it is not certain."""
    a, b = moving[reference], moving[source]
    least = _LEAST[motion]
    # Signals of wheels and steering have other units: their motion is judged by the other signal.
    if max(_spread(a), _spread(b)) < least:
        return None
    rho = _correlate(a, b)
    k = int(np.argmax(rho))
    correlation = float(rho[k])
    if correlation < _ALIKE or not 0 < k < len(rho) - 1:
        return None
    rival = _find_rival(rho, k)
    before, after = float(rho[k - 1]), float(rho[k + 1])
    curvature = before - 2.0 * correlation + after
    between = 0.5 * (before - after) / curvature if curvature < 0.0 else 0.0
    independent, bandwidth = _count_independent(a, b, k - _LAGS)
    rest = max(1.0 - correlation**2, _RESIDUAL)
    evidence = independent * math.log(max(1.0 - rival**2, rest) / rest)
    if evidence < _SURE:
        return None
    sigma = math.hypot(math.sqrt(rest / independent) / bandwidth, _RESOLUTION)
    offset = (k - _LAGS + between) * _STEP
    return ClockOffset(source, reference, motion, offset, sigma, correlation, rival, evidence)


def _spread(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.std()) if len(known) else 0.0


def _correlate(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(2 `_LAGS` + 1,) coefficients of a (n,) with b (n,), which is later by −`_LAGS` … `_LAGS` steps.

    From the steps known in both at that lag; 0 if these are fewer than half of the largest number.
    """
    length = scipy.fft.next_fast_len(len(a) + _LAGS + 1, real=True)

    def transform(values: np.ndarray) -> tuple[np.ndarray, ...]:
        known = np.isfinite(values)
        filled = np.where(known, values - values[known].mean(), 0.0) if known.any() else np.zeros(len(values))
        return tuple(scipy.fft.rfft(part, length) for part in (known.astype(float), filled, filled**2))

    def multiply(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        sums = scipy.fft.irfft(first.conj() * second, length)
        return np.concatenate([sums[length - _LAGS :], sums[: _LAGS + 1]])

    (known_a, sum_a, square_a), (known_b, sum_b, square_b) = transform(a), transform(b)
    count = np.round(multiply(known_a, known_b))
    enough = count >= max(_LEAST_OVERLAP, 0.5 * count.max())
    count = np.maximum(count, 1.0)
    mean_a, mean_b = multiply(sum_a, known_b) / count, multiply(known_a, sum_b) / count
    variance_a = multiply(square_a, known_b) / count - mean_a**2
    variance_b = multiply(known_a, square_b) / count - mean_b**2
    product = multiply(sum_a, sum_b) / count - mean_a * mean_b
    scale = np.sqrt(np.maximum(variance_a * variance_b, 0.0))
    rho: np.ndarray = np.divide(product, scale, out=np.zeros_like(product), where=enough & (scale > 1e-9))
    return rho


def _find_rival(rho: np.ndarray, k: int) -> float:
    """Largest magnitude of the coefficient beside the peak at k, beyond where it first rises again below half."""
    size = np.abs(rho)
    rivals = [0.0]
    for side in (size[k::-1], size[k:]):
        below = np.flatnonzero(side < 0.5 * side[0])
        if not len(below):
            return float(size[k])  # the peak is wider than the range searched
        rising = np.flatnonzero(np.diff(side[below[0] :]) > 0.0)
        if len(rising):
            rivals.append(float(side[below[0] + rising[0] :].max()))
    return max(rivals)


def _count_independent(a: np.ndarray, b: np.ndarray, lag: int) -> tuple[float, float]:
    """Number of independent samples of the common motion, and its bandwidth, rad/s.

    Only the time of the strongest motion counts: a single stop in a steady drive is one event.
    """
    later = np.full_like(b, np.nan)
    if lag >= 0:
        later[: len(b) - lag] = b[lag:]
    else:
        later[-lag:] = b[:lag]
    known = np.isfinite(a) & np.isfinite(later)
    centred = a[known] - a[known].mean()
    energy = np.abs(centred * (later[known] - later[known].mean()))
    seconds = _SHARE * _STEP * float(energy.sum()) ** 2 / max(float(energy @ energy), 1e-300)
    steps = np.diff(a)
    steps = steps[np.isfinite(steps)]
    bandwidth = math.sqrt(float(steps @ steps) / max(float(centred @ centred), 1e-300)) / _STEP
    return max(seconds * bandwidth / math.pi, 1e-3), max(bandwidth, 1e-3)
