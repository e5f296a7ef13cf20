"""Errors, consistency and rejections of one run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from replay.csv_log import Table
from vehicled.errors import RunError
from vehicled.messages import Innovation
from vehicled.scoring.scores import compare
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES

QUANTITIES = ("horizontal", "yaw", "wz", "vx", "sideslip")
"""Quantities with an RMSE in a row: m, rad, rad/s, m/s, rad."""
LATE = "horizontal_late"
"""Key of the RMSE of the position over the second half of a drive, m: by then the filter has found the errors."""
CONSISTENT = ("x", "y", "yaw", "vx", "vy", "sideslip")
"""Quantities with a NEES in a row, if the filter gives σ."""
SETTLED = 5.0
"""Start of scoring, s after the first estimate or truth."""
SLOWEST_SIDESLIP = 2.0
"""m/s: below this speed the sideslip is meaningless."""
DIVERGED = {"horizontal": 10.0, "yaw": math.radians(20), "sideslip": math.radians(20)}
"""Errors above which a filter has lost the car."""
_NOT_REJECTED = ("not moving", "no fix", "not aligned", "either way")
"""Reasons, not due to the sensor, for which an observation was not used."""
_KIND_OF_AXIS = dict.fromkeys(GYROSCOPES, "imu.gyro") | dict.fromkeys(ACCELEROMETERS, "imu.accel")
"""An observation rejected on a single axis counts as one of the observations of all axes."""


def score_run(estimates: Table, truth: Table, offset_known: bool) -> dict[str, Any]:
    """RMSE of `QUANTITIES` (None if unknown), their largest errors, NEES, and whether the car was lost.

    `offset_known`: whether the receiver has no slow error of its own. If it has one, the mean of the
    position's error is subtracted in `horizontal`, as no filter can observe it within minutes; it is in
    `offset`, m.
    """
    try:
        compared = compare(estimates, truth)
    except RunError:
        return lost()
    errors = dict(compared.errors)
    begin = max(estimates.t[0], truth.t[0]) + round(SETTLED * 1e9)
    keep = (compared.t >= begin) & (compared.t <= truth.t[-1])
    if "vx" in compared.truth and "sideslip" in errors:
        errors["sideslip"] = np.where(
            np.abs(compared.truth["vx"]) > SLOWEST_SIDESLIP, errors["sideslip"], np.nan
        )
    offset = None
    if "x" in errors and "y" in errors:
        mean = [float(np.nanmean(errors[axis][keep])) for axis in "xy"]
        offset = math.hypot(*mean)
        east, north = (0.0, 0.0) if offset_known else mean
        errors["horizontal"] = np.hypot(errors["x"] - east, errors["y"] - north)
    row: dict[str, Any] = {name: _rms(errors, name, keep) for name in QUANTITIES}
    row[LATE] = _rms(errors, "horizontal", keep & (compared.t >= (begin + truth.t[-1]) // 2))
    row["offset"] = offset
    row["largest"] = {name: _largest(errors, name, keep) for name in QUANTITIES}
    row["nees"] = {
        name: nees for name in CONSISTENT if (nees := _nees(errors, compared.sigmas, name, keep)) is not None
    }
    finite = all(
        np.isfinite(estimates.columns[n]).all() for n in ("x", "y", "yaw", "vx") if n in estimates.columns
    )
    beyond = any((row["largest"][name] or 0.0) > bound for name, bound in DIVERGED.items())
    return row | {"diverged": bool(beyond or not finite), "outage": None}


def score_outage(
    estimates: Table, truth: Table, times: tuple[float, float], offset_known: bool
) -> dict[str, float]:
    """`distance` driven without GNSS between `times` (s), the largest `error` of position then (m), and its `share`.

    If the receiver has a slow error of its own, the error before the outage is subtracted.
    """
    errors = compare(estimates, truth)
    t = errors.t * 1e-9
    east, north = errors.errors["x"], errors.errors["y"]
    before, silent = (t > times[0] - 10.0) & (t <= times[0]), (t > times[0]) & (t <= times[1])
    if not offset_known:
        east, north = east - np.nanmean(east[before]), north - np.nanmean(north[before])
    steps = np.hypot(np.diff(errors.truth["x"][silent]), np.diff(errors.truth["y"][silent]))
    distance, error = float(np.nansum(steps)), float(np.nanmax(np.hypot(east, north)[silent]))
    return {"distance": distance, "error": error, "share": error / distance}


def lost() -> dict[str, Any]:
    """Row of a run that gave no estimate."""
    nothing = dict.fromkeys((*QUANTITIES, LATE))
    return nothing | {"offset": None, "largest": dict(nothing), "nees": {}, "diverged": True, "outage": None}


def _nees(
    errors: dict[str, np.ndarray], sigmas: dict[str, np.ndarray], name: str, keep: np.ndarray
) -> float | None:
    """Mean NEES; None without errors or without σ, or if σ is zero."""
    if name not in errors or name not in sigmas:
        return None
    error, sigma = errors[name][keep], sigmas[name][keep]
    known = np.isfinite(error) & np.isfinite(sigma) & (sigma > 0)
    return float(np.mean((error[known] / sigma[known]) ** 2)) if known.any() else None


def _rms(errors: dict[str, np.ndarray], name: str, keep: np.ndarray) -> float | None:
    found = errors[name][keep] if name in errors else np.empty(0)
    found = found[np.isfinite(found)]
    return math.sqrt(float(np.mean(found**2))) if len(found) else None


def _largest(errors: dict[str, np.ndarray], name: str, keep: np.ndarray) -> float | None:
    found = errors[name][keep] if name in errors else np.empty(0)
    found = np.abs(found[np.isfinite(found)])
    return float(np.max(found)) if len(found) else None


def calc_rejected(innovations: Iterable[Innovation]) -> dict[str, float]:
    """Share of unused observations, by kind (all four wheels together), among those that could be used."""
    seen: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for innovation in innovations:
        if innovation.reason in _NOT_REJECTED:
            continue
        parts = innovation.sensor.split(".")
        kind = f"{parts[0]}.{parts[2]}" if len(parts) == 3 and parts[0] == "wheel" else innovation.sensor
        kind = _KIND_OF_AXIS.get(kind, kind)
        seen[kind] += 1
        rejected[kind] += not innovation.fused
    return {kind: rejected[kind] / n for kind, n in sorted(seen.items())}
