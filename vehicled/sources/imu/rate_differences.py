"""Roll and pitch acceleration from gyroscope samples: expressions of the car's program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vehicled.sources.imu.noise_floor import Stores
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.program import Program


WINDOW = 0.007
"""s: least time between rates that are subtracted; shorter ones would amplify the noise of fast
gyroscopes."""
HELD = 0.05
"""Time, s, for which a sample is valid, and longest time between two that belong together."""
_KEPT, _SPACING = 8, 0.0009
"""Number of samples that are kept, and least time between them, s: together more than the window."""
LONG_AGO = -1e9
"""s: a time that stands for never."""


@dataclass(frozen=True)
class Differences:
    """Differences of a sample and one measured at least `WINDOW` before."""

    is_new: Atom
    """1; 0 if the sample is not newer than the last one."""
    span: Atom
    """Time between them, s; more than `HELD` if there is none so near."""
    innovations: tuple[Atom, Atom]
    """Roll and pitch acceleration, rad/s², from the innovations."""
    rates: tuple[Atom, Atom]
    """The same from the measured rates, less the model's accelerations. The model's rates cannot be used for
    this, as these gyroscopes correct them."""


class RateDifferences:
    """Keeps the last samples of gyroscopes."""

    def __init__(self, program: Program, name: str) -> None:
        """Arrays `name.times`, to be `LONG_AGO` at the start, and `name.past`, to be zero."""
        self._g = program.graph
        times = program.array(f"{name}.times", 1 + _KEPT)
        self._last, self._times = times[0], times[1:]
        values = program.array(f"{name}.past", 4 * _KEPT + 4)
        self._values = [values[4 * k : 4 * k + 4] for k in range(_KEPT)]
        self._integrals, self._modelled = values[-4:-2], values[-2:]
        """Integrals of the model's accelerations, rad/s; and these accelerations at the last sample."""

    def take(
        self,
        t: Atom,
        innovations: Sequence[Atom],
        rates: Sequence[Atom],
        modelled: Sequence[Atom],
        taken: Atom,
    ) -> tuple[Differences, Stores]:
        """Take a sample at t (s), by roll and pitch: innovations and rates, rad/s; model's accelerations, rad/s².

        `taken`: 1; 0 if the sample is to be ignored, as one that is not newer is.
        """
        g = self._g
        h = t - self._last
        is_new = g.where_less(0.0, h, taken, 0.0)
        half = 0.5 * g.min(h, HELD)
        integrals = [
            i + half * (before + now)
            for i, before, now in zip(self._integrals, self._modelled, modelled, strict=True)
        ]
        present = [*innovations, *(r - i for r, i in zip(rates, integrals, strict=True))]
        then, past = self._times[-1], list(self._values[-1])
        for at, values in zip(reversed(self._times[:-1]), reversed(self._values[:-1]), strict=True):
            past = [g.where_less(at, t - WINDOW, v, p) for v, p in zip(values, past, strict=True)]
            then = g.where_less(at, t - WINDOW, at, then)
        span = t - then
        a, b, c, d = ((now - before) / span for now, before in zip(present, past, strict=True))
        moves = g.where_less(_SPACING, t - self._times[0], is_new, 0.0)
        stores: Stores = []
        for k in range(_KEPT):
            newer = (t, present) if k == 0 else (self._times[k - 1], self._values[k - 1])
            stores.append((self._times[k], g.where_less(0.5, moves, newer[0], self._times[k])))
            for old, value in zip(self._values[k], newer[1], strict=True):
                stores.append((old, g.where_less(0.5, moves, value, old)))
        for old, new in zip(
            (self._last, *self._integrals, *self._modelled), (t, *integrals, *modelled), strict=True
        ):
            stores.append((old, g.where_less(0.5, is_new, new, old)))
        return Differences(is_new, span, (a, b), (c, d)), stores
