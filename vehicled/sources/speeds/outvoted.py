"""Speeds that contradict the estimate: if two devices do so alike, it is wrong; a device that does so alone is wrong.

The car measures its own speed so often that the estimate would follow a wrong one, however little weight each sample
has, and receivers would contradict the estimate in their turn.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_LASTING_NS = 300_000_000
"""Time for which a contradiction counts: receivers measure five times per second, and late."""
_FEWEST = 2
"""Number of measurements of a device in a row that have to be rejected, if it has measured as many."""
_MORE_OFTEN = 5
"""Number of speeds of a device per speed of another one from which on the estimate would follow the former."""
_SILENT_NS = 600_000_000
"""Time after its last speed for which a device counts as measuring."""
_ALIKE = 0.5
"""Share of the larger deviation by which the two may differ: one is older, and the estimate goes on moving away."""


class _Contradiction(NamedTuple):
    number: int
    """Of measurements in a row."""
    t_ns: int
    deviation: float
    """m/s: of the last one from the estimate, positive if the car is faster."""


class _Agreement(NamedTuple):
    number: int
    """Of measurements in a row."""
    t_ns: int
    """Time of the last one."""
    bound: float
    """m/s: deviation up to which it would have agreed."""


class OutvotedSpeed:
    """Compares what rejected speeds of different devices say.

    The filter may follow an accelerometer that is off, or a force that it has estimated wrongly, away from all
    speeds. Each by itself would then be distrusted.
    """

    def __init__(self) -> None:
        self._found: dict[str, _Contradiction] = {}
        self._apart: dict[str, tuple[int, float]] = {}
        """By device: number of its speeds in a row that were not as expected, and the last deviation, m/s."""
        self._agreeing: dict[str, _Agreement] = {}
        """By device: its speeds in a row that were as expected."""

    def note(self, device: str, t_ns: int, deviation: float, bound: float) -> None:
        """Note a speed's deviation from the estimate at a time, ns, and up to which it is as expected; m/s."""
        if abs(deviation) <= bound:
            self._apart.pop(device, None)
            before = self._agreeing.get(device)
            self._agreeing[device] = _Agreement(1 if before is None else before.number + 1, t_ns, bound)
            return
        number, _ = self._apart.get(device, (0, 0.0))
        if not number:  # what agreed before does not count
            self._agreeing.clear()
        self._apart[device] = number + 1, deviation
        self._agreeing.pop(device, None)

    def is_alone(self, device: str, t_ns: int) -> bool:
        """Whether a device goes on contradicting the estimate, with which one that measures less often agrees.

        That one has to measure still, and so well that it would show the deviation.
        """
        number, deviation = self._apart.get(device, (0, 0.0))
        return any(
            number > _MORE_OFTEN * other.number
            and other.bound < abs(deviation)
            and t_ns - other.t_ns < _SILENT_NS
            for other in self._agreeing.values()
        )

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
