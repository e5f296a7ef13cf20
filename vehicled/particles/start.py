"""Initial particles: spread over the range that the configuration allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody.mechanism import Mechanism
from vehicled.particles.assembly import assemble
from vehicled.particles.configuration import CoordinateOptions
from vehicled.particles.swarm import Swarm
from vehicled.units import UnitError, to_si

_MOTION = 0.01
"""Default noise of motion of an angle, rad."""


class StartCoordinate:
    """Range at the start of an independent coordinate, and the noise of its motion, SI units."""

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
            raise UsageError(
                f"{name}: expected high above low, got high {self.high:g} {unit}, low {self.low:g} {unit}"
            )
        if min(self.rate, self.motion, self.speed) < 0.0:
            raise UsageError(f"{name}: expected rate, motion and speed of at least 0")


class ParticleStart:
    """Places the particles of a swarm at random, in the way of assembly of the mechanism's file."""

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
        self._rates = [float(rate) for rate in mechanism.zd]
        self.positions = swarm.get_q()[:, reached]
        """(n, m) coordinates of the reachable positions."""
        along = [
            self.positions[[k for k in swarm.point_rows if swarm.coordinates[k].endswith(f".{axis}")]]
            for axis in "xyz"
        ]
        self.size = max((float(np.ptp(x)) for x in along if x.size), default=0.0) or 1.0
        """Largest extent of the mechanism's points over all these positions, m."""

    def begin(
        self, swarm: Swarm, rates: Mapping[str, tuple[float, float]], shown: Sequence[tuple[str, float]] = ()
    ) -> None:
        """Draw all particles anew.

        `rates`: mean and standard deviation of measured rates; others have the mechanism's rate and the
        configured deviation. `shown`: recent rates of change of coordinates; the deviations are at least as
        large as these require.
        """
        chosen = self._random.integers(self.positions.shape[1], size=swarm.count)
        q = self.positions[:, chosen]
        drawn = self._random.standard_normal((len(self.coordinates), swarm.count))
        swarm.set_states(q, np.zeros_like(q))
        widest = 0.0
        if shown:
            swarm.shift(None, drawn)
            widest = max(rate / _root_mean_square(swarm.get_rates(name)) for name, rate in shown)
            swarm.set_states(q, np.zeros_like(q))
        known = [
            rates.get(c.name, (mean, max(c.rate, widest)))
            for c, mean in zip(self.coordinates, self._rates, strict=True)
        ]
        mean, sigma = np.array(known).T[:, :, None]
        swarm.shift(None, mean + sigma * drawn)


def _root_mean_square(values: np.ndarray) -> float:
    """Root mean square of the finite values; never zero."""
    return float(np.sqrt(np.mean(values[np.isfinite(values)] ** 2))) or np.inf
