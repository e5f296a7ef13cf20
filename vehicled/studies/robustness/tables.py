"""The table of a run as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from vehicled.studies.robustness.drawn_cars import PREFIX
from vehicled.studies.robustness.limits import Miss
from vehicled.studies.robustness.runs import KINEMATIC
from vehicled.studies.robustness.scores import CONSISTENT, LATE, QUANTITIES

_UNITS = {"horizontal": "m", "yaw": "°", "wz": "°/s", "vx": "m/s", "sideslip": "°"}
_WIDTH = 13

LEGEND = (
    "RMSE after the first 5 s. ! beyond the limit (where an antenna or a latency is to be found, that of the second\n"
    f"half); k more than 5 % beyond the {KINEMATIC} filter. NEES: least and greatest over x, y, yaw, vx, vy, and\n"
    "sideslip. Rejected: shares above 1 %."
)


def get_unit(quantity: str) -> str:
    """Unit in which a quantity is shown."""
    return _UNITS[quantity]


def format_rows(rows: Sequence[Mapping[str, Any]], misses: Sequence[Sequence[Miss]]) -> Iterator[str]:
    """The rows below the name of their case, then a legend and the number of rows that hold."""
    heading = "".join(f"{f'{q}, {_UNITS[q]}':>{_WIDTH}}  " for q in QUANTITIES)
    yield f"  {'receiver':<12} {'seed':>4} {'estimator':<11}{heading}{'NEES':>11}  rejected"
    case = None
    for row, missed in zip(rows, misses, strict=True):
        if row["case"] != case:
            yield (case := row["case"])
        yield _format_row(row, missed).rstrip()
    yield ""
    yield LEGEND
    scored = [(row, m) for row, m in zip(rows, misses, strict=True) if row["estimator"] != KINEMATIC]
    held, accurate = sum(not m for _, m in scored), sum(_is_accurate(m) for _, m in scored)
    yield f"{held} of {len(scored)} rows hold; {accurate} as far as accuracy goes"
    for prefix, of_what in (("draw, ", "draws"), (PREFIX, "drawn cars")):
        drawn = [m for row, m in scored if row["case"].startswith(prefix)]
        if drawn:
            lost = sum(any(x.quantity == "diverged" for x in m) for m in drawn)
            share = sum(not m for m in drawn) / len(drawn)
            yield f"{len(drawn)} runs of {of_what}: {lost} diverged, {100 * share:.0f} % within twice the limits"
    yield from _format_consistency([row for row, _ in scored if row["case"].startswith(PREFIX)])


def _format_consistency(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Mean NEES over many cars, which should be 1, by estimator and receiver."""
    for kind, receiver in dict.fromkeys((row["estimator"], row["receiver"]) for row in rows):
        found = [row["nees"] for row in rows if (row["estimator"], row["receiver"]) == (kind, receiver)]
        values = {q: [nees[q] for nees in found if q in nees] for q in CONSISTENT}
        figures = (f"{q} {fmean(v):.2g} ({median(v):.2g})" for q, v in values.items() if v)
        yield f"NEES of drawn cars, {kind}, {receiver}, mean (median): {', '.join(figures)}"


def _format_row(row: Mapping[str, Any], missed: Sequence[Miss]) -> str:
    figures = "".join(_figure(row, quantity, missed) for quantity in QUANTITIES)
    inconsistent = "!" if any(m.quantity.startswith("nees") for m in missed) else " "
    return (
        f"  {row['receiver']:<12} {row['seed']:>4} {row['estimator']:<11}{figures}"
        f"{_nees(row):>11}{inconsistent} {_rest(row, missed)}"
    )


def _is_accurate(missed: Sequence[Miss]) -> bool:
    """Whether at most consistency (`nees.x`) and rejections (`refused.imu.gyro`) miss their limits."""
    return all("." in m.quantity for m in missed)


def _figure(row: Mapping[str, Any], quantity: str, missed: Sequence[Miss]) -> str:
    value = row[quantity]
    if value is None:
        return f"{'–':>{_WIDTH}}  "
    scale = math.degrees(1) if "°" in _UNITS[quantity] else 1.0
    marked = {quantity, LATE} if quantity == "horizontal" else {quantity}
    marks = {"!" if m.against == "limit" else "k" for m in missed if m.quantity in marked}
    return f"{value * scale:>{_WIDTH}.3f}{''.join(sorted(marks)):<2}"


def _nees(row: Mapping[str, Any]) -> str:
    values = row["nees"].values()
    return f"{min(values):.2g}…{max(values):.2g}" if values else "–"


def _rest(row: Mapping[str, Any], missed: Sequence[Miss]) -> str:
    notes = []
    if row["outage"] is not None:
        marks = {"!" if m.against == "limit" else "k" for m in missed if m.quantity == "outage"}
        outage = row["outage"]
        notes.append(
            f"{outage['error']:.2f} m = {100 * outage['share']:.2f} %{''.join(sorted(marks))} of the distance"
        )
    notes += [f"{kind} {100 * share:.0f} %" for kind, share in row["refused"].items() if share > 0.01]
    if row["restarts"]:
        notes.append(f"{row['restarts']} restarts")
    if row["diverged"]:
        notes.append("DIVERGED")
    if row["failed"]:
        notes.append(row["failed"])
    return ", ".join(notes)
