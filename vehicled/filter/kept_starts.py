"""Values from an earlier drive, or from seconds ago, that measurements contradict, as the car has changed since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vehicled.filter.contradictions import LASTING, LEAST_INFORMED

_CONTRADICTION = 5.0
"""Number of standard deviations."""
_RECENT = 10.0
"""s: after this time a recent value is replaced by the present one."""


@dataclass
class _Start:
    value: float
    variance: float
    """That at the start, and what the state may have changed by since."""
    lasted: int = 0
    """Number of consecutive calls in which measurements have contradicted it."""


class KeptStarts:
    """The values with which states have started, by index of the state.

    A start x₀ ± σ₀ that is right leads to an estimate x with the variance P, where x − x₀ ~ N(0, σ₀² − P).
    """

    def __init__(self) -> None:
        self._starts: dict[int, _Start] = {}

    def __len__(self) -> int:
        """Number of states with a start."""
        return len(self._starts)

    def clear(self) -> None:
        """Forget all of them."""
        self._starts.clear()

    def note(self, i: int, value: float, variance: float) -> None:
        """State i starts with that value and variance."""
        self._starts[i] = _Start(value, variance)

    def drop(self, i: int) -> None:
        """State i no longer depends on its start."""
        self._starts.pop(i, None)

    def move(self, i: int, by: float) -> None:
        """The value of state i is now relative to something else."""
        if i in self._starts:
            self._starts[i].value += by

    def find(
        self,
        estimates: Sequence[float],
        variances: Sequence[float],
        densities: Sequence[float],
        interval: float,
        is_open: Callable[[int, float], bool],
        factor: float = 1.0,
    ) -> dict[int, tuple[float, float]]:
        """Starts that have been contradicted for long, with value and variance; they are dropped.

        `estimates`, `variances` and noise `densities` (n,) of all states; `interval`: time since the last call, s;
        `is_open`: whether measurements can contradict a state, by its index and its apparent change; `factor`: on
        the number of standard deviations that contradict a start.
        """
        found, limit = {}, factor * _CONTRADICTION
        for i, start in self._starts.items():
            start.variance += interval * densities[i]
            shown, change = start.variance - variances[i], estimates[i] - start.value
            informed = shown > LEAST_INFORMED * start.variance
            contradicted = informed and change * change > limit * limit * shown
            if not (contradicted and is_open(i, change * start.variance / shown)):
                start.lasted = 0
                continue
            start.lasted += 1
            if start.lasted >= LASTING:
                found[i] = start.value, start.variance
        for i in found:
            del self._starts[i]
        return found


class RecentStart:
    """The value that one state had up to ten seconds ago, and whether it has changed since.

    A state that has been constant for minutes follows a step slowly, with a σ that does not show it.
    """

    def __init__(self) -> None:
        self._start, self._age = KeptStarts(), 0.0

    def clear(self) -> None:
        """Begin anew with the value of the next call."""
        self._start.clear()

    def is_contradicted(
        self, estimate: float, variance: float, density: float, interval: float, factor: float
    ) -> bool:
        """Whether measurements have contradicted it for long; it is then dropped. Call every `interval` seconds.

        Estimate, variance and noise density of the state; `factor` as of `KeptStarts.find`.
        """
        self._age += interval
        if self._age > _RECENT or not len(self._start):
            self._start.note(0, estimate, variance)
            self._age = 0.0
            return False
        given = [estimate], [variance], [density]
        return bool(self._start.find(*given, interval, lambda i, change: True, factor))
