"""The sensors that look at the car itself: IMU, wheels, speed from its bus."""

from __future__ import annotations

from functools import partial

import numpy as np

from vehicled.filter.covariance import UNSEEN
from vehicled.filter.vehicle_errors import CHART_PAIRS, WHEEL_ANGLE
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import WHEELS, Measurement
from vehicled.sources.fusion import Fusion
from vehicled.sources.settings import Sensors
from vehicled.units import Vector

GYRO = ("imu.wx", "imu.wy", "imu.wz")
ACCELEROMETER = ("imu.ax", "imu.ay", "imu.az")
WHEEL_ANGLES = tuple(f"wheel.{w}.angle" for w in WHEELS)
WHEEL_SPEEDS = tuple(f"wheel.{w}.speed" for w in WHEELS)
_KNOWN_ANGLE = 1e-4
"""rad²: variance of a wheel angle that has been set to what its counter says."""


def variances(sensors: Sensors) -> dict[str, float]:
    """Of one sample of each kind of observation that is made here."""
    found: dict[str, float] = {}
    if sensors.imu is not None and sensors.imu.gyroscopes is not None:
        found["imu.gyro"] = sensors.imu.gyroscopes.noise**2
    if sensors.imu is not None and sensors.imu.accelerometers is not None:
        found["imu.accel"] = sensors.imu.accelerometers.noise**2
    if sensors.wheel_angles is not None:
        angles = sensors.wheel_angles
        found |= dict.fromkeys(WHEEL_ANGLES, angles.resolution**2 / 12 + angles.noise**2)
    if sensors.wheel_speeds is not None:
        found |= dict.fromkeys(WHEEL_SPEEDS, sensors.wheel_speeds.noise**2)
    if sensors.vehicle_speed is not None:
        found["vehicle.speed"] = sensors.vehicle_speed.noise**2
    return found


def offsets(sensors: Sensors) -> dict[str, Vector]:
    """What is subtracted from the axes of each kind of observation."""
    found: dict[str, Vector] = {}
    if sensors.imu is not None and sensors.imu.gyroscopes is not None:
        found["imu.gyro"] = sensors.imu.gyroscopes.offset
    if sensors.imu is not None and sensors.imu.accelerometers is not None:
        found["imu.accel"] = sensors.imu.accelerometers.offset
    return found


class Onboard:
    """Hands their measurements to the filter."""

    def __init__(self, filter: VehicleFilter, fusion: Fusion):
        self._filter, self._fusion = filter, fusion
        self.forget()

    def configure(self, sensors: Sensors) -> None:
        """Noise, gates, and which sensors there are."""
        self._sensors, add = sensors, self._fusion.add
        self._variances, self._offsets = variances(sensors), offsets(sensors)
        if sensors.imu is not None and sensors.imu.gyroscopes is not None:
            add("imu.gyro", sensors.imu.gyroscopes.gate)
        if sensors.imu is not None and sensors.imu.accelerometers is not None:
            add("imu.accel", sensors.imu.accelerometers.gate)
        for n, (angle, speed) in enumerate(zip(WHEEL_ANGLES, WHEEL_SPEEDS, strict=True)):
            if sensors.wheel_angles is not None:
                add(angle, sensors.wheel_angles.gate, partial(self._set_angle, n))
            if sensors.wheel_speeds is not None:
                add(speed, sensors.wheel_speeds.gate)
        if sensors.vehicle_speed is not None:
            add("vehicle.speed", sensors.vehicle_speed.gate)

    def forget(self) -> None:
        """Counters may start anywhere again."""
        self._angle_seen = [False] * len(WHEELS)

    def observe(self, m: Measurement) -> None:
        """Everything in a measurement that is configured."""
        v, s, noise = m.values, self._sensors, self._variances
        if "imu.gyro" in noise:
            self._observe_axes(m, "imu.gyro", GYRO, noise["imu.gyro"])
        if "imu.accel" in noise:
            self._observe_axes(m, "imu.accel", ACCELEROMETER, noise["imu.accel"])
        if s.wheel_angles is not None:
            for n, channel in enumerate(WHEEL_ANGLES):
                if channel in v:
                    self._observe_angle(m, n, channel, noise[channel])
        if s.wheel_speeds is not None:
            for channel in WHEEL_SPEEDS:
                if channel in v:
                    self._fusion.fuse(m, channel, [v[channel]], [noise[channel]])
        if s.vehicle_speed is not None and "vehicle.speed" in v:
            self._fusion.fuse(m, "vehicle.speed", [v["vehicle.speed"]], [noise["vehicle.speed"]])

    def _observe_axes(self, m: Measurement, name: str, channels: tuple[str, ...], variance: float) -> None:
        """Gyroscopes or accelerometers, with whatever axes the measurement has."""
        v = m.values
        present = [k for k, c in enumerate(channels) if c in v]
        if len(present) == len(channels):
            value = [v[c] - off for c, off in zip(channels, self._offsets[name], strict=True)]
            self._fusion.fuse(m, name, value, [variance] * len(channels))
        elif present:
            value = [
                v[c] - off if c in v else 0.0 for c, off in zip(channels, self._offsets[name], strict=True)
            ]
            self._fusion.fuse(m, name, value, [variance if c in v else UNSEEN for c in channels], present)

    def _observe_angle(self, m: Measurement, wheel: int, channel: str, noise: float) -> None:
        if not self._angle_seen[wheel] or self._fusion.sources[channel].state == "lost":
            # Counters start anywhere: the first one sets the angle.
            self._angle_seen[wheel] = True
            self._filter.correct()
            if self._filter.judge(channel, m.t, [m.values[channel]], [noise]) is not None:
                self._set_angle(wheel, self._filter.ekf.innovation, self._filter.ekf.noise)
        self._fusion.fuse(m, channel, [m.values[channel]], [noise])

    def _set_angle(self, wheel: int, innovation: np.ndarray, _noise: np.ndarray) -> None:
        """The wheel stands as its counter says."""
        f, change = self._filter, float(innovation[0])
        f.correct()
        wheels = np.zeros((2, len(WHEELS)))
        wheels[0, wheel] = change
        f.car.correct(np.zeros(2 * CHART_PAIRS), wheels)
        f.ekf.set_variance(WHEEL_ANGLE + wheel, _KNOWN_ANGLE)
        f.note(WHEEL_ANGLE + wheel, change)
