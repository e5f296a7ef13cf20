"""Timing of calls in the benchmarks: processor time if other programs also run, in turns with a reference.

Compared calls run in turns in one process, so that other load on the machine slows down both equally; medians
exclude calls that were interrupted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")


class CallTimes:
    """Processor times of calls of several kinds, by turns."""

    def __init__(self) -> None:
        self._turns: list[list[tuple[Hashable, int]]] = []

    def begin_turn(self) -> None:
        """Begin another turn; has to be called before the first call too."""
        self._turns.append([])

    def call(self, kind: Hashable, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function and return its result; its time also counts if it raises."""
        begin = time.process_time_ns()
        try:
            return function(*args, **kwargs)
        finally:
            self._turns[-1].append((kind, time.process_time_ns() - begin))

    @property
    def in_turn(self) -> int:
        """Number of calls in the present turn."""
        return len(self._turns[-1])

    def get_us(self, kind: Hashable) -> np.ndarray:
        """(n,) µs, times of all calls of a kind."""
        return 1e-3 * np.array([ns for k, ns in chain.from_iterable(self._turns) if k == kind])

    def calc_us_per_call(self) -> float:
        """Mean over all calls of the medians of their kinds, µs.

        This excludes interruptions, and takes the numbers of calls of each kind into account.
        """
        return _calc_us(list(chain.from_iterable(self._turns)))

    def calc_cost(self, reference: CallTimes) -> float:
        """Time per call over the reference's: the median over turns, as other load in a turn affects both alike."""
        pairs = zip(self._turns, reference._turns, strict=True)
        return float(np.median([_calc_us(own) / _calc_us(other) for own, other in pairs if own and other]))


def _calc_us(calls: Sequence[tuple[Hashable, int]]) -> float:
    kinds: dict[Hashable, list[int]] = {}
    for kind, ns in calls:
        kinds.setdefault(kind, []).append(ns)
    medians = [np.median(of) for of in kinds.values()]
    return 1e-3 * float(np.average(medians, weights=[len(of) for of in kinds.values()]))


def summary(times_ns: Sequence[int]) -> dict[str, float]:
    """Median and high percentiles, µs."""
    points = np.percentile(np.array(times_ns) * 1e-3, (50, 99, 99.9))
    return dict(zip(("median", "p99", "p999"), points.tolist(), strict=True))
