"""`vehicled bench robustness`: estimators on cars that differ from their model."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vehicled.filter.settings import Filter
from vehicled.jobs.options import add_executor_arguments, add_resume_argument, open_executor

if TYPE_CHECKING:
    from vehicled.jobs.ledger import Ledger
    from vehicled.studies.robustness.cases import RobustnessCase
    from vehicled.studies.robustness.runs import RobustnessJob

DESCRIPTION = """\
Estimators on cars and sensors that differ from their configuration: the own plant with one thing wrong at a time,
on rough and on hilly roads, and without some of the sensors, with both kinds of receiver; plants of others (extra
`bench`) with a conventional receiver: CommonRoad's multi-body model of two cars, described by handbook figures with
the wheels 2 % too large or too small, and a published car in MuJoCo and in Exudyn; some of these with RTK, and with
an IMU of wrong time; a minute without GNSS; and, where they are given, pairs and triples of wrong things and recorded
drives. Each is compared with a planar kinematic filter (gyroscope, speeds, GNSS, no model of the car), which no
estimator should be worse than. Rows that miss a limit are marked."""

EPILOG = """\
examples:
  vehicled bench robustness                                   everything
  vehicled bench robustness --only nominal 'wheel radius*'    two of the cases
  vehicled bench robustness --resume rows.jsonl               continue after Ctrl-C with the same line
"""

_RECEIVERS = ("rtk", "conventional")
_KINDS = ("errorEKF", "errorEKF_EJ", "errorEKF_FE", "DEKF", "UKF", "literal")
_KINEMATIC = "kinematic"
_FILES = {"ferrari": ("drive.csv", "drive_truth.csv"), "rav4": ("drive.csv", "truth.csv")}
"""Log and truth in the folders of recorded drives, by option."""
_RECORDED = {"ferrari": "Ferrari 250 LM", "rav4": "RAV4"}
"""Cars of the cases of these options."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench robustness`."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--only", nargs="+", metavar="PATTERN", help="cases whose names match, such as 'gyro*'"
    )
    parser.add_argument(
        "--receiver", nargs="+", choices=_RECEIVERS, metavar="R", help="rtk, conventional; both when left out"
    )
    parser.add_argument(
        "--kind",
        nargs="+",
        choices=_KINDS,
        default=[Filter().kind],
        metavar="K",
        help=f"of filter: {' '.join(_KINDS)}; {Filter().kind} when left out, the others are for comparison; "
        "literal: the errorEKF as its source states it",
    )
    parser.add_argument(
        "--seed", nargs="+", type=int, default=[0], metavar="N", help="of all noise; 0 when left out"
    )
    parser.add_argument(
        "--draws",
        type=int,
        default=0,
        metavar="N",
        help="pairs and triples of wrong things drawn at random; none when left out",
    )
    parser.add_argument(
        "--cars",
        type=int,
        default=0,
        metavar="N",
        help="cars of which everything is a little wrong, drawn from the σ of default settings; none when left out",
    )
    parser.add_argument(
        "--ferrari",
        type=Path,
        metavar="DIR",
        help="the Ferrari: drive.csv, drive_truth.csv",
    )
    parser.add_argument("--rav4", type=Path, metavar="DIR", help="the RAV4: drive.csv, truth.csv")
    parser.add_argument(
        "--drive",
        nargs=3,
        action="append",
        default=[],
        metavar=("LOG", "TRUTH", "CONFIG"),
        help="a recorded drive of your own, with its truth and configuration; may be repeated",
    )
    add_executor_arguments(parser)
    add_resume_argument(parser, "row")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw all rows: .svg, .png or .pdf")
    parser.add_argument("--json", action="store_true", help="print one JSON list of rows and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print a row for each case, receiver, estimator and seed; returns the exit status. Raises UsageError."""
    from vehicled.errors import UsageError
    from vehicled.studies.patterns import choose
    from vehicled.studies.robustness.limits import find_all_misses
    from vehicled.studies.robustness.runs import list_jobs, open_ledger
    from vehicled.studies.robustness.tables import format_rows
    from vehicled.terminal.output_files import PLOTS, OutputFile, check_outputs

    for option, count in (("--draws", args.draws), ("--cars", args.cars)):
        if count < 0:
            raise UsageError(f"{option}: expected at least 0, got {count}")
    if min(args.seed) < 0:
        raise UsageError(f"--seed: expected 0 or more, got {min(args.seed)}")
    logs = [Path(path) for log, truth, _ in args.drive for path in (log, truth)]
    check_outputs(
        [OutputFile("--resume", args.resume), OutputFile("--plot", args.plot, PLOTS)], {"drive": logs}
    )
    _check_drives(args)
    known = _known_cases(args)
    _check_recorded(args, known)
    cases = {name: known[name] for name in choose(list(known), args.only, "case")}
    _report_missing()
    estimators = [*dict.fromkeys(args.kind), _KINEMATIC]
    receivers = [*(args.receiver or _RECEIVERS), "none"]
    jobs = list_jobs(list(cases.values()), receivers, estimators, list(dict.fromkeys(args.seed)))
    rows = _run_jobs(args, jobs, open_ledger(args.resume))
    places = {name: i for i, name in enumerate(cases)}
    rows.sort(key=lambda row: places[row["case"]])
    misses = find_all_misses(cases, rows)
    if args.plot is not None:
        from vehicled.studies.robustness.plots import draw

        draw(rows, cases, args.plot)
    if args.json:
        found = (
            r | {"missed": [dataclasses.asdict(x) for x in m]} for r, m in zip(rows, misses, strict=True)
        )
        print(json.dumps(list(found), ensure_ascii=False))
    else:
        print("\n".join(format_rows(rows, misses)))
    return 0


def _run_jobs(
    args: argparse.Namespace, jobs: "list[RobustnessJob]", ledger: "Ledger[RobustnessJob]"
) -> list[dict[str, Any]]:
    from vehicled.jobs.run import run_jobs, run_resumable
    from vehicled.studies.robustness.runs import list_long_drives, prepare, run_job
    from vehicled.terminal.progress import Progress

    todo = ledger.missing(jobs)
    with open_executor(args, len(todo)) as executor:
        drives = list_long_drives(todo)
        if drives:
            with Progress("driving", len(drives), "plants", quiet=args.json) as progress:
                run_jobs(prepare, drives, executor, progress.update)
        with Progress("estimating", len(todo), "runs", quiet=args.json) as progress:
            return run_resumable(run_job, jobs, executor, progress.update, ledger)


def _report_missing() -> None:
    from vehicled.studies.robustness import cases
    from vehicled.studies.robustness.drives import is_installed

    foreign = (*cases.commonroad_cases(), *cases.engine_cases(), *cases.precise_cases())
    missing = sum(not is_installed(case.drive) for case in foreign)
    if missing:
        print(f"without {missing} cases: pip install 'vehicled[bench]' adds them", file=sys.stderr)


def _check_drives(args: argparse.Namespace) -> None:
    """Check the drives before hundreds of runs start.

    Raises UsageError, also for a configuration that cannot be read.
    """
    from vehicled.configuration import load_configuration
    from vehicled.errors import UsageError

    for option, names in _FILES.items():
        folder = getattr(args, option)
        for name in names if folder is not None else ():
            if not (folder / name).is_file():
                raise UsageError(f"--{option} {folder}: no file {name} there; expected {' and '.join(names)}")
    for log, truth, configuration in args.drive:
        for path in (log, truth):
            if not Path(path).exists():
                raise UsageError(f"--drive: {path}: no such file; expected LOG TRUTH CONFIG")
        load_configuration(configuration)


def _check_recorded(args: argparse.Namespace, known: Collection[str]) -> None:
    """Raises UsageError for a pattern that matches only a recorded drive that is not given."""
    from vehicled.errors import UsageError
    from vehicled.studies.patterns import matches

    for pattern in args.only or ():
        if any(matches(name, pattern) for name in known):
            continue
        for option, case in _RECORDED.items():
            if matches(case, pattern):
                raise UsageError(
                    f"--only: {pattern!r} is a recorded drive; expected --{option} DIR with its files"
                )


def _known_cases(args: argparse.Namespace) -> "dict[str, RobustnessCase]":
    """Cases that can be run here, by name: third-party plants need packages, recorded drives their files."""
    from vehicled.studies.robustness import cases
    from vehicled.studies.robustness.drives import is_installed

    found = [*cases.table_cases(), *cases.sensor_cases(), *cases.road_cases()]
    foreign = (*cases.commonroad_cases(), *cases.engine_cases(), *cases.precise_cases())
    found += [case for case in foreign if is_installed(case.drive)]
    found += cases.outage_cases()
    if args.ferrari is not None:
        log, truth = (args.ferrari / name for name in _FILES["ferrari"])
        found.append(
            cases.recorded_case(_RECORDED["ferrari"], "ferrari", log, truth, "ferrari_250lm", "none")
        )
    if args.rav4 is not None:
        log, truth = (args.rav4 / name for name in _FILES["rav4"])
        found.append(cases.recorded_case(_RECORDED["rav4"], "rav4", log, truth, "rav4", "conventional"))
    for log, truth, configuration in args.drive:
        name = f"recorded {log}"
        found.append(
            cases.recorded_case(name, "recorded", Path(log), Path(truth), configuration, "conventional")
        )
    found += [*cases.drawn_cases(args.draws), *cases.car_cases(args.cars)]
    return {case.name: case for case in found}
