"""What a simulated drive consists of, as written in YAML: inputs, errors of the plant, errors of the sensors.

Plain numbers are SI (plant errors: per cent); a unit may be given with any of them.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Protocol

from vehicled.errors import SettingsError
from vehicled.reading.settings import load
from vehicled.simulation.driver import Controller, Controls, Handling, State
from vehicled.simulation.hills import Hills
from vehicled.simulation.manoeuvres import MANOEUVRES, InitialMotion
from vehicled.simulation.road import Edge, Roughness
from vehicled.simulation.sensor_settings import SimulatedSensors
from vehicled.units import Positive, Range, Unit

_Time = Annotated[float, Unit("s", plain=True)]


class Input(Protocol):
    """A scalar over time; derivatives are taken piece by piece and ignore kinks and jumps."""

    def value(self, t: float) -> float:
        """The value at t (s)."""

    def first(self, t: float) -> float:
        """Time derivative, per s."""

    def second(self, t: float) -> float:
        """Second time derivative, per s²."""


@dataclass(frozen=True)
class Constant:
    """The same value at all times."""

    level: float

    def value(self, t: float) -> float:
        """The level, at any t."""
        return self.level

    def first(self, t: float) -> float:
        """First derivative: zero."""
        return 0.0

    def second(self, t: float) -> float:
        """Second derivative: zero."""
        return 0.0


@dataclass(frozen=True)
class InputTable:
    """Linear between (t, value) points with rising t; constant before the first and after the last."""

    points: tuple[tuple[float, float], ...]

    def value(self, t: float) -> float:
        """The value at t (s), linear between the points."""
        i = bisect_right(self.points, t, key=lambda p: p[0])
        if i == 0:
            return self.points[0][1]
        return self.points[i - 1][1] + self.first(t) * (t - self.points[i - 1][0])

    def first(self, t: float) -> float:
        """First derivative at t (s): the slope of the piece that begins at or before it; zero outside."""
        i = bisect_right(self.points, t, key=lambda p: p[0])
        if i in (0, len(self.points)):
            return 0.0
        (t0, v0), (t1, v1) = self.points[i - 1], self.points[i]
        return (v1 - v0) / (t1 - t0)

    def second(self, t: float) -> float:
        """Second derivative: zero."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class Sine:
    """amplitude · sin(2π frequency (t − start)) from `start` on, zero before."""

    amplitude: float
    frequency: Annotated[float, Unit("Hz", plain=True), Positive]
    start: _Time = 0.0

    def value(self, t: float) -> float:
        """The value at t (s)."""
        return self.amplitude * math.sin(self._phase(t)) if t >= self.start else 0.0

    def first(self, t: float) -> float:
        """First derivative at t (s)."""
        rate = 2 * math.pi * self.frequency
        return self.amplitude * rate * math.cos(self._phase(t)) if t >= self.start else 0.0

    def second(self, t: float) -> float:
        """Second derivative at t (s)."""
        return -((2 * math.pi * self.frequency) ** 2) * self.value(t)

    def _phase(self, t: float) -> float:
        return 2 * math.pi * self.frequency * (t - self.start)


@dataclass(frozen=True, kw_only=True)
class _SineSetting:
    sine: Sine


_Course = float | list[tuple[_Time, float]] | _SineSetting


@dataclass(frozen=True, kw_only=True)
class DriveInputs:
    """Open-loop inputs: each a constant, a table `[[t, value], …]`, or `{sine: {…}}`."""

    rack: Annotated[_Course, Unit("m", plain=True)] = 0.0
    rear_torque: Annotated[_Course, Unit("N·m", plain=True)] = 0.0
    """Drive torque of both rear wheels together."""
    front_torque: Annotated[_Course, Unit("N·m", plain=True)] = 0.0
    """Drive torque of both front wheels together."""
    brake_pressure: Annotated[_Course, Unit("Pa", plain=True)] = 0.0

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong) for tables that are empty or whose times do not rise."""
        for name in ("rack", "rear_torque", "front_torque", "brake_pressure"):
            course = getattr(self, name)
            if isinstance(course, list):
                if not course:
                    yield name, "expected at least one [t, value]"
                for i in range(1, len(course)):
                    if course[i][0] <= course[i - 1][0]:
                        yield f"{name}[{i}]", f"expected rising times, got {course[i][0]:g} s"

    def make(self) -> "OpenLoop":
        """These settings as functions of time."""
        courses = (self.rack, self.rear_torque, self.brake_pressure, self.front_torque)
        return OpenLoop(*map(_input, courses))


def _input(course: _Course) -> Input:
    if isinstance(course, list):
        return InputTable(tuple(course))
    return course.sine if isinstance(course, _SineSetting) else Constant(course)


@dataclass(frozen=True)
class OpenLoop:
    """Inputs over time, whatever the vehicle does."""

    rack: Input
    rear_torque: Input
    brake_pressure: Input
    front_torque: Input

    def inputs(self, t: float, state: State | None = None) -> Controls:
        """The inputs at t (s); the vehicle's state has no influence."""
        courses = (self.rack, self.rear_torque, self.brake_pressure, self.front_torque)
        return Controls(*(course.value(t) for course in courses))


_Error = Annotated[float, Unit("%", plain=True), Range(-0.9, 9.0)]


@dataclass(frozen=True, kw_only=True)
class PlantErrors:
    """Relative deviations of the plant from the vehicle file: 0.05 stands for 5 % more."""

    mass: _Error = 0.0
    inertia: _Error = 0.0
    tyre_stiffness: _Error = 0.0
    friction: _Error = 0.0
    springs: _Error = 0.0
    gravity: _Error = 0.0


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The plane that is driven on; plain numbers are SI."""

    height: Annotated[float, Unit("m", plain=True)] = 0.0
    """Height of the plane at the world's origin."""
    slope: Annotated[float, Range(-0.5, 0.5)] = 0.0
    """Rise per distance to the east: `5 %` or 0.05."""
    bank: Annotated[float, Range(-0.5, 0.5)] = 0.0
    """Rise per distance to the north."""
    roughness: Roughness | None = None
    """Class of ISO 8608; the middle of the class is used."""
    edges: list[Edge] = field(default_factory=list)
    """Steps and kerbs."""
    seed: Annotated[int, Range(0)] = 0
    """Seed of the roughness."""
    hills: Hills | None = None
    """Hills along the way, in addition to the plane."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A drive: open-loop `inputs` or a built-in `manoeuvre`, with the errors of plant and sensors."""

    duration: Annotated[float, Unit("s", plain=True), Range(0.0, 86400.0, above=True)] | None = None
    """Duration of open-loop inputs; a manoeuvre has its own."""
    initial: InitialMotion | None = None
    ground: Ground = field(default_factory=Ground)
    inputs: DriveInputs | None = None
    manoeuvre: str | None = None
    plant: PlantErrors = field(default_factory=PlantErrors)
    sensors: SimulatedSensors = field(default_factory=SimulatedSensors)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong): either a known manoeuvre, or inputs with a duration."""
        if self.manoeuvre is not None and self.manoeuvre not in MANOEUVRES:
            yield "manoeuvre", f"expected one of {', '.join(MANOEUVRES)}, got '{self.manoeuvre}'"
        if (self.inputs is None) == (self.manoeuvre is None):
            yield "inputs", "expected either inputs or a manoeuvre"
        if self.inputs is not None and self.duration is None:
            yield "duration", "missing; expected a time such as '20 s'"

    @property
    def length(self) -> float:
        """How long the drive takes, s."""
        if self.duration is not None:
            return self.duration
        return MANOEUVRES[self.manoeuvre or ""].duration

    @property
    def begin(self) -> InitialMotion:
        """Initial motion: as written, else that of the manoeuvre, else rest."""
        if self.initial is not None:
            return self.initial
        return MANOEUVRES[self.manoeuvre].initial if self.manoeuvre is not None else InitialMotion()

    def make_controller(self, handling: Handling) -> Controller:
        """Controller of the drive; a new one for each drive, as drivers have a memory."""
        if self.inputs is not None:
            return self.inputs.make()
        return MANOEUVRES[self.manoeuvre or ""].make(handling, self.begin)


STANDARD_ERRORS = PlantErrors(mass=0.05, inertia=0.05, tyre_stiffness=-0.10, friction=-0.10)
"""Errors of the plant in the built-in drives, so that estimator and plant never have exactly the same
model."""


def find_scenario(name_or_path: str) -> Scenario:
    """A built-in drive by its name, or a scenario from a YAML file. Raises SettingsError."""
    if name_or_path in MANOEUVRES:
        return Scenario(manoeuvre=name_or_path, plant=STANDARD_ERRORS)
    path = Path(name_or_path)
    if not path.suffix and not path.exists():
        raise SettingsError(f"{name_or_path}: expected a YAML file or one of {', '.join(MANOEUVRES)}")
    return load(path, Scenario)
