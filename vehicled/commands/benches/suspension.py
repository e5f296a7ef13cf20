"""`vehicled bench suspension`: travel, wheel loads and slip of cars in other engines."""

import argparse
import json
import math
from collections.abc import Iterator
from typing import Any

from vehicled.errors import UsageError
from vehicled.jobs.options import add_executor_arguments, open_executor

DESCRIPTION = """\
The published reference vehicle, 5 % heavier and on tyres 10 % softer than its file says, drives in our own model, in
MuJoCo and in Exudyn on the same tyres, and in both on these engines' own contacts (extra `bench`); on an even road,
on roads of ISO 8608 that are alike for all of them, and over kerbs. Of all wheels together: error (RMSE) of
suspension deflection, wheel load, slip angle and slip ratio, as it is and with drive torques and brake pressure
measured, beside the standard deviation of what is true."""

_SHOWN = {
    "deflection": ("deflection, mm", 1e3),
    "load": ("load, N", 1.0),
    "slip_angle": ("slip angle, °", math.degrees(1.0)),
    "slip_ratio": ("slip ratio, %", 100.0),
}
_KEYS = ("rmse", "rmse_with_torques", "spread")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench suspension`."""
    parser.add_argument(
        "--plant",
        nargs="+",
        metavar="P",
        help="own, mujoco, exudyn, 'mujoco, own contact', 'exudyn, own contact'; all installed when left out",
    )
    parser.add_argument(
        "--road", nargs="+", metavar="R", help="flat, 'class B', 'class C', kerbs; all when left out"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of all noise; 0 when left out")
    add_executor_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON list of rows and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print a row for each plant and road; returns the exit status. Raises UsageError."""
    from vehicled.jobs.run import run_jobs
    from vehicled.studies.robustness.suspension import ROADS, SuspensionJob, list_plants, run_job
    from vehicled.terminal.progress import Progress

    if args.seed < 0:
        raise UsageError(f"--seed: expected 0 or more, got {args.seed}")
    plants, roads = _choose("--plant", args.plant, list_plants()), _choose("--road", args.road, list(ROADS))
    jobs = [SuspensionJob(plant, road, args.seed) for plant in plants for road in roads]
    with (
        open_executor(args, len(jobs)) as executor,
        Progress("driving", len(jobs), "runs", quiet=args.json) as progress,
    ):
        rows = run_jobs(run_job, jobs, executor, progress.update)
    print(json.dumps(rows, ensure_ascii=False) if args.json else "\n".join(_format_rows(rows)))
    return 0


def _choose(option: str, given: list[str] | None, known: list[str]) -> list[str]:
    for name in given or ():
        if name not in known:
            raise UsageError(f"{option}: expected one of {'; '.join(known)}, got {name!r}")
    return given or known


def _format_rows(rows: list[dict[str, Any]]) -> Iterator[str]:
    heading = "".join(f"{title:>22}" for title, _ in _SHOWN.values())
    yield f"{'plant':<20}{'road':<9}{heading}{'in the air':>12}"
    for row in rows:
        shown = ((q, scale) for q, (_, scale) in _SHOWN.items())
        cells = (" / ".join(f"{scale * row[key][q]:.3g}" for key in _KEYS) for q, scale in shown)
        figures = "".join(f"{cell:>22}" for cell in cells)
        yield f"{row['plant']:<20}{row['road']:<9}{figures}{100 * row['airborne']:>10.1f} %"
    yield "RMSE / RMSE with torques and pressure measured / standard deviation of what is true, after the first 5 s"
