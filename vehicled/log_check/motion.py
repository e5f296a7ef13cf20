"""Yaw rate and acceleration of the car as each sensor has them, on a common grid of times."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from vehicled.messages import WHEELS, Measurement
from vehicled.sources.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.sensors import Sensors
from vehicled.vehicle.parameters import Vehicle

STEP = 0.02
"""s, of the grid."""

_LONGEST_INTERVAL = 1.3
"""s: a channel that is slower, or that pauses, is not interpolated."""
_SMOOTHED = 0.3
"""s: all are averaged over this, symmetrically, so that none is delayed."""
_SLOWEST = 3.0
"""m/s: below it, courses and quotients by the speed are noise."""
_STEERING = ("steer.wheel", "steer.rack", "steer.fl", "steer.fr")
_SPEEDS = ("vehicle.speed", "gnss.speed")
_ANGLES = ("gnss.course", "reference.yaw")
WATCHED = (
    *ACCELEROMETERS,
    *GYROSCOPES,
    *(f"wheel.{w}.{of}" for w in WHEELS for of in ("speed", "angle")),
    *_STEERING,
    *_SPEEDS,
    *_ANGLES,
)
"""Channels that are compared."""


class Window:
    """Samples of some tens of seconds."""

    def __init__(self, sensors: Sensors, vehicle: Vehicle) -> None:
        self._axes = None if sensors.imu is None else sensors.imu.R_imu_vehicle.T
        self._radii = {w: vehicle.axle(w).tyre.radius for w in WHEELS}
        self._samples: dict[str, tuple[array[float], array[float]]] = {}
        self.begun_ns: int | None = None

    def take(self, m: Measurement) -> None:
        """Take a measurement."""
        if self.begun_ns is None:
            self.begun_ns = m.t
        t = (m.t - self.begun_ns) * 1e-9
        for channel in WATCHED:
            value = m.values.get(channel)
            if value is not None:
                times, values = self._samples.setdefault(channel, (array("d"), array("d")))
                if not times or t > times[-1]:
                    times.append(t)
                    values.append(value)

    def clear(self) -> None:
        """Begin anew."""
        self._samples.clear()
        self.begun_ns = None

    def find_yaw_rates(self) -> dict[str, np.ndarray]:
        """By channel (n,) on one grid: signals that are proportional to the yaw rate with a positive factor.

        NaN where a signal is not known. The gyroscope comes first.
        """
        grid = self._find_grid()
        found: dict[str, np.ndarray] = dict(self._find_gyroscope(grid))
        wheels = dict(self._find_wheels(grid))
        if len(wheels) > 1:
            mean = np.mean(list(wheels.values()), axis=0)
            for channel, rolling in wheels.items():
                # In a turn to the left, wheels on the right are the faster ones.
                found[channel] = (rolling - mean) * (-1.0 if channel.split(".")[1].endswith("l") else 1.0)
        speed = self._find_speed(grid)
        if speed is not None:
            fast = np.where(np.abs(speed) > _SLOWEST, speed, np.nan)
            for channel in _STEERING:
                reading = self._interpolate(channel, grid)
                if reading is not None:
                    found[channel] = reading * speed
            lateral = self._along(ACCELEROMETERS, 1, grid)
            if lateral is not None:
                found[ACCELEROMETERS[1]] = lateral / fast
            course = self._interpolate("gnss.course", grid)
            if course is not None:
                found["gnss.course"] = np.where(np.isfinite(fast), -_derive(course), np.nan)
        heading = self._interpolate("reference.yaw", grid)
        if heading is not None:
            found["reference.yaw"] = _derive(heading)
        return {channel: _smooth(values) for channel, values in found.items()}

    def find_accelerations(self) -> dict[str, np.ndarray]:
        """By channel (n,), m/s² along the car on one grid. The accelerometer comes first."""
        grid = self._find_grid()
        found = {}
        forward = self._along(ACCELEROMETERS, 0, grid)
        if forward is not None:
            found[ACCELEROMETERS[0]] = forward
        for channel in _SPEEDS:
            speed = self._interpolate(channel, grid)
            if speed is not None:
                found[channel] = _derive(speed)
        wheels = dict(self._find_wheels(grid))
        found |= {channel: _derive(speed) for channel, speed in wheels.items()}
        return {channel: _smooth(values) for channel, values in found.items()}

    def _find_grid(self) -> np.ndarray:
        ends = [times[-1] for times, _ in self._samples.values()]
        return np.arange(0.0, max(ends, default=0.0), STEP)

    def _interpolate(self, channel: str, grid: np.ndarray) -> np.ndarray | None:
        """(n,) on the grid, NaN outside of the samples; None where there are too few of them."""
        if channel not in self._samples:
            return None
        times, values = (np.frombuffer(a) for a in self._samples[channel])
        if len(times) < 3 or np.diff(times).max() > _LONGEST_INTERVAL:
            return None
        if channel in _ANGLES:
            values = np.unwrap(values)
        found: np.ndarray = np.interp(grid, times, values, left=np.nan, right=np.nan)
        return found

    def _along(self, channels: tuple[str, ...], axis: int, grid: np.ndarray) -> np.ndarray | None:
        """Along an axis of the vehicle; channels that are not measured count as zero, but not that of the axis."""
        given = [self._interpolate(c, grid) for c in channels]
        row = np.eye(3)[axis] if self._axes is None else self._axes[axis]
        if given[axis] is None:
            return None
        parts = [r * values for r, values in zip(row, given, strict=True) if values is not None]
        found: np.ndarray = np.sum(parts, axis=0)
        return found

    def _find_gyroscope(self, grid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        rate = self._along(GYROSCOPES, 2, grid)
        if rate is not None:
            yield GYROSCOPES[2], rate

    def _find_wheels(self, grid: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """m/s by channel of each wheel: its speed, or the change of its angle."""
        for wheel, radius in self._radii.items():
            speed = self._interpolate(f"wheel.{wheel}.speed", grid)
            if speed is not None:
                yield f"wheel.{wheel}.speed", speed * radius
                continue
            angle = self._interpolate(f"wheel.{wheel}.angle", grid)
            if angle is not None:
                yield f"wheel.{wheel}.angle", _derive(angle) * radius

    def _find_speed(self, grid: np.ndarray) -> np.ndarray | None:
        for channel in _SPEEDS:
            speed = self._interpolate(channel, grid)
            if speed is not None:
                return speed
        wheels = [speed for _, speed in self._find_wheels(grid)]
        return np.mean(wheels, axis=0) if wheels else None


def _derive(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.gradient(values, STEP)
    return found


def _smooth(values: np.ndarray) -> np.ndarray:
    n = round(_SMOOTHED / STEP) | 1
    if len(values) < n:
        return np.full_like(values, np.nan)
    found: np.ndarray = np.convolve(values, np.full(n, 1.0 / n), mode="same")
    # At the ends the mean is of fewer samples.
    found[: n // 2] = found[len(found) - n // 2 :] = np.nan
    return found
