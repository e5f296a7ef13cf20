"""The measurements of a simulated drive: truth at the sensors' places, with their errors.

Every sensor draws from a random stream of its own, so that changing one leaves the others as they were.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal

import numpy as np
import pymap3d

from vehicled.messages import WHEELS, Measurement
from vehicled.points import rotations
from vehicled.units import NonNegative, Positive, Range, Unit, Vector

SOURCES = ("imu", "gnss", "wheel.angle", "wheel.speed", "steer", "brake", "torque", "vehicle")
"""Sensors by the names under which they report; their order numbers their random streams."""

_Percent = Unit("%", plain=True)
_Share = Annotated[float, _Percent, Range(0.0, 1.0)]
_Rate = Annotated[float, Unit("Hz", plain=True), Range(0.01, 1000.0)]
_Time = Annotated[float, Unit("s", plain=True), NonNegative]


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Of a scalar signal, in its own unit. What is drawn is drawn once per drive and component."""

    noise: Annotated[float, NonNegative] = 0.0
    """White, 1 σ per sample."""
    bias: Annotated[float, NonNegative] = 0.0
    """1 σ from which the constant bias is drawn."""
    bias_walk: Annotated[float, NonNegative] = 0.0
    """1 σ by which the bias walks within a second."""
    scale: _Share = 0.0
    """1 σ from which the scale error is drawn."""
    quantisation: Annotated[float, NonNegative] = 0.0
    """Step of the readings."""

    def apply(self, true: np.ndarray, dt: float, random: np.random.Generator) -> np.ndarray:
        """Readings (n, k) of the true values (n, k) sampled every `dt` s."""
        n, k = true.shape
        white, walk = random.standard_normal((2, n, k))
        bias, scale = random.standard_normal((2, k))
        walk[0] = 0.0
        drift = self.bias * bias + self.bias_walk * math.sqrt(dt) * np.cumsum(walk, axis=0)
        value: np.ndarray = true * (1 + self.scale * scale) + drift + self.noise * white
        if self.quantisation > 0:
            value = np.round(value / self.quantisation) * self.quantisation
        return value


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """When a sensor measures, how late samples arrive, and how many are lost."""

    rate: _Rate = 100.0
    latency: _Time = 0.0
    """From measured to arrived."""
    dropout: _Share = 0.0
    """Share of samples that get lost, at random."""


@dataclass(frozen=True, kw_only=True)
class SimulatedImu(Sampling):
    """Default: an industrial MEMS unit, with the vibration of a car as noise."""

    rate: _Rate = 250.0
    accelerometer: Annotated[Errors, Unit("m/s²", plain=True)] = Errors(
        noise=0.05, bias=0.02, bias_walk=5e-4, scale=5e-4
    )
    gyro: Annotated[Errors, Unit("rad/s", plain=True)] = Errors(
        noise=0.002, bias=0.002, bias_walk=1e-5, scale=5e-4
    )


@dataclass(frozen=True, kw_only=True)
class SimulatedGnss(Sampling):
    """A receiver; position errors are split into white noise and a slow wander (Gauss–Markov)."""

    horizontal: Annotated[float, Unit("m", plain=True), NonNegative]
    """1 σ per axis, white and wander together."""
    vertical: Annotated[float, Unit("m", plain=True), NonNegative]
    wander: _Share = 0.0
    """Share of that σ which wanders; white noise makes up the rest of the variance."""
    wander_time: Annotated[float, Unit("s", plain=True), Positive] = 120.0
    """Correlation time."""
    velocity: Annotated[float, Unit("m/s", plain=True), NonNegative]
    """1 σ per axis; speed over ground and course come from it."""
    quality: Annotated[int, Range(1, 5)]
    """NMEA fix quality."""


RTK = SimulatedGnss(rate=50.0, latency=0.02, horizontal=0.02, vertical=0.03, velocity=0.02, quality=4)
CONVENTIONAL = SimulatedGnss(
    rate=5.0, latency=0.08, horizontal=1.0, vertical=2.0, wander=0.5, velocity=0.1, quality=1
)
_RECEIVERS = {"rtk": RTK, "conventional": CONVENTIONAL}


@dataclass(frozen=True, kw_only=True)
class SimulatedWheelAngles(Sampling):
    """Hall sensors: counters of magnet edges, from an arbitrary phase."""

    edges: Annotated[int, Range(1, 100_000)] = 96
    """Per revolution."""


@dataclass(frozen=True, kw_only=True)
class SimulatedSignal(Sampling, Errors):
    """A scalar, or several of a kind, measured together."""


@dataclass(frozen=True, kw_only=True)
class SimulatedSteering(Sampling):
    """Encoders on rack and road wheels, each optional."""

    rack: Annotated[Errors | None, Unit("m", plain=True)] = Errors(noise=3e-5, bias=5e-5, quantisation=5e-6)
    road_wheels: Annotated[Errors | None, Unit("rad", plain=True)] = Errors(
        noise=5e-4, bias=5e-4, quantisation=3.5e-5
    )


_Source = Literal["imu", "gnss", "wheel.angle", "wheel.speed", "steer", "brake", "torque", "vehicle"]


@dataclass(frozen=True, kw_only=True)
class SimulatedSensors:
    """Those of a drive; null switches one off. One that is written out has only the errors written there."""

    imu: SimulatedImu | None = SimulatedImu()
    gnss: Literal["rtk", "conventional"] | SimulatedGnss | None = "rtk"
    wheel_angles: SimulatedWheelAngles | None = SimulatedWheelAngles()
    wheel_speeds: Annotated[SimulatedSignal | None, Unit("rad/s", plain=True)] = None
    steering: SimulatedSteering | None = SimulatedSteering()
    brake_pressure: Annotated[SimulatedSignal | None, Unit("Pa", plain=True)] = SimulatedSignal(
        noise=2e4, bias=1e4, quantisation=500.0
    )
    wheel_torques: Annotated[SimulatedSignal | None, Unit("N·m", plain=True)] = SimulatedSignal(
        noise=5.0, bias=2.0, scale=0.005, quantisation=0.2
    )
    speed: Annotated[SimulatedSignal | None, Unit("m/s", plain=True)] = SimulatedSignal(
        noise=0.03, scale=0.005, quantisation=0.01 / 3.6
    )
    origin: tuple[
        Annotated[float, Unit("deg", plain=True), Range(-math.pi / 2, math.pi / 2)],
        Annotated[float, Unit("deg", plain=True)],
        Annotated[float, Unit("m", plain=True)],
    ] = (math.radians(43.33), math.radians(-8.41), 100.0)
    """Latitude, longitude and height of the world's origin."""
    outages: dict[_Source, list[tuple[_Time, _Time]]] = field(default_factory=dict)
    """Per sensor, [from, to) during which it is silent; a GNSS receiver reports no fix."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for outages that do not end after they begin."""
        for source, intervals in self.outages.items():
            for i, (begin, end) in enumerate(intervals):
                if end <= begin:
                    yield f"outages.{source}[{i}]", f"expected [from, to], got [{begin:g}, {end:g}]"


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
        gnss = _RECEIVERS[sensors.gnss] if isinstance(sensors.gnss, str) else sensors.gnss
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
