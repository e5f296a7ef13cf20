"""Ratios of channels that measure the same quantity, and the units that explain them.

A wrong unit adds the logarithm of a factor such as 180/π to the logarithm of every ratio with its channel.
The result is the explanation of all ratios with the fewest wrong units, if there is one. Sources in all
explanations with that number of wrong units are certain.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from statistics import median

LEAST, KEPT = 8, 120
"""Numbers of intervals of half a second: least with a ratio, for a result; and kept."""
_AGREEING, _SPREAD = 0.75, 0.5
"""Share of these intervals whose logarithms of the ratio must be this near their median; else the ratio is
ignored."""
_TOLERANCES = {
    "steering": (-0.7, 1.0),
    "accelerometers": (-0.5, 0.5),
    "gyroscopes": (-0.35, 0.35),
    "own yaw rate": (-0.35, 0.35),
}
"""Tolerance of the logarithm of a ratio, by its coarsest source: understeer; banks and roll; noise of
courses."""
_SPEED_TOLERANCE = -0.3, 0.3
"""Tolerance for speeds: radii of wheels, slip, noise of positions."""
_NEAR = 0.15
"""How near the logarithm of the ratio of two speeds must be to that of a unit: knots and miles per hour
differ by this much."""
_MOST_FAULTS = 4
_SEARCH_EVERY = 20
"""Intervals between searches for an explanation, while none is found."""
_CANDIDATES = 5
"""Explanations tried per measurement: a whole search takes milliseconds, and this is part of the real-time
step."""
_Pair = tuple[tuple[str, int], ...]
"""Sources in a ratio, with their exponents."""
_Seen = tuple[_Pair, float, tuple[float, float]]
"""A ratio, the median of its logarithm, and the tolerance of that."""


class UnitRatios:
    """Keeps the ratios, and searches for the units that explain them."""

    def __init__(self) -> None:
        self._ratios: dict[_Pair, deque[float]] = {}
        self.found: dict[str, str] = {}
        """Sources in a wrong unit, with that unit."""
        self.certain: frozenset[str] = frozenset()
        """Sources of `found` that have a wrong unit in every explanation."""
        self.units: Mapping[str, Mapping[str, float]] = {}
        """By source: factor of its readings in each unit that it may be in."""
        self._intervals, self._next_search = 0, 0
        self.search: Iterator[None] | None = None
        """The running search, if any; continued by `advance`."""

    def forget(self, source: str) -> None:
        """Forget all ratios with a source."""
        self.found.pop(source, None)
        self.certain -= {source}
        self._ratios = {p: r for p, r in self._ratios.items() if all(s != source for s, _ in p)}
        self.search = None

    def add(self, terms: Mapping[str, int], ratio: float) -> None:
        """Add a ratio of sources with these exponents; sources whose unit is not in doubt are left out."""
        # A negative ratio agrees with no unit.
        logarithm = math.log(ratio) if ratio > 0.0 else math.inf
        self._ratios.setdefault(tuple(terms.items()), deque(maxlen=KEPT)).append(logarithm)

    def advance(self) -> None:
        """Continue the search by a few candidates."""
        if self.search is not None and sum(1 for _ in islice(self.search, _CANDIDATES)) < _CANDIDATES:
            self.search = None

    def explain(self, right: frozenset[str]) -> None:
        """At the end of an interval, begin a search if the present explanation does not fit the ratios.

        `right`: sources that are in their own unit.
        """
        self._intervals += 1
        seen = list(self._find_medians())
        compared = {source for pair, _, _ in seen for source, _ in pair}
        if _weigh(seen, {}) is not None:
            if compared.issuperset(self.found):
                self.found, self.certain = {}, frozenset()
            return
        if self._intervals < self._next_search:
            return
        present = {source: self.units[source][unit] for source, unit in self.found.items()}
        if _weigh(seen, present) is not None:
            return
        self._next_search = self._intervals + _SEARCH_EVERY
        self.search = self._search_units(seen, sorted(compared - right))

    def _search_units(self, seen: Sequence[_Seen], compared: Sequence[str]) -> Iterator[None]:
        """Find the least number of wrong units that explains all ratios, one candidate at a time."""
        for count in range(1, _MOST_FAULTS + 1):
            best: tuple[float, dict[str, str]] | None = None
            certain = frozenset(compared)
            for sources in combinations(compared, count):
                for units in product(*(self.units[source] for source in sources)):
                    wrong = dict(zip(sources, units, strict=True))
                    cost = _weigh(seen, {source: self.units[source][unit] for source, unit in wrong.items()})
                    if cost is not None:
                        certain &= set(sources)
                        if best is None or cost < best[0]:
                            best = cost, wrong
                    yield
            if best is not None:
                self.found, self.certain = best[1], certain
                return

    def _find_medians(self) -> Iterator[_Seen]:
        for pair, ratios in self._ratios.items():
            if len(ratios) >= LEAST:
                middle = median(ratios)
                near = sum(abs(r - middle) < _SPREAD for r in ratios)
                if near >= _AGREEING * len(ratios):
                    sources = [source for source, _ in pair]
                    tolerance = next((t for s, t in _TOLERANCES.items() if s in sources), _SPEED_TOLERANCE)
                    yield pair, middle, tolerance


def _weigh(seen: Sequence[_Seen], factors: Mapping[str, float]) -> float | None:
    """Sum of squared residuals of all ratios if readings are too large by `factors`; None if one is too far off."""
    total = 0.0
    for pair, middle, (low, high) in seen:
        units = [power * math.log(factors[s]) for s, power in pair if s in factors]
        rest = middle - sum(units)
        if not low <= rest <= high or (units and (low, high) == _SPEED_TOLERANCE and abs(rest) > _NEAR):
            return None
        total += rest * rest
    return total
