"""Yaw rate and acceleration of the car as each sensor has them, on a common grid of times."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

import numpy as np

from vehicled.log_check.grid import STEP
from vehicled.log_check.tracks import MeasuredPath
from vehicled.messages import WHEELS, Measurement
from vehicled.sources.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.sensors import Sensors
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.steering import SteeringGeometry

_LONGEST_INTERVAL = 1.3
"""s: a channel that is slower, or that pauses, is not interpolated."""
_SMOOTHED, _SMOOTHED_LONG = 0.3, 1.0
"""s: yaw rates and accelerations are averaged over these, symmetrically, so that none is delayed. Wheels and body
swing against each other along the car, at some hertz: shorter averages of accelerations correlate best half a swing
off."""
_SLOWEST = 3.0
"""m/s: below it, courses and quotients by the speed are noise."""
_STEERING = ("steer.wheel", "steer.rack", "steer.fl", "steer.fr")
_WHEELS = tuple(f"wheel.{w}.{of}" for w in WHEELS for of in ("speed", "angle"))
CAR_SPEEDS = ("vehicle.speed", "gnss.speed")
"""Of the car as a whole, in bends too."""
_ANGLES = ("gnss.course", "reference.yaw")
_PLACE = ("gnss.lat", "gnss.lon")
_VELOCITY = ("gnss.vn", "gnss.ve")
WHEEL_SPEEDS = "wheel speeds"
"""Name of their mean, m/s."""
WATCHED = (
    *ACCELEROMETERS,
    *GYROSCOPES,
    *_WHEELS,
    *_STEERING,
    *CAR_SPEEDS,
    *_ANGLES,
    *_PLACE,
    *_VELOCITY,
)
"""Channels that are read."""
COMPARED = {
    "turns": (GYROSCOPES[2], *_WHEELS, *_STEERING, ACCELEROMETERS[1], *_ANGLES),
    "changes of speed": (ACCELEROMETERS[0], *CAR_SPEEDS, *_WHEELS),
}
"""Channels of which there are yaw rates and accelerations, by what these are compared in."""


class Window:
    """Samples of some tens of seconds."""

    def __init__(self, sensors: Sensors, vehicle: Vehicle) -> None:
        self._axes = None if sensors.imu is None else sensors.imu.R_imu_vehicle.T
        self._radii = {w: vehicle.axle(w).tyre.radius for w in WHEELS}
        geometry = SteeringGeometry(vehicle)
        per_rack = 1.0 / abs(geometry.rack_per_angle)
        readings = {"steer.wheel": per_rack * geometry.ratio, "steer.rack": per_rack}
        self._curvatures = {c: readings.get(c, 1.0) / vehicle.wheelbase for c in _STEERING}
        """1/m of the car's path, by the reading of the steering, without understeer."""
        self._samples: dict[str, tuple[array[float], array[float]]] = {}
        self.begun_ns: int | None = None

    def take(self, m: Measurement) -> None:
        """Take a measurement."""
        if self.begun_ns is None:
            self.begun_ns = m.t
        t = (m.t - self.begun_ns) * 1e-9
        for channel in WATCHED:
            if channel in _PLACE and m.values.get("gnss.quality", 1.0) < 1.0:
                continue
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
        """By channel (n,) on one grid: yaw rates, rad/s; of wheels what is proportional to it with a positive factor.

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
                    found[channel] = reading * speed * self._curvatures[channel]
            lateral = self._along(ACCELEROMETERS, 1, grid)
            if lateral is not None:
                found[ACCELEROMETERS[1]] = lateral / fast
            course = self._interpolate("gnss.course", grid)
            if course is not None:
                found["gnss.course"] = np.where(np.isfinite(fast), -_derive(course), np.nan)
        heading = self._interpolate("reference.yaw", grid)
        if heading is not None:
            found["reference.yaw"] = _derive(heading)
        return {channel: _smooth(values, _SMOOTHED) for channel, values in found.items()}

    def find_accelerations(self) -> dict[str, np.ndarray]:
        """By channel (n,), m/s² along the car on one grid. The accelerometer comes first."""
        grid = self._find_grid()
        found = {}
        forward = self._along(ACCELEROMETERS, 0, grid)
        if forward is not None:
            found[ACCELEROMETERS[0]] = forward
        for channel in CAR_SPEEDS:
            speed = self._interpolate(channel, grid)
            if speed is not None:
                found[channel] = _derive(speed)
        wheels = dict(self._find_wheels(grid))
        found |= {channel: _derive(speed) for channel, speed in wheels.items()}
        return {channel: _smooth(values, _SMOOTHED_LONG) for channel, values in found.items()}

    def find_track(self) -> MeasuredPath | None:
        """What the receiver has of the path, with all speeds; None without places or courses."""
        grid = self._find_grid()
        latitude, longitude = (self._interpolate(c, grid) for c in _PLACE)
        course = self._interpolate("gnss.course", grid)
        if course is None:
            north, east = (self._interpolate(c, grid) for c in _VELOCITY)
            course = None if north is None or east is None else np.arctan2(east, north)
        if latitude is None or longitude is None or course is None:
            return None
        speeds = {channel: self._interpolate(channel, grid) for channel in CAR_SPEEDS}
        wheels = [speed for _, speed in self._find_wheels(grid)]
        speeds[WHEEL_SPEEDS] = np.mean(wheels, axis=0) if wheels else None
        return MeasuredPath(latitude, longitude, course, {n: s for n, s in speeds.items() if s is not None})

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
        for channel in CAR_SPEEDS:
            speed = self._interpolate(channel, grid)
            if speed is not None:
                return speed
        wheels = [speed for _, speed in self._find_wheels(grid)]
        return np.mean(wheels, axis=0) if wheels else None


def _derive(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.gradient(values, STEP)
    return found


def _smooth(values: np.ndarray, seconds: float) -> np.ndarray:
    n = round(seconds / STEP) | 1
    if len(values) < n:
        return np.full_like(values, np.nan)
    found: np.ndarray = np.convolve(values, np.full(n, 1.0 / n), mode="same")
    # At the ends the mean is of fewer samples.
    found[: n // 2] = found[len(found) - n // 2 :] = np.nan
    return found
