"""Files of the truth of logs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vehicled.errors import UsageError

ENDINGS = (".truth.csv", "_truth.csv")
"""Endings of a truth next to its log: drive.truth.csv or drive_truth.csv next to drive.mcap, also
drive.mcap.truth.csv."""


def find_truth(log: Path) -> Path | None:
    """The truth next to a log; None if there is none."""
    names = [f"{log.name}{ENDINGS[0]}", *(f"{log.stem}{ending}" for ending in ENDINGS)]
    return next((path for name in names if (path := log.parent / name).is_file()), None)


def pair_truths(logs: Sequence[Path], given: Sequence[Path]) -> dict[Path, Path | None]:
    """The truth of each log: those `given`, one for each log in order, or the file next to the log.

    A log that is the truth of another one is omitted: a shell's `drives/*.csv` names both. Raises UsageError.
    """
    if given:
        if len(given) != len(logs):
            raise UsageError(f"--truth: expected one for each of {len(logs)} logs, got {len(given)}")
        return dict(zip(logs, given, strict=True))
    found = {log: find_truth(log) for log in logs}
    truths = {truth.absolute() for truth in found.values() if truth is not None}
    return {log: truth for log, truth in found.items() if log.absolute() not in truths}
