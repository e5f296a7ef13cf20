"""Drives, recorded or simulated, and the estimator's run over them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from replay.csv_log import Table
from replay.foreign.mapping import load_mapping
from replay.log import create_log, log_devices, open_log, read_steps, read_steps_as_measured
from replay.problems import Problems
from replay.steps import as_measured, make_steps, sort_by_arrival
from vehicled.api.estimates import Estimates
from vehicled.daemon.configuration import DaemonConfiguration, load_daemon_configuration
from vehicled.errors import RunError, UsageError
from vehicled.estimator import Estimator
from vehicled.messages import CHANNELS, Estimate, Innovation, Measurement, Step
from vehicled.points import with_point
from vehicled.reading.number_faults import find_fault
from vehicled.scoring import scores
from vehicled.scoring.scores import Scores
from vehicled.simulation import drive as simulation
from vehicled.simulation.equipment import find_equipment
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import Scenario, find_scenario
from vehicled.smoothing.smoother import Smoother
from vehicled.smoothing.wrong_antenna import run_smoother
from vehicled.stepping import Sink, run_steps
from vehicled.units import Vector

Receiver = Literal["rtk", "conventional", "none"]


def load_configuration(name_or_path: str | Path) -> DaemonConfiguration:
    """The configuration in a YAML file, or the shipped one of that name, such as `prototype`.

    `vehicle`, `sensors`, `filter`, `world` and `daemon` are frozen dataclasses: change them by `dataclasses.replace`.
    `text` remains that of the file. Raises UsageError naming file, line and key.
    """
    return load_daemon_configuration(name_or_path)


def _load(configuration: DaemonConfiguration | str | Path) -> DaemonConfiguration:
    if isinstance(configuration, DaemonConfiguration):
        for section in ("vehicle", "sensors", "filter"):  # it may have been changed since it was read
            if fault := find_fault(getattr(configuration, section), section):
                raise UsageError(fault)
        return configuration
    return load_configuration(
        _as_path(configuration, "configuration", "a configuration, its name or its path")
    )


def _read_table(given: Estimates | str | Path, what: str) -> Estimates:
    return (
        given
        if isinstance(given, Estimates)
        else Estimates.read(_as_path(given, what, "Estimates or a path"))
    )


def _as_path(given: object, what: str, expected: str) -> str | Path:
    if not isinstance(given, (str, Path)):
        raise UsageError(f"{what}: expected {expected}, got {type(given).__name__}")
    return given


@dataclass(frozen=True)
class Drive:
    """What a simulated car's sensors measured, and the truth."""

    measurements: list[Measurement]
    """In order of arrival."""
    truth: Estimates
    """Every 4 ms; NaN where the plant does not know a column."""

    def __repr__(self) -> str:
        return f"<Drive: {len(self.measurements)} measurements, truth {self.truth!r}>"

    def write(self, path: str | Path) -> None:
        """As a measurement log, .mcap or .csv. Raises UsageError for another kind."""
        measured = {channel for m in self.measurements for channel in m.values}
        with create_log(path, [c for c in CHANNELS if c in measured]) as log:
            for m in self.measurements:
                log.write(m)


def simulate(
    scenario: str | Path | Scenario,
    configuration: DaemonConfiguration | str | Path,
    *,
    seed: int = 1,
    duration: float | None = None,
    gnss: Receiver | None = None,
) -> Drive:
    """Drive the configured car with its sensors, with the errors of the scenario in parameters and sensors.

    `scenario`: a built-in drive such as `slalom` (`vehicled simulate --list`) or a YAML file; `seed`: of all noise;
    `duration` (s) and `gnss`: instead of the scenario's own. Raises UsageError, and RunError when the simulation
    does not stay finite.
    """
    configuration = _load(configuration)
    if not isinstance(scenario, Scenario):
        scenario = find_scenario(str(scenario))
    if duration is not None:
        if not 0.0 < duration < math.inf:
            raise UsageError(f"duration: expected a time above 0 s, got {duration:g}")
        scenario = replace(scenario, duration=duration)
    if gnss is not None:
        if gnss not in get_args(Receiver):
            raise UsageError(f"gnss: expected one of {', '.join(get_args(Receiver))}, got '{gnss}'")
        sensors = replace(scenario.sensors, gnss=None if gnss == "none" else gnss)
        scenario = replace(scenario, sensors=sensors)
    if seed < 0:
        raise UsageError(f"seed: expected at least 0, got {seed}")
    plant = make_plant(configuration, scenario.plant)
    equipment = find_equipment(configuration, configuration.find_signals())
    measurements, truth = simulation.simulate(scenario, plant, seed, equipment=equipment)
    point = configuration.point
    return Drive(measurements, Estimates.from_rows(truth.at(point).rows(), point=point))


def read_log(
    log: str | Path | Drive,
    configuration: DaemonConfiguration | str | Path,
    *,
    mapping: str | Path | None = None,
) -> Iterator[Step]:
    """The filter steps of a drive, for a loop of one's own: `step.t` (ns) and `step.measurements`.

    A recording of the daemon has exactly the steps of that run, and its `commands`; any other log (.mcap, .csv, CAN,
    NMEA, and what else `vehicled replay` reads) has steps at the configured rate. `mapping`: YAML file that maps the
    signals of a log to channels (docs/mapping.md). Faults in the log are skipped, counted, and warned of at its end
    (UserWarning). Raises UsageError for a file that is no log, or for a mapping that is none.
    """
    return _read_steps(log, _load(configuration), mapping)


def _read_steps(
    log: str | Path | Drive,
    configuration: DaemonConfiguration,
    mapping: str | Path | None,
    on_time: bool = False,
) -> Iterator[Step]:
    """Those steps, or the same `on_time`: as if everything had arrived when it was measured."""
    daemon = configuration.daemon
    if isinstance(log, Drive):
        given, problems = log.measurements, Problems("drive")
        if on_time:
            given = list(sort_by_arrival(as_measured(given), problems))
        yield from make_steps(given, daemon.loop.period, problems)
        return
    log = _as_path(log, "log", "a path or a Drive")
    signals = None if mapping is None else load_mapping(mapping)
    opened = open_log(log, log_devices(daemon.devices), signals)
    yield from (read_steps_as_measured if on_time else read_steps)(opened, daemon.loop.period)
    if opened.problems:
        warnings.warn("; ".join([str(opened.problems), *opened.problems.details]), stacklevel=2)


def estimate(
    log: str | Path | Drive,
    configuration: DaemonConfiguration | str | Path,
    *,
    smooth: bool = False,
    mapping: str | Path | None = None,
) -> Estimates:
    """Run an `Estimator` over a drive: what `vehicled replay --fast` writes, as arrays.

    A row for each step from the filter's start on. With `smooth` each row uses all measurements of the drive, before
    and after it, as `vehicled replay --smooth` does; the innovations are then those of the filter. `mapping` as of
    `read_log`. Warns of channels that seem to be in another unit (UserWarning). Raises UsageError for a file that is
    no log, RunError when it has no measurement or the filter never started, and what the estimator raises.
    """
    configuration = _load(configuration)
    name = "drive" if isinstance(log, Drive) else str(log)
    if smooth:
        runs = []

        def take(smoother: Smoother, is_again: bool) -> None:
            given = _read_steps(log, configuration, mapping, on_time=True)
            runs.append(_run(smoother.estimator, given, name, smoother.take))

        with run_smoother(configuration, take) as smoother:
            return Estimates.from_rows(smoother.smooth(), runs[-1].innovations, configuration.point)
    run = _run(Estimator(configuration), _read_steps(log, configuration, mapping), name)
    return Estimates.from_rows(run.rows, run.innovations, configuration.point)


@dataclass
class _Run:
    """What an estimator returned."""

    rows: list[Estimate] = field(default_factory=list)
    innovations: list[Innovation] = field(default_factory=list)


def _run(estimator: Estimator, steps: Iterator[Step], name: str, sink: Sink[Estimate] | None = None) -> _Run:
    run, count = _Run(), 0
    for result in run_steps(estimator, steps, raises=True):
        if result.estimate is not None:
            run.rows.append(result.estimate)
        run.innovations += result.innovations
        if sink is not None:
            sink(result.t, result.measurements, result.estimate, result.innovations)
        count += 1
    for channels, fault in estimator.status()["units"].items():
        warnings.warn(f"{name}: {channels}: {fault}", stacklevel=3)
    if not count:
        raise RunError(f"{name}: no measurement that could be used")
    if not run.rows:
        raise RunError(f"{name}: the filter never started in {count} steps")
    return run


def score(
    estimates: Estimates | str | Path, truth: Estimates | str | Path, *, truth_point: Vector | None = None
) -> Scores:
    """Errors against the truth, which is interpolated to the times of the estimates, and consistency.

    Paths are read as by `Estimates.read`.
    `truth_point`: m in vehicle axes, the point of the car that the truth is of; the estimates are moved there.

    `score(…).quantities["yaw"].rmse`: by column, and `horizontal`; `.sensors["gnss.position"].nis`: by kind of
    observation. Raises UsageError for a file that cannot be read, RunError when nothing can be compared.
    """
    estimates, truth = _read_table(estimates, "estimates"), _read_table(truth, "truth")
    tables = [
        Table(table.t_ns, {c: table[c] for c in table.columns}, Problems(name))
        for name, table in (("estimates", estimates), ("truth", truth))
    ]
    if truth_point is not None:
        tables[1] = tables[1]._replace(columns=with_point(tables[1].columns, truth_point))
    return scores.score(scores.compare(*tables), estimates.innovations)
