"""Conclusions from the rows of `vehicled bench observers`.

Medians over seeds, the filter to choose in each set-up, and whether general statements about the filters hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vehicled.studies.benchmarks.observer_cases import Setup, SetupObservability
from vehicled.studies.benchmarks.observer_filters import NO_FILTER

Row = dict[str, Any]

LEVEL = 1.1
"""Errors up to this ratio to the best one count as equal: seeds differ by about this much."""
CONSISTENT = 2.0
"""A NIS within this factor of its expectation counts as consistent."""
ERRORS = ("position_rmse", "velocity_rmse")
"""Errors by which filters are compared."""
EKF, UKF = ("errorEKF", "errorEKF_EJ", "errorEKF_FE", "DEKF"), ("UKF-TR", "UKF-FE")


@dataclass(frozen=True)
class FilterResult:
    """One filter in one set-up, over its seeds."""

    setup: Setup
    filter: str
    rows: tuple[Row, ...]

    @property
    def failed(self) -> list[Row]:
        """Rows of the runs that ended early."""
        return [row for row in self.rows if row["failed_at"] is not None]

    @property
    def sound(self) -> bool:
        """Whether every run reached the end."""
        return not self.failed

    def median(self, key: str) -> float | None:
        """Median over the seeds whose runs reached the end; None without any, or without such a number."""
        values = [row[key] for row in self.rows if row["failed_at"] is None and row[key] is not None]
        return float(np.median(values)) if values else None

    def known(self, key: str) -> float:
        """The median, which the result must have."""
        value = self.median(key)
        assert value is not None
        return value

    @property
    def consistency(self) -> float | None:
        """NIS over its expectation."""
        nis = self.median("nis")
        return None if nis is None else nis / self.rows[0]["readings"]


def gather(rows: Iterable[Row]) -> dict[Setup, dict[str, FilterResult]]:
    """Results by set-up and filter, in the order of the rows."""
    found: dict[Setup, dict[str, list[Row]]] = {}
    for row in rows:
        found.setdefault(Setup.of(row), {}).setdefault(row["filter"], []).append(row)
    return {
        setup: {name: FilterResult(setup, name, tuple(of)) for name, of in filters.items()}
        for setup, filters in found.items()
    }


def estimates_forces(name: str) -> bool:
    """Whether a filter also estimates the forces of its model, which removes errors that other filters keep."""
    return name.startswith("errorEKF") and "FE" in name


def _sound(filters: dict[str, FilterResult]) -> list[FilterResult]:
    return [r for name, r in filters.items() if name != NO_FILTER and r.sound]


def best(results: Iterable[FilterResult], key: str) -> FilterResult:
    """The result with the least `key`."""
    return min(results, key=lambda r: r.known(key))


def is_level(result: FilterResult, results: Sequence[FilterResult], keys: Iterable[str] = ERRORS) -> bool:
    """Whether all these errors of a filter count as equal to those of the best result."""
    return all(result.known(key) <= LEVEL * best(results, key).known(key) for key in keys)


# -- the filter for each set-up -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Recommendation:
    """The best filters in one set-up, by different criteria."""

    setup: Setup
    position: FilterResult
    velocity: FilterResult
    cheapest: FilterResult | None
    """The cheapest of those with both errors equal to the best."""
    consistent: FilterResult | None
    """NIS nearest to its expectation, by ratio."""


def find_recommendations(results: dict[Setup, dict[str, FilterResult]]) -> list[Recommendation]:
    """The filter to choose, by set-up with more than one filter that reached the end."""
    found = []
    for setup, filters in results.items():
        sound = _sound(filters)
        if len(sound) < 2:
            continue
        level = [r for r in sound if is_level(r, sound)]
        with_nis = [r for r in sound if r.consistency]
        found.append(
            Recommendation(
                setup,
                best(sound, "position_rmse"),
                best(sound, "velocity_rmse"),
                best(level, "cost") if level else None,
                min(with_nis, key=lambda r: abs(np.log(r.consistency or 1.0)), default=None),
            )
        )
    return found


@dataclass(frozen=True)
class Standing:
    """One filter in all set-ups."""

    filter: str
    setups: int
    level_position: int
    """Number of set-ups in which it is equal to the best."""
    level_velocity: int
    consistent: int
    failed: int
    """Number of set-ups in which it broke down with any seed."""
    cost: float | None
    """Median over set-ups."""


def calc_standings(results: dict[Setup, dict[str, FilterResult]]) -> list[Standing]:
    """Standings of the filters, in the order in which they first appear."""
    standings = []
    for name in dict.fromkeys(n for filters in results.values() for n in filters if n != NO_FILTER):
        where = [filters for filters in results.values() if name in filters]
        sound = [(filters[name], _sound(filters)) for filters in where if filters[name].sound]
        position, velocity = (
            sum(is_level(result, among, (key,)) for result, among in sound) for key in ERRORS
        )
        ratios = [result.consistency for result, _ in sound]
        consistent = sum(r is not None and 1.0 / CONSISTENT <= r <= CONSISTENT for r in ratios)
        costs = [result.known("cost") for result, _ in sound]
        cost = float(np.median(costs)) if costs else None
        standings.append(
            Standing(name, len(where), position, velocity, consistent, len(where) - len(sound), cost)
        )
    return standings


# -- statements ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckedStatement:
    """A statement about the filters, and whether the rows confirm it."""

    statement: str
    held: bool | None
    """None: undecided, as there are no rows for it."""
    numbers: str


def check_statements(results: dict[Setup, dict[str, FilterResult]]) -> list[CheckedStatement]:
    """Whether the statements about the observers are true for these results."""
    return [
        _accurate(results, "UKF-TR is the most accurate or level with the best", lambda name: True),
        _accurate(
            results,
            "UKF-TR is so among the filters that estimate no forces",
            lambda name: not estimates_forces(name),
        ),
        _cheapest(results),
        _growth(results),
        _better_than_nothing(results),
        _forces(results),
    ]


def _accurate(
    results: dict[Setup, dict[str, FilterResult]], statement: str, among: Callable[[str], bool]
) -> CheckedStatement:
    return _compare(
        results,
        statement,
        "UKF-TR",
        lambda filters: [r for r in _sound(filters) if among(r.filter) and r.filter != "UKF-TR"],
        LEVEL,
    )


def _forces(results: dict[Setup, dict[str, FilterResult]]) -> CheckedStatement:
    return _compare(
        results,
        "errorEKF_FE is better than the plain errorEKF or level with it (the modelling error is in the forces)",
        "errorEKF_FE",
        lambda filters: [r for r in _sound(filters) if r.filter == "errorEKF"],
        LEVEL,
    )


def _compare(
    results: dict[Setup, dict[str, FilterResult]],
    statement: str,
    name: str,
    others_of: Callable[[dict[str, FilterResult]], list[FilterResult]],
    bound: float,
) -> CheckedStatement:
    """Whether the errors of a filter are at most `bound` times those of the best of some others, in every set-up."""
    counts: list[str] = []
    held, worst = True, (0.0, "")
    for key in ERRORS:
        ratios = []
        for setup, filters in results.items():
            others = others_of(filters)
            if name not in filters or not others:
                continue
            if not filters[name].sound:
                held, worst = False, (np.inf, f"broke down in {setup}")
                continue
            nearest = best(others, key)
            ratio = filters[name].known(key) / nearest.known(key)
            ratios.append(ratio)
            text = f"{ratio:.3g} × {nearest.filter} in {_called(key)}, {setup}"
            worst = max(worst, (ratio, text))
        if not ratios:
            return CheckedStatement(statement, None, "not in this run")
        within = sum(r <= bound for r in ratios)
        held = held and within == len(ratios)
        counts.append(
            f"{_called(key)} in {within} of {len(ratios)} set-ups (median {np.median(ratios):.3g} ×)"
        )
    return CheckedStatement(statement, held, f"{', '.join(counts)}; at worst {worst[1]}")


def _called(key: str) -> str:
    return key.removesuffix("_rmse")


def _cheapest(results: dict[Setup, dict[str, FilterResult]]) -> CheckedStatement:
    statement = "errorEKF is the cheapest"
    nearest = [
        best(others, "cost")
        for filters in results.values()
        if (others := [r for r in _sound(filters) if r.filter != "errorEKF"])
    ]
    if not nearest:
        return CheckedStatement(statement, None, "not in this run")
    closest = best(nearest, "cost")
    cheaper = sum(r.known("cost") <= 1.0 for r in nearest)
    numbers = (
        f"the next costs {np.median([r.known('cost') for r in nearest]):.3g} × in the median; "
        f"at the least {closest.filter} {closest.known('cost'):.3g} × in {closest.setup}"
    )
    return CheckedStatement(statement, cheaper == 0, numbers)


def _growth(results: dict[Setup, dict[str, FilterResult]]) -> CheckedStatement:
    """Growth of the filters' cost from the smallest to the largest mechanism.

    Relative to the errorEKF, whose own growth is then 1.
    """
    statement = "the cost of UKFs grows faster with size than that of EKFs"
    sizes: dict[int, dict[str, list[float]]] = {}
    for filters in results.values():
        for result in _sound(filters):
            size = result.rows[0]["states"] // 2
            sizes.setdefault(size, {}).setdefault(result.filter, []).append(result.known("cost"))
    if len(sizes) < 2:
        return CheckedStatement(statement, None, "needs mechanisms of two sizes")
    small, large = sizes[min(sizes)], sizes[max(sizes)]
    growth = {
        name: float(np.median(large[name]) / np.median(small[name]))
        for name in (*EKF, *UKF)
        if name in small and name in large
    }
    growth["errorEKF"] = 1.0
    ukfs, ekfs = [n for n in growth if n in UKF], [n for n in growth if n in EKF]
    if not ukfs:
        return CheckedStatement(statement, None, "not in this run")
    held = min(growth[n] for n in ukfs) > max(growth[n] for n in ekfs)
    listed = ", ".join(f"{n} {growth[n]:.3g} ×" for n in (*ekfs, *ukfs))
    return CheckedStatement(
        statement, held, f"from {min(sizes)} to {max(sizes)} degrees of freedom, over the errorEKF: {listed}"
    )


def _better_than_nothing(results: dict[Setup, dict[str, FilterResult]]) -> CheckedStatement:
    statement = "every filter is better than the wrong model alone where the sensors observe the state"
    rows = [
        row
        for filters in results.values()
        for name, result in filters.items()
        for row in result.rows
        if name != NO_FILTER and row["observable"]
    ]
    if not rows:
        return CheckedStatement(statement, None, "not in this run")
    failed = [row for row in rows if row["failed_at"] is not None]
    sound = [row for row in rows if row["failed_at"] is None]
    parts, worse = [], len(failed)
    if failed:
        first = failed[0]
        parts.append(f"{len(failed)} broke down, first {first['filter']} in {Setup.of(first)}")
    for what in ("position", "velocity"):
        off = [row for row in sound if row[f"{what}_relative"] >= 1.0]
        worse += len(off)
        if sound:
            worst = max(sound, key=lambda row: row[f"{what}_relative"])
            parts.append(
                f"{what} at worst {worst[f'{what}_relative']:.3g} of its error "
                f"({worst['filter']}, {Setup.of(worst)})"
            )
    return CheckedStatement(statement, worse == 0, f"{len(rows)} runs; {', '.join(parts)}")


# -- observability ------------------------------------------------------------------------------------------


def describe_observability(found: Iterable[tuple[Setup, SetupObservability]]) -> list[str]:
    """A line for each set-up; set-ups of other rates or levels with the same result share a line."""
    alike: dict[tuple[str, str, str], list[Setup]] = {}
    for setup, observability in found:
        text = _describe(observability)
        alike.setdefault((setup.mechanism, setup.sensors, text), []).append(setup)
    lines = []
    for (mechanism, sensors, text), setups in alike.items():
        rates = "/".join(str(rate) for rate in dict.fromkeys(s.rate_hz for s in setups))
        levels = "/".join(dict.fromkeys(s.level for s in setups))
        lines.append(f"{mechanism}, {sensors}, {rates} Hz, {levels}: {text}")
    return lines


def _describe(observability: SetupObservability) -> str:
    exact, free = observability.exact, observability.free_masses
    total = len(exact.values)
    if exact.complete:
        text = f"observable, rank {exact.rank} of {total}"
    else:
        text = f"NOT OBSERVABLE, rank {exact.rank} of {total}: unobservable {', '.join(exact.unobservable)}"
    if exact.complete and not free.complete:
        text += f"; only through the dynamics: {', '.join(free.unobservable)} (unobservable for errorEKF and DEKF)"
    return text
