"""`vehicled bench observers`: observers compared on linkages."""

import argparse
import json
import math
import os
import sys
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vehicled.studies.benchmarks.observer_verdicts import Job, Result, Standing, Verdict
    from vehicled.studies.benchmarks.observers import Setup

DESCRIPTION = """\
State observers compared on a four-bar and a five-bar linkage (one and two degrees of freedom), by three simulations:
the true mechanism, whose sensors are read with noise; the wrong model (level L1: 0.5 m/s² of gravity and π/32 of
every starting angle off; L2: twice as much); and the filter that corrects the wrong model. 10 s in steps of 5 ms.

Before the run it is told which parts of the state the sensors see at all. After it come, for each set-up, medians
over seeds of these columns; then which filter does each job best; then what is to hold of the filters in general,
with the numbers of this very run:

  position, velocity, acceleration   errors, root mean square over time, mean of the coordinates (rad, rad/s, rad/s²)
  after 5 s                          the same without the start, where the first error has to be found
  of wrong                           error of position over that of the wrong model alone (filter `none`)
  nis                                normalised innovation squared over its expectation: 1 if the filter knows how
                                     good it is, less if it trusts itself too little, more if too much
  cost                               processor time of a step over that of an errorEKF beside it
  repairs                            how often the covariance lost its definiteness and was repaired
"""

EPILOG = """\
`--mechanism vehicle` compares the filters that a car can be given (`filter: …` of its configuration) on the car
instead: `mixed_drive` by a plant with 5 % more mass and inertia, 10 % less tyre stiffness and friction than they
believe, seen through either receiver. position is horizontal (m), nis the mean over sensors; least and largest of a
single sensor stand beside it.

examples:
  vehicled bench observers                                   the story, in a few minutes
  vehicled bench observers --plots pictures                  and its pictures
  vehicled bench observers --mechanism four_bar --sensors coupler_gyros --rate 200 50 10 --filter errorEKF UKF-TR
  vehicled bench observers --full --resume rows.jsonl        everything; Ctrl-C and the same line again go on
  vehicled bench observers --mechanism vehicle               the filters on the car; some minutes
  vehicled bench observers --literal --seed 10 --rate 200    the figures of the published toolbox
"""

_VEHICLE = "vehicle"
_MECHANISMS = ("four_bar", "five_bar")
_SENSORS = ("encoders", "crank_gyros", "coupler_gyros")
_RATES = (200, 100, 50, 20, 10)
_LEVELS = ("L1", "L2")
_FILTERS = (
    "errorEKF",
    "errorEKF_EJ",
    "errorEKF_FE",
    "errorEKF_AFE",
    "errorEKF_SFE",
    "DEKF",
    "CEKF",
    "DIEKFpm",
    "SCKF",
    "UKF-TR",
    "UKF-FE",
    "none",
)
_STORY: dict[str, tuple[Any, ...]] = {"rate": (200, 10), "level": ("L2",), "seed": (10, 11)}
_FULL: dict[str, tuple[Any, ...]] = {"rate": _RATES, "level": _LEVELS, "seed": (10, 11, 12)}
_RECEIVERS, _KINDS, _VEHICLE_SEEDS = (
    ("rtk", "conventional"),
    ("errorEKF", "errorEKF_EJ", "errorEKF_FE", "DEKF", "UKF"),
    (0, 1),
)
"""Of the vehicle."""
_SECONDS = 1.2
"""Of processor time that a run takes, about, in the mean over filters."""


def _filter(name: str) -> str:
    return name.replace("UKF_", "UKF-")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG

    def choose(option: str, choices: Iterable[Any], of: str, kind: Callable[[str], Any] = str) -> None:
        name = option.removeprefix("--")
        usual = _listed(_STORY[name]) if name in _STORY else "both linkages" if name == "mechanism" else "all"
        parser.add_argument(
            option,
            nargs="+",
            type=kind,
            choices=list(choices),
            metavar=name[0].upper(),
            help=f"{of}: {_listed(choices)}; {usual} when left out",
        )

    choose("--mechanism", (*_MECHANISMS, _VEHICLE), "linkage; the vehicle on its own")
    choose("--sensors", (*_SENSORS, *_RECEIVERS), "what is measured; on the vehicle which receiver")
    choose("--rate", _RATES, "readings per second", int)
    choose("--level", _LEVELS, "size of the modelling errors")
    choose("--filter", dict.fromkeys((*_FILTERS, *_KINDS)), "`none` is the wrong model alone", _filter)
    parser.add_argument(
        "--seed",
        nargs="+",
        type=int,
        metavar="N",
        help=f"of the noise, 10 the published one; {_listed(_STORY['seed'])} when left out",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="what is left out is all of it: every rate and level, three seeds; about 20 minutes on two cores",
    )
    parser.add_argument("--literal", action="store_true", help="every detail as in the published toolbox")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="processes at a time; as many as processors when left out"
    )
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep every run in FILE, and go on from what is there"
    )
    parser.add_argument("--plots", type=Path, metavar="DIRECTORY", help="draw what was found")
    parser.add_argument("--json", action="store_true", help="print one JSON list of runs and nothing else")


def _listed(choice: Iterable[Any]) -> str:
    return " ".join(map(str, choice))


def run(args: argparse.Namespace) -> int:
    # One thread for each process: before numpy loads its library, in those that are started too.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from vehicled.errors import UsageError
    from vehicled.progress import Progress
    from vehicled.studies.benchmarks import observer_verdicts, observers
    from vehicled.studies.benchmarks.ledger import Ledger

    if args.mechanism and _VEHICLE in args.mechanism:
        return _run_vehicle(args)
    _check("sensors", args.sensors, _SENSORS, "a linkage")
    _check("filter", args.filter, _FILTERS, "a linkage")
    usual = _FULL if args.full else _STORY
    seeds = args.seed or usual["seed"]
    if args.workers is not None and args.workers < 1:
        raise UsageError(f"--workers: expected at least 1, got {args.workers}")
    if min(seeds) < 0:
        raise UsageError(f"--seed: expected 0 or more, got {min(seeds)}")
    workers = args.workers or len(os.sched_getaffinity(0))
    chosen = observers.make_runs(
        args.mechanism or _MECHANISMS,
        args.sensors or _SENSORS,
        args.rate or usual["rate"],
        args.level or usual["level"],
        args.filter or _FILTERS,
        seeds,
        args.literal,
    )
    runs = list(dict.fromkeys(chosen))
    ledger = Ledger(args.resume, observers.get_run, "a run of `vehicled bench observers`")
    missing = len(ledger.missing(runs))

    def tell(line: str) -> None:
        if not args.json:
            print(line, file=sys.stderr)

    setups = dict.fromkeys(run.setup for run in runs)
    sights = [(setup, observers.calc_sight(setup)) for setup in setups]
    for line in observer_verdicts.tell_sights(sights):
        print(line, file=sys.stderr)
    known = f", {len(runs) - missing} of them known from {args.resume}" if missing < len(runs) else ""
    workers = min(workers, missing)
    minutes = max(missing * _SECONDS / max(workers, 1) / 60, 0.1)
    tell(
        f"{len(runs)} runs{known}" + (f"; about {minutes:.2g} min in {workers} processes" if missing else "")
    )
    try:
        with Progress("estimating", missing, "runs", quiet=args.json) as progress:
            rows = observers.bench_observers(runs, max(workers, 1), ledger, progress.update)
    except KeyboardInterrupt:
        if args.resume:
            left = len(ledger.missing(runs))
            tell(f"{len(runs) - left} of {len(runs)} runs are in {args.resume}; the same command goes on")
        raise
    if args.plots:
        from vehicled.studies.benchmarks.observer_plots import draw

        draw(rows, args.plots)
    print(json.dumps(rows, ensure_ascii=False) if args.json else "\n".join(_lines(rows)))
    return 0


def _check(option: str, chosen: Iterable[Any] | None, known: Iterable[Any], where: str) -> None:
    from vehicled.errors import UsageError

    for name in chosen or ():
        if name not in known:
            raise UsageError(f"--{option}: expected one of {_listed(known)} on {where}, got {name}")


def _run_vehicle(args: argparse.Namespace) -> int:
    from vehicled.errors import UsageError
    from vehicled.progress import Progress
    from vehicled.studies.benchmarks import vehicle_observers

    if len(set(args.mechanism)) > 1:
        raise UsageError("--mechanism: expected vehicle on its own")
    for option in ("rate", "level", "full", "literal", "resume", "plots"):
        if getattr(args, option):
            raise UsageError(f"--{option}: expected with linkages alone")
    _check("sensors", args.sensors, _RECEIVERS, "the vehicle")
    _check("filter", args.filter, _KINDS, "the vehicle")
    kinds = tuple(dict.fromkeys(args.filter or _KINDS))
    seeds = dict.fromkeys(args.seed or _VEHICLE_SEEDS)
    receivers = [r for r in vehicle_observers.RECEIVERS if r in (args.sensors or _RECEIVERS)]
    jobs = [vehicle_observers.Job(r, s, kinds) for r in receivers for s in seeds]
    workers = min(args.workers or len(os.sched_getaffinity(0)), len(jobs))
    with Progress("driving", len(jobs) * len(kinds), "drives", quiet=args.json) as progress:
        rows = vehicle_observers.bench_vehicle(jobs, max(workers, 1), progress.update)
    print(json.dumps(rows, ensure_ascii=False) if args.json else "\n".join(_vehicle_lines(rows)))
    return 0


def _vehicle_lines(rows: list[dict[str, Any]]) -> list[str]:
    """A table for each receiver, the worst over seeds of errors, medians of costs."""
    seeds = _listed(dict.fromkeys(row["seed"] for row in rows))
    titles = (
        "position m",
        "yaw °",
        "sideslip °",
        "suspens. mm",
        "nis",
        "of sensors",
        "µs/step",
        "99.9 %",
        "cost",
    )
    lines = []
    for receiver in dict.fromkeys(row["sensors"] for row in rows):
        its = [row for row in rows if row["sensors"] == receiver]
        lines.append(f"vehicle, {receiver}, plant with {its[0]['level']}; largest errors over seeds {seeds}")
        lines.append(f"{'':<13}" + "".join(f"{t:>12}" for t in (*titles, "restarts", "repairs")))
        for kind in dict.fromkeys(row["filter"] for row in its):
            sound = [row for row in its if row["filter"] == kind and row["failed_at"] is None]
            lines += [
                f"{kind:<13} seed {row['seed']} broke down at {row['failed_at']:.3f} s: {row['reason']}"
                for row in its
                if row["filter"] == kind and row["failed_at"] is not None
            ]
            if not sound:
                continue
            errors = ("position_rmse", "yaw_rmse", "sideslip_rmse", "suspension_rmse")
            largest = [max(row[e] for row in sound) for e in errors]
            nis = [x for row in sound for x in row["sensors_nis"].values()]
            times = [
                sorted(row[c] for row in sound)[len(sound) // 2] for c in ("us_per_step", "us_p999", "cost")
            ]
            cells = [
                f"{largest[0]:.4f}",
                *(f"{math.degrees(x):.3f}" for x in largest[1:3]),
                f"{1e3 * largest[3]:.2f}",
                f"{sum(nis) / len(nis):.2f}",
                f"{min(nis):.2f}–{max(nis):.2f}",
                *(f"{x:.0f}" for x in times[:2]),
                f"{times[2]:.2f}",
                *(str(sum(row[c] for row in sound)) for c in ("restarts", "repairs")),
            ]
            lines.append(f"{kind:<13}" + "".join(f"{c:>12}" for c in cells))
        lines.append("")
    return lines[:-1]


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    """Tables by mechanism and sensors, the filter for each job, and what holds."""
    from vehicled.studies.benchmarks import observer_verdicts as verdicts

    results = verdicts.gather(rows)
    lines: list[str] = []
    last = None
    for setup, filters in results.items():
        if (setup.mechanism, setup.sensors) != last:
            last = setup.mechanism, setup.sensors
            lines.append(f"== {setup.mechanism}, {setup.sensors} ==")
        lines += _table(setup, filters)
    lines += _jobs(verdicts.find_jobs(results))
    lines += _standings(verdicts.calc_standings(results))
    lines += _verdicts(verdicts.judge(results))
    return lines


_COLUMNS = {
    "position_rmse": "position",
    "velocity_rmse": "velocity",
    "acceleration_rmse": "acceler.",
    "position_rmse_second_half": "pos. >5 s",
    "velocity_rmse_second_half": "vel. >5 s",
    "acceleration_rmse_second_half": "acc. >5 s",
    "position_relative": "of wrong",
    "us_per_step": "µs/step",
    "cost": "cost",
    "repairs": "repairs",
}


def _table(setup: "Setup", filters: "dict[str, Result]") -> list[str]:
    """A line for each filter, medians over seeds; one more for each seed with which it broke down."""
    seeds = dict.fromkeys(row["seed"] for result in filters.values() for row in result.rows)
    title = f"{setup}, {'medians over seeds' if len(seeds) > 1 else 'seed'} {_listed(seeds)}"
    row = next(iter(filters.values())).rows[0]
    if not row["observable"]:
        title += f": NOT OBSERVABLE, rank {row['rank']} of {row['states']}"
    lines = [title, f"{'':<13}" + "".join(f"{c:>10}" for c in [*_COLUMNS.values(), "nis"])]
    for name, result in filters.items():
        cells = [*(result.median(c) for c in _COLUMNS), result.consistency]
        if len(result.failed) < len(result.rows):
            lines.append(f"{name:<13}" + "".join(f"{_number(c):>10}" for c in cells))
        for row in result.failed:
            lines.append(
                f"{name:<13} seed {row['seed']} broke down at {row['failed_at']:.3f} s, "
                f"last read {row['last_readings']}: {row['reason']}"
            )
    return [*lines, ""]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _jobs(jobs: "list[Job]") -> list[str]:
    if not jobs:
        return []
    columns = ("position", "velocity", "cheapest of the best", "nis nearest to 1")
    lines = [
        "== which filter for which job: most accurate; cheapest of those level with it ==",
        f"{'':<37}" + "".join(f"{c:<23}" for c in columns).rstrip(),
    ]
    for job in jobs:
        thrifty = (
            f"{job.thrifty.filter} {job.thrifty.known('cost'):.2g}"
            if job.thrifty
            else "none is level in both"
        )
        consistent = (
            f"{job.consistent.filter} {_number(job.consistent.consistency)}" if job.consistent else "–"
        )
        cells = (
            f"{job.position.filter} {job.position.known('position_rmse'):.3g}",
            f"{job.velocity.filter} {job.velocity.known('velocity_rmse'):.3g}",
            thrifty,
            consistent,
        )
        lines.append((f"{job.setup!s:<37}" + "".join(f"{c:<23}" for c in cells)).rstrip())
    return [*lines, ""]


def _standings(standings: "list[Standing]") -> list[str]:
    columns = ("position", "velocity", "nis ½ to 2", "broke down", "cost")
    lines = [
        "== in how many set-ups level with the best (within 10 %), consistent, broken down; cost in the median ==",
        f"{'':<13}" + "".join(f"{c:>12}" for c in columns),
    ]
    for s in standings:
        counts = (s.level_position, s.level_velocity, s.consistent, s.failed)
        cells = [*(f"{n} of {s.setups}" for n in counts), _number(s.cost)]
        lines.append(f"{s.filter:<13}" + "".join(f"{c:>12}" for c in cells))
    return [*lines, ""]


def _verdicts(verdicts: "list[Verdict]") -> list[str]:
    lines = ["== what is to hold =="]
    for verdict in verdicts:
        word = {True: "held", False: "NOT HELD", None: "unknown"}[verdict.held]
        lines.append(f"{word:<9} {verdict.statement}")
        lines += textwrap.wrap(verdict.numbers, 108, initial_indent=" " * 10, subsequent_indent=" " * 10)
    return lines
