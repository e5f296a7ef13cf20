"""Error states: names, units, meaning, initial variance and process noise, all in one table.

Sanjurjo's 20 states (errors of r1, ψ, v1z, v2z, θ1…θ4 and of their rates) come first, and tyre forces if they
respond to errors. Then come the slow errors of the sensors, which each source declares for itself, and those
of the model. All code takes indices of states, names and variances from here.

Rates have the components that a correction keeps: along and across the heading, normal to the ground, and
about the car's own axes. The rate of a wheel is that of its slip: the part that does not follow from the
speed of the car by rolling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from vehicled.filter.settings import Filter
from vehicled.messages import WHEELS

UNKNOWN_YAW = 1e-4
"""rad²: an unknown heading is not estimated before the first course over ground, as a wide variance would be
linearised over too wide a range."""
_SIDESLIP = 0.01
"""rad, 1 σ: sideslip of a car that moves when the filter is initialised."""
_LEVEL = 1e-3
"""Standard deviation, in SI units, of quantities that are known at initialisation except for rounding:
position if the world frame is the car's own (m); lateral and vertical velocity (m/s), rates of the slopes
(rad/s) and lateral force (m/s²) of a car at rest on its springs on level ground. Zero would make the
covariance singular."""
_ANY_ANGLE = 10.0
"""rad²: variance of a wheel's angle, which is unknown within a turn, as its counter starts at any value."""
_SLIP_AT_REST = 0.1
"""rad/s, 1 σ: slip rate of a wheel, as its rate is measured."""
_SLIP = 0.002
"""Share of a wheel's rate, 1 σ: difference of its slip from the model's when a moving car is initialised."""
_WHEEL_RADIUS = 0.3
"""m: approximate radius of a car's wheels, for the rate from the speed."""
_TRAVEL = 1e-4
"""m and m/s, 1 σ: suspensions at rest; their process adds far more within a second."""
_DRIVE = 1.0
"""m/s², 1 σ: drive and brake force when the filter is initialised; cars brake harder only for a short
time."""
_BODY_FREQUENCY = 9.0
"""rad/s: natural frequency of a car's body on its springs."""

S = TypeVar("S")
Values = float | Sequence[float]
"""One number for every element of a group, or one per element."""


@dataclass(frozen=True)
class InitialConditions:
    """Conditions at initialisation that variances depend on."""

    speed: float
    """m/s."""
    position_known: bool
    """Whether the position comes from a fix; otherwise the world frame is the car's own."""
    yaw_variance: float
    """rad²."""


@dataclass(frozen=True)
class Process:
    """A first-order Gauss–Markov process."""

    time: float
    """Correlation time, s."""
    sigma: Values
    """Stationary standard deviation, in the unit of the group."""


@dataclass(frozen=True)
class NoiseSetting:
    """A setting of noise in the configuration."""

    name: str
    """Name in `vehicled tune`; empty for a setting that is not found from innovations."""
    meaning: str
    unit: str
    path: tuple[str | int, ...]
    """Keys from the top of the configuration."""
    is_model_error: bool = True
    """Whether it grows with the errors of the model; unmeasured inputs of the car do not."""
    channels: tuple[str, ...] = ()
    """For a sensor: channels whose samples alone show their white noise."""


def _plant(name: str, meaning: str, unit: str, *path: str) -> NoiseSetting:
    return NoiseSetting(name, meaning, unit, ("filter", *path))


@dataclass(frozen=True)
class ErrorStates(Generic[S]):
    """A group of error states of one kind; S is the section of the configuration that its numbers come from."""

    name: str
    elements: tuple[str, ...]
    unit: str
    meaning: str
    initial: Callable[[S, InitialConditions], Values]
    """Variance after the filter has been initialised, unit²."""
    density: Callable[[S], Values] = lambda _: 0.0
    """Spectral density of white noise on the state, unit²/s."""
    process: Callable[[S], Process | None] | None = None
    """Process of Gauss–Markov states; None for states that persist. If it returns None, the source sets the
    process while running."""
    settings: tuple[NoiseSetting, ...] = ()
    """Settings that density and process come from."""
    needs: tuple[str, ...] = ()
    """Kinds of observation, at least one of which must be active; otherwise the states are taken as zero. A
    state that only the model shows would be estimated from errors of the model."""
    limit: float | None = None
    """Estimates are limited to ± this; a larger apparent error has another cause (`contradiction`)."""
    is_known: Callable[[S], bool] = lambda _: False
    """Whether it is known (σ of 0), so that it is zero and needs no state."""
    contradiction: float | None = None
    """For a constant that may be configured wrongly, such as a sensor's place: number of standard deviations
    of its estimate that contradict its initial σ, which is then widened. None: never widened."""
    undoubted: tuple[str, ...] = ()
    """Elements that are never widened: contradictions are rather due to the model."""
    alike: float = 0.0
    """Correlation between its elements before any measurement."""
    is_latency: bool = False
    """Whether it is the latency of a sensor's samples."""
    carries_place: bool = False
    """Whether it causes an error of position, as the latency of fixes does."""
    turn_on: float = 0.0
    """Share of the initial σ by which it changes whenever the sensor is switched on."""
    of_road: tuple[str, ...] = ()
    """Elements that depend on the road, so that each drive begins without what an earlier one has found."""
    by_imu_time: float = 0.0
    """Unit/s: apparent change of the first element by a wrong time of the IMU's samples, the same in all drives."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the elements, as published: `group.element`, or the group's own."""
        return tuple(f"{self.name}.{e}" if e else self.name for e in self.elements)


def make_constant(
    name: str,
    elements: tuple[str, ...],
    unit: str,
    meaning: str,
    sigma: Callable[[S], float | None],
    density: Callable[[S], Values] = lambda _: 0.0,
    needs: tuple[str, ...] = (),
    contradiction: float | None = None,
    undoubted: tuple[str, ...] = (),
    alike: float = 0.0,
    limit: float | None = None,
    is_latency: bool = False,
    by_imu_time: float = 0.0,
) -> ErrorStates[S]:
    """Errors of a constant, or of a slowly creeping quantity.

    `sigma`: configured 1 σ of each element; 0: known; None: there is no such sensor.
    """
    return ErrorStates(
        name,
        elements,
        unit,
        meaning,
        initial=lambda s, i: (sigma(s) or 0.0) ** 2,
        density=density,
        needs=needs,
        is_known=lambda s: sigma(s) == 0.0,
        contradiction=contradiction,
        undoubted=undoubted,
        alike=alike,
        limit=limit,
        is_latency=is_latency,
        by_imu_time=by_imu_time,
    )


def _squares(*roots: float) -> tuple[float, ...]:
    return tuple(np.square(roots).tolist())


def _slope_density(f: Filter) -> float:
    return 2 * f.ground_slope**2 / f.ground_slope_time


POSITION = ErrorStates[Filter](
    "position",
    ("x", "y", "z"),
    "m",
    "vehicle origin, world axes",
    initial=lambda f, i: f.start.position_sigma**2 if i.position_known else _LEVEL**2,
    density=lambda f: _squares(f.position_noise.x, f.position_noise.x, f.position_noise.z),
    settings=(
        _plant("", "position", "m/√s", "position_noise", "x"),
        _plant("plant.height", "height of the road", "m/√s", "position_noise", "z"),
    ),
)
ATTITUDE = ErrorStates[Filter](
    "attitude",
    ("yaw", "v1z", "v2z"),
    "rad",
    "heading, and slopes of the chassis' x and y axes (z components of their unit vectors)",
    initial=lambda f, i: (i.yaw_variance, f.ground_slope**2, f.ground_slope**2),
    density=lambda f: (f.position_noise.yaw**2, _slope_density(f), _slope_density(f)),
    settings=(
        _plant("", "heading", "rad/√s", "position_noise", "yaw"),
        _plant("", "slope and bank of roads", "rad", "ground_slope"),
    ),
)


_WITHIN_HALF_TIME = 1.0 - (1.0 - math.exp(-0.5)) / 0.5
"""What an acceleration of a correlation time τ adds to the variance of the speed within τ/2, as a ratio to the white
noise that adds as much as it over long times."""


def _calc_longitudinal(f: Filter) -> float:
    """Density of the noise along the car, (m/s²)²/Hz."""
    density = f.rate_noise.longitudinal**2
    if f.kind != "errorEKF_FE":
        # Unmodelled accelerations do not move these cars: white noise stands for them. Sensors correct the speed
        # several times within `time`, so its density is not the one over long times.
        density += 2.0 * f.unmodelled.time * f.unmodelled.longitudinal**2 * _WITHIN_HALF_TIME
    return density


WHEEL_ANGLE = ErrorStates[Filter](
    "wheel.angle",
    WHEELS,
    "rad",
    "rotation of a wheel relative to its knuckle",
    initial=lambda f, i: _ANY_ANGLE,
    density=lambda f: f.position_noise.wheel**2,
    settings=(_plant("", "angle of a wheel", "rad/√s", "position_noise", "wheel"),),
)
VELOCITY = ErrorStates[Filter](
    "velocity",
    ("ahead", "left", "up"),
    "m/s",
    "velocity of the vehicle origin along and across the heading, and normal to the ground",
    # The speed at the start mostly comes from wheels.
    initial=lambda f, i: (
        f.start.speed_sigma**2 + (f.unknowns.rolling_radius * i.speed) ** 2,
        _LEVEL**2 + (_SIDESLIP * i.speed) ** 2,
        _LEVEL**2,
    ),
    density=lambda f: (_calc_longitudinal(f), *_squares(f.rate_noise.lateral, f.rate_noise.z)),
    settings=(
        _plant("plant.longitudinal", "acceleration along the car", "m/s²/√Hz", "rate_noise", "longitudinal"),
        _plant("", "acceleration across the car at standstill", "m/s²/√Hz", "rate_noise", "lateral"),
        _plant(
            # Not found from innovations: errorEKF_FE, the filter that is tuned, does not use it.
            "",
            "acceleration across, by speed",
            "1/s/√Hz",
            "rate_noise",
            "lateral_per_speed",
        ),
        _plant("plant.z", "vertical acceleration", "m/s²/√Hz", "rate_noise", "z"),
    ),
)
ANGULAR_RATE = ErrorStates[Filter](
    "rate",
    ("yaw", "v1z", "v2z"),
    "rad/s",
    "angular velocity about the z, −y and x axes of the chassis",
    initial=lambda f, i: (f.start.rate_sigma**2, _LEVEL**2, _LEVEL**2),
    density=lambda f: _squares(f.rate_noise.yaw, f.rate_noise.v1z, f.rate_noise.v2z),
    settings=(
        _plant("plant.yaw", "yaw acceleration", "rad/s²/√Hz", "rate_noise", "yaw"),
        _plant("plant.pitch", "pitch acceleration", "1/s²/√Hz", "rate_noise", "v1z"),
        _plant("plant.roll", "roll acceleration", "1/s²/√Hz", "rate_noise", "v2z"),
    ),
)
WHEEL_SLIP = ErrorStates[Filter](
    "wheel.slip",
    WHEELS,
    "rad/s",
    "rotation rate of a wheel beside what rolling follows from the car's speed and yaw rate",
    initial=lambda f, i: _SLIP_AT_REST**2 + (_SLIP * i.speed / _WHEEL_RADIUS) ** 2,
    density=lambda f: f.rate_noise.wheel**2,
    # Its noise is the density above; the process only gives its decay.
    process=lambda f: Process(f.slip_time, 0.0),
    settings=(_plant("plant.wheel", "slip of the wheels", "rad/s²/√Hz", "rate_noise", "wheel"),),
)
TYRE_FORCE = ErrorStates[Filter](
    "tyre_force",
    ("front", "rear"),
    "m/s²",
    "lateral force of the tyres of an axle over the mass of the car, to the left of the wheels",
    initial=lambda f, i: _LEVEL**2 + (_SIDESLIP * i.speed) ** 2,
)
_DRIVE_TIME = 2.0
"""s: correlation time of unmeasured drive forces."""
KNOWN_DRIVE = Process(0.2, 0.0)
"""Process of the unknown drive force while torque and brake pressure are measured: it is zero."""


def calc_unknown_drive(f: Filter) -> Process:
    """Process of the drive and brake force, m/s², while it is not measured."""
    return Process(_DRIVE_TIME, f.drive_force.noise * (0.5 * _DRIVE_TIME) ** 0.5)


DRIVE_FORCE = ErrorStates[Filter](
    "drive_force",
    ("",),
    "m/s²",
    "drive and brake force that nothing measures, over mass",
    limit=40.0,
    initial=lambda f, i: _DRIVE**2,
    # Set while running, as it is not known before whether the force is measured.
    process=lambda f: None,
    settings=(
        NoiseSetting(
            "drive_force.noise",
            "unknown drive force",
            "m/s²/√s",
            ("filter", "drive_force", "noise"),
            is_model_error=False,
        ),
    ),
)
UNMODELLED = ErrorStates[Filter](
    "unmodelled",
    ("ahead", "left", "up", "yaw"),
    "m/s², yaw rad/s²",
    "acceleration that the model lacks, vehicle axes",
    limit=20.0,
    initial=lambda f, i: tuple(np.square(calc_unmodelled(f).sigma).tolist()),
    process=lambda f: calc_unmodelled(f),
    settings=tuple(
        _plant(f"unmodelled.{name}", meaning, unit, "unmodelled", name)
        for name, meaning, unit in (
            ("longitudinal", "acceleration that the model lacks, ahead", "m/s²"),
            ("lateral", "acceleration that the model lacks, to the left", "m/s²"),
            ("vertical", "acceleration that the model lacks, upwards", "m/s²"),
            ("yaw", "yaw acceleration that the model lacks", "rad/s²"),
        )
    ),
)


def calc_unmodelled(f: Filter) -> Process:
    """Process of unmodelled accelerations, by the settings."""
    u = f.unmodelled
    return Process(u.time, (u.longitudinal, u.lateral, u.vertical, u.yaw))


_MOST_STEERING = 0.75
"""rad: wheels turn from stop to stop. Beyond, tie rods have no solution. Without a sensor, the whole angle is
the offset."""
STEERING_OFFSET: ErrorStates[Filter] = make_constant(
    "steering_offset",
    ("",),
    "rad",
    "angle of the front wheels beside what the steering sensor gives, to the left",
    contradiction=10.0,
    limit=_MOST_STEERING,
    sigma=lambda f: f.unknowns.steering_offset,
    density=lambda f: _creep(f.unknowns.steering_offset),
)
STEERING_RATIO: ErrorStates[Any] = make_constant(
    "steering_ratio",
    ("",),
    "–",
    "by how much farther the front wheels turn than the steering sensor gives",
    limit=0.3,
    sigma=lambda steering: steering.scale_sigma,
    density=lambda steering: _creep(steering.scale_sigma),
)
"""Its numbers come from the settings of the steering sensor."""
COURSES = ("gnss.course", "gnss.velocity", "gnss2.course", "gnss2.velocity")
"""Kinds of observation of the direction in which the car moves."""
_TYRE_TIME = 100.0
"""s: time within which loads, pressures and temperatures change a tyre."""
TYRE_ERROR = ErrorStates[Filter](
    "tyre_error",
    ("stiffness.front", "stiffness.rear", "friction"),
    "–",
    "relative error of the cornering stiffness of an axle, and of the friction of all tyres",
    needs=(*COURSES, "velocity", "imu.accel"),
    limit=0.6,
    of_road=("friction",),
    is_known=lambda f: f.unknowns.cornering_stiffness == 0.0 == f.unknowns.friction,
    initial=lambda f, i: _squares(
        f.unknowns.cornering_stiffness, f.unknowns.cornering_stiffness, f.unknowns.friction
    ),
    process=lambda f: Process(
        _TYRE_TIME,
        (f.unknowns.cornering_stiffness, f.unknowns.cornering_stiffness, f.unknowns.friction),
    ),
)
_TYRES_ALIKE = 0.88
"""Tyres of one size differ from each other by a third of their common deviation from the values in a file."""
ROLLING_RADIUS: ErrorStates[Filter] = make_constant(
    "rolling_radius",
    WHEELS,
    "–",
    "by how much more a wheel turns over a given distance than with its rolling radius",
    contradiction=10.0,
    alike=_TYRES_ALIKE,
    sigma=lambda f: f.unknowns.rolling_radius,
    density=lambda f: _creep(f.unknowns.rolling_radius),
)


CROSSFALL = ErrorStates[Filter](
    "crossfall",
    ("",),
    "rad",
    "bank that the roads of a drive have on average, upwards to the left",
    is_known=lambda f: f.unknowns.crossfall == 0.0,
    initial=lambda f, i: f.unknowns.crossfall**2,
    of_road=("",),
)
"""A car that always drives on the same side shows only its sum with a rotation of the IMU. Without this state, the
rotation alone would explain it."""


def _creep(sigma: float) -> float:
    """Density of a quantity that changes by its σ within an hour: loads, pressures, temperatures."""
    return sigma**2 / 3600.0


TRAVEL = ErrorStates[Filter](
    "suspension.travel",
    WHEELS,
    "m",
    "height of a wheel in the chassis",
    initial=lambda f, i: _TRAVEL**2,
    process=lambda f: _suspension(f, 1.0),
)
TRAVEL_RATE = ErrorStates[Filter](
    "suspension.rate",
    WHEELS,
    "m/s",
    "rate of the travel of a wheel",
    initial=lambda f, i: _TRAVEL**2,
    # The ratio of rate to travel is that of a body on its springs.
    process=lambda f: _suspension(f, _BODY_FREQUENCY),
)


def _suspension(f: Filter, ratio: float) -> Process:
    assert f.suspension is not None
    return Process(f.suspension.time, f.suspension.travel * ratio)


CAR = (POSITION, ATTITUDE, WHEEL_ANGLE, VELOCITY, ANGULAR_RATE, WHEEL_SLIP)
"""States of the simulated car, without those of its tyres, which are added if tyres respond to errors."""
COORDINATES = (POSITION, ATTITUDE, WHEEL_ANGLE)
RATES = (VELOCITY, ANGULAR_RATE, WHEEL_SLIP)
"""Rates of the coordinates, in the same order."""
ACCELERATING = (TYRE_FORCE, UNMODELLED, DRIVE_FORCE)
"""States that accelerate the car: past accelerations do not include later corrections of them."""
MODEL = (UNMODELLED, DRIVE_FORCE, STEERING_OFFSET, TYRE_ERROR, ROLLING_RADIUS, CROSSFALL)
"""Unmodelled accelerations, and errors of the model's parameters."""
STEERED = (STEERING_OFFSET, STEERING_RATIO, TYRE_ERROR)
"""States that can only be estimated with measured steering."""
SUSPENSION = (TRAVEL, TRAVEL_RATE)
"""Optional."""

Group = ErrorStates[Any]
