"""The filter's section of the configuration: kind of filter, plant noise, errors of the model, start."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from vehicled.units import (
    Direction,
    Metres,
    MetresPerSecond,
    MetresPerSecondSquared,
    NonNegative,
    Positive,
    Radians,
    RadiansPerSecond,
    Range,
    Seconds,
    Unit,
)

AccelerationNoise = Annotated[float, Unit("m/s²/√Hz"), NonNegative]
AngularNoise = Annotated[float, Unit("rad/s²/√Hz"), NonNegative]


@dataclass(frozen=True, kw_only=True)
class RateNoise:
    """White noise on accelerations that the model has wrong: square roots of spectral densities."""

    longitudinal: AccelerationNoise = 0.03
    """Along the car, in addition to `unmodelled` and `drive_force`, which stand for torques and
    resistances."""
    lateral: AccelerationNoise = 0.01
    """Across the car at standstill, where the tyres determine the motion."""
    lateral_per_speed: Annotated[float, Unit("1/s/√Hz"), NonNegative] = 0.002
    """Increase of `lateral` per m/s of speed: the faster the car, the less the tyres determine its sideslip.

    Not used in errorEKF_FE, where `unmodelled` stands for this."""
    z: AccelerationNoise = 0.005
    yaw: AngularNoise = 0.01
    v1z: Annotated[float, Unit("1/s²/√Hz"), NonNegative] = 0.05
    """Pitch, as the slope of the chassis' x axis."""
    v2z: Annotated[float, Unit("1/s²/√Hz"), NonNegative] = 0.05
    """Roll, as the slope of the chassis' y axis."""
    wheel: AngularNoise = 2.0


@dataclass(frozen=True, kw_only=True)
class PositionNoise:
    """White noise on the coordinates themselves, in addition to that on their rates: square roots of densities."""

    x: Annotated[float, Unit("m/√s"), NonNegative] = 0.0
    z: Annotated[float, Unit("m/√s"), NonNegative] = 0.02
    """Of the ground's height along the way, as vertical corrections move the ground too."""
    yaw: Annotated[float, Unit("rad/√s"), NonNegative] = 0.0
    wheel: Annotated[float, Unit("rad/√s"), NonNegative] = 0.0


@dataclass(frozen=True, kw_only=True)
class Start:
    """Start of the filter."""

    wait_for_gnss: Annotated[Seconds, NonNegative] = 3.0
    """Without a fix for this long, the filter starts in a local frame."""
    yaw: Direction = 0.0
    """Heading until the course over ground gives it, from east, counter-clockwise."""
    yaw_sigma: Annotated[Radians, Positive] = 3.2
    position_sigma: Annotated[Metres, Positive] = 5.0
    speed_sigma: Annotated[MetresPerSecond, Positive] = 0.1
    rate_sigma: Annotated[RadiansPerSecond, Positive] = 0.01


@dataclass(frozen=True, kw_only=True)
class World:
    """Origin of the local east-north-up frame; left out, or more than 100 km from the first fix: that fix."""

    latitude: Annotated[Radians, Range(-math.pi / 2, math.pi / 2)]
    longitude: Annotated[Radians, Range(-math.pi, math.pi)]
    height: Annotated[Metres, Range(-1e3, 2e4)] = 0.0


@dataclass(frozen=True, kw_only=True)
class Unmodelled:
    """Lasting errors of the model's accelerations, as tyres, masses and air differ: standard deviations.

    Ahead, to the left and about the vertical they also act on the simulated car (`errorEKF_FE`).
    """

    longitudinal: MetresPerSecondSquared = 0.5
    lateral: MetresPerSecondSquared = 0.8
    vertical: MetresPerSecondSquared = 0.1
    yaw: Annotated[float, Unit("rad/s²"), NonNegative] = 0.3
    time: Annotated[Seconds, Positive] = 0.2
    """Correlation time."""
    adaptive: bool = True
    """Whether the standard deviations adapt to the drive, starting from these."""


@dataclass(frozen=True, kw_only=True)
class Unknowns:
    """How well the car's parameters are known, 1 σ; the filter estimates their errors. 0: not estimated."""

    cornering_stiffness: Annotated[float, NonNegative] = 0.15
    """Of each axle."""
    friction: Annotated[float, NonNegative] = 0.05
    rolling_radius: Annotated[float, NonNegative] = 0.02
    """Of each wheel."""
    steering_offset: Annotated[Radians, NonNegative] = 0.01
    """Of the front wheels when the steering sensor reads straight ahead."""
    crossfall: Annotated[Radians, NonNegative] = 0.01
    """Bank that roads have on average: most fall by 2 % to the side on which one drives."""


@dataclass(frozen=True, kw_only=True)
class DriveForce:
    """Drive and brake force as a state while torque or brake pressure is not measured."""

    noise: Annotated[float, Unit("m/s²/√s"), Positive] = 6.0
    """Random walk of the force, as acceleration of the car."""


@dataclass(frozen=True, kw_only=True)
class Suspension:
    """Errors of the four suspensions as additional states, observed by the vertical accelerometer."""

    travel: Annotated[Metres, Positive] = 5e-4
    """Error of the model's travel, 1 σ."""
    time: Annotated[Seconds, Positive] = 0.2
    """Correlation time of this error, which springs and dampers reduce."""


Kind = Literal["errorEKF", "errorEKF_EJ", "errorEKF_FE", "DEKF", "UKF"]
WITH_TYRES: tuple[Kind, ...] = ("errorEKF_EJ", "errorEKF_FE", "UKF")
"""Kinds in which tyre forces respond to errors."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The filter; a plain name in its place is its `kind`."""

    SHORT_FORM: ClassVar[str] = "kind"

    kind: Kind = "errorEKF_FE"
    """The default is the best; the others are for comparison. `errorEKF_EJ`: with the response of the tyre
    forces to sideslip and yaw rate in the transition of the errors; `errorEKF_FE`: in addition, accelerations
    that accelerometers find missing in the model act on it as a force; `DEKF`: the model is integrated by
    forward Euler, errors propagate as those of free masses; `UKF`: errors of the chassis and its suspensions
    propagate by 41 sigma points, each a whole car, the others as in `errorEKF_EJ`."""
    rate_noise: RateNoise = field(default_factory=RateNoise)
    position_noise: PositionNoise = field(default_factory=PositionNoise)
    slip_time: Annotated[Seconds, Positive] = 1.0
    """Correlation time of the difference between a wheel's slip and the model's."""
    ground_slope: Annotated[Radians, Positive] = 0.01
    """Standard deviation of slope and bank of the roads that the car drives on."""
    ground_slope_time: Annotated[Seconds, Positive] = 10.0
    """Time over which slope and bank change; together with `ground_slope` it gives the plant noise on v1z and
    v2z."""
    unmodelled: Unmodelled = field(default_factory=Unmodelled)
    unknowns: Unknowns = field(default_factory=Unknowns)
    drive_force: DriveForce = field(default_factory=DriveForce)
    suspension: Suspension | None = None
    start: Start = field(default_factory=Start)
    memory: Annotated[Seconds, Range(0.0, 5.0, above=True)] = 1.0
    """Measurements that arrive later than this after they were made are too old. The filter's history of this
    length is kept. Phones' receivers are late by 0.3 to 0.6 s."""
