"""Initial particles: spread over the range of the configuration, and later over where they may be by then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody.mechanism import Mechanism
from vehicled.particles.assembly import assemble
from vehicled.particles.configuration import CoordinateOptions
from vehicled.particles.swarm import Swarm
from vehicled.units import UnitError, to_si

_MOTION = 0.01
"""Default noise of motion of an angle, rad."""
_FARTHEST = 10.0
"""Distance, in sizes of the mechanism, up to which particles are spread about a position."""
_TIED = 0.1
"""Share of the rate of a dependent coordinate above which an independent one moves it."""


@dataclass(frozen=True)
class Moved:
    """What is known of the motion when particles begin anew."""

    shown: Mapping[str, float]
    """Recent rates of change of measured coordinates, rad/s or m/s; the spread of rates is as wide."""
    readings: Mapping[str, float]
    """Independent coordinates that are measured now."""
    last: Mapping[str, tuple[float, float]]
    """Independent coordinates and their rates by the last estimate that fitted the readings; empty if none did."""
    age: float
    """Time since that estimate, or since the start, s."""
    wider: float
    """Factor on rates that no sensor shows."""


class StartCoordinate:
    """Range at the start of an independent coordinate, and the noise of its motion, SI units."""

    def __init__(self, name: str, angle: bool, options: CoordinateOptions) -> None:
        """Raises UsageError."""
        self.name, self.angle = name, angle
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
        self.limited = not angle or self.high - self.low < 2.0 * np.pi - 1e-9
        """Whether it cannot be anywhere at the start."""
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
        self.coordinates, self._random, self._mechanism = coordinates, random, mechanism
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
        self, swarm: Swarm, rates: Mapping[str, tuple[float, float]], moved: Moved | None = None
    ) -> None:
        """Draw all particles anew.

        `rates`: mean and standard deviation of measured rates; others have the mechanism's rate and the
        configured deviation. `moved`: not at the start, but later.
        """
        positions = self.positions
        if moved is not None and any(c.limited for c in self.coordinates):
            positions = self._reach(swarm, moved)
        q = positions[:, self._random.integers(positions.shape[1], size=swarm.count)]
        drawn = self._random.standard_normal((len(self.coordinates), swarm.count))
        swarm.set_states(q, np.zeros_like(q))
        widths = [c.rate for c in self.coordinates]
        if moved is not None:
            widths = self._calc_widths(swarm, drawn, moved)
            swarm.set_states(q, np.zeros_like(q))
        known = [
            rates.get(c.name, (mean, width))
            for c, mean, width in zip(self.coordinates, self._rates, widths, strict=True)
        ]
        mean, sigma = np.array(known).T[:, :, None]
        swarm.shift(None, mean + sigma * drawn)

    def _reach(self, swarm: Swarm, moved: Moved) -> np.ndarray:
        """(n, m) reachable positions: in the range of the start, about the last estimate, and about the readings.

        A third of the particles is placed in each way, as any of them may be wrong: the mechanism has moved on,
        or a sensor has failed. The ranges are those of the start, and in the other ways become wider with time.
        """
        centres, widths = np.empty((2, len(self.coordinates), 3))
        for k, c in enumerate(self.coordinates):
            middle, width = 0.5 * (c.low + c.high), 0.5 * (c.high - c.low)
            last, rate = moved.last.get(c.name, (middle, self._rates[k]))
            fastest = max(abs(rate), abs(self._rates[k]) + c.rate, moved.shown.get(c.name, 0.0))
            centres[k] = middle, last, moved.readings.get(c.name, last)
            most = np.pi if c.angle else max(width, _FARTHEST * self.size)
            widths[k] = width, *[min(width + fastest * moved.age, most)] * 2
        way = self._random.integers(3, size=swarm.count)
        spread = self._random.uniform(-1.0, 1.0, (len(self.coordinates), swarm.count))
        reached = assemble(swarm, self._mechanism, centres[:, way] + widths[:, way] * spread)
        return swarm.get_q()[:, reached] if np.any(reached) else self.positions

    def _calc_widths(self, swarm: Swarm, drawn: np.ndarray, moved: Moved) -> list[float]:
        """Standard deviation of the rate of each coordinate, rad/s or m/s, at least as large as sensors require.

        Particles at rest get the rates `drawn`, in units of the coordinates, to see what measured dependent
        coordinates do then. A rate that no sensor shows is as wide as configured or last estimated, or else as
        fast as those that are shown.
        """
        shown = dict(moved.shown)
        units = np.array([[1.0 if c.angle else self.size] for c in self.coordinates])
        own = np.array([shown.pop(c.name, 0.0) for c in self.coordinates])
        by_others = np.zeros(len(own))
        if shown:
            swarm.shift(None, units * drawn)
            together = {name: _root_mean_square(swarm.get_rates(name)) for name in shown}
            for k in range(len(own)):
                now = np.array([swarm.get_rates(c.name) for c in self.coordinates])
                alone = np.zeros_like(drawn)
                alone[k] = units[k] * drawn[k]
                swarm.shift(None, alone - now)
                for name, rate in shown.items():
                    if _root_mean_square(swarm.get_rates(name)) > _TIED * together[name]:
                        by_others[k] = max(by_others[k], units[k, 0] * rate / together[name])
        widths = np.maximum(own, by_others)
        fastest = float(np.max(widths / units[:, 0]))
        for k, c in enumerate(self.coordinates):
            if widths[k] == 0.0:
                usual = max(c.rate, abs(moved.last.get(c.name, (0.0, 0.0))[1]))
                widths[k] = moved.wider * usual or units[k, 0] * fastest
        return [max(c.rate, float(width)) for c, width in zip(self.coordinates, widths, strict=True)]


def _root_mean_square(values: np.ndarray) -> float:
    """Root mean square of the finite values."""
    return float(np.sqrt(np.mean(values[np.isfinite(values)] ** 2)))
