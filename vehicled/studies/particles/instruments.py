"""What particles would read: instruments with readings of any dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vehicled.studies.particles.swarm import Swarm
from vehicled.studies.particles.weights import wrapped


class Instrument(Protocol):
    """Anything that can compare a reading with what each particle would read."""

    @property
    def multiplier(self) -> float:
        """Times the instrument's own standard deviation is what the filter takes for it: above 1 for a filter that
        trusts its particles too much, below 1 for one that trusts them too little."""

    def calc_errors(self, swarm: Swarm, reading: np.ndarray) -> np.ndarray:
        """(dimension, N) reading less what each particle would read, in standard deviations of the instrument."""


@dataclass
class AngularRate:
    """A gyroscope on a body whose angle the description names."""

    angle: str
    sigma: float
    """rad/s"""
    multiplier: float = 1.0

    def calc_errors(self, swarm: Swarm, reading: np.ndarray) -> np.ndarray:
        return (reading - swarm.get_rates(self.angle)[None]) / self.sigma


@dataclass
class Encoder:
    """An angle that the description names; a whole turn more or less makes no difference."""

    angle: str
    sigma: float
    """rad"""
    multiplier: float = 1.0

    def calc_errors(self, swarm: Swarm, reading: np.ndarray) -> np.ndarray:
        return wrapped(reading - swarm.get_angles(self.angle)[None]) / self.sigma


@dataclass
class Position:
    """Where a point is, in all its coordinates."""

    point: str
    sigma: float
    """m"""
    multiplier: float = 1.0

    def calc_errors(self, swarm: Swarm, reading: np.ndarray) -> np.ndarray:
        names = [n for n in swarm.coordinates if n.rpartition(".")[0] == self.point]
        if not names:
            raise ValueError(f"no point {self.point!r} with coordinates of its own")
        predicted = np.array([swarm.get_coordinate(n) for n in names])
        return (np.reshape(reading, (-1, 1)) - predicted) / self.sigma
