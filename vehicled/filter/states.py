"""The error states: names, units, meaning, initial variance and process noise, all in one table.

Sanjurjo's 20 states (errors of r1, ψ, v1z, v2z, θ1…θ4 and of their rates) come first, and forces of tyres where they
respond. Then come the slow errors of the sensors, which each source declares for itself, and those of the model.
Everything that needs a place in the state vector, a name or a variance takes it from here.

Rates are counted as a correction carries them along: along and across the heading, normal to the ground, and about
the car's own axes. The rate of a wheel is that of its slip, beside what rolling follows from the speed of the car.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from vehicled.filter.settings import Filter
from vehicled.messages import WHEELS

UNKNOWN_YAW = 1e-4
"""rad²: an unknown heading is not estimated before the first course over ground, as a wide variance would be
linearised over far too wide a range."""
_SIDESLIP = 0.01
"""rad: of a car that moves when the filter is initialised."""
_LEVEL = 1e-3
"""Standard deviation of what is known when the filter is initialised but not without rounding, in SI units: position
where the world frame is the car's own (m); velocity across and upwards (m/s), rates of the slopes (rad/s) and lateral
force (m/s²) of a car on its springs on level ground. Zero would leave the covariance singular."""
_ANY_ANGLE = 10.0
"""rad²: variance of the angle of a wheel, which its counter counts from anywhere: unknown within a turn."""
_SLIP_AT_REST = 0.1
"""rad/s: of a wheel beside rolling, as its rate is measured."""
_SLIP = 0.002
"""Share of a wheel's rate by which it slips beside the model when a moving car is initialised."""
_WHEEL_RADIUS = 0.3
"""m: of a car's wheels, roughly, for its rate from the speed."""
_TRAVEL = 1e-4
"""m and m/s: of suspensions at rest; what their process adds within a second is far more."""
_DRIVE = 1.0
"""m/s²: of drive and brake force when the filter is initialised; cars brake by more only for a short while."""
_BODY_FREQUENCY = 9.0
"""rad/s: of a car's body on its springs."""

S = TypeVar("S")
Values = float | Sequence[float]
"""One number for every element of a group, or one per element."""


@dataclass(frozen=True)
class InitialConditions:
    """What the filter is initialised with, as far as variances depend on it."""

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
    """In `vehicled tune`; empty for one that is not found from innovations."""
    meaning: str
    unit: str
    path: tuple[str | int, ...]
    """Keys from the top of the configuration."""
    is_model_error: bool = True
    """Whether it grows with the error of the model; not so what drives the car where nothing measures it."""
    channels: tuple[str, ...] = ()
    """Of a sensor: those whose samples show their white noise by themselves."""


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
    """Of states that fade; None for those that persist. Where it gives None, the source sets it while running."""
    settings: tuple[NoiseSetting, ...] = ()
    """Settings that density and process come from."""
    needs: tuple[str, ...] = ()
    """Kinds of observation of which one at least must be active, or else the states are taken as zero. What only the
    model contradicts is not learned from the model."""
    limit: float | None = None
    """Estimates stay within ± this; what seems to be further off is not taken for this error (`contradiction`)."""
    is_known: Callable[[S], bool] = lambda _: False
    """Whether it is taken as zero, with σ of 0, and needs no state."""
    contradiction: float | None = None
    """Of an error of something constant that may be given wrongly, such as a sensor's place: how many standard
    deviations of its estimate contradict its initial σ, which is then widened. None for what is never widened."""
    undoubted: tuple[str, ...] = ()
    """Elements of which that is not so: what contradicts them is rather the model."""
    alike: float = 0.0
    """Correlation of its elements with each other before any measurement."""
    is_latency: bool = False
    """Whether it says how late the samples of a sensor are."""
    carries_place: bool = False
    """Whether the place errs with it, as by the latency of fixes."""
    turn_on: float = 0.0
    """Share of the initial σ by which it changes each time that the sensor is switched on."""

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
) -> ErrorStates[S]:
    """Errors of something constant, or that creeps.

    `sigma`: by the configuration, 1 σ of each element; with 0 it is known, None where there is no such sensor.
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


def _calc_longitudinal(f: Filter) -> float:
    """Density of the noise along the car, (m/s²)²/Hz."""
    density = f.rate_noise.longitudinal**2
    if f.kind != "errorEKF_FE":
        # What the model lacks does not move these: white noise as large as it is over long times stands for it.
        density += 2.0 * f.unmodelled.time * f.unmodelled.longitudinal**2
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
    # The speed of the start is mostly that of wheels.
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
            # Not found from innovations: the filter that is tuned, errorEKF_FE, does not have it.
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
    # Its noise is the density above; only the memory is that of a process.
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
"""s: over which drive forces that nothing measures change."""
KNOWN_DRIVE = Process(0.2, 0.0)
"""Of the unknown drive force while torque and brake pressure are measured: there is none."""


def calc_unknown_drive(f: Filter) -> Process:
    """Drive and brake force, m/s², while nothing measures it."""
    return Process(_DRIVE_TIME, f.drive_force.noise * (0.5 * _DRIVE_TIME) ** 0.5)


DRIVE_FORCE = ErrorStates[Filter](
    "drive_force",
    ("",),
    "m/s²",
    "drive and brake force that nothing measures, over mass",
    limit=40.0,
    initial=lambda f, i: _DRIVE**2,
    # Set while running: whether something measures it is not known before.
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
    """What the model lacks, by the settings."""
    u = f.unmodelled
    return Process(u.time, (u.longitudinal, u.lateral, u.vertical, u.yaw))


_MOST_STEERING = 0.75
"""rad: wheels turn from stop to stop. Beyond, tie rods have no solution; without a sensor all of it is the offset."""
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
"""Of the settings of the steering sensor."""
COURSES = ("gnss.course", "gnss.velocity", "gnss2.course", "gnss2.velocity")
"""Kinds of observation of where the car moves."""
_TYRE_TIME = 100.0
"""s: over which loads, pressures and temperatures change a tyre."""
TYRE_ERROR = ErrorStates[Filter](
    "tyre_error",
    ("stiffness.front", "stiffness.rear", "friction"),
    "–",
    "relative error of the cornering stiffness of an axle, and of the friction of all tyres",
    needs=(*COURSES, "velocity", "imu.accel"),
    limit=0.6,
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
"""Tyres of one size differ from each other by a third of what they all may differ by from a file."""
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


def _creep(sigma: float) -> float:
    """Density of what changes by its own standard deviation within an hour: loads, pressures, temperatures."""
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
    # Travel and its rate have the ratio of a body on its springs.
    process=lambda f: _suspension(f, _BODY_FREQUENCY),
)


def _suspension(f: Filter, ratio: float) -> Process:
    assert f.suspension is not None
    return Process(f.suspension.time, f.suspension.travel * ratio)


CAR = (POSITION, ATTITUDE, WHEEL_ANGLE, VELOCITY, ANGULAR_RATE, WHEEL_SLIP)
"""The states of the simulated car; further those of its tyres, where they respond to errors."""
COORDINATES = (POSITION, ATTITUDE, WHEEL_ANGLE)
RATES = (VELOCITY, ANGULAR_RATE, WHEEL_SLIP)
"""Of the coordinates, in the same order."""
ACCELERATING = (TYRE_FORCE, UNMODELLED, DRIVE_FORCE)
"""What accelerates the car: past accelerations were without later corrections of it."""
MODEL = (UNMODELLED, DRIVE_FORCE, STEERING_OFFSET, TYRE_ERROR, ROLLING_RADIUS)
"""What the model lacks, and what its parameters differ by."""
STEERED = (STEERING_OFFSET, STEERING_RATIO, TYRE_ERROR)
"""What is found only beside a measured steering."""
SUSPENSION = (TRAVEL, TRAVEL_RATE)
"""Optional."""

Group = ErrorStates[Any]
