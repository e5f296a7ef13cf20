"""Speeds that contradict the estimate: it is wrong if two devices agree on that, else the one that does is.

The car measures its own speed so often that the estimate would follow a wrong one, however little weight each sample
has, and receivers would contradict the estimate in their turn.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

_LASTING_NS = 300_000_000
"""Time for which a contradiction counts: receivers measure five times per second, and late."""
_FEWEST = 2
"""Number of measurements of a device in a row that have to be rejected, if it has measured as many."""
_MORE_OFTEN = 5
"""Number of speeds of a device per speed of another one from which on the estimate would follow the former."""
_ALIKE = 0.5
"""Share of the larger deviation by which the two may differ: one is older, and the estimate goes on moving away."""


class _Contradiction(NamedTuple):
    number: int
    """Of measurements in a row."""
    t_ns: int
    deviation: float
    """m/s: of the last one from the estimate, positive if the car is faster."""


class OutvotedSpeed:
    """Compares what rejected speeds of different devices say.

    The filter may follow an accelerometer that is off, or a force that it has estimated wrongly, away from all
    speeds. Each by itself would then be distrusted.
    """

    def __init__(self) -> None:
        self._found: dict[str, _Contradiction] = {}
        self._apart: dict[str, int] = {}
        """By device, the number of speeds in a row that were not as expected;"""
        self._agreeing: dict[str, Counter[str]] = {}
        """and meanwhile, by other device, of those that were."""

    def note(self, device: str, agrees: bool) -> None:
        """Note whether a speed of a device is as expected."""
        if not agrees:
            self._apart[device] = self._apart.get(device, 0) + 1
            self._agreeing.setdefault(device, Counter())
            return
        self._apart.pop(device, None)
        self._agreeing.pop(device, None)
        for agreeing in self._agreeing.values():
            agreeing[device] += 1

    def is_alone(self, device: str) -> bool:
        """Whether a device goes on contradicting the estimate, with which one that measures less often agrees."""
        others = self._agreeing.get(device, Counter()).values()
        return any(self._apart[device] > _MORE_OFTEN * number for number in others)

    def accept(self, device: str) -> None:
        """Note that a speed of a device has been accepted."""
        self._found.pop(device, None)

    def reject(self, device: str, t_ns: int, deviation: float) -> float:
        """Take the deviation of a rejected speed from the estimate, m/s, at a time, ns.

        Returns by how much the estimate is wrong by two devices, m/s; 0 if they do not outvote it.
        """
        before = self._found.get(device)
        number = 1 if before is None else before.number + 1
        self._found[device] = _Contradiction(number, t_ns, deviation)
        if number < _FEWEST:
            return 0.0
        for other, contradiction in self._found.items():
            lasts = abs(t_ns - contradiction.t_ns) < _LASTING_NS and contradiction.number >= _FEWEST
            least, most = sorted((abs(deviation), abs(contradiction.deviation)))
            agrees = deviation * contradiction.deviation > 0.0 and least > (1.0 - _ALIKE) * most
            if other != device and lasts and agrees:
                return math.copysign(most, deviation)
        return 0.0
