"""`vehicled bench faults`: the daemon under faults of sensors, lines, machine and users."""

import argparse
import json

from vehicled.jobs.options import add_executor_arguments, open_executor

DESCRIPTION = """\
The daemon on emulated devices, in real time, through drives in which something fails: a sensor, a line, a device,
the machine, a user. Each run says whether the daemon lives, which source it names and how soon, whether it refuses
healthy ones, how far the estimate is off, and when all is normal again. What misses the limit of its row is marked.
With `--offline` the estimator alone runs, faster than real time, through the faults that are of sensors only."""

EPILOG = """\
examples:
  vehicled bench faults                                       everything, about half a minute per run
  vehicled bench faults --only 'GNSS*' --drive corner         some of the faults, in one place
  vehicled bench faults --offline --seed 0 1                  faults of sensors, two seeds, a few minutes
  vehicled bench faults --offline --drive 'CommonRoad 2 hard' the same in a car that is not the model's (extra bench)
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench faults`."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--only", nargs="+", metavar="PATTERN", help="faults whose names match, such as 'GNSS*'"
    )
    parser.add_argument(
        "--drive",
        nargs="+",
        metavar="D",
        help="corner, slalom, braking; of starts: standing, …; of other cars: 'CommonRoad 1 mixed', … (--offline)",
    )
    parser.add_argument(
        "--seed", nargs="+", type=int, default=[0], metavar="N", help="of all noise; 0 when left out"
    )
    parser.add_argument("--offline", action="store_true", help="the estimator alone, without devices")
    add_executor_arguments(parser)
    parser.add_argument("--list", action="store_true", help="names of the faults, and no run")
    parser.add_argument("--json", action="store_true", help="print one JSON list of runs and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print a row for each fault, drive and seed; 1 if one misses a limit. Raises UsageError."""
    from vehicled.errors import UsageError
    from vehicled.jobs.run import run_jobs
    from vehicled.studies.faults import drives, other_cars, rows, runs, tables
    from vehicled.studies.patterns import choose
    from vehicled.terminal.progress import Progress

    if not args.offline:
        if args.workers is not None or args.scheduler is not None:
            raise UsageError(
                "--workers, --scheduler: expected with --offline; daemons run on this machine, in turns"
            )
        args.workers = 1  # two would disturb each other's deadlines
    if min(args.seed) < 0:
        raise UsageError(f"--seed: expected 0 or more, got {min(args.seed)}")
    chosen = [rows.BY_NAME[name] for name in choose(list(rows.BY_NAME), args.only, "fault")]
    known = *drives.DRIVES, *other_cars.OTHER_DRIVES
    for drive in args.drive or ():
        if drive not in known:
            raise UsageError(f"--drive: no drive is called {drive!r}; known: {', '.join(known)}")
    if args.list:
        print("\n".join(row.name for row in chosen))
        return 0
    jobs = runs.list_jobs(chosen, args.drive or drives.DRIVES, list(dict.fromkeys(args.seed)), args.offline)
    if not jobs:
        raise UsageError("no run: these faults need devices, or happen in other drives")
    with (
        open_executor(args, len(jobs)) as executor,
        Progress("running", len(jobs), "runs", quiet=args.json) as progress,
    ):
        found = run_jobs(runs.run_job, jobs, executor, progress.update)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(tables.format_rows(found)))
    return 0 if all(row["ok"] for row in found) else 1
