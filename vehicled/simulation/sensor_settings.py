"""The sensors of a simulated drive, as a scenario writes them: when they measure, and with which errors."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

import numpy as np

from vehicled.simulation.equipment import Equipment
from vehicled.units import NonNegative, Positive, Range, Unit

_Source = Literal[
    "imu",
    "gnss",
    "wheel.angle",
    "wheel.speed",
    "steer",
    "brake",
    "torque",
    "vehicle",
    "gnss2",
    "velocity",
    "yaw_rate",
]
SOURCES: tuple[str, ...] = get_args(_Source)
"""Sensors by the names under which they report; their order numbers their random streams."""

_Percent = Unit("%", plain=True)
_Share = Annotated[float, _Percent, Range(0.0, 1.0)]
_Rate = Annotated[float, Unit("Hz", plain=True), Range(0.01, 1000.0)]
_Time = Annotated[float, Unit("s", plain=True), NonNegative]


Configured = Literal["configured"]
"""Instead of a sensor: one with usual errors, if it is in the configuration."""


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Errors of a scalar signal, in its unit. Bias and scale are drawn once per drive and component."""

    noise: Annotated[float, NonNegative] = 0.0
    """White, 1 σ per sample."""
    bias: Annotated[float, NonNegative] = 0.0
    """1 σ from which the constant bias is drawn."""
    bias_walk: Annotated[float, NonNegative] = 0.0
    """1 σ of the bias's random walk after one second."""
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
    """Time from measurement to arrival."""
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
    vector: bool = False
    """Whether it gives velocity as a vector with accuracy, instead of speed and course."""
    heading: Annotated[float, Unit("rad", plain=True), Positive] | Configured | None = "configured"
    """1 σ of the heading by two antennas."""


RTK = SimulatedGnss(rate=50.0, latency=0.02, horizontal=0.02, vertical=0.03, velocity=0.02, quality=4)
CONVENTIONAL = SimulatedGnss(
    rate=5.0, latency=0.08, horizontal=1.0, vertical=2.0, wander=0.5, velocity=0.1, quality=1
)
UsualReceiver = Literal["rtk", "conventional"]
RECEIVERS: dict[UsualReceiver, SimulatedGnss] = {"rtk": RTK, "conventional": CONVENTIONAL}


@dataclass(frozen=True, kw_only=True)
class SimulatedWheelAngles(Sampling):
    """Hall sensors: counters of magnet edges, from an arbitrary phase."""

    edges: Annotated[int, Range(1, 100_000)] | None = None
    """Edges per revolution; by default from the configuration's `resolution`."""


@dataclass(frozen=True, kw_only=True)
class SimulatedSignal(Sampling, Errors):
    """A scalar, or several of a kind, measured together."""


@dataclass(frozen=True, kw_only=True)
class SimulatedSteering(Sampling):
    """Encoders on rack, road wheels and steering wheel."""

    rack: Annotated[Errors | Configured | None, Unit("m", plain=True)] = "configured"
    road_wheels: Annotated[Errors | Configured | None, Unit("rad", plain=True)] = "configured"
    wheel: Annotated[Errors | Configured | None, Unit("rad", plain=True)] = "configured"
    """The steering wheel."""


_ORIGIN = (math.radians(43.33), math.radians(-8.41), 100.0)


@dataclass(frozen=True, kw_only=True)
class SimulatedSensors:
    """Sensors of a drive, by default as configured; null switches one off.

    A sensor written out here exists even if the configuration lacks it, and has only the errors written here.
    """

    imu: SimulatedImu | Configured | None = "configured"
    gnss: UsualReceiver | SimulatedGnss | Configured | None = "configured"
    """As configured: an RTK receiver."""
    gnss2: UsualReceiver | SimulatedGnss | Configured | None = "configured"
    wheel_angles: SimulatedWheelAngles | Configured | None = "configured"
    wheel_speeds: Annotated[SimulatedSignal | Configured | None, Unit("rad/s", plain=True)] = "configured"
    steering: SimulatedSteering | None = SimulatedSteering()
    brake_pressure: Annotated[SimulatedSignal | Configured | None, Unit("Pa", plain=True)] = "configured"
    wheel_torques: Annotated[SimulatedSignal | Configured | None, Unit("N·m", plain=True)] = "configured"
    speed: Annotated[SimulatedSignal | Configured | None, Unit("m/s", plain=True)] = "configured"
    velocity: Annotated[SimulatedSignal | Configured | None, Unit("m/s", plain=True)] = "configured"
    """Along and across the axes of an optical sensor."""
    yaw_rate: Annotated[SimulatedSignal | Configured | None, Unit("rad/s", plain=True)] = "configured"
    """Of the car's own stability control."""
    origin: (
        tuple[
            Annotated[float, Unit("deg", plain=True), Range(-math.pi / 2, math.pi / 2)],
            Annotated[float, Unit("deg", plain=True)],
            Annotated[float, Unit("m", plain=True)],
        ]
        | None
    ) = None
    """Latitude, longitude and height of the world's origin.

    Left out: that of the configuration, or 43.33°, −8.41°, 100 m.
    """
    outages: dict[_Source, list[tuple[_Time, _Time]]] = field(default_factory=dict)
    """Per sensor, [from, to) during which it is silent; a GNSS receiver reports no fix."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for outages that do not end after they begin."""
        for source, intervals in self.outages.items():
            for i, (begin, end) in enumerate(intervals):
                if end <= begin:
                    yield f"outages.{source}[{i}]", f"expected [from, to], got [{begin:g}, {end:g}]"

    def find_origin(self, equipment: Equipment) -> tuple[float, float, float]:
        """Origin of the world: latitude and longitude in rad, height in m."""
        return self.origin or equipment.origin or _ORIGIN
