"""The measurements of a simulated drive: truth at the sensors' places, with their errors.

Every sensor draws from a random stream of its own, so that changing one leaves the others as they were.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pymap3d

from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import CHANNELS, WHEELS, Measurement
from vehicled.points import rotations
from vehicled.simulation.equipment import Equipment
from vehicled.simulation.sensor_settings import (
    RECEIVERS,
    RTK,
    SOURCES,
    Configured,
    Errors,
    Sampling,
    SimulatedGnss,
    SimulatedImu,
    SimulatedSensors,
    SimulatedSignal,
    SimulatedWheelAngles,
    UsualReceiver,
)
from vehicled.units import Vector

_RACK = Errors(noise=3e-5, bias=5e-5, quantisation=5e-6)
_ROAD_WHEELS = Errors(noise=5e-4, bias=5e-4, quantisation=3.5e-5)
_STEERING_WHEEL = Errors(noise=1e-3, bias=5e-3, quantisation=math.radians(0.1))
"""Errors of the electronic stability control's sensor."""
_WHEEL_SPEEDS = SimulatedSignal(rate=50.0, noise=0.05, quantisation=0.02)
"""Wheel speeds of the anti-lock system."""
_BRAKE_PRESSURE = SimulatedSignal(noise=2e4, bias=1e4, quantisation=500.0)
_WHEEL_TORQUES = SimulatedSignal(noise=5.0, bias=2.0, scale=0.005, quantisation=0.2)
_SPEED = SimulatedSignal(noise=0.03, scale=0.005, quantisation=0.01 / 3.6)
_VELOCITY = SimulatedSignal(noise=0.05, scale=0.002)
"""Velocity of an optical sensor."""
_YAW_RATE = SimulatedSignal(
    rate=100.0, noise=0.002, bias=0.02, bias_walk=1e-4, scale=0.01, quantisation=math.radians(0.1)
)
"""Yaw rate of the stability control: offset and scale by data sheets, see `sources.yaw_rate`."""
_HEADING = 0.005
"""1 σ of the heading from two antennas a metre apart, rad."""
_UPWARDS = 2.0
"""Ratio of vertical to horizontal velocity errors of a receiver: all satellites are above."""
_RECEIVERS = ("gnss", "gnss2")
_EXTRA = ("gnss.heading", "gnss2.", "velocity.", "vehicle.wz", "reference.")
"""Beginnings of channels that a car has only if its configuration says so."""


@dataclass(frozen=True, kw_only=True)
class SensorPlaces:
    """Where the sensors sit, in vehicle axes from the vehicle origin."""

    imu_position: Vector = (0.0, 0.0, 0.0)
    """m."""
    imu_rotation: Vector = (0.0, 0.0, 0.0)
    """Roll, pitch, yaw of the IMU's axes from the vehicle's, rad."""
    antenna: Vector = (0.0, 0.0, 0.0)
    """m."""
    baseline: float = 0.0
    """Direction from the first to the second antenna of a receiver with two, rad, from ahead to the left."""
    antenna2: Vector = (0.0, 0.0, 0.0)
    """Antenna of the second receiver, m."""
    baseline2: float = 0.0
    """rad, likewise."""
    velocity: Vector = (0.0, 0.0, 0.0)
    """Sensor of velocity over ground, m."""
    velocity_angle: float = 0.0
    """Direction of its x axis, rad, from ahead to the left."""


@dataclass(frozen=True)
class Track:
    """Truth over time, at equal steps short enough to be differentiated."""

    t: np.ndarray
    """(n,) s, rising from 0."""
    columns: dict[str, np.ndarray]
    """(n,) each: those of the estimates table, and the channels of steering, brake and torque."""
    gravity: float
    """m/s²."""

    def at(self, t: np.ndarray, *names: str) -> np.ndarray:
        """(len(t), len(names)) values, linear between steps, angles without jumps."""
        columns = [np.unwrap(self.columns[n]) if n in _ANGLES else self.columns[n] for n in names]
        return np.stack([np.interp(t, self.t, column) for column in columns], axis=1)


_ANGLES = ("roll", "pitch", "yaw")
_NO_COURSE_BELOW = 0.5
"""m/s: slower, a receiver's course is noise, and receivers leave it blank."""


def specific_force(track: Track, position: Vector, gravity_removed: bool = False) -> np.ndarray:
    """(n, 3) m/s² in vehicle axes that an ideal accelerometer at `position` feels at each step of the track.

    R^T (a − g) + ω̇×r + ω×(ω×r), the accelerations as differences of the velocities: what a sensor that
    integrates between its samples would read, free of the ripple of a solver's accelerations.
    """
    velocity = track.at(track.t, "vx", "vy", "vz")
    rate = track.at(track.t, "wx", "wy", "wz")
    up = rotations(*track.at(track.t, "roll", "pitch", "yaw").T)[:, 2, :]
    velocity_dot = np.gradient(velocity, track.t, axis=0, edge_order=2)
    rate_dot = np.gradient(rate, track.t, axis=0, edge_order=2)
    r = np.array(position)
    gravity = 0.0 if gravity_removed else track.gravity
    origin = velocity_dot + np.cross(rate, velocity) + gravity * up
    acceleration: np.ndarray = origin + np.cross(rate_dot, r) + np.cross(rate, np.cross(rate, r))
    return acceleration


def measure(
    track: Track,
    sensors: SimulatedSensors,
    places: SensorPlaces,
    seed: int,
    equipment: Equipment | None = None,
) -> list[Measurement]:
    """All measurements in order of arrival. Same arguments, same result, bit for bit.

    `equipment`: of the car; None: that of the prototype.
    """
    streams = dict(zip(SOURCES, np.random.SeedSequence(seed).spawn(len(SOURCES)), strict=True))
    car = _EquippedCar(track, sensors, places, equipment or Equipment())
    found = [
        m
        for source, sample in (
            ("imu", car.sample_imu),
            ("gnss", car.sample_gnss),
            ("wheel.angle", car.sample_wheel_angles),
            ("wheel.speed", car.sample_wheel_speeds),
            ("steer", car.sample_steering),
            ("brake", car.sample_brake_pressure),
            ("torque", car.sample_torques),
            ("vehicle", car.sample_speed),
            ("gnss2", car.sample_gnss2),
            ("velocity", car.sample_velocity),
            ("yaw_rate", car.sample_yaw_rate),
        )
        for m in sample(np.random.default_rng(streams[source]))
    ]
    order = {source: i for i, source in enumerate(SOURCES)}
    return sorted(found, key=lambda m: (m.arrival, m.t, order[m.source]))


_S = TypeVar("_S", bound=Sampling | Errors)
_IMU = [f"imu.{axis}" for axis in ("ax", "ay", "az", "wx", "wy", "wz")]
_ANGLES_OF_WHEELS, _SPEEDS_OF_WHEELS = ([f"wheel.{w}.{what}" for w in WHEELS] for what in ("angle", "speed"))
_TORQUES = [c for c in CHANNELS if c.startswith("torque.")]


class _EquippedCar:
    """A car with sensors that has driven: what each of them measures, with its own random numbers."""

    def __init__(
        self, track: Track, sensors: SimulatedSensors, places: SensorPlaces, equipment: Equipment
    ) -> None:
        self._sensors, self._places, self._equipment = sensors, places, equipment
        # Only wheels that can be driven have torque sensors.
        self._driven = [c for c in _TORQUES if c in track.columns]
        channels = equipment.channels
        if channels is None:
            extra = {c for c in CHANNELS if c.startswith(_EXTRA)}
            others = {*_TORQUES, *_SPEEDS_OF_WHEELS, "steer.wheel"} | extra
            channels = frozenset(CHANNELS) - others | {*self._driven}
        self._channels = channels
        self._track = _derive(track, equipment.steering_ratio)

    def _choose(self, written: _S | Configured | None, usual: _S, channels: list[str]) -> _S | None:
        """The sensor as written; else the usual one, if the car has any of its channels."""
        if isinstance(written, str):
            return None if self._channels.isdisjoint(channels) else usual
        return written

    def _select(self, channels: list[str], otherwise: list[str] | None = None) -> list[str]:
        """The channels that the car has; if only the scenario gives it the sensor, `otherwise` or all."""
        return [c for c in channels if c in self._channels] or otherwise or channels

    def sample_imu(self, random: np.random.Generator) -> Iterator[Measurement]:
        """Accelerations and rates in the axes of the IMU."""
        imu = self._choose(self._sensors.imu, SimulatedImu(), _IMU)
        if imu is None:
            return
        t, places = _times(self._track, imu), self._places
        R_vehicle_imu = rotations(*np.array(places.imu_rotation)[:, None])[0]
        force = specific_force(self._track, places.imu_position, self._equipment.gravity_removed)
        force = np.stack([np.interp(t, self._track.t, f) for f in force.T], axis=1)
        accelerations = imu.accelerometer.apply(force @ R_vehicle_imu, 1 / imu.rate, random)
        rates = imu.gyro.apply(self._track.at(t, "wx", "wy", "wz") @ R_vehicle_imu, 1 / imu.rate, random)
        readings = dict(zip(_IMU, np.hstack([accelerations, rates]).T, strict=True))
        yield from self._report("imu", t, imu, {c: readings[c] for c in self._select(_IMU)}, random)

    def sample_gnss(self, random: np.random.Generator) -> Iterator[Measurement]:
        """Fixes of the antenna, with velocity over ground, and heading."""
        places = self._places
        return self._sample_receiver("gnss", self._sensors.gnss, places.antenna, places.baseline, random)

    def sample_gnss2(self, random: np.random.Generator) -> Iterator[Measurement]:
        """Likewise for the second receiver."""
        places = self._places
        return self._sample_receiver("gnss2", self._sensors.gnss2, places.antenna2, places.baseline2, random)

    def _sample_receiver(
        self,
        name: str,
        written: UsualReceiver | SimulatedGnss | Configured | None,
        antenna: Vector,
        baseline: float,
        random: np.random.Generator,
    ) -> Iterator[Measurement]:
        if isinstance(written, str) and written != "configured":
            written = RECEIVERS[written]
        gnss = self._choose(written, RTK, [f"{name}.lat"])
        if gnss is None:
            return
        t, track = _times(self._track, gnss), self._track
        n = len(t)
        lever = np.array(antenna)
        R = rotations(*track.at(t, "roll", "pitch", "yaw").T)
        position = track.at(t, "x", "y", "z") + R @ lever
        velocity_vehicle = track.at(t, "vx", "vy", "vz") + np.cross(track.at(t, "wx", "wy", "wz"), lever)
        velocity = np.einsum("nij,nj->ni", R, velocity_vehicle)

        sigma = np.array([gnss.horizontal, gnss.horizontal, gnss.vertical])
        white = random.standard_normal((n, 3))
        wander = gauss_markov(n, 1 / gnss.rate, gnss.wander_time, random)
        noise = sigma * (math.sqrt(1 - gnss.wander**2) * white + gnss.wander * wander)
        east, north, up = (position + noise).T
        latitude, longitude, height = self._sensors.find_origin(self._equipment)
        lat, lon, alt = pymap3d.enu2geodetic(
            east, north, up, math.degrees(latitude), math.degrees(longitude), height
        )
        # Receivers measure directions from the local north at their place.
        origin = WorldOrigin(math.degrees(latitude), math.degrees(longitude), height)
        to_north = np.exp(-1j * np.array([origin.find_north(*at) for at in zip(lat, lon, strict=True)]))
        ve, vn = (velocity[:, :2] + gnss.velocity * random.standard_normal((n, 2))).T
        turned = (vn + 1j * ve) * to_north
        vn, ve = turned.real, turned.imag

        readings = {
            "lat": lat,
            "lon": lon,
            "alt": alt,
            "h_acc": np.full(n, gnss.horizontal),
            "v_acc": np.full(n, gnss.vertical),
        }
        if gnss.vector:
            vd = -velocity[:, 2] + _UPWARDS * gnss.velocity * random.standard_normal(n)
            readings |= {"vn": vn, "ve": ve, "vd": vd, "s_acc": np.full(n, gnss.velocity)}
        else:
            speed = np.hypot(ve, vn)
            course = np.where(speed >= _NO_COURSE_BELOW, np.arctan2(ve, vn) % (2 * math.pi), math.nan)
            readings |= {"speed": speed, "course": course}
        accuracy = self._choose_heading(gnss.heading, name)
        if accuracy is not None:
            along = R @ np.array([math.cos(baseline), math.sin(baseline), 0.0])
            heading = np.angle(
                (along[:, 1] + 1j * along[:, 0]) * to_north
            ) + accuracy * random.standard_normal(n)
            readings |= {"heading": heading % (2 * math.pi), "heading_acc": np.full(n, accuracy)}
        silent = self._find_silent(name, t)
        fixes = {f"{name}.{what}": np.where(silent, math.nan, values) for what, values in readings.items()}
        quality = {f"{name}.quality": np.where(silent, 0.0, float(gnss.quality))}
        yield from self._report(name, t, gnss, quality | fixes, random)

    def _choose_heading(self, written: float | str | None, name: str) -> float | None:
        """1 σ of the heading of a receiver, rad; None where it has no second antenna."""
        if isinstance(written, str):
            return _HEADING if f"{name}.heading" in self._channels else None
        return written

    def sample_wheel_angles(self, random: np.random.Generator) -> Iterator[Measurement]:
        """Counted edges, as angles."""
        hall = self._choose(self._sensors.wheel_angles, SimulatedWheelAngles(), _ANGLES_OF_WHEELS)
        if hall is None:
            return
        t = _times(self._track, hall)
        edge = 2 * math.pi / (hall.edges or self._equipment.edges)
        phase = random.random(4)
        angles = edge * np.floor(self._track.at(t, *_ANGLES_OF_WHEELS) / edge + phase)
        readings = dict(zip(_ANGLES_OF_WHEELS, angles.T, strict=True))
        yield from self._report("wheel.angle", t, hall, readings, random)

    def sample_steering(self, random: np.random.Generator) -> Iterator[Measurement]:
        """Rack, road wheels and steering wheel."""
        steering = self._sensors.steering
        if steering is None:
            return
        t = _times(self._track, steering)
        readings: dict[str, np.ndarray] = {}
        for written, usual, channels in (
            (steering.rack, _RACK, ["steer.rack"]),
            (steering.road_wheels, _ROAD_WHEELS, ["steer.fl", "steer.fr"]),
            (steering.wheel, _STEERING_WHEEL, ["steer.wheel"]),
        ):
            errors = self._choose(written, usual, channels)
            if errors is not None:
                values = errors.apply(self._track.at(t, *channels), 1 / steering.rate, random)
                measured = dict(zip(channels, values.T, strict=True))
                readings |= {c: measured[c] for c in self._select(channels)}
        if readings:
            yield from self._report("steer", t, steering, readings, random)

    def sample_wheel_speeds(self, random: np.random.Generator) -> Iterator[Measurement]:
        """Rates of the four wheels."""
        signal = self._choose(self._sensors.wheel_speeds, _WHEEL_SPEEDS, _SPEEDS_OF_WHEELS)
        return self._sample("wheel.speed", signal, _SPEEDS_OF_WHEELS, _SPEEDS_OF_WHEELS, random)

    def sample_brake_pressure(self, random: np.random.Generator) -> Iterator[Measurement]:
        """The line pressure."""
        channels = ["brake.pressure"]
        signal = self._choose(self._sensors.brake_pressure, _BRAKE_PRESSURE, channels)
        return self._sample("brake", signal, channels, channels, random)

    def sample_torques(self, random: np.random.Generator) -> Iterator[Measurement]:
        """Drive torques of wheels or axles."""
        signal = self._choose(self._sensors.wheel_torques, _WHEEL_TORQUES, _TORQUES)
        channels = self._select(_TORQUES, self._driven)
        return self._sample("torque", signal, channels, channels, random)

    def sample_speed(self, random: np.random.Generator) -> Iterator[Measurement]:
        """The speed of the car's own bus."""
        signal = self._choose(self._sensors.speed, _SPEED, ["vehicle.speed"])
        return self._sample("vehicle", signal, ["vx"], ["vehicle.speed"], random)

    def sample_velocity(self, random: np.random.Generator) -> Iterator[Measurement]:
        """Along and across the axes of an optical sensor."""
        channels = ["velocity.x", "velocity.y"]
        signal = self._choose(self._sensors.velocity, _VELOCITY, channels)
        if signal is None:
            return
        t, track, angle = _times(self._track, signal), self._track, self._places.velocity_angle
        lever = np.array(self._places.velocity)
        velocity = track.at(t, "vx", "vy", "vz") + np.cross(track.at(t, "wx", "wy", "wz"), lever)
        axes = np.array([[math.cos(angle), math.sin(angle), 0.0], [-math.sin(angle), math.cos(angle), 0.0]])
        values = signal.apply(velocity @ axes.T, 1 / signal.rate, random)
        yield from self._report("velocity", t, signal, dict(zip(channels, values.T, strict=True)), random)

    def sample_yaw_rate(self, random: np.random.Generator) -> Iterator[Measurement]:
        """Of the car's own stability control, about the chassis' z axis."""
        signal = self._choose(self._sensors.yaw_rate, _YAW_RATE, ["vehicle.wz"])
        return self._sample("yaw_rate", signal, ["wz"], ["vehicle.wz"], random)

    def _sample(
        self,
        source: str,
        signal: SimulatedSignal | None,
        columns: list[str],
        channels: list[str],
        random: np.random.Generator,
    ) -> Iterator[Measurement]:
        """Columns of the track, measured together as those channels."""
        if signal is None:
            return
        t = _times(self._track, signal)
        values = signal.apply(self._track.at(t, *columns), 1 / signal.rate, random)
        readings = dict(zip(channels, values.T, strict=True))
        yield from self._report(source, t, signal, readings, random)

    def _find_silent(self, source: str, t: np.ndarray) -> np.ndarray:
        silent = np.zeros(len(t), dtype=bool)
        for known, intervals in self._sensors.outages.items():
            for begin, end in intervals if known == source else ():
                silent |= (t >= begin) & (t < end)
        return silent

    def _report(
        self,
        source: str,
        t: np.ndarray,
        sampling: Sampling,
        readings: dict[str, np.ndarray],
        random: np.random.Generator,
    ) -> Iterator[Measurement]:
        """Readings (n,) at t that get through, by channel, as the configuration describes them; NaN: no value."""
        lost = random.random(len(t)) < sampling.dropout
        if source not in _RECEIVERS:
            lost |= self._find_silent(source, t)
        gains, offsets = self._equipment.gains, self._equipment.offsets
        channels = list(readings)
        reported = np.stack([readings[c] / gains.get(c, 1.0) for c in channels], axis=1)
        for k, channel in enumerate(channels):
            if offset := offsets.get(channel, 0.0):  # adding a zero would turn −0 into 0
                reported[:, k] += offset
        stamped_late = round(self._equipment.latencies.get(source, 0.0) * 1e9)
        latency = max(round(sampling.latency * 1e9), stamped_late)
        for i in np.flatnonzero(~lost):
            values = {c: v for c, v in zip(channels, reported[i].tolist(), strict=True) if not math.isnan(v)}
            measured = round(t[i] * 1e9)
            yield Measurement(source, measured + stamped_late, measured + latency, values)


def _derive(track: Track, steering_ratio: float) -> Track:
    """The track with further measurable quantities: steering wheel, torques of axles (none for undriven axles)."""
    columns, zeros = dict(track.columns), np.zeros_like(track.t)
    if "steer.rack" in columns:
        columns["steer.wheel"] = columns["steer.rack"] / steering_ratio
    for axle in ("front", "rear"):
        left, right = (columns.setdefault(f"torque.{axle[0]}{side}", zeros) for side in "lr")
        columns[f"torque.{axle}"] = left + right
    return Track(track.t, columns, track.gravity)


def _times(track: Track, sampling: Sampling) -> np.ndarray:
    """(n,) s: from the start of the drive to its end at the sensor's rate."""
    return np.arange(math.floor(track.t[-1] * sampling.rate + 1e-9) + 1) / sampling.rate


def gauss_markov(n: int, dt: float, time: float, random: np.random.Generator) -> np.ndarray:
    """(n, 3) stationary first-order Gauss–Markov noise of unit variance with correlation time `time` (s)."""
    steps = random.standard_normal((n, 3))
    keep = math.exp(-dt / time)
    fresh = math.sqrt(1 - keep**2)
    noise = np.empty_like(steps)
    noise[0] = steps[0]
    for i in range(1, n):
        noise[i] = keep * noise[i - 1] + fresh * steps[i]
    return noise
