"""`vehicled bench particles`: the particle filter's speed, and how often it converges."""

import argparse
import json
from pathlib import Path
from typing import Any

DESCRIPTION = """\
The particle filter on a four-bar linkage released from rest at an unknown angle, with a gyroscope on its crank.
First what a particle costs per step, for 100 to 1,000,000 particles. Then how many of 100 tries end within 5° of
the truth after 1.020 s, for 10 to 10,000 particles and for motion noise from 0.001 to 1 rad a step; and of those
that do not, how many are unobservable: their readings leave even the exact posterior ambiguous."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench particles`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--tries", type=int, default=100, metavar="N", help="of each setting (100)")
    parser.add_argument(
        "--resume", type=Path, metavar="FILE", help="keep every try in FILE, and continue from what is there"
    )
    parser.add_argument("--plots", type=Path, metavar="DIRECTORY", help="draw what was found")
    parser.add_argument(
        "--live", action="store_true", help="watch one release after the other in the terminal"
    )
    parser.add_argument("--window", action="store_true", help="the same in a window")
    parser.add_argument("--particles", type=int, metavar="N", help="of the live view (500)")
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of the live view's first release (1)"
    )


def run(args: argparse.Namespace) -> int:
    """Print costs and sweeps, or show one try live; returns the exit status. Raises UsageError."""
    if args.live or args.window:
        return _watch(args)
    from vehicled.errors import UsageError
    from vehicled.progress import Progress
    from vehicled.studies.benchmarks import particles

    if args.tries < 1:
        raise UsageError(f"--tries {args.tries}: expected 1 or more")
    ledger = particles.open_ledger(args.resume)
    todo = list(particles.experiments())
    with Progress("timing", len(particles.TIMED), "counts", quiet=args.json) as progress:
        costs = particles.bench_costs(progress.update)
    with Progress("sweeping", len(todo) * args.tries, "tries", quiet=args.json) as progress:
        sweeps = particles.sweep(todo, args.tries, ledger, progress.update)
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
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: expected 0 or more")
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
        lines += ["", _TITLES[varied], f"{'particles':>9}{''.join(f'{name:>14}' for name in _COLUMNS)}"]
        for row in rows:
            cells = (
                f"{row['motion_sigma']:g}",
                f"{row['resampling_sigma']:g}",
                f"{row['multiplier']:g}",
                f"{row['converged']}/{row['tries']}",
                f"{row['converged_mean']}/{row['tries']}",
                f"{row['unobservable']}/{len(row['missed'])}",
                f"{row['seconds']:.2f}",
            )
            lines.append(f"{row['count']:>9}{''.join(f'{cell:>14}' for cell in cells)}")
    lines += ["", "starts that are indistinguishable (within 3 σ) from one that ends elsewhere"]
    for row in found["rivals"]:
        branches = "both ways of assembly" if row["both_branches"] else "one way of assembly"
        lines.append(f"{branches}, × gyroscope {row['multiplier']:g}: {100 * row['share']:.1f} %")
    return lines


_TITLES = {
    "count": "as in the source, more and more particles",
    "motion": "as in the source, more and more noise of motion",
    "settled": "noise that preserves the particles' covariance",
    "either_way": "the same, assembled either way",
    "wandering": "noise that adds to the particles' covariance",
}
_COLUMNS = ("σ of motion", "resampling", "× gyroscope", "converged", "their mean", "unobservable", "s")
"""`unobservable`: of those missed, how many leave the exact posterior ambiguous."""
