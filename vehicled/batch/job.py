"""One log with one configuration: from a job to a row of the table, on any machine."""

from __future__ import annotations

import hashlib
import math
import platform
import time
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from replay.csv_log import Table, read_estimates
from replay.foreign.mapping import LogMapping
from replay.log import log_devices, open_log, read_steps
from replay.problems import Problems
from replay.rates import find_slow_clock
from vehicled.daemon.configuration import DaemonConfiguration
from vehicled.drive_summary import Summary
from vehicled.errors import RunError, UsageError, VehicledError
from vehicled.estimator import Estimator
from vehicled.jobs.installation import hash_code
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, Condition, Estimate, Measurement
from vehicled.points import POINT_COLUMNS
from vehicled.scoring.scores import Scores, SensorScore, SensorTally, at_point, compare, score
from vehicled.stepping import play_back


def hash_file(path: Path) -> str:
    """Hash of a file's content; some logs are folders. Raises OSError."""
    if path.is_dir():
        files = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
        parts = "".join(f"{name} {hash_file(path / name)}\n" for name in files)
        return hashlib.sha256(parts.encode()).hexdigest()[:16]
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


@dataclass(frozen=True)
class LoggedFile:
    """A file that is read where the work is done, under the same path as here."""

    name: str
    """Name as given by the user."""
    content: str
    """Hash of the content."""
    path: Path = field(compare=False)
    """Absolute path."""

    @classmethod
    def of(cls, path: Path) -> LoggedFile:
        """The file at a path. Raises UsageError if it cannot be read."""
        try:
            return cls(str(path), hash_file(path), path.absolute())
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None

    def check(self) -> None:
        """Raises UsageError if another file, or none, is at its path."""
        try:
            same = hash_file(self.path) == self.content
        except OSError as error:
            raise UsageError(
                f"{self.path}: {error.strerror} on {platform.node()}; expected where the work is done under the same "
                "path as where the command is given, such as in a shared folder"
            ) from None
        if not same:
            raise UsageError(
                f"{self.path}: another file on {platform.node()} than where the command was given, or changed since"
            )


@dataclass(frozen=True)
class BatchJob:
    """Description of one row."""

    log: LoggedFile
    truth: LoggedFile | None
    config: str
    """Name as given by the user."""
    config_content: str
    """Hash of the content."""
    configuration: DaemonConfiguration = field(compare=False)
    mapping_content: str | None = None
    """Hash of the content."""
    mapping: LogMapping | None = field(default=None, compare=False)
    """Mapping of the signals in logs of other programs."""

    @property
    def key(self) -> tuple[str | None, ...]:
        """All that the row depends on."""
        truth = None if self.truth is None else self.truth.content
        return (
            self.log.name,
            self.log.content,
            truth,
            self.config,
            self.config_content,
            self.mapping_content,
            hash_code(),
        )


_LAST_CONTENTS = ("config", "mapping", "code")


def get_key(row: dict[str, Any]) -> tuple[str | None, ...]:
    """`BatchJob.key` of the job of a row; KeyError or TypeError if it is none."""
    contents = row["contents"]
    return (
        row["log"],
        contents["log"],
        contents["truth"],
        row["config"],
        *(contents[n] for n in _LAST_CONTENTS),
    )


def run_batch_job(job: BatchJob) -> dict[str, Any]:
    """The row of a job, with keys as in `vehicled batch --json`; a failure is in `error`."""
    row = make_empty_row(job)
    try:
        _fill(row, job)
    except VehicledError as error:
        row["error"] = _in_one_line(str(error))
    except Exception as error:  # whatever a log causes, the other jobs continue
        row["error"] = _in_one_line(f"{type(error).__name__}: {error}")
    return row


def make_empty_row(job: BatchJob, error: str | None = None) -> dict[str, Any]:
    """The row of a job of which only the error is known."""
    _, log, truth, _, *last = job.key
    return {
        "log": job.log.name,
        "config": job.config,
        "truth": None if job.truth is None else job.truth.name,
        "error": error,
        "seconds": None,
        "steps": 0,
        "estimates": 0,
        "errors": {},
        "nis": {},
        "rejected": {},
        "rejected_share": None,
        "restarts": None,
        "failed_steps": None,
        "step_us": None,
        "notes": [],
        "contents": {"log": log, "truth": truth, **dict(zip(_LAST_CONTENTS, last, strict=True))},
    }


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _fill(row: dict[str, Any], job: BatchJob) -> None:
    """Fill a row until something fails. Raises what reading, estimating and scoring raise."""
    truth = None
    job.log.check()
    if job.truth is not None:
        job.truth.check()
        truth = read_estimates(job.truth.path)
    daemon = job.configuration.daemon
    log = open_log(job.log.path, log_devices(daemon.devices), job.mapping)
    warning = find_slow_clock(job.log.name, log.measurements())
    if warning is not None:
        row["notes"].append(warning)
    timed = _TimedEstimator(Estimator(job.configuration))
    tally, kept = SensorTally(), _Kept(() if truth is None else truth.columns)
    summary = play_back(
        timed,
        read_steps(log, daemon.loop.period),
        [lambda t, measurements, estimate, innovations: tally.take(innovations), kept.take],
    )
    _enter_summary(row, summary, timed, tally.score())
    for problems in (log.problems, *(() if truth is None else (truth.problems,))):
        if problems:
            row["notes"].append(str(problems))
    row["notes"] += [f"{channels}: {fault}" for channels, fault in summary.units.items()]
    if summary.steps == 0:
        raise RunError("no measurement that could be used")
    if summary.estimates == 0:
        raise RunError(f"the filter never started: {summary.line()}")
    if truth is not None:
        scores = score(compare(at_point(kept.table(), job.configuration), truth))
        row["errors"] = _list_errors(scores)
        row["notes"] += scores.notes


def _enter_summary(
    row: dict[str, Any], summary: Summary, timed: _TimedEstimator, sensors: dict[str, SensorScore]
) -> None:
    used = sum(s.fused for s in sensors.values())
    rejected = sum(s.rejected for s in sensors.values())
    row |= {
        "seconds": summary.drive_seconds,
        "steps": summary.steps,
        "estimates": summary.estimates,
        "nis": {name: s.nis if math.isfinite(s.nis) else None for name, s in sensors.items()},
        "rejected": {name: s.rejected / (s.fused + s.rejected) for name, s in sensors.items()},
        "rejected_share": rejected / (used + rejected) if used + rejected else None,
        "restarts": summary.restarts,
        "failed_steps": summary.errors,
        "step_us": timed.describe(),
    }
    if summary.last_error:
        row["notes"].append(_in_one_line(summary.last_error))


def _list_errors(scores: Scores) -> dict[str, dict[str, Any]]:
    return {
        name: {"rmse": s.rmse, "max": s.max, "unit": s.unit, "nees": s.nees}
        for name, s in scores.quantities.items()
    }


class _Kept:
    """The estimates that can be compared with a truth; an hour of all columns would take half a gigabyte."""

    def __init__(self, true_columns: Any) -> None:
        compared = {c for c in true_columns if c in ESTIMATE_INDEX}
        # Moving estimates to the point of the truth needs attitude and rates.
        moving = {"roll", "pitch", "yaw", "wx", "wy", "wz", "x", "y", "z", "vx", "vy", "vz"}
        extra = moving if set(POINT_COLUMNS) <= set(true_columns) else set()
        wanted = compared | extra | {f"sigma.{c}" for c in compared}
        self._columns = [c for c in ESTIMATE_COLUMNS if c in wanted]
        self._places = np.array([ESTIMATE_INDEX[c] for c in self._columns], dtype=int)
        self._t, self._values = array("q"), array("d")

    def take(self, t: int, measurements: object, estimate: Estimate | None, innovations: object) -> None:
        """Take the results of a step."""
        if estimate is not None and self._columns:
            self._t.append(estimate.t)
            self._values.frombytes(estimate.values[self._places].tobytes())

    def table(self) -> Table:
        values = np.frombuffer(self._values, dtype=float).reshape(len(self._t), len(self._columns))
        columns = {c: values[:, k] for k, c in enumerate(self._columns)}
        return Table(np.frombuffer(self._t, dtype=np.int64), columns, Problems("estimates"))


class _TimedEstimator:
    """An estimator whose steps are timed, in processor time, as other jobs use the processor too."""

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._ns = array("q")
        self.innovations, self.status = estimator.innovations, estimator.status
        self.parameters, self.command = estimator.parameters, estimator.command

    @property
    def condition(self) -> Condition:
        return self._estimator.condition

    def step(self, t_ns: int, measurements: list[Measurement]) -> Estimate | None:
        begun = time.thread_time_ns()
        try:
            return self._estimator.step(t_ns, measurements)
        finally:
            self._ns.append(time.thread_time_ns() - begun)

    def describe(self) -> dict[str, float] | None:
        """µs of processor time per step."""
        if not self._ns:
            return None
        median, p99, p999 = np.percentile(np.frombuffer(self._ns, dtype=np.int64) / 1e3, (50, 99, 99.9))
        return {"median": float(median), "p99": float(p99), "p999": float(p999)}
