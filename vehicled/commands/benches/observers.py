"""`vehicled bench observers`: observers compared on linkages."""

import argparse
import json
import os
from collections.abc import Iterable
from typing import Any

DESCRIPTION = """\
Observers on a four-bar and a five-bar linkage: the true mechanism is simulated, sensors on it are read with noise,
and each filter runs a model with modelling errors (L1: 0.5 m/s² of gravity and π/32 of every starting angle; L2:
twice as much) over 10 s at 5 ms. Errors are root mean squares over all steps and over those after 5 s, averaged
over coordinates; nis is the normalised innovation squared, in the mean 1 on the four-bar and 2 on the five-bar of
a consistent filter. `none` is the wrong model alone. With --literal every detail is as in the published toolbox,
whose figures the runs of seed 10 then meet."""

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
    "UKF_TR",
    "UKF_FE",
    "none",
)
_SEEDS = (10, 11, 12)


def configure(parser: argparse.ArgumentParser) -> None:
    def choose(option: str, choices: Iterable[Any], kind: type = str) -> None:
        listed = list(choices)
        parser.add_argument(
            option, nargs="+", type=kind, choices=listed, default=listed, help="all when left out"
        )

    choose("--mechanism", _MECHANISMS)
    choose("--sensors", _SENSORS)
    choose("--rate", _RATES, int)
    choose("--level", _LEVELS)
    choose("--filter", _FILTERS)
    parser.add_argument(
        "--seed", nargs="+", type=int, default=list(_SEEDS), help="of the noise; 10 is the published one"
    )
    parser.add_argument("--literal", action="store_true", help="every detail as published")
    parser.add_argument(
        "--workers", type=int, help="processes at a time; as many as processors when left out"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON list and nothing else")


def run(args: argparse.Namespace) -> int:
    # One thread for each process: before numpy loads its library, in those that are started too.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from vehicled.benchmarks.observers import bench_observers, make_runs
    from vehicled.errors import UsageError
    from vehicled.progress import Progress

    if args.workers is not None and args.workers < 1:
        raise UsageError(f"--workers: expected at least 1, got {args.workers}")
    if min(args.seed) < 0:
        raise UsageError(f"--seed: expected 0 or more, got {min(args.seed)}")
    workers = args.workers or len(os.sched_getaffinity(0))
    runs = list(
        make_runs(args.mechanism, args.sensors, args.rate, args.level, args.filter, args.seed, args.literal)
    )
    with Progress("estimating", len(runs), "runs", quiet=args.json) as progress:
        rows = bench_observers(runs, workers, progress.update)
    print(json.dumps(rows, ensure_ascii=False) if args.json else "\n".join(_lines(rows)))
    return 0


_COLUMNS = {
    "position_rmse": "rad",
    "velocity_rmse": "rad/s",
    "position_rmse_second_half": "rad >5 s",
    "velocity_rmse_second_half": "rad/s >5 s",
    "nis": "nis",
    "us_per_step": "µs/step",
}


def _lines(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each filter and set-up, means over seeds; a set-up's heading before its filters."""
    lines: list[str] = []
    groups: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = {}
    for row in rows:
        key = tuple(row[k] for k in ("mechanism", "sensors", "rate_hz", "level"))
        groups.setdefault(key, {}).setdefault(row["filter"], []).append(row)
    for (mechanism, sensors, rate, level), filters in groups.items():
        title = f"{mechanism}, {sensors}, {rate} Hz, {level}"
        lines += ["", title, " ".join([" " * 12, *(f"{c:>11}" for c in _COLUMNS.values())])]
        for name, of_seeds in filters.items():
            failed = [r for r in of_seeds if r["failed_at"] is not None]
            if failed:
                first = failed[0]
                lines.append(
                    f"{name:<12} seed {first['seed']} broke down at {first['failed_at']:.3f} s, "
                    f"last read {first['last_readings']}: {first['reason']}"
                )
                continue
            cells = [_mean([r[c] for r in of_seeds]) for c in _COLUMNS]
            lines.append(" ".join([f"{name:<12}", *(f"{c:>11}" for c in cells)]))
    return lines[1:]


def _mean(values: list[float | None]) -> str:
    known = [v for v in values if v is not None]
    return f"{sum(known) / len(known):.4g}" if known else "–"
