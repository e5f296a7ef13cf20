"""The built-in drives: initial motion, duration and controller of each."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from vehicled.simulation.course import CourseBuilder, double_lane_change
from vehicled.simulation.driver import Controller, DriverModel, Handling, SpeedProfile, SteeredAtSpeed
from vehicled.units import NonNegative, Unit


@dataclass(frozen=True, kw_only=True)
class InitialMotion:
    """How a drive begins; plain numbers are SI."""

    speed: Annotated[float, Unit("m/s", plain=True), NonNegative] = 0.0
    height_offset: Annotated[float, Unit("m", plain=True)] = 0.0
    """Height above the design position."""
    yaw: Annotated[float, Unit("rad", plain=True)] = 0.0
    x: Annotated[float, Unit("m", plain=True)] = 0.0
    y: Annotated[float, Unit("m", plain=True)] = 0.0


@dataclass(frozen=True)
class Manoeuvre:
    """A drive that is adapted to the car."""

    help: str
    duration: float
    """s."""
    initial: InitialMotion
    make: Callable[[Handling, InitialMotion], Controller]
    """Makes its controller; courses begin at the car's initial place."""


def _course(initial: InitialMotion) -> CourseBuilder:
    return CourseBuilder(initial.x, initial.y, initial.yaw)


def _constant(speed: float) -> Callable[[float], float]:
    return lambda t: speed


def _step_steer(car: Handling, initial: InitialMotion) -> Controller:
    speed, rise, begin = 80 / 3.6, 0.15, 2.0
    rack = car.rack_for(4.0 / speed**2, speed)

    def steer(t: float) -> float:
        u = min(max((t - begin) / rise, 0.0), 1.0)
        return rack * u * u * (3 - 2 * u)

    return SteeredAtSpeed(car, steer, _constant(speed))


def _sine_with_dwell(car: Handling, initial: InitialMotion) -> Controller:
    speed, frequency, dwell, begin = 80 / 3.6, 0.7, 0.5, 2.0
    amplitude = 2.0 * car.rack_for(0.3 * 9.81 / speed**2, speed)

    def steer(t: float) -> float:
        phase, quarter = t - begin, 0.25 / frequency
        if phase > 3 * quarter:
            phase = max(phase - dwell, 3 * quarter)
        return amplitude * math.sin(2 * math.pi * frequency * phase) if 0 < phase < 4 * quarter else 0.0

    return SteeredAtSpeed(car, steer, _constant(speed))


def _double_lane_change(car: Handling, initial: InitialMotion) -> Controller:
    course = double_lane_change(_course(initial).straight(30.0), car.width).straight(80.0)
    return DriverModel(car, course.build(), _constant(80 / 3.6))


def _slalom(car: Handling, initial: InitialMotion) -> Controller:
    course = _course(initial).straight(30.0).weave(36.0, 1.0, 4).straight(60.0)
    return DriverModel(car, course.build(), _constant(13.0))


def _constant_radius(car: Handling, initial: InitialMotion) -> Controller:
    course = _course(initial).straight(20.0).corner(40.0, 6 * math.pi, 20.0).straight(20.0)
    return DriverModel(car, course.build(), SpeedProfile((0, 5), (8, 5), (68, 15.5), (70, 15.5)))


def _acceleration_and_braking(car: Handling, initial: InitialMotion) -> Controller:
    speed = SpeedProfile(
        *((0, 0), (1, 0), (11, 25), (12.5, 25), (16.5, 8), (18, 8), (22, 17), (23, 17), (29, 0), (31, 0))
    )
    return DriverModel(car, _course(initial).straight(500.0).build(), speed)


def _mixed_drive(car: Handling, initial: InitialMotion) -> Controller:
    course = (
        _course(initial)
        .straight(80.0)
        # Steering steps, left and right
        .corner(100.0, 0.34, 9.0)
        .corner(100.0, -0.34, 9.0)
        .straight(38.0)
        .corner(15.0, math.pi, 12.0)
        .straight(70.0)
        .shift(44.0, 3.5)
        .straight(34.0)
        .weave(36.0, 1.0, 2)
        .straight(14.0)
        .corner(22.0, math.pi, 14.0)
        .straight(150.0)
    )
    speed = SpeedProfile(
        *((0, 0), (1.5, 0), (9.5, 19), (14.2, 19), (17, 9.3), (23.3, 9.3), (27.8, 21), (29.9, 21)),
        *((31.8, 12.8), (39.4, 12.8), (40.4, 11.3), (48, 11.3), (50.2, 16), (53.7, 0), (56, 0)),
    )
    return DriverModel(car, course.build(), speed)


MANOEUVRES: dict[str, Manoeuvre] = {
    "step_steer": Manoeuvre(
        "step of the steering at 80 km/h to 4 m/s² (ISO 7401)",
        8.0,
        InitialMotion(speed=80 / 3.6),
        _step_steer,
    ),
    "double_lane_change": Manoeuvre(
        "double lane change at 80 km/h (ISO 3888-1)", 10.0, InitialMotion(speed=80 / 3.6), _double_lane_change
    ),
    "slalom": Manoeuvre("slalom, cones 18 m apart, at 13 m/s", 18.0, InitialMotion(speed=13.0), _slalom),
    "constant_radius": Manoeuvre(
        "circle of 40 m radius, slowly rising speed (ISO 4138)",
        70.0,
        InitialMotion(speed=5.0),
        _constant_radius,
    ),
    "sine_with_dwell": Manoeuvre(
        "sine with dwell at 80 km/h, 0.7 Hz", 8.0, InitialMotion(speed=80 / 3.6), _sine_with_dwell
    ),
    "acceleration_and_braking": Manoeuvre(
        "straight on: standstill to 25 m/s, braking, again, to a stop",
        31.0,
        InitialMotion(),
        _acceleration_and_braking,
    ),
    "mixed_drive": Manoeuvre(
        "all of it in turn: start, steering steps, corners, lane change, slalom, braking, stop",
        55.744,
        InitialMotion(),
        _mixed_drive,
    ),
}
