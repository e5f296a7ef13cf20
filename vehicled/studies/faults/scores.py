"""Results of one run with a fault, and whether the row holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from vehicled.messages import ESTIMATE_INDEX, Condition, Innovation
from vehicled.studies.faults.drives import FaultDrive
from vehicled.studies.faults.row import Row

_COMPARED = ("x", "y", "yaw", "vx", "vy", "sideslip")
"""Columns with standard deviations."""
_ANGLES = "yaw", "sideslip"
_MOST_SIGMAS = 4.0
_MOST_REFUSED = 0.5
"""Longest time, s, for which a healthy source may be rejected."""
_AFTER = 1.0
"""Time, s, after the end of a fault for which its limits on errors still apply."""
_NORMAL = 1.0, math.radians(2.0)
"""m, rad: errors of an estimate that has recovered, in addition to those of the receiver."""
_NO_FAULT = ("not moving", "no fix", "not aligned", "either way")
"""Reasons that are not a fault of a sensor."""
_LEAST_SPEED = 1.0
"""m/s: least speed for a direction of motion."""
_PAUSE = 0.3
"""s without a rejection, after which a new span of rejections begins."""
_BY_RECEIVER = {"rtk": 0.0, "conventional": 4.0}
"""m: errors of the receiver itself."""


@dataclass
class Observed:
    """All that a run has published, on the time of the drive."""

    t: np.ndarray
    """(n,) int64 ns, times of the estimates."""
    values: np.ndarray
    """(n, len(ESTIMATE_COLUMNS))."""
    conditions: Sequence[Condition]
    """In order of time; `since` on the time of the drive."""
    innovations: Iterable[Innovation]
    recorded: np.ndarray | None = None
    """(n,) int64 ns, times of the steps in readable recordings; None without recording."""
    lost_samples: int = 0
    missed: int = 0
    """Number of missed deadlines."""
    died: str | None = None
    """How the daemon died; None if it did not."""


def score(row: Row, drive: FaultDrive, observed: Observed) -> dict[str, Any]:
    """The result of a run, with keys as in `bench faults --json`."""
    begin, end = (drive.measurements[0].arrival * 1e-9 + s for s in (row.begin, row.end))
    observed = _cut(observed, int(drive.t[-1]))
    named, named_after = _find_named(row, observed.conditions, begin)
    errors = _calc_errors(drive, observed)
    t = observed.t * 1e-9
    scored = t >= max(begin, row.scored_from)
    if row.scored_from < row.end:
        scored &= t <= end + _AFTER
    honest = t >= begin if row.honest_before else scored
    sigmas = [_ratio(errors[c], observed.values[:, ESTIMATE_INDEX[f"sigma.{c}"]])[honest] for c in _COMPARED]
    horizontal = np.hypot(errors["x"], errors["y"])
    figures = {
        "lives": observed.died is None and len(t) > 0 and bool(t[-1] > drive.t[-1] * 1e-9 - 0.5),
        "named": named,
        "named_after": named_after,
        "wrongly_refused": _find_refused(row, observed, begin),
        "error_sigma": _largest(np.concatenate(sigmas)),
        "error_m": _largest(horizontal[scored]),
        "error_yaw": _largest(errors["yaw"][scored]),
        "recovered_after": _find_recovery(row, observed, horizontal, errors["yaw"], end),
        "unrecorded": _find_unrecorded(observed),
        "lost_samples": observed.lost_samples,
        "missed": observed.missed,
    }
    misses = list(_find_misses(row, figures))
    return figures | {"misses": misses, "ok": not misses, "died": observed.died}


def _cut(observed: Observed, end: int) -> Observed:
    """Observations up to the end of the drive, after which all devices are silent."""
    keep = observed.t <= end
    return replace(
        observed,
        t=observed.t[keep],
        values=observed.values[keep],
        conditions=[c for c in observed.conditions if (c.since or 0) <= end],
        innovations=[i for i in observed.innovations if i.step <= end],
    )


def _calc_errors(drive: FaultDrive, observed: Observed) -> dict[str, np.ndarray]:
    """Estimates less truth; positions on the earth, as the world frame of the estimates starts at the first fix."""
    values = dict(zip(ESTIMATE_INDEX, observed.values.T, strict=True))
    east, north = _to_world(drive, values)
    errors = {}
    speed = np.hypot(*(drive.truth[:, ESTIMATE_INDEX[c]] for c in ("vx", "vy")))
    moves = np.interp(observed.t, drive.t, speed) >= _LEAST_SPEED
    for column in _COMPARED:
        true = drive.truth[:, ESTIMATE_INDEX[column]]
        if column in _ANGLES:  # angles may jump by a turn between two samples
            phase = np.interp(observed.t, drive.t, np.exp(1j * true))
            errors[column] = np.angle(np.exp(1j * values[column]) / phase)
        else:
            estimated = {"x": east, "y": north}.get(column, values[column])
            errors[column] = estimated - np.interp(observed.t, drive.t, true)
    errors["sideslip"][~moves] = np.nan
    return errors


def _to_world(drive: FaultDrive, values: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    rows = zip(values["lat"].tolist(), values["lon"].tolist(), values["alt"].tolist(), strict=True)
    places = np.array([drive.origin.to_world(*row)[:2] for row in rows]).reshape(-1, 2)
    return places[:, 0], places[:, 1]


def _ratio(errors: np.ndarray, sigmas: np.ndarray) -> np.ndarray:
    ratio: np.ndarray = np.abs(errors) / np.maximum(sigmas, 1e-9)
    return ratio


def _largest(values: np.ndarray) -> float | None:
    known = np.abs(values[np.isfinite(values)])
    return float(known.max()) if len(known) else None


def _is_one_of(source: str, beginnings: Iterable[str]) -> bool:
    return any(source.startswith(b) for b in beginnings)


def _find_named(row: Row, conditions: Sequence[Condition], begin: float) -> tuple[str | None, float | None]:
    """The source that was named first (preferring a culprit), and how long after the beginning of the fault, s."""
    others: tuple[str | None, float | None] = None, None
    for condition in conditions:
        after = (condition.since or 0) * 1e-9 - begin
        for fault in condition.faults if after >= 0.0 else ():
            if not row.culprits or _is_one_of(fault.source, row.culprits):
                return fault.source, after
            if others[0] is None:
                others = fault.source, after
    return others


def _find_refused(row: Row, observed: Observed, begin: float) -> dict[str, float]:
    """By healthy source, the longest span without any used observation, s."""
    guilty = (*row.culprits, *(row.refused or ()))
    longest: dict[str, float] = {}
    spans: dict[str, tuple[float, float]] = {}
    for i in observed.innovations:
        t = i.step * 1e-9
        if t < begin or i.reason in _NO_FAULT or _is_one_of(i.sensor, guilty):
            continue
        if i.fused and i.reason != "reset":
            spans.pop(i.sensor, None)
            continue
        first, last = spans.get(i.sensor, (t, t))
        spans[i.sensor] = (first if t - last < _PAUSE else t, t)
        longest[i.sensor] = max(longest.get(i.sensor, 0.0), t - spans[i.sensor][0])
    since: dict[str, float] = {}
    for condition in observed.conditions:
        t = (condition.since or 0) * 1e-9
        present = {f.source for f in condition.faults if f.source in ("steering", "torques", "brakes")}
        for source in [s for s in since if s not in present]:
            longest[source] = max(longest.get(source, 0.0), t - since.pop(source))
        for source in present:
            if not _is_one_of(source, guilty):
                since.setdefault(source, t)
    if len(observed.t):
        for source, t in since.items():
            longest[source] = max(longest.get(source, 0.0), observed.t[-1] * 1e-9 - t)
    return {source: round(float(span), 3) for source, span in sorted(longest.items()) if span > 0.1}


def _find_recovery(
    row: Row, observed: Observed, horizontal: np.ndarray, yaw: np.ndarray, end: float
) -> float | None:
    """Time after the end of the fault from which errors and state remain normal, s; None if the fault has no end."""
    if not math.isfinite(end):
        return None
    t = observed.t * 1e-9
    metres, radians = _NORMAL[0] + _BY_RECEIVER[row.receiver], _NORMAL[1]
    with np.errstate(invalid="ignore"):
        bad = (t > end) & ~((horizontal < metres) & (np.abs(yaw) < radians))
    last = float(t[bad][-1]) if bad.any() else end
    for condition, following in zip_longest(observed.conditions, observed.conditions[1:]):
        if condition.state in ("waiting", "degraded", "failed"):
            until = math.inf if following is None else (following.since or 0) * 1e-9
            if until > end:
                last = max(last, until)
    return max(last - end, 0.0)


def _find_unrecorded(observed: Observed) -> float | None:
    """Longest time for which no recording has the published estimates, s."""
    if observed.recorded is None:
        return None
    missing = ~np.isin(observed.t, observed.recorded)
    # From the last recorded step to the next one.
    edges = np.flatnonzero(np.diff(np.concatenate(([0], missing, [0]))))
    spans = [observed.t[end - 1] - observed.t[max(begin - 1, 0)] for begin, end in edges.reshape(-1, 2)]
    return max(spans, default=0) * 1e-9


def _find_misses(row: Row, figures: dict[str, Any]) -> Iterable[str]:
    if not figures["lives"]:
        yield "lives"
    if row.culprits and not (
        figures["named"] is not None
        and _is_one_of(figures["named"], row.culprits)
        and figures["named_after"] <= row.named_within
    ):
        yield "named"
    if any(span > _MOST_REFUSED for span in figures["wrongly_refused"].values()):
        yield "wrongly_refused"
    for key, limit in (
        ("error_sigma", _MOST_SIGMAS),
        ("error_m", row.metres),
        ("error_yaw", math.radians(row.degrees)),
        ("recovered_after", row.recovery),
        ("unrecorded", row.unrecorded),
    ):
        value = figures[key]
        if value is not None and value > limit:
            yield key
    if figures["error_m"] is None:
        yield "error_m"
    if figures["lost_samples"]:
        yield "lost_samples"
