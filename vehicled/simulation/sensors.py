"""The measurements of a simulated drive: truth at the sensors' places, with their errors.

Every sensor draws from a random stream of its own, so that changing one leaves the others as they were.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pymap3d

from vehicled.messages import WHEELS, Measurement
from vehicled.points import rotations
from vehicled.simulation.sensor_settings import (
    RECEIVERS,
    SOURCES,
    Sampling,
    SimulatedGnss,
    SimulatedImu,
    SimulatedSensors,
    SimulatedSteering,
    SimulatedWheelAngles,
)
from vehicled.units import Vector


@dataclass(frozen=True, kw_only=True)
class SensorPlaces:
    """Where the sensors sit, in vehicle axes from the vehicle origin."""

    imu_position: Vector = (0.0, 0.0, 0.0)
    """m."""
    imu_rotation: Vector = (0.0, 0.0, 0.0)
    """Roll, pitch, yaw of the IMU's axes from the vehicle's, rad."""
    antenna: Vector = (0.0, 0.0, 0.0)
    """m."""


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


def specific_force(track: Track, position: Vector) -> np.ndarray:
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
    origin = velocity_dot + np.cross(rate, velocity) + track.gravity * up
    acceleration: np.ndarray = origin + np.cross(rate_dot, r) + np.cross(rate, np.cross(rate, r))
    return acceleration


def measure(track: Track, sensors: SimulatedSensors, mounting: SensorPlaces, seed: int) -> list[Measurement]:
    """All measurements in order of arrival. Same arguments, same result, bit for bit."""
    streams = dict(zip(SOURCES, np.random.SeedSequence(seed).spawn(len(SOURCES)), strict=True))

    def random(source: str) -> np.random.Generator:
        return np.random.default_rng(streams[source])

    found: list[Measurement] = []
    if sensors.imu is not None:
        found += _imu(track, sensors, sensors.imu, mounting, random("imu"))
    if sensors.gnss is not None:
        gnss = RECEIVERS[sensors.gnss] if isinstance(sensors.gnss, str) else sensors.gnss
        found += _gnss(track, sensors, gnss, mounting, random("gnss"))
    if sensors.wheel_angles is not None:
        found += _wheel_angles(track, sensors, sensors.wheel_angles, random("wheel.angle"))
    if sensors.steering is not None:
        found += _steering(track, sensors, sensors.steering, random("steer"))
    for source, signal, columns, channels in (
        ("wheel.speed", sensors.wheel_speeds, _per_wheel("speed"), _per_wheel("speed")),
        ("brake", sensors.brake_pressure, ["brake.pressure"], ["brake.pressure"]),
        ("torque", sensors.wheel_torques, _torques(track), _torques(track)),
        ("vehicle", sensors.speed, ["vx"], ["vehicle.speed"]),
    ):
        if signal is not None:
            generator = random(source)
            t = _times(track, signal)
            readings = signal.apply(track.at(t, *columns), 1 / signal.rate, generator)
            found += _report(source, t, signal, sensors, channels, readings, generator)
    order = {source: i for i, source in enumerate(SOURCES)}
    return sorted(found, key=lambda m: (m.arrival, m.t, order[m.source]))


def _per_wheel(what: str) -> list[str]:
    return [f"wheel.{w}.{what}" for w in WHEELS]


def _torques(track: Track) -> list[str]:
    """The wheels that have a torque sensor."""
    return [c for w in WHEELS if (c := f"torque.{w}") in track.columns]


def _times(track: Track, sampling: Sampling) -> np.ndarray:
    """(n,) s: from the start of the drive to its end at the sensor's rate."""
    return np.arange(math.floor(track.t[-1] * sampling.rate + 1e-9) + 1) / sampling.rate


def _silent(t: np.ndarray, source: str, sensors: SimulatedSensors) -> np.ndarray:
    silent = np.zeros(len(t), dtype=bool)
    for known, intervals in sensors.outages.items():
        for begin, end in intervals if known == source else ():
            silent |= (t >= begin) & (t < end)
    return silent


def _report(
    source: str,
    t: np.ndarray,
    sampling: Sampling,
    sensors: SimulatedSensors,
    channels: list[str],
    readings: np.ndarray,
    random: np.random.Generator,
) -> Iterator[Measurement]:
    """The rows of `readings` (n, channels) that get through; NaN stands for no value of a channel."""
    lost = random.random(len(t)) < sampling.dropout
    if source != "gnss":
        lost |= _silent(t, source, sensors)
    latency = round(sampling.latency * 1e9)
    for i in np.flatnonzero(~lost):
        values = {c: v for c, v in zip(channels, readings[i].tolist(), strict=True) if not math.isnan(v)}
        measured = round(t[i] * 1e9)
        yield Measurement(source, measured, measured + latency, values)


def _imu(
    track: Track,
    sensors: SimulatedSensors,
    imu: SimulatedImu,
    mounting: SensorPlaces,
    random: np.random.Generator,
) -> Iterator[Measurement]:
    t = _times(track, imu)
    R_vehicle_imu = rotations(*np.array(mounting.imu_rotation)[:, None])[0]
    force = specific_force(track, mounting.imu_position)
    force = np.stack([np.interp(t, track.t, f) for f in force.T], axis=1)
    accelerations = imu.accelerometer.apply(force @ R_vehicle_imu, 1 / imu.rate, random)
    rates = imu.gyro.apply(track.at(t, "wx", "wy", "wz") @ R_vehicle_imu, 1 / imu.rate, random)
    channels = ["imu.ax", "imu.ay", "imu.az", "imu.wx", "imu.wy", "imu.wz"]
    return _report("imu", t, imu, sensors, channels, np.hstack([accelerations, rates]), random)


def _gnss(
    track: Track,
    sensors: SimulatedSensors,
    gnss: SimulatedGnss,
    mounting: SensorPlaces,
    random: np.random.Generator,
) -> Iterator[Measurement]:
    t = _times(track, gnss)
    n = len(t)
    lever = np.array(mounting.antenna)
    R = rotations(*track.at(t, "roll", "pitch", "yaw").T)
    position = track.at(t, "x", "y", "z") + R @ lever
    velocity_vehicle = track.at(t, "vx", "vy", "vz") + np.cross(track.at(t, "wx", "wy", "wz"), lever)
    velocity = np.einsum("nij,nj->ni", R, velocity_vehicle)

    sigma = np.array([gnss.horizontal, gnss.horizontal, gnss.vertical])
    white = random.standard_normal((n, 3))
    wander = gauss_markov(n, 1 / gnss.rate, gnss.wander_time, random)
    east, north, up = (position + sigma * (math.sqrt(1 - gnss.wander**2) * white + gnss.wander * wander)).T
    latitude, longitude, height = sensors.origin
    lat, lon, alt = pymap3d.enu2geodetic(
        east, north, up, math.degrees(latitude), math.degrees(longitude), height
    )
    ve, vn = (velocity[:, :2] + gnss.velocity * random.standard_normal((n, 2))).T
    speed = np.hypot(ve, vn)
    course = np.where(speed >= _NO_COURSE_BELOW, np.arctan2(ve, vn) % (2 * math.pi), math.nan)

    columns = {
        "gnss.lat": lat,
        "gnss.lon": lon,
        "gnss.alt": alt,
        "gnss.h_acc": np.full(n, gnss.horizontal),
        "gnss.v_acc": np.full(n, gnss.vertical),
        "gnss.speed": speed,
        "gnss.course": course,
    }
    readings = np.stack(list(columns.values()), axis=1)
    silent = _silent(t, "gnss", sensors)
    readings[silent] = math.nan
    quality = np.where(silent, 0.0, float(gnss.quality))
    channels = ["gnss.quality", *columns]
    return _report("gnss", t, gnss, sensors, channels, np.column_stack([quality, readings]), random)


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


def _wheel_angles(
    track: Track, sensors: SimulatedSensors, hall: SimulatedWheelAngles, random: np.random.Generator
) -> Iterator[Measurement]:
    t = _times(track, hall)
    edge = 2 * math.pi / hall.edges
    phase = random.random(4)
    counts = np.floor(track.at(t, *_per_wheel("angle")) / edge + phase)
    return _report("wheel.angle", t, hall, sensors, _per_wheel("angle"), counts * edge, random)


def _steering(
    track: Track, sensors: SimulatedSensors, steering: SimulatedSteering, random: np.random.Generator
) -> Iterator[Measurement]:
    t = _times(track, steering)
    channels: list[str] = []
    readings: list[np.ndarray] = []
    for errors, names in ((steering.rack, ["steer.rack"]), (steering.road_wheels, ["steer.fl", "steer.fr"])):
        if errors is not None:
            channels += names
            readings.append(errors.apply(track.at(t, *names), 1 / steering.rate, random))
    if not channels:
        return iter(())
    return _report("steer", t, steering, sensors, channels, np.hstack(readings), random)
