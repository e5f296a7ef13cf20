"""Drives that are drawn at random: a road of bends, and the speed at which a driver takes each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vehicled.maths.linear_table import LinearTable
from vehicled.simulation.course import CourseBuilder, Path
from vehicled.simulation.driver import Controller, DriverModel, Handling
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import Scenario

_FASTEST, _SLOWEST = 27.0, 4.0
"""Range of the speed, m/s."""
_SMOOTH = 12.0
"""Distance over which the speed is averaged, m, as a driver does not change pedals within metres."""


@dataclass(frozen=True, kw_only=True)
class Temper:
    """Temper of the driver: ranges, m/s², from which the accelerations of each bend are drawn."""

    lateral: tuple[float, float] = (1.5, 6.0)
    accelerating: tuple[float, float] = (0.8, 2.5)
    braking: tuple[float, float] = (1.0, 5.0)


@dataclass(frozen=True, kw_only=True)
class RandomDrive(Scenario):
    """A drive along a road drawn at random from a seed; the same seed gives the same drive."""

    number: int = 1
    temper: Temper = Temper()

    @property
    def begin(self) -> InitialMotion:
        """Rolling along the road's first straight piece."""
        path, speeds = self._plan()
        return InitialMotion(
            speed=float(speeds[0]), yaw=float(path.heading[0]), x=float(path.x[0]), y=float(path.y[0])
        )

    def make_controller(self, handling: Handling) -> Controller:
        """A driver on that road."""
        path, speeds = self._plan()
        t = _times(path, speeds)
        return DriverModel(handling, path, LinearTable(t, speeds))

    def _plan(self) -> tuple[Path, np.ndarray]:
        """The road, long enough for the drive, and the speed at each of its points, m/s."""
        random = np.random.default_rng([self.number, 12])
        return _lay(random, self.temper, _FASTEST * self.length)


def _lay(random: np.random.Generator, temper: Temper, length: float) -> tuple[Path, np.ndarray]:
    builder = CourseBuilder(heading=random.uniform(-math.pi, math.pi)).straight(40.0)
    marks = [(0.0, temper.lateral[0])]
    laid = 40.0
    while laid < length:
        piece = random.choice(["bend", "bend", "hairpin", "straight", "change", "weave"])
        marks.append((laid, random.uniform(*temper.lateral)))
        laid += _add(builder, str(piece), random)
    path = builder.build()
    starts, laterals = np.array(marks).T
    lateral = laterals[np.clip(np.searchsorted(starts, path.s, "right") - 1, 0, None)]
    wanted = np.sqrt(lateral / np.maximum(np.abs(path.curvature), 1e-6))
    wanted = np.clip(wanted, _SLOWEST, random.uniform(0.6, 1.0) * _FASTEST)
    gain, loss = random.uniform(*temper.accelerating), random.uniform(*temper.braking)
    return path, _smooth(_reachable(wanted, path.s[1] - path.s[0], gain, loss), path)


def _add(builder: CourseBuilder, piece: str, random: np.random.Generator) -> float:
    """Append a piece with a short straight after it; its length, m."""
    side = random.choice([-1.0, 1.0])
    rest = random.uniform(10.0, 40.0)
    if piece == "bend":
        radius, angle = random.uniform(25.0, 150.0), random.uniform(0.4, 1.6)
        transition = min(0.25 * radius, 0.5 * radius * angle)
        builder.corner(radius, side * angle, transition)
        length = radius * angle + transition
    elif piece == "hairpin":
        radius, angle = random.uniform(9.0, 18.0), random.uniform(2.0, 3.2)
        builder.corner(radius, side * angle, 10.0)
        length = radius * angle + 10.0
    elif piece == "change":
        length = random.uniform(35.0, 60.0)
        builder.shift(length, side * 3.5)
    elif piece == "weave":
        builder.weave(40.0, side * 1.0, 2)
        length = 100.0
    else:
        length = random.uniform(60.0, 180.0)
        builder.straight(length)
    builder.straight(rest)
    return length + rest


def _reachable(wanted: np.ndarray, step: float, gain: float, loss: float) -> np.ndarray:
    """The largest speeds, up to the wanted ones, that these accelerations (m/s²) allow between points."""
    squares = wanted**2
    for i in range(len(squares) - 2, -1, -1):
        squares[i] = min(squares[i], squares[i + 1] + 2 * loss * step)
    for i in range(1, len(squares)):
        squares[i] = min(squares[i], squares[i - 1] + 2 * gain * step)
    speeds: np.ndarray = np.sqrt(squares)
    return speeds


def _smooth(speeds: np.ndarray, path: Path) -> np.ndarray:
    n = round(_SMOOTH / (path.s[1] - path.s[0]))
    padded = np.pad(speeds, (n // 2, n - 1 - n // 2), mode="edge")
    return np.convolve(padded, np.full(n, 1 / n), "valid")


def _times(path: Path, speeds: np.ndarray) -> np.ndarray:
    """When each point is passed, s."""
    middle = 0.5 * (speeds[1:] + speeds[:-1])
    return np.concatenate([[0.0], np.cumsum(np.diff(path.s) / middle)])
