"""Limits that a row has to meet, and rows that miss them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vehicled.studies.robustness.cases import RobustnessCase
from vehicled.studies.robustness.runs import KINEMATIC
from vehicled.studies.robustness.scores import LATE, QUANTITIES
from vehicled.studies.robustness.wrongs import ALONE

WORSE_THAN_KINEMATIC = 1.05
"""No figure may exceed that of the kinematic filter by more than this factor."""
REJECTED_SHARE = 0.01
"""Share of a healthy sensor's observations that may be rejected."""
NEES = (0.5, 2.0)
"""Range of the NEES of one drive."""
_ESTIMATED_SUBJECTS = {"antenna", "GNSS latency", "IMU latency", "speed latency", "car"}
"""A filter can correct its position only after it has found these errors: the second half of the drive counts."""

_BEGUN_STRAIGHT_ON = ("hills", "precise")
"""In these groups too, as the time of fixes is unknown before the first bend or change of speed."""
_DEGREE = math.radians(1)


@dataclass(frozen=True)
class Miss:
    """A limit that is missed."""

    quantity: str
    """Named as in a row; `refused.KIND`, `nees.QUANTITY`, `diverged`."""
    value: float
    bound: float
    against: str
    """`limit` or `kinematic`."""


def find_limits(case: RobustnessCase, receiver: str) -> dict[str, float]:
    """The largest RMSE per quantity, SI, for quantities with a limit."""
    if case.group in _LIMITS:
        return _LIMITS[case.group]
    rtk = receiver == "rtk"
    position, horizontal = "horizontal", 0.02 if rtk else 0.35
    if rtk and (case.subjects & _ESTIMATED_SUBJECTS or case.group in _BEGUN_STRAIGHT_ON):
        position, horizontal = LATE, 0.05
    sideslip = 0.5 if case.changes_grip else 0.35 if rtk else 0.45
    limits = {
        position: horizontal,
        "yaw": (0.2 if rtk else 0.5) * _DEGREE,
        "sideslip": sideslip * _DEGREE,
    }
    return {name: 2 * limit for name, limit in limits.items()} if case.group in _TWICE else limits


_TWICE = ("draws", "cars", "sensors")
"""Groups with twice the limits of single errors."""
_AT_RANDOM = ("draws", "cars")
"""Groups of which single rows may miss limits by chance: their share counts, and the mean NEES."""
_LIMITS: dict[str, dict[str, float]] = {
    "commonroad": {
        "horizontal": 0.25,
        "yaw": 0.12 * _DEGREE,
        "wz": 0.11 * _DEGREE,
        "vx": 0.08,
        "sideslip": 0.18 * _DEGREE,
    },
    "ferrari": {"sideslip": 0.28 * _DEGREE},
    "rav4": {"horizontal": 0.30, "vx": 0.05},
    "outage": {},
    "recorded": {},
}
_OUTAGE_SHARE, _OUTAGE_SHARE_ALONE = 0.003, 0.01
"""Largest error as a share of the distance driven without GNSS; the second with the IMU only."""


def find_misses(
    case: RobustnessCase, row: Mapping[str, Any], kinematic: Mapping[str, Any] | None
) -> list[Miss]:
    """All misses of the row of a filter; `kinematic`: the row of the kinematic filter on the same log."""
    if row["diverged"]:
        return [Miss("diverged", 1.0, 0.0, "limit")]
    found = [
        Miss(quantity, row[quantity], bound, "limit")
        for quantity, bound in find_limits(case, row["receiver"]).items()
        if row[quantity] is not None and row[quantity] > bound
    ]
    most = _OUTAGE_SHARE_ALONE if ALONE in case.wrongs else _OUTAGE_SHARE
    if row["outage"] is not None and row["outage"]["share"] > most:
        found.append(Miss("outage", row["outage"]["share"], most, "limit"))
    if case.group in _AT_RANDOM:
        return found
    if kinematic is not None and not kinematic["diverged"]:
        found += _find_worse(row, kinematic)
    for kind, share in row["refused"].items():
        bound = 0.0 if case.group == "ferrari" and kind == "imu.gyro" else REJECTED_SHARE
        if share > bound:
            found.append(Miss(f"refused.{kind}", share, bound, "limit"))
    low, high = NEES
    for quantity, nees in row["nees"].items():
        if not low <= nees <= high:
            found.append(Miss(f"nees.{quantity}", nees, high if nees > high else low, "limit"))
    return found


def _find_worse(row: Mapping[str, Any], kinematic: Mapping[str, Any]) -> list[Miss]:
    pairs = [(quantity, row[quantity], kinematic[quantity]) for quantity in QUANTITIES]
    if row["outage"] is not None:
        pairs.append(("outage", row["outage"]["share"], kinematic["outage"]["share"]))
    return [
        Miss(quantity, value, bound, "kinematic")
        for quantity, value, bound in pairs
        if value is not None and bound is not None and value > WORSE_THAN_KINEMATIC * bound
    ]


def find_all_misses(
    cases: Mapping[str, RobustnessCase], rows: Sequence[Mapping[str, Any]]
) -> list[list[Miss]]:
    """The misses of each row; none for the kinematic filter itself."""
    yardsticks = {_log_of(row): row for row in rows if row["estimator"] == KINEMATIC}
    return [
        []
        if row["estimator"] == KINEMATIC
        else find_misses(cases[row["case"]], row, yardsticks.get(_log_of(row)))
        for row in rows
    ]


def _log_of(row: Mapping[str, Any]) -> tuple[str, str, int]:
    return row["case"], row["receiver"], row["seed"]
