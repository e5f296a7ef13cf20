"""What the configuration says about the sensors: where they sit, how well they measure, when to doubt them.

Positions are in vehicle axes from the vehicle origin, the centre of gravity of the car at rest. Noise is the
standard deviation of one sample, unless the sensor reports its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal

from vehicled.units import (
    Metres,
    MetresPerSecond,
    MetresPerSecondSquared,
    MetresVector,
    NonNegative,
    Positive,
    Radians,
    RadiansPerSecond,
    RadiansPerSecondVector,
    RadiansVector,
    Seconds,
    Unit,
    Vector,
)

Policy = Literal["reset", "distrust"]
"""When a source keeps failing its gate: `reset` believes the source (the variances of what it observes are
opened, counted and published as a reset); `distrust` goes on refusing it, and says so."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Chi-squared test of each measurement, and the life of its source."""

    probability: Annotated[float, Positive] = 0.9999
    """Share of good measurements that pass."""
    persistent: Annotated[int, Positive] = 25
    """Failures in a row after which `policy` applies."""
    policy: Policy = "distrust"
    timeout: Annotated[Seconds, Positive] = 1.0
    """Silence after which the source counts as lost; it starts anew with its next good measurement."""


@dataclass(frozen=True, kw_only=True)
class Gyroscopes:
    noise: Annotated[RadiansPerSecond, Positive] = 0.003
    """Of one sample, with what the model leaves unexplained."""
    bias: Annotated[RadiansPerSecond, NonNegative] = 0.01
    """At the start."""
    bias_drift: Annotated[float, Unit("rad/s/√s"), NonNegative] = 2e-5
    """Random walk of the bias."""
    offset: RadiansPerSecondVector = (0.0, 0.0, 0.0)
    """The part of the bias that is known, per axis: it is subtracted."""
    gate: Gate = field(default_factory=Gate)


@dataclass(frozen=True, kw_only=True)
class Accelerometers:
    noise: Annotated[MetresPerSecondSquared, Positive] = 0.06
    """Of one sample: sensor, vibration, uneven road."""
    model_error: Annotated[Vector, Unit("m/s²"), NonNegative] = (0.2, 0.2, 0.05)
    """What the model's accelerations leave unexplained for a while, per axis: errors of mass, torque, tyres."""
    model_error_time: Annotated[Seconds, Positive] = 1.0
    bias: Annotated[MetresPerSecondSquared, NonNegative] = 0.1
    bias_drift: Annotated[float, Unit("m/s²/√s"), NonNegative] = 2e-4
    offset: Annotated[Vector, Unit("m/s²")] = (0.0, 0.0, 0.0)
    """The part of the bias that is known, per axis: it is subtracted."""
    gravity_removed: bool = False
    """Whether the device has already subtracted gravity."""
    gate: Gate = field(default_factory=Gate)


@dataclass(frozen=True, kw_only=True)
class Imu:
    position: MetresVector = (0.0, 0.0, 0.0)
    rotation: RadiansVector = (0.0, 0.0, 0.0)
    """Roll, pitch, yaw (z-y-x) that turn vehicle axes into the IMU's."""
    gyroscopes: Gyroscopes | None = field(default_factory=Gyroscopes)
    accelerometers: Accelerometers | None = field(default_factory=Accelerometers)


@dataclass(frozen=True, kw_only=True)
class FixNoise:
    """Position noise of one kind of fix, where the receiver does not report its accuracy."""

    horizontal: Annotated[Metres, Positive]
    vertical: Annotated[Metres, Positive]
    wander: Annotated[Metres, NonNegative] = 0.0
    """The part of the noise that wanders slowly (Gauss–Markov), per axis; the rest is white."""
    wander_time: Annotated[Seconds, Positive] = 120.0
    velocity: Annotated[MetresPerSecond, Positive] = 0.1
    """Per horizontal axis: of the speed, and, divided by it, of the course."""

    def check(self) -> Iterable[tuple[str, str]]:
        if self.wander >= self.horizontal:
            yield "wander", "the part that wanders must be smaller than the whole horizontal noise"


@dataclass(frozen=True, kw_only=True)
class Gnss:
    antenna: MetresVector = (0.0, 0.0, 0.0)
    rtk_fixed: FixNoise = FixNoise(horizontal=0.02, vertical=0.03, velocity=0.02)
    rtk_float: FixNoise = FixNoise(horizontal=0.3, vertical=0.5, wander=0.2, wander_time=60.0, velocity=0.05)
    dgnss: FixNoise = FixNoise(horizontal=0.7, vertical=1.4, wander=0.35)
    single: FixNoise = FixNoise(horizontal=1.0, vertical=2.0, wander=0.5)
    trust_reported_accuracy: bool = True
    """Take the receiver's own 1-σ accuracy instead of the horizontal and vertical noise above."""
    sideslip_error: Annotated[Radians, NonNegative] = 0.001
    """What the course may be off beside the receiver's own noise: the model's sideslip is slowly wrong in corners."""
    least_speed: Annotated[MetresPerSecond, Positive] = 2.0
    """Below this the course over ground says nothing."""
    gate: Gate = field(default_factory=lambda: Gate(policy="reset"))


@dataclass(frozen=True, kw_only=True)
class WheelAngles:
    """Hall sensors that count the teeth of a ring."""

    resolution: Annotated[Radians, NonNegative] = 0.0654
    """Angle of one count."""
    noise: Annotated[Radians, Positive] = 0.002
    """Beside quantisation: pitch error of the ring, timing."""
    gate: Gate = field(default_factory=lambda: Gate(policy="reset"))


@dataclass(frozen=True, kw_only=True)
class WheelSpeeds:
    noise: Annotated[RadiansPerSecond, Positive] = 0.2
    gate: Gate = field(default_factory=Gate)


@dataclass(frozen=True, kw_only=True)
class VehicleSpeed:
    noise: Annotated[MetresPerSecond, Positive] = 0.03
    scale: Annotated[float, NonNegative] = 0.005
    """Its scale error, which the filter estimates: 1 σ."""
    gate: Gate = field(default_factory=Gate)


@dataclass(frozen=True, kw_only=True)
class SteeringInput:
    """How the steering that the model follows is read."""

    source: Literal["rack", "wheel", "road_wheels"] = "rack"
    """`rack`: steer.rack; `wheel`: steer.wheel times the steering ratio; `road_wheels`: steer.fl and steer.fr."""
    offset: float = 0.0
    """Of the source when driving straight on, in its own unit (m or rad)."""
    smoothing: Annotated[Seconds, Positive] = 0.02
    """Memory of the tracker that finds value and rate between samples."""


@dataclass(frozen=True, kw_only=True)
class WheelTorques:
    """How the drive torques that the model follows are read."""

    gain: Annotated[float, Positive] = 1.0
    """True torque over what the sensor says."""
    scale: Annotated[float, NonNegative] = 0.005
    """How far off that may be, 1 σ: what is identified of a car's forces is known no better."""


@dataclass(frozen=True, kw_only=True)
class Sensors:
    """Sensors that are used; one that is left out or null is ignored, one that never speaks is not missed."""

    imu: Imu | None = field(default_factory=Imu)
    gnss: Gnss | None = field(default_factory=Gnss)
    wheel_angles: WheelAngles | None = field(default_factory=WheelAngles)
    wheel_speeds: WheelSpeeds | None = field(default_factory=WheelSpeeds)
    vehicle_speed: VehicleSpeed | None = field(default_factory=VehicleSpeed)
    steering: SteeringInput = field(default_factory=SteeringInput)
    wheel_torques: WheelTorques = field(default_factory=WheelTorques)
