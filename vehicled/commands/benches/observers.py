"""`vehicled bench observers`: observers compared on linkages."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vehicled.jobs.options import add_executor_arguments, add_resume_argument, count_workers, open_executor

if TYPE_CHECKING:
    from vehicled.jobs.ledger import Ledger
    from vehicled.studies.benchmarks.observer_cases import ObserverRun

DESCRIPTION = """\
State observers compared on a four-bar and a five-bar linkage (one and two degrees of freedom), by three simulations:
the true mechanism, whose sensors are read with noise; the wrong model (level L1: 0.5 m/s² of gravity and π/32 of
every starting angle off; L2: twice as much); and the filter that corrects the wrong model. 10 s in steps of 5 ms.

Before the run it is printed which parts of the state are observable. After it come, for each set-up, medians over
seeds of these columns; then the best filters in each set-up; then general statements about the filters, and whether
they hold by the numbers of this run:

  position, velocity, acceleration   errors, root mean square over time, mean of the coordinates (rad, rad/s, rad/s²)
  after 5 s                          the same without the start, where the initial error has to be corrected
  of wrong                           error of position over that of the wrong model alone (filter `none`)
  nis                                normalised innovation squared over its expectation: 1 for a consistent filter,
                                     less if its covariance is too large, more if it is too small
  cost                               processor time of a step over that of an errorEKF beside it
  repairs                            how often the covariance lost its definiteness and was repaired
"""

EPILOG = """\
`--literal` runs a filter in the published toolbox's details, defects included. For errorEKF, errorEKF_EJ,
errorEKF_FE, DEKF, CEKF, DIEKFpm, SCKF and the two UKFs these give the published figures: with seed 10, level L2, 200
and 10 Hz, their ratios are printed, and the figures stand in the key `published` of `--json`. Without `--literal`,
CEKF, DIEKFpm and SCKF are improved forms. The others have no published form here and run in another one:
errorEKF_AFE without adapted noise, as errorEKF_FE; errorEKF_SFE with memory and densities by likelihood. The table
and the key `notice` of `--json` say so for each.

`--mechanism vehicle` compares the filters that a car can be given (`filter: …` of its configuration) on the car
instead: `mixed_drive` by a plant with 5 % more mass and inertia, 10 % less tyre stiffness and friction than in their
model, measured with either receiver. position is horizontal (m), nis the mean over sensors; least and largest of a
single sensor stand beside it.

examples:
  vehicled bench observers                                   the usual choice, in a few minutes
  vehicled bench observers --plots pictures                  and its pictures
  vehicled bench observers --mechanism four_bar --sensors coupler_gyros --rate 200 50 10 --filter errorEKF UKF-TR
  vehicled bench observers --full --resume rows.jsonl        everything; continue after Ctrl-C with the same line
  vehicled bench observers --mechanism vehicle               the filters on the car; some minutes
  vehicled bench observers --literal --level L2 --seed 10    the figures of the published toolbox
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
_USUAL: dict[str, tuple[Any, ...]] = {"rate": (200, 10), "level": ("L2",), "seed": (10, 11)}
_FULL: dict[str, tuple[Any, ...]] = {"rate": _RATES, "level": _LEVELS, "seed": (10, 11, 12)}
_RECEIVERS, _KINDS, _VEHICLE_SEEDS = (
    ("rtk", "conventional"),
    ("errorEKF", "errorEKF_EJ", "errorEKF_FE", "DEKF", "UKF"),
    (0, 1),
)
"""Defaults for the vehicle."""
_SECONDS = 1.2
"""Approximate processor time of a run, s, in the mean over filters."""


def _filter(name: str) -> str:
    return name.replace("UKF_", "UKF-")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench observers`."""
    parser.epilog = EPILOG

    def choose(option: str, choices: Iterable[Any], of: str, kind: Callable[[str], Any] = str) -> None:
        name = option.removeprefix("--")
        usual = _listed(_USUAL[name]) if name in _USUAL else "both linkages" if name == "mechanism" else "all"
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
        help=f"of the noise, 10 the published one; {_listed(_USUAL['seed'])} when left out",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="options that are left out take all values: every rate and level, three seeds; 20 minutes to an hour "
        "on two cores",
    )
    parser.add_argument(
        "--literal",
        action="store_true",
        help="details of the published toolbox; not of all filters, see below",
    )
    add_executor_arguments(parser)
    add_resume_argument(parser, "run")
    parser.add_argument("--plots", type=Path, metavar="DIRECTORY", help="draw what was found")
    parser.add_argument("--json", action="store_true", help="print one JSON list of runs and nothing else")


def _listed(choice: Iterable[Any]) -> str:
    return " ".join(map(str, choice))


def run(args: argparse.Namespace) -> int:
    """Print, and draw if asked, a row for each filter in each set-up; returns the exit status."""
    if args.mechanism and _VEHICLE in args.mechanism:
        return _run_vehicle(args)
    from vehicled.jobs.ledger import Ledger
    from vehicled.studies.benchmarks import observers
    from vehicled.studies.benchmarks.observer_tables import format_linkages
    from vehicled.terminal.output_files import check_folder

    check_folder("--plots", args.plots)
    runs = _choose_runs(args)
    ledger = Ledger(args.resume, observers.get_run, "a run of `vehicled bench observers`")
    _print_observability(runs)
    rows = _bench(args, runs, ledger)
    if args.plots:
        from vehicled.studies.benchmarks.observer_plots import draw

        draw(rows, args.plots)
    print(json.dumps(rows, ensure_ascii=False) if args.json else "\n".join(format_linkages(rows)))
    return 0


def _choose_runs(args: argparse.Namespace) -> "list[ObserverRun]":
    """The runs, each once. Raises UsageError."""
    from vehicled.errors import UsageError
    from vehicled.studies.benchmarks import observer_cases

    _check("sensors", args.sensors, _SENSORS, "a linkage")
    _check("filter", args.filter, _FILTERS, "a linkage")
    usual = _FULL if args.full else _USUAL
    seeds = args.seed or usual["seed"]
    if min(seeds) < 0:
        raise UsageError(f"--seed: expected 0 or more, got {min(seeds)}")
    chosen = observer_cases.make_runs(
        args.mechanism or _MECHANISMS,
        args.sensors or _SENSORS,
        args.rate or usual["rate"],
        args.level or usual["level"],
        args.filter or _FILTERS,
        seeds,
        args.literal,
    )
    return list(dict.fromkeys(chosen))


def _print_observability(runs: "list[ObserverRun]") -> None:
    """Print a line for each set-up on standard error."""
    from vehicled.studies.benchmarks.observer_cases import calc_setup_observability
    from vehicled.studies.benchmarks.observer_conclusions import describe_observability

    setups = dict.fromkeys(run.setup for run in runs)
    for line in describe_observability((s, calc_setup_observability(s)) for s in setups):
        print(line, file=sys.stderr)


def _bench(
    args: argparse.Namespace, runs: "list[ObserverRun]", ledger: "Ledger[ObserverRun]"
) -> list[dict[str, Any]]:
    """Rows of the runs, with progress on standard error."""
    from vehicled.studies.benchmarks.observers import bench_observers
    from vehicled.terminal.progress import Progress

    missing = len(ledger.missing(runs))
    workers = count_workers(args, missing)

    def note(line: str) -> None:
        if not args.json:
            print(line, file=sys.stderr)

    known = f", {len(runs) - missing} of them known from {args.resume}" if missing < len(runs) else ""
    minutes = max(missing * _SECONDS / workers / 60, 0.1)
    where = f"; about {minutes:.2g} min in {workers} processes" if missing and not args.scheduler else ""
    note(f"{len(runs)} runs{known}{where}")
    try:
        with (
            open_executor(args, missing) as executor,
            Progress("estimating", missing, "runs", quiet=args.json) as progress,
        ):
            return bench_observers(runs, executor, ledger, progress.update)
    except KeyboardInterrupt:
        if args.resume:
            left = len(ledger.missing(runs))
            note(f"{len(runs) - left} of {len(runs)} runs are in {args.resume}; the same command continues")
        raise


def _check(option: str, chosen: Iterable[Any] | None, known: Iterable[Any], where: str) -> None:
    from vehicled.errors import UsageError

    for name in chosen or ():
        if name not in known:
            raise UsageError(f"--{option}: expected one of {_listed(known)} on {where}, got {name}")


def _run_vehicle(args: argparse.Namespace) -> int:
    from vehicled.errors import UsageError
    from vehicled.jobs.ledger import Ledger
    from vehicled.studies.benchmarks import vehicle_observers
    from vehicled.studies.benchmarks.observer_tables import format_vehicle
    from vehicled.terminal.output_files import check_folder
    from vehicled.terminal.progress import Progress

    if len(set(args.mechanism)) > 1:
        raise UsageError("--mechanism: expected vehicle on its own")
    for option in ("rate", "level", "full", "literal"):
        if getattr(args, option):
            raise UsageError(f"--{option}: expected with linkages alone")
    _check("sensors", args.sensors, _RECEIVERS, "the vehicle")
    _check("filter", args.filter, _KINDS, "the vehicle")
    check_folder("--plots", args.plots)
    ledger = Ledger(
        args.resume, vehicle_observers.get_drive, "a run of `vehicled bench observers --mechanism vehicle`"
    )
    receivers = [r for r in vehicle_observers.RECEIVERS if r in (args.sensors or _RECEIVERS)]
    jobs = [
        vehicle_observers.ObservedDrive(receiver, seed, kind)
        for receiver in receivers
        for seed in dict.fromkeys(args.seed or _VEHICLE_SEEDS)
        for kind in dict.fromkeys(args.filter or _KINDS)
    ]
    missing = len(ledger.missing(jobs))
    with (
        open_executor(args, missing) as executor,
        Progress("driving", missing, "drives", quiet=args.json) as progress,
    ):
        rows = vehicle_observers.bench_vehicle(jobs, executor, ledger, progress.update)
    if args.plots:
        from vehicled.studies.benchmarks.vehicle_plots import draw

        draw(rows, args.plots)
    print(json.dumps(rows, ensure_ascii=False) if args.json else "\n".join(format_vehicle(rows)))
    return 0
