"""Sensors on mechanisms: their readings as functions of the state, with Jacobians in q, q̇, q̈ by the compiler.

A `SensorSet` is an extension of a `CompiledMechanism`:

    sensors = SensorSet((Encoder("theta", np.radians(1.0)), Gyroscope(("P", "Q"), 1e-3)))
    m = Mechanism(CompiledMechanism(load_description("four_bar"), (sensors,)))
    sensors.calc_readings(m)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody.model import Model
from vehicled.multibody.natural import Combination
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import KernelHandle, Program
from vehicled.symbolic.vector import Vector

NOT_COMPILED = (
    "expected a mechanism that was compiled with these sensors, as by Mechanism.load(NAME, [SENSORS])"
)


class Running(Protocol):
    """A mechanism, or several side by side, in a workspace on which kernels run."""

    def view(self, name: str) -> np.ndarray:
        """An array of the program, a view. Raises KeyError."""

    def call(self, kernel: KernelHandle) -> None:
        """Run a kernel."""


class Sensor(Protocol):
    """Adds its readings to a mechanism; all have the standard deviation `sigma`. Errors name it by `str(…)`."""

    @property
    def sigma(self) -> float:
        """Standard deviation of each reading, in its unit."""

    def read(self, model: Model) -> list[Atom]:
        """Readings as functions of q, q̇, q̈. Raises UsageError for unknown points or coordinates."""


@dataclass(frozen=True)
class Encoder:
    """Measures a coordinate: an angle (rad) or a distance (m)."""

    coordinate: str
    sigma: float

    def __str__(self) -> str:
        return f"encoder of {self.coordinate}"

    def read(self, model: Model) -> list[Atom]:
        """The coordinate itself. Raises UsageError if there is no such coordinate."""
        for c in model.system.coordinates:
            if c.name == self.coordinate:
                return [c.q]
        names = ", ".join(c.name for c in model.system.coordinates)
        raise UsageError(f"encoder: expected one of {names}, got '{self.coordinate}'")


@dataclass(frozen=True)
class Gyroscope:
    """Measures the angular rate of the line between two points of a planar mechanism, rad/s."""

    points: tuple[str, str]
    sigma: float

    def __post_init__(self) -> None:
        """Raises UsageError for anything but two points."""
        _check_line("gyroscope", self.points)

    def __str__(self) -> str:
        return f"gyroscope on {'–'.join(self.points)}"

    def read(self, model: Model) -> list[Atom]:
        """ω of the line, rad/s. Raises UsageError in space, and for unknown points."""
        if not model.planar:
            raise UsageError("gyroscope: expected a planar mechanism")
        position, velocity, _ = _segment(model, "gyroscope", self.points)
        return [model.cross(position, velocity) / position.dot(position)]


@dataclass(frozen=True)
class Position:
    """Measures the position of a point, m: two components in the plane, three in space."""

    point: str
    sigma: float

    def __str__(self) -> str:
        return f"position of {self.point}"

    def read(self, model: Model) -> list[Atom]:
        """Components of the point's position, m. Raises UsageError for an unknown point."""
        return list(_point(model, "position", self.point).position)[: model.dimension]


@dataclass(frozen=True)
class Accelerometer:
    """Measures the specific force (acceleration less gravity) at a point along the line between two points, m/s²."""

    point: str
    along: tuple[str, str]
    sigma: float

    def __post_init__(self) -> None:
        """Raises UsageError for anything but two points."""
        _check_line("accelerometer", self.along)

    def __str__(self) -> str:
        return f"accelerometer at {self.point} along {'–'.join(self.along)}"

    def read(self, model: Model) -> list[Atom]:
        """(a − g)·u at the point, m/s². Raises UsageError for unknown points."""
        acceleration = _point(model, "accelerometer", self.point).acceleration
        if model.description.gravity is not None:
            acceleration = acceleration - model.value("gravity", model.description.gravity, "m/s²").atoms
        direction, *_ = _segment(model, "accelerometer", self.along)
        return [acceleration.dot(direction.unit())]


def _check_line(who: str, points: object) -> None:
    """Raises UsageError unless these are the names of two different points."""
    pair = points if isinstance(points, (tuple, list)) else ()
    if len({name for name in pair if isinstance(name, str)}) != 2 or len(pair) != 2:
        raise UsageError(f"{who}: expected the names of two points, such as ('A', 'B'), got {points!r}")


def _point(model: Model, who: str, name: str) -> Combination:
    if name not in model.points:
        raise UsageError(f"{who}: expected one of the points {', '.join(model.points)}, got '{name}'")
    return model.points[name]


def _segment(model: Model, who: str, points: tuple[str, str]) -> tuple[Vector, Vector, Vector]:
    """Vector from the first point to the second, and its first and second derivative."""
    apart = _point(model, who, points[1]) - _point(model, who, points[0])
    return apart.position, apart.velocity, apart.acceleration


class SensorSet:
    """Sensors in order, with k readings in total, as kernels of one compiled mechanism."""

    def __init__(self, sensors: Sequence[Sensor], name: str = "readings") -> None:
        """`name`: of its kernels and arrays, for a mechanism with several sets.

        Raises UsageError without any sensor, and for a standard deviation that is not positive.
        """
        if not sensors:
            raise UsageError("sensors: expected at least one")
        for sensor in sensors:
            if not (isinstance(sensor.sigma, Real) and 0.0 < sensor.sigma < math.inf):
                raise UsageError(f"{sensor}: sigma: expected a number above 0, got {sensor.sigma!r}")
        self.sensors, self.name = tuple(sensors), name
        self.sigma = np.zeros(0)
        """(k,) standard deviations; known after a mechanism was compiled with the sensors."""
        self.reading_names: list[str] = []
        """(k,) likewise: the sensor of each reading, and its component."""
        self._readings, self._jacobians = KernelHandle(name), KernelHandle(f"{name}_jacobians")

    def __call__(self, program: Program, model: Model) -> None:
        """Add the kernels NAME and `NAME_jacobians`, on the arrays NAME and `NAME_by_q`, `…_by_qd`, `…_by_qdd`.

        Raises UsageError naming the sensor.
        """
        graph, coordinates = model.graph, model.system.coordinates
        read, self.reading_names = [], []
        for sensor in self.sensors:
            components = sensor.read(model)
            read += [(sensor.sigma, r) for r in components]
            several = len(components) > 1
            self.reading_names += [
                f"{sensor}, component {i}" if several else str(sensor) for i in range(1, len(components) + 1)
            ]
        self.sigma = np.array([sigma for sigma, _ in read])
        n = len(coordinates)
        program.kernel(self.name, zip(program.array(self.name, len(read)), (r for _, r in read), strict=True))
        stores: list[tuple[Atom, Atom]] = []
        for by in _RATES:
            entries = graph.jacobian([reading for _, reading in read], [getattr(c, by) for c in coordinates])
            places = program.sparse_array(
                f"{self.name}_by_{by}", len(read) * n, [i * n + k for i, k in entries]
            )
            stores += zip(places, entries.values(), strict=True)
        program.kernel(f"{self.name}_jacobians", stores)

    def check(self, readings: Sequence[float] | np.ndarray | None) -> np.ndarray | None:
        """(k,) readings of a caller as an array; None is returned as it is.

        Raises UsageError for another number of readings, and for one that is not finite, with the sensor's
        name.
        """
        if readings is None:
            return None
        wanted = f"readings: expected {len(self.sigma)} ({', '.join(self.reading_names)})"
        try:
            values = np.asarray(readings, dtype=float)
        except (TypeError, ValueError):
            raise UsageError(f"{wanted}, got {readings!r}") from None
        if values.shape != self.sigma.shape:
            got = len(values) if values.ndim == 1 else f"an array of shape {values.shape}"
            raise UsageError(f"{wanted}, got {got}")
        if not np.all(np.isfinite(values)):
            k = int(np.argmin(np.isfinite(values)))
            raise UsageError(f"{self.reading_names[k]}: expected a finite reading, got {values[k]:g}")
        return values

    def calc_readings(self, mechanism: Running) -> np.ndarray:
        """(k,) readings without noise, from the mechanism's q, q̇, q̈; (k, width) for several instances.

        Raises UsageError for a mechanism that was not compiled with the sensors.
        """
        self._call(mechanism, self._readings)
        return mechanism.view(self.name).copy()

    def _call(self, mechanism: Running, kernel: KernelHandle) -> None:
        try:
            mechanism.call(kernel)
        except KeyError:
            raise UsageError(f"{self.name}: {NOT_COMPILED}") from None

    def calc_jacobians(self, mechanism: Running) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(k, n) each: Jacobians h_q, h_q̇, h_q̈. Raises UsageError as `calc_readings`."""
        self._call(mechanism, self._jacobians)
        h_q, h_qd, h_qdd = (
            mechanism.view(f"{self.name}_by_{by}").reshape(len(self.sigma), -1) for by in _RATES
        )
        return h_q, h_qd, h_qdd


_RATES = ("q", "qd", "qdd")
