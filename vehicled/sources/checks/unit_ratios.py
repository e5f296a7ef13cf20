"""Ratios of channels that measure the same quantity, and the units that explain them.

A wrong unit adds the logarithm of a factor such as 180/π to that of every ratio with its channel: the least number of
wrong units that explains all ratios is the result, if there is one. Sources that every explanation of that number has
are certain.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from statistics import median

LEAST, KEPT = 8, 120
"""Intervals of half a second in which a ratio must have been seen, and that are kept."""
_AGREEING, _SPREAD = 0.75, 0.5
"""Share of these intervals whose ratios lie so near their median (in logarithms); else the ratio means nothing."""
_TOLERANCES = {"steering": (-0.7, 1.0), "accelerometers": (-0.5, 0.5), "gyroscopes": (-0.35, 0.35)}
"""Of the logarithm of a ratio, by the coarsest of its sources: understeer; banks and roll; noise of courses."""
_SPEED_TOLERANCE = -0.3, 0.3
"""Radii of wheels, slip, noise of positions."""
_NEAR = 0.15
"""How near the ratio of two speeds has to be to that of units: knots and miles per hour differ by as much."""
_MOST_FAULTS = 4
_SEARCH_EVERY = 20
"""Intervals between searches for an explanation, while there is none."""
_CANDIDATES = 5
"""Tried per measurement: a whole search takes milliseconds, and this is part of the real-time step."""
_Pair = tuple[tuple[str, int], ...]
"""Sources in a ratio, with their exponents."""
_Seen = tuple[_Pair, float, tuple[float, float]]
"""A ratio, the median of its logarithm, and how far off that may be."""


class UnitRatios:
    """Keeps the ratios, and searches for the units in which they are as they should be."""

    def __init__(self) -> None:
        self._ratios: dict[_Pair, deque[float]] = {}
        self.found: dict[str, str] = {}
        """Sources with the unit that they are in."""
        self.certain: frozenset[str] = frozenset()
        """Those of them without which nothing explains the ratios."""
        self.units: Mapping[str, Mapping[str, float]] = {}
        """By source, the factor of what it reads in each unit that it may be in."""
        self._intervals, self._next_search = 0, 0
        self.search: Iterator[None] | None = None
        """The one that is going on, if any: for `advance`."""

    def forget(self, source: str) -> None:
        """Nothing is known any more of a source."""
        self.found.pop(source, None)
        self.certain -= {source}
        self._ratios = {p: r for p, r in self._ratios.items() if all(s != source for s, _ in p)}
        self.search = None

    def add(self, terms: Mapping[str, int], ratio: float) -> None:
        """A ratio of sources with these exponents; without those whose unit is not in doubt."""
        # One that goes the other way agrees with no unit.
        logarithm = math.log(ratio) if ratio > 0.0 else math.inf
        self._ratios.setdefault(tuple(terms.items()), deque(maxlen=KEPT)).append(logarithm)

    def advance(self) -> None:
        """Go on with the search by a few candidates."""
        if self.search is not None and sum(1 for _ in islice(self.search, _CANDIDATES)) < _CANDIDATES:
            self.search = None

    def explain(self, right: frozenset[str]) -> None:
        """Begin a search at the end of an interval, where the ratios are not as they should be.

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
    """Sum of the squared rests of all ratios with readings too large by these factors; None if one is too far off."""
    total = 0.0
    for pair, middle, (low, high) in seen:
        units = [power * math.log(factors[s]) for s, power in pair if s in factors]
        rest = middle - sum(units)
        if not low <= rest <= high or (units and (low, high) == _SPEED_TOLERANCE and abs(rest) > _NEAR):
            return None
        total += rest * rest
    return total
