"""Where particles are at the beginning: anywhere that the configuration allows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody.mechanism import Mechanism
from vehicled.particles.assembly import assemble
from vehicled.particles.configuration import CoordinateOptions, to_si
from vehicled.particles.swarm import Swarm
from vehicled.units import UnitError

_MOTION = 0.01
"""rad, of an angle without `motion`."""


class StartCoordinate:
    """What is known at the start of an independent coordinate, and the noise of its motion, in SI."""

    def __init__(self, name: str, angle: bool, options: CoordinateOptions) -> None:
        """Raises UsageError."""
        self.name = name
        unit = "rad" if angle else "m"

        def number(key: str, unit: str, default: float | None) -> float:
            quantity = getattr(options, key)
            if quantity is None:
                quantity = default
            if quantity is None:
                raise UsageError(f"{name}: expected {key}, as it is no angle")
            try:
                return to_si(quantity, unit)
            except UnitError as error:
                raise UsageError(f"{name}.{key}: {error}") from None

        self.low = number("low", unit, -np.pi if angle else None)
        self.high = number("high", unit, np.pi if angle else None)
        self.rate = number("rate", f"{unit}/s", None)
        self.motion = number("motion", unit, _MOTION if angle else None)
        self.speed = number("speed", f"{unit}/s", None)
        if not self.high > self.low:
            raise UsageError(f"{name}: expected high above low, got {self.high:g} and {self.low:g}")
        if min(self.rate, self.motion, self.speed) < 0.0:
            raise UsageError(f"{name}: expected rate, motion and speed of at least 0")


class ParticleStart:
    """Puts the particles of a swarm anywhere, in the way of assembly that the mechanism's file has."""

    def __init__(
        self,
        swarm: Swarm,
        mechanism: Mechanism,
        coordinates: list[StartCoordinate],
        random: np.random.Generator,
    ) -> None:
        """`coordinates`: in the order of `swarm.noisy`. Raises UsageError where no position can be reached."""
        self.coordinates, self._random = coordinates, random
        low, high = (np.array([[getattr(c, key)] for c in coordinates]) for key in ("low", "high"))
        wanted = low + (high - low) * random.random((len(coordinates), swarm.count))
        reached = assemble(swarm, mechanism, wanted)
        if not np.any(reached):
            ranges = ", ".join(f"{c.name} from {c.low:g} to {c.high:g}" for c in coordinates)
            raise UsageError(f"the mechanism cannot be moved to any of its positions at the start: {ranges}")
        self.positions = swarm.get_q()[:, reached]
        """(n, m) coordinates of a swarm's particles, of those that can be reached."""

    def begin(self, swarm: Swarm, rates: Mapping[str, tuple[float, float]]) -> None:
        """Draw all particles anew; `rates`: mean and standard deviation of rates that have been measured."""
        chosen = self._random.integers(self.positions.shape[1], size=swarm.count)
        q = self.positions[:, chosen]
        swarm.set_states(q, np.zeros_like(q))
        known = [rates.get(c.name, (0.0, c.rate)) for c in self.coordinates]
        drawn = self._random.standard_normal((len(known), swarm.count))
        swarm.shift(None, np.array([[mean] for mean, _ in known]) + np.array([[s] for _, s in known]) * drawn)
