"""From a row, a drive and a seed to a result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vehicled.configuration import load_configuration
from vehicled.studies.faults import other_cars
from vehicled.studies.faults.drives import PLACES, make_drive
from vehicled.studies.faults.live import run_live
from vehicled.studies.faults.offline import run_offline
from vehicled.studies.faults.row import Row
from vehicled.studies.faults.rows import BY_NAME
from vehicled.studies.faults.scores import score

CAR = "prototype"


@dataclass(frozen=True)
class FaultJob:
    """One run of the campaign."""

    fault: str
    """Name of a row."""
    drive: str
    seed: int
    offline: bool


def list_jobs(
    rows: Iterable[Row], drives: Sequence[str], seeds: Sequence[int], offline: bool
) -> list[FaultJob]:
    """All runs of these rows; with `offline`, those of the estimator only."""
    return [
        FaultJob(row.name, drive, seed, offline)
        for row in rows
        for drive in (*row.drives, *_find_other_drives(row, offline))
        if drive in drives
        for seed in seeds
        if row.offline or not offline
    ]


def _find_other_drives(row: Row, offline: bool) -> tuple[str, ...]:
    """Drives of other cars in which a fault can occur."""
    return other_cars.OTHER_DRIVES if offline and row.elsewhere and set(row.drives) <= set(PLACES) else ()


def run_job(job: FaultJob) -> dict[str, Any]:
    """The result of a run, with keys as in `bench faults --json`."""
    row = BY_NAME[job.fault]
    if job.drive in other_cars.OTHER_DRIVES:
        row, configuration = row.later(other_cars.find_lead(job.drive)), other_cars.configure(job.drive)
        drive = other_cars.make_drive(job.drive, row.receiver, job.seed)
    else:
        configuration = load_configuration(CAR)
        drive = make_drive(configuration, job.drive, row.receiver, job.seed)
    if job.offline:
        observed = run_offline(configuration, drive.measurements, row.faults, job.seed)
    else:
        observed = run_live(CAR, row, drive.measurements)
    return asdict(job) | score(row, drive, observed)
