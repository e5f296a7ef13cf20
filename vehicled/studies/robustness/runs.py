"""One estimator on one case: from a job to a row of the table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from replay.csv_log import Table
from replay.problems import Problems
from replay.steps import make_steps
from vehicled.configuration import Configuration
from vehicled.errors import VehicledError
from vehicled.estimator import Estimator
from vehicled.filter.settings import Kind
from vehicled.jobs.installation import hash_code
from vehicled.jobs.ledger import Ledger
from vehicled.messages import Estimate, Innovation, Measurement
from vehicled.scoring.scores import tabulate
from vehicled.stepping import run_steps
from vehicled.studies.robustness.cases import RobustnessCase
from vehicled.studies.robustness.drawn_cars import find_wrong
from vehicled.studies.robustness.drives import (
    OUTAGE,
    OUTAGE_TIMES,
    Receiver,
    is_simulated_at_length,
    make_drive,
)
from vehicled.studies.robustness.kinematic_run import run_kinematic
from vehicled.studies.robustness.literal_run import run_literal
from vehicled.studies.robustness.scores import calc_rejected, lost, score_outage, score_run
from vehicled.studies.robustness.wrongs import apply_wrongs

KINEMATIC, LITERAL = "kinematic", "literal"
_OF_LOGS = {KINEMATIC: run_kinematic, LITERAL: run_literal}
"""Estimators of whole logs."""
RECEIVERS: tuple[Receiver, ...] = ("rtk", "conventional", "none")
PERIOD_NS = 4_000_000
"""Period of the filter's steps, ns."""
_FAILURES = (VehicledError, np.linalg.LinAlgError, FloatingPointError)
"""Errors that end one run, but not the others."""


@dataclass(frozen=True)
class RobustnessJob:
    """Description of one row."""

    case: str
    drive: str
    wrongs: tuple[str, ...]
    receiver: Receiver
    estimator: str
    """A kind of filter, `kinematic` or `literal`."""
    seed: int

    @classmethod
    def of_row(cls, row: dict[str, Any]) -> RobustnessJob:
        """The job that a row came from; KeyError or TypeError if the row is not one of these."""
        values = {f.name: row[f.name] for f in dataclasses.fields(cls)}
        return cls(**values | {"wrongs": tuple(row["wrongs"])})


def run_job(job: RobustnessJob) -> dict[str, Any]:
    """The row of a job, with keys as `bench robustness --json` has them."""
    drive = make_drive(job.drive, job.receiver, job.seed)
    configured, measurements = apply_wrongs(
        map(find_wrong, job.wrongs), drive.configuration, drive.measurements
    )
    row: dict[str, Any] = dataclasses.asdict(job) | {"code": hash_code()}
    if job.estimator in _OF_LOGS:
        return row | _run_on_log(configured, job, measurements, drive.truth)
    return row | _run_filter(configured, job, measurements, drive.truth)


def _score(estimates: Table, job: RobustnessJob, truth: Table) -> dict[str, Any]:
    figures = score_run(estimates, truth, job.receiver == "rtk")
    if job.drive == OUTAGE:
        figures["outage"] = score_outage(estimates, truth, OUTAGE_TIMES, job.receiver == "rtk")
    return figures


def _run_on_log(
    configuration: Configuration, job: RobustnessJob, measurements: Sequence[Measurement], truth: Table
) -> dict[str, Any]:
    """Figures of an estimator that takes a whole log."""
    figures, failed = lost(), None
    try:
        figures = _score(_OF_LOGS[job.estimator](configuration, measurements), job, truth)
    except _FAILURES as error:
        failed = _describe(error)
    return figures | {"refused": {}, "restarts": 0, "failed": failed}


def _run_filter(
    configuration: Configuration, job: RobustnessJob, measurements: Sequence[Measurement], truth: Table
) -> dict[str, Any]:
    """Figures of the job's kind of filter over a log."""
    chosen = dataclasses.replace(configuration.filter, kind=cast(Kind, job.estimator))
    estimator = Estimator(dataclasses.replace(configuration, filter=chosen))
    estimates: list[Estimate] = []
    innovations: list[Innovation] = []
    failed = None
    try:
        steps = make_steps(measurements, PERIOD_NS, Problems("log"))
        for result in run_steps(estimator, steps, raises=True):
            innovations += result.innovations
            if result.estimate is not None:
                estimates.append(result.estimate)
    except _FAILURES as error:
        failed = _describe(error)
    figures = lost()
    if estimates and failed is None:
        figures = _score(tabulate(estimates), job, truth)
    return figures | {
        "refused": calc_rejected(innovations),
        "restarts": estimator.status()["restarts"],
        "failed": failed,
    }


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def list_long_drives(jobs: Iterable[RobustnessJob]) -> list[tuple[str, Receiver, int]]:
    """Drives of these jobs that should be simulated once before processes share them; arguments of `make_drive`."""
    found = {job.drive.rpartition("|")[0]: (job.drive, job.receiver, job.seed) for job in jobs}
    return [arguments for arguments in found.values() if is_simulated_at_length(arguments[0])]


def prepare(drive: tuple[str, Receiver, int]) -> None:
    """Simulate one of these drives, which is then kept on the disk."""
    make_drive(*drive)


def list_jobs(
    cases: Sequence[RobustnessCase], receivers: Sequence[str], estimators: Sequence[str], seeds: Sequence[int]
) -> list[RobustnessJob]:
    """All combinations, with those of one log together."""
    return [
        RobustnessJob(case.name, case.drive, case.wrongs, receiver, estimator, seed)
        for receiver in RECEIVERS
        if receiver in receivers
        for seed in seeds
        for case in cases
        if receiver in case.receivers
        for estimator in estimators
    ]


def open_ledger(path: Path | None) -> Ledger[RobustnessJob]:
    """The ledger of existing rows; rows of another version of the program are not used. Raises UsageError."""

    def key(row: dict[str, Any]) -> RobustnessJob:
        job = RobustnessJob.of_row(row)
        return (
            job if row["code"] == hash_code() else dataclasses.replace(job, case=f"{row['code']} {job.case}")
        )

    return Ledger(path, key, "a row of `vehicled bench robustness`")
