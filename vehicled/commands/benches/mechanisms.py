"""`vehicled bench mechanisms`: external benchmarks of the multibody library."""

import argparse
import json
from typing import Any

DESCRIPTION = """\
The IFToMM library's figure of merit, processor time at the accuracy asked for, of each problem at the longest
step (1, 2, 3, 4, 6, 8, 12 … to a sample) that meets it: error by the library's relative measure up to 1e-3, against
solutions in few coordinates, and change of energy within the library's limit where it states one. The smallest
time of three runs counts, of steps alone, without compiling."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench mechanisms`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print errors and processor times of the IFToMM problems; returns the exit status."""
    from vehicled.studies.benchmarks.mechanisms import BENCHMARKS, bench_mechanisms
    from vehicled.terminal.progress import Progress

    with Progress("measuring", len(BENCHMARKS), "problems", quiet=args.json) as progress:
        found = bench_mechanisms(progress.update)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [
        f"{'':<37} {'formulation, rule':<18} {'time, s':>8} {'step, ms':>9} {'error':>8} "
        f"{'drift, J':>9} {'limit, J':>9} {'CPU, s':>7}"
    ]

    def cell(value: float | None, width: int) -> str:
        return f"{'–' if value is None else f'{value:.1e}':>{width}}"

    for row in found["mechanisms"]:
        rule = f"{row['formulation']}, {row['integrator']}"
        lines.append(
            f"{row['number']:<6} {row['mechanism']:<30} {rule:<18} {row['duration_s']:>8g} "
            f"{1e3 * row['step_s']:>9.3g} {cell(row['error'], 8)} {cell(row['energy_drift_J'], 9)} "
            f"{cell(row['energy_drift_limit_J'], 9)} {row['cpu_s']:>7.3f}"
            + ("" if row["met"] else "  not accurate enough")
        )
    return lines
