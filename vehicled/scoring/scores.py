"""Quality of estimates: errors against the truth, and consistency with the filter's own covariance."""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from replay.csv_log import Table, read_estimates
from replay.mcap_log import McapLog
from replay.mcap_messages import is_mcap
from replay.problems import Problems
from vehicled.configuration import Configuration, parse_configuration
from vehicled.errors import RunError, SettingsError
from vehicled.maths.angles import wrap
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import ESTIMATE_COLUMNS, Estimate, Innovation, Measurement
from vehicled.points import ORIGIN, find_point, format_point, move, rotations, with_point
from vehicled.schemas import unit_of
from vehicled.scoring.hints import Turning, find_degrees, find_offset
from vehicled.scoring.origins import move_to_origin
from vehicled.units import Vector

_LEAST_SPEED = 2.0
"""m/s: below this speed, a course over ground is too noisy as a heading."""

SLOWEST_SLIP = 1.0
"""m/s: below this speed, slip is a quotient of noise and not scored, if the true speed is known."""

_SHOWN = {"rad": ("deg", 180 / math.pi), "rad/s": ("deg/s", 180 / math.pi), "": ("–", 1.0)}
"""Unit and factor that a printed table uses instead of the SI unit."""

_HOLE = 5.0
"""Truth is interpolated over at most this number of its usual periods; a longer gap is not scored."""


@dataclass(frozen=True)
class Score:
    """Errors of one quantity over a run."""

    rmse: float
    max: float
    """Largest absolute error."""
    unit: str
    samples: int
    nees: float | None
    """Mean of (error/σ)² per component: 1 for a consistent filter; None without σ."""


@dataclass(frozen=True)
class SensorScore:
    """Consistency of one kind of observation over a run."""

    nis: float
    """Mean normalised innovation squared per component, of the accepted ones: 1 for a consistent filter."""
    fused: int
    rejected: int
    """Number of rejected observations, for any reason."""


@dataclass(frozen=True)
class Scores:
    """Errors by quantity and consistency by sensor, over the time that estimates and truth share."""

    quantities: dict[str, Score]
    """Scores by column of the estimates table, and of `horizontal`."""
    sensors: dict[str, SensorScore]
    overlap: tuple[float, float]
    """First and last compared time, s on the clock of the estimates."""
    receiver: dict[str, Score] = field(default_factory=dict)
    """Errors of the GNSS receiver alone: `horizontal` and `yaw`, where known."""
    point: Vector = ORIGIN
    """Point at which position, velocity and sideslip were compared: m, vehicle axes."""
    notes: tuple[str, ...] = ()
    """Remarks on these numbers, in words."""

    def as_json(self) -> dict[str, Any]:
        """The contents of `vehicled score --json`."""
        result: dict[str, Any] = {}
        for name, score in self.quantities.items():
            result[name] = {
                "rmse": score.rmse,
                "max": score.max,
                "unit": score.unit,
                "samples": score.samples,
            }
            if score.nees is not None:
                result[name]["nees"] = score.nees
        if self.receiver:
            result["receiver"] = {
                name: {"rmse": score.rmse, "max": score.max, "unit": score.unit, "samples": score.samples}
                for name, score in self.receiver.items()
            }
        if self.sensors:
            result["nis"] = {name: sensor.nis for name, sensor in self.sensors.items()}
            result["innovations"] = {
                name: {"fused": sensor.fused, "rejected": sensor.rejected}
                for name, sensor in self.sensors.items()
            }
        if self.point != ORIGIN:
            result["point"] = {**dict(zip("xyz", self.point, strict=True)), "unit": "m"}
        result["overlap"] = {"from": self.overlap[0], "to": self.overlap[1], "unit": "s"}
        result["notes"] = list(self.notes)
        return result

    def __str__(self) -> str:
        """A table, in customary units."""
        first, last = self.overlap
        at = "" if self.point == ORIGIN else f", at the point {format_point(self.point)}"
        lines = [
            f"compared from {first:.3f} s to {last:.3f} s{at}",
            "",
            f"{'quantity':<26} {'RMSE':>11} {'largest':>11}  {'unit':<6} {'NEES':>8} {'samples':>9}",
        ]
        alone = {f"receiver alone: {name}": s for name, s in self.receiver.items()}
        for name, s in (self.quantities | alone).items():
            unit, factor = _SHOWN.get(s.unit, (s.unit, 1.0))
            nees = "" if s.nees is None else f"{s.nees:.3g}"
            lines.append(
                f"{name:<26} {s.rmse * factor:>11.4g} {s.max * factor:>11.4g}  {unit:<6} {nees:>8} {s.samples:>9}"
            )
        if self.sensors:
            lines += ["", f"{'sensor, as recorded':<26} {'NIS':>11} {'accepted':>11} {'rejected':>9}"]
            for name, sensor in self.sensors.items():
                nis = f"{sensor.nis:.3f}" if math.isfinite(sensor.nis) else "–"
                lines.append(f"{name:<26} {nis:>11} {sensor.fused:>11} {sensor.rejected:>9}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Comparison:
    """Estimates compared with a truth that was interpolated to the times of the estimates."""

    t: np.ndarray
    """(n,) int64 ns."""
    truth: dict[str, np.ndarray]
    """(n,) for each column in both; NaN outside the truth."""
    errors: dict[str, np.ndarray]
    """(n,) estimate minus truth, angles in (−π, π]; NaN where either is unknown, and of slip at standstill."""
    sigmas: dict[str, np.ndarray]
    """(n,) standard deviation of each column for which the filter gives one."""
    point: Vector = ORIGIN
    """Point at which position, velocity and sideslip were compared: m, vehicle axes."""
    notes: tuple[str, ...] = ()
    """Remarks on these errors, in words."""


@dataclass(frozen=True)
class Scored:
    """A run to be scored."""

    estimates: Table
    innovations: list[Innovation] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)
    configuration: Configuration | None = None
    """Configuration, if it was recorded."""


def read_run(path: str | Path) -> Scored:
    """A recording (.mcap), or a table of estimates (.csv). UsageError, OSError."""
    if is_mcap(path):
        log = McapLog(path)
        run = log.read_run()
        configuration = read_configuration(log)
        return Scored(
            at_point(run.estimates, configuration), run.innovations, run.measurements, configuration
        )
    return Scored(read_estimates(path))


def leave_out(run: Scored, seconds: float) -> Scored:
    """A run without the first seconds after its first estimate. RunError if no estimate is left."""
    table = run.estimates
    begin = int(table.t.min()) + round(1e9 * seconds) if len(table.t) else 0
    kept = table.t >= begin
    if not kept.any():
        span = (int(table.t.max()) - int(table.t.min())) / 1e9
        raise RunError(
            f"{table.problems.log}: no estimate later than {seconds:g} s after the first; it has {span:g} s"
        )
    columns = {name: values[kept] for name, values in table.columns.items()}
    return replace(
        run,
        estimates=table._replace(t=table.t[kept], columns=columns),
        innovations=[i for i in run.innovations if i.step >= begin],
        measurements=[m for m in run.measurements if m.t >= begin],
    )


def read_configuration(log: McapLog) -> Configuration | None:
    """The recorded configuration, if any; also None if it is of another version of this program."""
    try:
        return None if log.configuration is None else parse_configuration(log.configuration)
    except SettingsError:
        return None


def at_point(table: Table, configuration: Configuration | None) -> Table:
    """The estimates of a configuration, with their point if that is not the vehicle origin."""
    if configuration is None or configuration.point == ORIGIN:
        return table
    return table._replace(columns=with_point(table.columns, configuration.point))


def is_angle(column: str) -> bool:
    """Whether a column is an angle within one turn (a wheel's rotation is not: it counts turns)."""
    return column in ("roll", "pitch", "yaw", "sideslip") or (
        column.startswith("slip.") and column.endswith(".angle")
    )


def find_turn(column: str) -> float | None:
    """Period of the values of a column, in its unit: a full turn of angles and longitudes; None for others."""
    if column == "lon":  # at the date line, or as 0° to 360°
        return 360.0
    return math.tau if is_angle(column) else None


def _needs_motion(column: str) -> bool:
    return column == "sideslip" or column.startswith("slip.")


def tabulate(estimates: Sequence[Estimate]) -> Table:
    """Estimates as a table, as read from a file."""
    t = np.array([e.t for e in estimates], dtype=np.int64)
    values = np.array([e.values for e in estimates])
    return Table(t, dict(zip(ESTIMATE_COLUMNS, values.T, strict=True)), Problems("estimates"))


def compare(estimates: Table, truth: Table) -> Comparison:
    """Errors of every column in both. RunError if nothing can be compared.

    If the truth states its point, the estimates are moved to that point; otherwise it is assumed to be of the
    same point. A truth about another origin is moved to that of the estimates.
    """
    exchanged = tuple(_find_exchange(estimates, truth))
    truth, moved = move_to_origin(truth, estimates)
    t, values = _in_order(estimates)
    true_t, true_values = _in_order(truth)
    point = find_compared_point(estimates, truth)
    if point != (find_point(values) or ORIGIN):
        values = move(values, point)
    columns = [c for c in ESTIMATE_COLUMNS if c in values and c in true_values and not c.startswith("sigma.")]
    columns = [c for c in columns if np.isfinite(values[c]).any() and np.isfinite(true_values[c]).any()]
    if not columns:
        raise RunError(f"{truth.problems.log}: no column in common with {estimates.problems.log}")
    if not len(t) or not len(true_t) or t[0] > true_t[-1] or t[-1] < true_t[0]:
        names = truth.problems.log, estimates.problems.log
        raise RunError(f"no time in common: {names[0]} {_span(true_t)}, {names[1]} {_span(t)}")
    at_estimates = {c: _interpolate(t, true_t, true_values[c], find_turn(c)) for c in columns}
    moving = np.full(len(t), True)
    if "vx" in true_values:
        speed = np.abs(_interpolate(t, true_t, true_values["vx"], None))
        moving = ~(speed < SLOWEST_SLIP)
    errors = {}
    for column in columns:
        error = values[column] - at_estimates[column]
        if (turn := find_turn(column)) is not None:
            error = turn / 2 - np.mod(turn / 2 - error, turn)
        errors[column] = np.where(moving, error, np.nan) if _needs_motion(column) else error
    sigmas = {c: values[f"sigma.{c}"] for c in columns if np.isfinite(values.get(f"sigma.{c}", np.nan)).any()}
    notes = *exchanged, *moved
    turning = {
        c: Turning(
            values[c],
            _interpolate(t, true_t, np.radians(true_values[c]), find_turn(c)),
            errors[c],
            is_angle(c),
        )
        for c in columns
        if unit_of(c) in ("rad", "rad/s")
    }
    offset = () if notes else find_offset(errors, sigmas)
    hints = *offset, *find_degrees(turning, truth.problems.log)
    return Comparison(t, at_estimates, errors, sigmas, point, (*notes, *hints))


def find_compared_point(estimates: Table, truth: Table) -> Vector:
    """The point at which two tables are compared, m in vehicle axes: that of the truth, if stated."""
    return find_point(truth.columns) or find_point(estimates.columns) or ORIGIN


def _find_exchange(estimates: Table, truth: Table) -> Iterable[str]:
    """Remark if two tables seem to be exchanged."""
    with_sigma = [any(name.startswith("sigma.") for name in table.columns) for table in (estimates, truth)]
    if with_sigma == [False, True]:
        yield (
            f"{truth.problems.log} has standard deviations, and {estimates.problems.log} has none: "
            "expected the estimates first, then the truth"
        )


def _span(t: np.ndarray) -> str:
    return f"{t[0] / 1e9:.3f}…{t[-1] / 1e9:.3f} s" if len(t) else "empty"


def _in_order(table: Table) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The table sorted by time, each instant once."""
    t, index = np.unique(table.t, return_index=True)
    return t, {name: column[index] for name, column in table.columns.items()}


def _interpolate(t: np.ndarray, true_t: np.ndarray, values: np.ndarray, turn: float | None) -> np.ndarray:
    """Truth (linear between its samples) at the times t; NaN outside, and in gaps of the truth.

    `turn`: period of the values, see `find_turn`.
    """
    known = np.isfinite(values)
    true_t, values = true_t[known], values[known]
    if turn is not None:
        values = np.unwrap(values, period=turn)
    # Relative to the first time, so that a double resolves nanoseconds of a clock that has run for months.
    seconds, true_seconds = (t - true_t[0]) / 1e9, (true_t - true_t[0]) / 1e9
    result: np.ndarray = np.interp(seconds, true_seconds, values, left=np.nan, right=np.nan)
    if len(true_t) > 1:
        spacing = np.diff(true_seconds)
        after = np.clip(np.searchsorted(true_seconds, seconds), 1, len(spacing))
        hole = spacing[after - 1] > _HOLE * np.median(spacing)
        # At the time of a sample nothing is interpolated, even at the edge of a gap.
        result[hole & ~np.isin(t, true_t)] = np.nan
    return result


def score(comparison: Comparison, innovations: Iterable[Innovation] = ()) -> Scores:
    """RMSE, largest error and consistency of all compared quantities. RunError without samples."""
    quantities: dict[str, Score] = {}
    errors, sigmas = comparison.errors, comparison.sigmas
    if "x" in errors and "y" in errors:
        squared = errors["x"] ** 2 + errors["y"] ** 2
        normalised = None
        if "x" in sigmas and "y" in sigmas:
            normalised = (_normalise(errors["x"], sigmas["x"]) + _normalise(errors["y"], sigmas["y"])) / 2
        _add(quantities, "horizontal", squared, "m", normalised)
    for column, error in errors.items():
        normalised = _normalise(error, sigmas[column]) if column in sigmas else None
        _add(quantities, column, error**2, unit_of(column), normalised)
    if not quantities:
        raise RunError("nothing to score: no estimate at a time for which the truth is known")
    compared = np.any([np.isfinite(e) for e in errors.values()], axis=0)
    first, last = comparison.t[compared][[0, -1]] / 1e9
    overlap = float(first), float(last)
    return Scores(
        quantities, score_sensors(innovations), overlap, point=comparison.point, notes=comparison.notes
    )


def _normalise(error: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """(error/σ)²; NaN if σ is 0, as for rounded estimates."""
    return (error / np.where(sigma > 0.0, sigma, np.nan)) ** 2


def _add(
    quantities: dict[str, Score], name: str, squared: np.ndarray, unit: str, normalised: np.ndarray | None
) -> None:
    squared = squared[np.isfinite(squared)]
    if not len(squared):
        return
    nees = None
    if normalised is not None and np.isfinite(normalised).any():
        nees = float(np.mean(normalised[np.isfinite(normalised)]))
    quantities[name] = Score(
        float(np.sqrt(np.mean(squared))), float(np.sqrt(np.max(squared))), unit, len(squared), nees
    )


def score_receiver(
    measurements: Iterable[Measurement],
    t: np.ndarray,
    truth: Mapping[str, np.ndarray],
    antenna: Vector,
    origin: WorldOrigin,
) -> dict[str, Score]:
    """Errors of a GNSS receiver on its own, at its times of measurement: delay does not count.

    `horizontal` of the antenna (at `antenna`, m in vehicle axes) in the plane around `origin`; `yaw`: course
    over ground used as the heading, as a single antenna measures no other. `truth` by column (n,) at the
    times `t` (n,), ns on the clock of the measurements; empty result if it lacks position or attitude.
    """
    if not {"x", "y", "z", "roll", "pitch", "yaw"} <= truth.keys():
        return {}
    place = np.column_stack([truth[c] for c in ("x", "y", "z")])
    place = place + rotations(truth["roll"], truth["pitch"], truth["yaw"]) @ np.array(antenna)
    yaw = np.unwrap(truth["yaw"])
    horizontal: list[float] = []
    heading: list[float] = []
    north = 0.0
    for m in measurements:
        v = m.values
        if not t[0] <= m.t <= t[-1]:
            continue
        if "gnss.lat" in v and "gnss.lon" in v:
            fix = origin.to_world(v["gnss.lat"], v["gnss.lon"], v.get("gnss.alt", origin.height))
            off = [fix[k] - np.interp(m.t, t, place[:, k]) for k in range(2)]
            horizontal.append(math.hypot(*off))
        if "gnss.course" in v and v.get("gnss.speed", 0.0) > _LEAST_SPEED:
            if "gnss.lat" in v and "gnss.lon" in v:
                north = origin.find_north(v["gnss.lat"], v["gnss.lon"])
            error = math.pi / 2 - v["gnss.course"] - north - float(np.interp(m.t, t, yaw))
            heading.append(wrap(error))
    found: dict[str, Score] = {}
    _add(found, "horizontal", np.square(horizontal), "m", None)
    _add(found, "yaw", np.square(heading), "rad", None)
    return found


class SensorTally:
    """The small part of the innovations that is needed to score their sensors."""

    def __init__(self) -> None:
        self._nis: dict[str, list[float]] = defaultdict(list)
        self._rejected: dict[str, int] = defaultdict(int)

    def take(self, innovations: Iterable[Innovation]) -> None:
        """Add innovations."""
        for innovation in innovations:
            if innovation.fused:
                self._nis[innovation.sensor].append(innovation.nis / max(len(innovation.innovation), 1))
            else:
                self._rejected[innovation.sensor] += 1

    def score(self) -> dict[str, SensorScore]:
        """Scores by kind of observation; `nis` is NaN without accepted observations."""
        return {
            sensor: SensorScore(
                float(np.mean(self._nis[sensor])) if self._nis[sensor] else float("nan"),
                len(self._nis[sensor]),
                self._rejected[sensor],
            )
            for sensor in sorted({*self._nis, *self._rejected})
        }


def score_sensors(innovations: Iterable[Innovation]) -> dict[str, SensorScore]:
    """Consistency by kind of observation; `nis` is NaN without accepted observations."""
    tally = SensorTally()
    tally.take(innovations)
    return tally.score()
