"""Yaw rate and acceleration of the car as each sensor has them, on a common grid of times."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from vehicled.log_check.expected import SMOOTHED, CarDynamics, Pair
from vehicled.log_check.grid import STEP, derive, smooth
from vehicled.log_check.tracks import MeasuredPath, MeasuredSpeed
from vehicled.messages import WHEELS, Measurement
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.sensors import Sensors
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.steering import SteeringGeometry

_LONGEST_INTERVAL = 1.3
"""Longest interval between samples that is interpolated, s."""
_SMOOTHED_LONG = 1.0
"""Length of the symmetric average of accelerations, s; that of yaw rates is `SMOOTHED`. Symmetric averages
delay neither. Wheels and body oscillate against each other longitudinally at some hertz: with shorter
averages, accelerations would correlate best at an offset of half a period."""
_SLOWEST = 3.0
"""m/s: below it, courses and quotients by the speed are noise."""
_SHARPEST = 0.6
"""Wheelbase over the smallest radius in which a car turns."""
_STEERING = ("steer.wheel", "steer.rack", "steer.fl", "steer.fr")
_WHEELS = tuple(f"wheel.{w}.{of}" for w in WHEELS for of in ("speed", "angle"))
CAR_SPEEDS = ("vehicle.speed", "gnss.speed")
"""Speeds of the car as a whole, also in bends."""
_ANGLES = ("gnss.course", "reference.yaw")
_TURNS = dict.fromkeys(_ANGLES, math.tau) | {"gnss.lon": 360.0}
"""Period of the values of angles and longitudes, in their unit."""
_PLACE = ("gnss.lat", "gnss.lon")
_VELOCITY = ("gnss.vn", "gnss.ve")
_IMU = (ACCELEROMETERS[0], GYROSCOPES[2])
WHEEL_SPEEDS = "wheel speeds"
"""Name of the antenna's speed, m/s, calculated from the wheel speeds."""
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
"""Channels that give yaw rates and accelerations, by the motion in which they are compared."""


class Window:
    """The samples of a window of some tens of seconds."""

    def __init__(self, sensors: Sensors, vehicle: Vehicle, dynamics: CarDynamics) -> None:
        self._dynamics = dynamics
        imu, gnss = sensors.imu, sensors.gnss
        self._axes = None if imu is None else imu.R_imu_vehicle.T
        self._imu_place = (0.0, 0.0, 0.0) if imu is None else imu.position
        self._antenna = (0.0, 0.0, 0.0) if gnss is None else gnss.antenna
        self._radii = {w: vehicle.axle(w).tyre.radius for w in WHEELS}
        self._wheelbase = vehicle.wheelbase
        geometry = SteeringGeometry(vehicle)
        per_rack = 1.0 / abs(geometry.rack_per_angle)
        readings = {"steer.wheel": per_rack * geometry.ratio, "steer.rack": per_rack}
        self._curvatures = {c: readings.get(c, 1.0) / vehicle.wheelbase for c in _STEERING}
        """Curvature of the car's path per reading of the steering, without understeer, 1/m per unit."""
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
        """Discard all samples."""
        self._samples.clear()
        self.begun_ns = None

    def find_yaw_rates(self) -> list[Pair]:
        """Yaw rates, rad/s, each paired with the gyroscope's; for wheels, a signal proportional to it.

        The factor of proportionality is positive. NaN where a signal is not known. Without a gyroscope, the
        first signal is the reference.
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
        fast = None if speed is None else np.where(np.abs(speed) > _SLOWEST, speed, np.nan)
        if speed is not None and fast is not None:
            for channel in _STEERING:
                reading = self._interpolate(channel, grid)
                if reading is not None:
                    found[channel] = reading * speed * self._curvatures[channel]
            lateral = self._along(ACCELEROMETERS, 1, grid)
            if lateral is not None:
                found[ACCELEROMETERS[1]] = lateral / fast
            course = self._interpolate("gnss.course", grid)
            if course is not None:
                found["gnss.course"] = np.where(np.isfinite(fast), -derive(course), np.nan)
        heading = self._interpolate("reference.yaw", grid)
        if heading is not None:
            found["reference.yaw"] = derive(heading)

        def expect(channel: str, rate: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
            if fast is not None and channel == ACCELEROMETERS[1]:
                return self._dynamics.expect_lateral(rate, fast, self._imu_place[0])
            if fast is not None and channel == "gnss.course":
                return self._dynamics.expect_course(rate, fast, self._antenna[0])
            return rate, ()

        return _pair(found, expect, SMOOTHED)

    def find_accelerations(self) -> list[Pair]:
        """Longitudinal accelerations, m/s², each paired with the accelerometer's, or else with the first one."""
        grid = self._find_grid()
        found = {}
        forward = self._along(ACCELEROMETERS, 0, grid)
        if forward is not None:
            found[ACCELEROMETERS[0]] = forward
        for channel in CAR_SPEEDS:
            speed = self._interpolate(channel, grid)
            if speed is not None:
                found[channel] = derive(speed)
        wheels = dict(self._find_wheels(grid))
        found |= {channel: derive(speed) for channel, speed in wheels.items()}

        def expect(channel: str, forward: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
            if channel in wheels:
                return self._dynamics.expect_wheel(channel.split(".")[1], forward, wheels[channel])
            return forward, ()

        return _pair(found, expect, _SMOOTHED_LONG)

    def find_departures(self) -> tuple[np.ndarray | None, dict[str, np.ndarray]]:
        """Longitudinal acceleration, m/s², and by channel the speeds that may have a sign, m/s."""
        grid = self._find_grid()
        speeds = {c: s for c, s in self._find_wheels(grid) if c.endswith(".speed")}
        of_bus = self._interpolate(CAR_SPEEDS[0], grid)
        if of_bus is not None:
            speeds[CAR_SPEEDS[0]] = of_bus
        return self._along(ACCELEROMETERS, 0, grid), speeds

    def find_track(self) -> MeasuredPath | None:
        """The receiver's path with all speeds; None without positions or courses."""
        grid = self._find_grid()
        latitude, longitude = (self._interpolate(c, grid) for c in _PLACE)
        course = self._interpolate("gnss.course", grid)
        if course is None:
            north, east = (self._interpolate(c, grid) for c in _VELOCITY)
            course = None if north is None or east is None else np.unwrap(np.arctan2(east, north))
        if latitude is None or longitude is None or course is None:
            return None
        speeds = {channel: self._interpolate(channel, grid) for channel in CAR_SPEEDS}
        known = {name: MeasuredSpeed(speed) for name, speed in speeds.items() if speed is not None}
        yaw_rate = -smooth(derive(course), SMOOTHED)
        if "vehicle.speed" in known:
            # It is not known to which point of the car this speed refers.
            moving = known["vehicle.speed"].speed
            at_antenna, _ = self._find_at_antenna(moving, yaw_rate)
            known["vehicle.speed"] = MeasuredSpeed(moving, (at_antenna,))
        wheels = self._find_wheel_speed(grid, yaw_rate)
        if wheels is not None:
            known[WHEEL_SPEEDS] = wheels
        return MeasuredPath(latitude, longitude, course, known)

    def _find_at_antenna(
        self, speed: np.ndarray, yaw_rate: np.ndarray
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
        """Speed (n,) of the antenna, m/s, and its variations, from the speed along the car's axis."""
        return self._dynamics.calc_speed_at(speed, self._limit(yaw_rate, speed), self._antenna)

    def _limit(self, yaw_rate: np.ndarray, speed: np.ndarray) -> np.ndarray:
        """Limit yaw rates (n,) to those that a car can reach: courses of a slow car are noise."""
        most = _SHARPEST * np.abs(speed) / self._wheelbase
        found: np.ndarray = np.clip(yaw_rate, -most, most)
        return found

    def _find_wheel_speed(self, grid: np.ndarray, yaw_rate: np.ndarray) -> MeasuredSpeed | None:
        """Speed of the antenna from the wheels that slip least."""
        wheels = {channel.split(".")[1]: speed for channel, speed in self._find_wheels(grid)}
        used = [w for w in self._dynamics.rolling if w in wheels] or list(wheels)
        if not used:
            return None
        found = [self._dynamics.calc_speed(w, wheels[w], self._limit(yaw_rate, wheels[w])) for w in used]
        speed = np.mean([nominal for nominal, _ in found], axis=0)
        at_antenna, moved = self._find_at_antenna(speed, yaw_rate)
        slipping = [np.mean(each, axis=0) for each in zip(*(varied for _, varied in found), strict=True)]
        return MeasuredSpeed(at_antenna, (*moved, *(at_antenna + v - speed for v in slipping)))

    def _find_grid(self) -> np.ndarray:
        ends = [times[-1] for times, _ in self._samples.values()]
        return np.arange(0.0, max(ends, default=0.0), STEP)

    def _interpolate(self, channel: str, grid: np.ndarray) -> np.ndarray | None:
        """(n,) channel interpolated on the grid, NaN outside of its samples; None if there are too few of them."""
        if channel not in self._samples:
            return None
        times, values = (np.frombuffer(a) for a in self._samples[channel])
        if len(times) < 3 or np.diff(times).max() > _LONGEST_INTERVAL:
            return None
        if channel in _TURNS:
            values = np.unwrap(values, period=_TURNS[channel])
        found: np.ndarray = np.interp(grid, times, values, left=np.nan, right=np.nan)
        return found

    def _along(self, channels: tuple[str, ...], axis: int, grid: np.ndarray) -> np.ndarray | None:
        """IMU signal along a vehicle axis; missing channels count as zero, except that of the axis itself."""
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
        """Speed of each wheel, m/s, by channel: its speed, or the derivative of its angle."""
        for wheel, radius in self._radii.items():
            speed = self._interpolate(f"wheel.{wheel}.speed", grid)
            if speed is not None:
                yield f"wheel.{wheel}.speed", speed * radius
                continue
            angle = self._interpolate(f"wheel.{wheel}.angle", grid)
            if angle is not None:
                yield f"wheel.{wheel}.angle", derive(angle) * radius

    def _find_speed(self, grid: np.ndarray) -> np.ndarray | None:
        for channel in CAR_SPEEDS:
            speed = self._interpolate(channel, grid)
            if speed is not None:
                return speed
        wheels = [speed for _, speed in self._find_wheels(grid)]
        return np.mean(wheels, axis=0) if wheels else None


def _pair(
    found: Mapping[str, np.ndarray],
    expect: Callable[[str, np.ndarray], tuple[np.ndarray, tuple[np.ndarray, ...]]],
    seconds: float,
) -> list[Pair]:
    """Each signal paired with its prediction from the first one, all averaged over some seconds."""
    (reference, motion), *others = found.items() or [("", np.zeros(0))]
    pairs = []
    for channel, measured in others:
        expected, varied = expect(channel, motion) if reference in _IMU else (motion, ())
        pairs.append(
            Pair(
                reference,
                channel,
                smooth(measured, seconds),
                smooth(expected, seconds),
                tuple(smooth(v, seconds) for v in varied),
            )
        )
    return pairs
