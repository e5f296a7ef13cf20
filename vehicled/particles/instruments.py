"""Instruments, with the readings that each particle predicts for them, of any dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from vehicled.maths.angles import wrap
from vehicled.particles.swarm import Swarm


class Instrument(Protocol):
    """An instrument compares a reading with each particle's prediction."""

    @property
    def multiplier(self) -> float:
        """Factor on the instrument's standard deviation for the filter.

        Above 1 if there are too few particles for a precise instrument.
        """

    def calc_errors(self, swarm: Swarm, reading: np.ndarray) -> np.ndarray:
        """(dimension, N) reading minus each particle's prediction, in the instrument's standard deviations."""


@dataclass
class RateInstrument:
    """A gyroscope on a body whose angle the description names, or a sensor of the rate of another coordinate."""

    name: str
    sigma: float
    """rad/s, or m/s"""
    multiplier: float = 1.0

    def calc_errors(self, swarm: Swarm, reading: np.ndarray) -> np.ndarray:
        """(1, N) reading less each particle's rate, in standard deviations."""
        normalised: np.ndarray = (reading - swarm.get_rates(self.name)[None]) / self.sigma
        return normalised


@dataclass
class CoordinateInstrument:
    """A sensor of an angle or a distance that the description names, or of a component of a point."""

    name: str
    sigma: float
    """rad, or m"""
    multiplier: float = 1.0

    def calc_errors(self, swarm: Swarm, reading: np.ndarray) -> np.ndarray:
        """(1, N) reading less each particle's value, in standard deviations; angles differ by at most half a turn."""
        errors: np.ndarray = reading - swarm.get(self.name)[None]
        return (wrap(errors) if self.name in swarm.angles else errors) / self.sigma


@dataclass
class PositionInstrument:
    """A sensor of the place of a point, with all its coordinates."""

    point: str
    sigma: float
    """m"""
    multiplier: float = 1.0

    def calc_errors(self, swarm: Swarm, reading: np.ndarray) -> np.ndarray:
        """(d, N) reading (m) less each particle's position, in standard deviations. Raises ValueError."""
        names = [n for n in swarm.coordinates if n.rpartition(".")[0] == self.point]
        if not names:
            raise ValueError(f"no point {self.point!r} with coordinates of its own")
        predicted = np.array([swarm.get_coordinate(n) for n in names])
        normalised: np.ndarray = (np.reshape(reading, (-1, 1)) - predicted) / self.sigma
        return normalised
