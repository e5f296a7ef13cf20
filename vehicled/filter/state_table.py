"""Indices of error states in the vector, and the numbers of their declarations.

The set of groups follows from the configuration: a group that is known is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from vehicled.filter.settings import WITH_TYRES, Filter
from vehicled.filter.states import (
    CAR,
    MODEL,
    SUSPENSION,
    TYRE_FORCE,
    Group,
    InitialConditions,
    Process,
    Values,
)

T = TypeVar("T")


class StateVector:
    """Indices of the error states in the vector. A group that is known is not in it."""

    parameters: list[int]
    """(k,) indices of the states whose σ may be widened."""
    contradictions: list[float]
    """(k,) for each of them, number of standard deviations that contradict σ."""
    largest: list[float]
    """(k,) for each of them, largest possible error; infinite without such a limit."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = tuple(groups)
        self._begin: dict[str, int] = {}
        self.names: tuple[str, ...] = ()
        for group in groups:
            self._begin[group.name] = len(self.names)
            self.names += group.names
        self._index = {name: i for i, name in enumerate(self.names)}
        widened = [
            (i, g.contradiction, math.inf if g.limit is None else g.limit)
            for g in groups
            if g.contradiction is not None
            for i, element in zip(self.places(g), g.elements, strict=True)
            if element not in g.undoubted
        ]
        self.parameters = [i for i, *_ in widened]
        self.contradictions = [contradiction for _, contradiction, _ in widened]
        self.largest = [limit for *_, limit in widened]

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, group: Group) -> bool:
        return group.name in self._begin

    def __getitem__(self, group: Group) -> slice:
        begin = self._begin[group.name]
        return slice(begin, begin + len(group.elements))

    def places(self, group: Group) -> range:
        """Indices of the elements of a group; empty if it is left out."""
        if group not in self:
            return range(0)
        place = self[group]
        return range(place.start, place.stop)

    def find_parameters(self, group: Group) -> list[int]:
        """Indices in `parameters` of the elements of a group; empty if it is left out."""
        places = self.places(group)
        return [k for k, i in enumerate(self.parameters) if i in places]

    def entries(self, group: Group, values: Mapping[int, T]) -> dict[int, T]:
        """Convert values by number of an element in its group to values by index; empty for an absent group."""
        if group not in self:
            return {}
        begin = self._begin[group.name]
        return {begin + k: value for k, value in values.items()}

    def index(self, group: Group, element: str = "") -> int:
        """Index of one element."""
        return self._begin[group.name] + group.elements.index(element)

    def correlate(self, covariance: np.ndarray, groups: Iterable[Group]) -> np.ndarray:
        """Copy of a covariance (n, n), with the correlations `alike` of these groups' elements."""
        p = covariance.copy()
        for group in groups:
            if group.alike and group in self:
                place, same = self[group], np.eye(len(group.elements))
                sigmas = np.sqrt(p.diagonal()[place])
                p[place, place] = np.outer(sigmas, sigmas) * (same + group.alike * (1.0 - same))
        return p

    @property
    def count_of_car(self) -> int:
        """Number of states of the simulated car. They come first; the slow states follow."""
        last = TYRE_FORCE if TYRE_FORCE in self else CAR[-1]
        count: int = self[last].stop
        return count

    @cached_property
    def fading(self) -> tuple[Group, ...]:
        """The groups that are Gauss–Markov processes."""
        return tuple(g for g in self.groups if g.process is not None)


@dataclass(frozen=True)
class StateTable:
    """The groups with the sections of a configuration that give their numbers."""

    rows: tuple[tuple[Group, Any], ...]

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups, in the order of the states."""
        return tuple(group for group, _ in self.rows)

    def initial(self, initial: InitialConditions) -> np.ndarray:
        """(n,) variances after initialisation."""
        return np.concatenate([_expand(g, g.initial(s, initial)) for g, s in self.rows])

    def densities(self) -> np.ndarray:
        """(n,) spectral densities of white noise, unit²/s."""
        return np.concatenate([_expand(g, g.density(s)) for g, s in self.rows])

    def processes(self) -> Iterator[tuple[Group, Process | None]]:
        """The groups that fade, with their processes."""
        for group, settings in self.rows:
            if group.process is not None:
                yield group, group.process(settings)


def _expand(group: Group, values: Values) -> np.ndarray:
    return np.broadcast_to(np.asarray(values, dtype=float), len(group.elements))


def make_table(filter: Filter, sources: Sequence[tuple[Group, Any]]) -> StateTable:
    """The whole table: states of the car, of the sources, and of the model's errors.

    A group that is known is left out. Groups of absent sensors stay, as these sensors may come.
    """
    rows: list[tuple[Group, Any]] = [(g, filter) for g in CAR]
    if filter.kind in WITH_TYRES:
        rows.append((TYRE_FORCE, filter))
    rows += sources
    rows += [(g, filter) for g in MODEL]
    if filter.suspension is not None:
        rows += [(g, filter) for g in SUSPENSION]
    return StateTable(tuple((g, s) for g, s in rows if not g.is_known(s)))
