"""`vehicled bench particles`: the particle filter's speed, and how often it converges."""

import argparse
import json
from pathlib import Path
from typing import Any

from vehicled.jobs.options import add_executor_arguments, add_resume_argument, open_executor

DESCRIPTION = """\
The particle filter on a four-bar linkage released from rest at an unknown angle, with a gyroscope on its crank.
First what a particle costs per step, for 100 to 1,000,000 particles. Then how many of 100 tries end within 5° of
the truth after 1.020 s, for 10 to 10,000 particles and for motion noise from 0.001 to 1 rad a step; with readings
every 6 to 1,000 ms for 3.06 s; and with the settings as published, with noise that wanders and with what was found
better, side by side. Of those that do not, how many are unobservable: their readings leave even the exact posterior
ambiguous. `mean` counts the weighted mean of all particles, `cluster` the heaviest cluster."""

_SWEEPS = ("count", "motion", "step", "settled", "either_way", "wandering", "settings")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench particles`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--tries", type=int, default=100, metavar="N", help="of each setting (100)")
    parser.add_argument("--sweep", nargs="+", choices=_SWEEPS, metavar="NAME", help=", ".join(_SWEEPS))
    add_executor_arguments(parser)
    add_resume_argument(parser, "try")
    parser.add_argument("--plots", type=Path, metavar="DIRECTORY", help="draw what was found")
    parser.add_argument(
        "--logs",
        type=Path,
        metavar="DIRECTORY",
        help="no sweep: angles, weights and speeds of all particles over one try of each setting, as CSV",
    )
    parser.add_argument(
        "--live", action="store_true", help="watch one release after the other in the terminal"
    )
    parser.add_argument("--window", action="store_true", help="the same in a window")
    parser.add_argument("--particles", type=int, metavar="N", help="of the live view (500)")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of the try of --logs, or the live view's first (1)"
    )


def run(args: argparse.Namespace) -> int:
    """Print costs and sweeps, or show one try live; returns the exit status. Raises UsageError."""
    from vehicled.errors import UsageError
    from vehicled.studies.benchmarks import particles
    from vehicled.terminal.output_files import check_folder
    from vehicled.terminal.progress import Progress

    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: expected 0 or more")
    check_folder("--plots", args.plots)
    check_folder("--logs", args.logs)
    if args.live or args.window:
        return _watch(args)
    if args.logs:
        from vehicled.studies.benchmarks.particle_logs import write_logs

        write_logs(args.logs, particles.SETTINGS, args.seed)
        return 0
    if args.tries < 1:
        raise UsageError(f"--tries {args.tries}: expected 1 or more")
    ledger = particles.open_ledger(args.resume)
    todo = {k: v for k, v in particles.experiments().items() if args.sweep is None or k in args.sweep}
    tries = args.tries * len({x for experiments in todo.values() for x in experiments})
    with Progress("timing", len(particles.TIMED), "counts", quiet=args.json) as progress:
        costs = particles.bench_costs(progress.update)
    with (
        open_executor(args, tries) as executor,
        Progress("sweeping", tries, "tries", quiet=args.json) as progress,
        Progress("explaining", unit="misses", quiet=args.json) as explaining,
    ):
        sweeps = particles.sweep(todo, args.tries, executor, ledger, progress.update, explaining.update)
    usual = next(row for row in costs if row["count"] == particles.USUAL)
    found = {
        "us_per_particle_step": usual["step"],
        "costs": costs,
        "sweeps": sweeps,
        "rivals": particles.bench_similar_starts(),
    }
    if args.plots:
        from vehicled.studies.benchmarks.particle_plots import draw

        draw(found, args.plots)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


def _watch(args: argparse.Namespace) -> int:
    from dataclasses import replace

    from vehicled.errors import UsageError
    from vehicled.studies.benchmarks import particle_live
    from vehicled.studies.benchmarks.particle_tries import SETTLED

    experiment = replace(SETTLED, count=SETTLED.count if args.particles is None else args.particles)
    if experiment.count < 1:
        raise UsageError(f"--particles {args.particles}: expected 1 or more")
    if args.window:
        from vehicled.studies.benchmarks import particle_window

        particle_window.watch(experiment, args.seed)
    else:
        particle_live.watch(experiment, args.seed)
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    kinds = {"advance": "motion", "step": "filter step", "drawing": "resampling", "keeping": "keeping cov."}
    title = f"{'µs per particle and step':<24}" + "".join(f" {name:>14}" for name in kinds.values())
    lines = [f"{title} {'÷ least':>8}"]
    for row in found["costs"]:
        costs = "".join(f" {row[kind]:>14.4f}" for kind in kinds)
        lines.append(f"{row['count']:>24,}{costs} {row['ratio']:>8.2f}")
    for varied, rows in found["sweeps"].items():
        table = {"step": _step_lines, "settings": _setting_lines}.get(varied, _sweep_lines)
        lines += ["", _TITLES[varied], *table(rows)]
    lines += ["", "starts that are indistinguishable (within 3 σ) from one that ends elsewhere"]
    for row in found["rivals"]:
        branches = "both ways of assembly" if row["both_branches"] else "one way of assembly"
        lines.append(f"{branches}, × gyroscope {row['multiplier']:g}: {100 * row['share']:.1f} %")
    return lines


def _sweep_lines(rows: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'particles':>9}{''.join(f'{name:>14}' for name in _COLUMNS)}"]
    for row in rows:
        cells = (
            f"{row['motion_sigma']:g}",
            f"{row['resampling_sigma']:g}",
            f"{row['multiplier']:g}",
            f"{row['converged_mean']}/{row['tries']}",
            f"{row['converged']}/{row['tries']}",
            f"{row['unobservable']}/{len(row['missed'])}",
            f"{row['seconds']:.2f}",
        )
        lines.append(f"{row['count']:>9}{''.join(f'{cell:>14}' for cell in cells)}")
    return lines


def _step_lines(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each time between readings and each setting."""
    from vehicled.studies.benchmarks.particles import find_setting

    columns = ("particles", "readings", "mean", "cluster", "unobservable", "× real time")
    lines = [f"{'step':>9}  {'setting':<13}{''.join(f'{name:>14}' for name in columns)}"]
    for row in sorted(rows, key=lambda row: float(row["step"])):
        cells = (
            f"{row['count']}",
            f"{row['readings']}",
            f"{row['converged_mean']}/{row['tries']}",
            f"{row['converged']}/{row['tries']}",
            f"{row['unobservable']}/{len(row['missed'])}",
            f"{row['of_real_time']:.4f}",
        )
        step = f"{1e3 * row['step']:.0f} ms"
        lines.append(f"{step:>9}  {find_setting(row):<13}{''.join(f'{cell:>14}' for cell in cells)}")
    return lines


def _setting_lines(rows: list[dict[str, Any]]) -> list[str]:
    """The settings compared, each by its weighted mean and its heaviest cluster."""
    from vehicled.studies.benchmarks.particles import SETTINGS, find_setting

    found = {(row["count"], row["motion_sigma"], find_setting(row)): row for row in rows}
    lines = [
        f"{'':>9}{'':>12}" + "".join(f"  {name:<20}" for name in SETTINGS),
        f"{'particles':>9}{'σ of motion':>12}" + f"  {'mean':>9}{'cluster':>11}" * len(SETTINGS),
    ]
    for count, sigma in dict.fromkeys((count, sigma) for count, sigma, _ in found):
        cells = ""
        for name in SETTINGS:
            row = found[count, sigma, name]
            mean, cluster = (f"{row[key]}/{row['tries']}" for key in ("converged_mean", "converged"))
            cells += f"  {mean:>9}{cluster:>11}"
        lines.append(f"{count:>9}{sigma:>12g}{cells}")
    return lines


_TITLES = {
    "count": "as in the source, more and more particles",
    "motion": "as in the source, more and more noise of motion",
    "step": "readings at longer intervals, for 3.06 s",
    "settings": "as published, with noise that wanders, with what was found better (settled)",
    "settled": "noise that preserves the particles' covariance",
    "either_way": "the same, assembled either way",
    "wandering": "noise that adds to the particles' covariance",
}
_COLUMNS = ("σ of motion", "resampling", "× gyroscope", "mean", "cluster", "unobservable", "s")
"""`mean`, `cluster`: tries that converged. `unobservable`: among those missed by the cluster, tries for which
the exact posterior is ambiguous."""
