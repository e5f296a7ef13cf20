"""Sensors on mechanisms: their readings as functions of the state, with Jacobians in q, q̇, q̈ by the compiler.

A `SensorSet` is an extension of a `CompiledMechanism`:

    sensors = SensorSet((Encoder("theta", np.radians(1.0)), Gyroscope(("P", "Q"), 1e-3)))
    m = Mechanism(CompiledMechanism(load_description("four_bar"), (sensors,)))
    sensors.calc_readings(m)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody.model import Model
from vehicled.multibody.natural import Combination
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import KernelHandle, Program
from vehicled.symbolic.vector import Vector


class Running(Protocol):
    """A mechanism, or several side by side, in a workspace that kernels run on."""

    def view(self, name: str) -> np.ndarray:
        """An array of the program, a view. Raises KeyError."""

    def call(self, kernel: KernelHandle) -> None:
        """Run a kernel."""


class Sensor(Protocol):
    """Adds its readings to a mechanism; all of them have the standard deviation `sigma`."""

    @property
    def sigma(self) -> float:
        """Standard deviation of each reading, in its unit."""

    def read(self, model: Model) -> list[Atom]:
        """Readings as functions of q, q̇, q̈. Raises UsageError for unknown points or coordinates."""


@dataclass(frozen=True)
class Encoder:
    """Reads a coordinate of its own: an angle (rad) or a distance (m)."""

    coordinate: str
    sigma: float

    def read(self, model: Model) -> list[Atom]:
        """The coordinate itself. Raises UsageError where there is no such coordinate."""
        for c in model.system.coordinates:
            if c.name == self.coordinate:
                return [c.q]
        names = ", ".join(c.name for c in model.system.coordinates)
        raise UsageError(f"encoder: expected one of {names}, got '{self.coordinate}'")


@dataclass(frozen=True)
class Gyroscope:
    """Reads how fast the line between two points of a planar mechanism turns, rad/s."""

    points: tuple[str, str]
    sigma: float

    def read(self, model: Model) -> list[Atom]:
        """ω of the line, rad/s. Raises UsageError in space, and for points that do not exist."""
        if not model.planar:
            raise UsageError("gyroscope: expected a planar mechanism")
        position, velocity, _ = _segment(model, "gyroscope", self.points)
        return [model.cross(position, velocity) / position.dot(position)]


@dataclass(frozen=True)
class Position:
    """Reads where a point is, m: two components in the plane, three in space."""

    point: str
    sigma: float

    def read(self, model: Model) -> list[Atom]:
        """Components of the point's position, m. Raises UsageError for a point that does not exist."""
        return list(_point(model, "position", self.point).position)[: model.dimension]


@dataclass(frozen=True)
class Accelerometer:
    """Reads the specific force (acceleration less gravity) at a point along the line between two points, m/s²."""

    point: str
    along: tuple[str, str]
    sigma: float

    def read(self, model: Model) -> list[Atom]:
        """(a − g)·u at the point, m/s². Raises UsageError for points that do not exist."""
        acceleration = _point(model, "accelerometer", self.point).acceleration
        if model.description.gravity is not None:
            acceleration = acceleration - model.value("gravity", model.description.gravity, "m/s²").atoms
        direction, *_ = _segment(model, "accelerometer", self.along)
        return [acceleration.dot(direction.unit())]


def _point(model: Model, who: str, name: str) -> Combination:
    if name not in model.points:
        raise UsageError(f"{who}: expected one of the points {', '.join(model.points)}, got '{name}'")
    return model.points[name]


def _segment(model: Model, who: str, points: tuple[str, str]) -> tuple[Vector, Vector, Vector]:
    """From the first point to the second, with its rates."""
    apart = _point(model, who, points[1]) - _point(model, who, points[0])
    return apart.position, apart.velocity, apart.acceleration


class SensorSet:
    """Sensors in order, k readings in all, as kernels of one compiled mechanism."""

    def __init__(self, sensors: Sequence[Sensor], name: str = "readings") -> None:
        """`name`: of its kernels and arrays, where a mechanism has several sets.

        Raises UsageError without any sensor.
        """
        if not sensors:
            raise UsageError("sensors: expected at least one")
        self.sensors, self.name = tuple(sensors), name
        self.sigma = np.zeros(0)
        """(k,) standard deviations; known when a mechanism has been compiled with the sensors."""

    def __call__(self, program: Program, model: Model) -> None:
        """Add the kernels NAME and `NAME_jacobians`, on the arrays NAME and `NAME_by_q`, `…_by_qd`, `…_by_qdd`.

        Raises UsageError naming the sensor.
        """
        graph, coordinates = model.graph, model.system.coordinates
        read = [(s.sigma, r) for s in self.sensors for r in s.read(model)]
        self.sigma = np.array([sigma for sigma, _ in read])
        n = len(coordinates)
        self._readings = program.kernel(
            self.name, zip(program.array(self.name, len(read)), (r for _, r in read), strict=True)
        )
        stores: list[tuple[Atom, Atom]] = []
        for by in _RATES:
            entries = {
                i * n + k: graph.derivative(reading, getattr(c, by))
                for i, (_, reading) in enumerate(read)
                for k, c in enumerate(coordinates)
                if reading.depends & getattr(c, by).depends
            }
            places = program.sparse_array(f"{self.name}_by_{by}", len(read) * n, list(entries))
            stores += zip(places, entries.values(), strict=True)
        self._jacobians = program.kernel(f"{self.name}_jacobians", stores)

    def calc_readings(self, mechanism: Running) -> np.ndarray:
        """(k,) without noise, of the mechanism's q, q̇, q̈; (k, width) of several."""
        mechanism.call(self._readings)
        return mechanism.view(self.name).copy()

    def calc_jacobians(self, mechanism: Running) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(k, n) each: h_q, h_q̇, h_q̈."""
        mechanism.call(self._jacobians)
        h_q, h_qd, h_qdd = (
            mechanism.view(f"{self.name}_by_{by}").reshape(len(self.sigma), -1) for by in _RATES
        )
        return h_q, h_qd, h_qdd


_RATES = ("q", "qd", "qdd")
