"""Rows of starts: at first nothing is measured, whatever the car does meanwhile; then everything is."""

from __future__ import annotations

from replay.faults import Silence
from vehicled.studies.faults.drives import PLACES, PULLS_OFF, START
from vehicled.studies.faults.row import ALL, Row

_CONVERGED_WITHIN = 3.0
"""Time, s, within which the filter has to converge."""


def _start(name: str, *drives: str, useful_from: float = START) -> Row:
    """`useful_from`: s from the start of the log, when the measurements begin to determine all scored quantities."""
    return Row(
        name=name,
        make=lambda begin, end: [Silence(channels=ALL, end=START)],
        begin=0.0,
        end=useful_from,
        scored_from=useful_from + _CONVERGED_WITHIN,
        honest_before=True,
        recovery=_CONVERGED_WITHIN,
        drives=drives,
    )


START_ROWS: tuple[Row, ...] = (
    _start("start standing", "standing", useful_from=PULLS_OFF + 1.0),
    _start("start straight ahead", "straight"),
    _start("start in a turn", *PLACES),
    _start("start in reverse", "reverse"),
    _start("start on a slope", "slope"),
    _start("start in a skid", "skid"),
)
