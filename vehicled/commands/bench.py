"""`vehicled bench`: what the program costs on this machine."""

import argparse
import json
import os
from typing import Any

HELP = "Measure speed on this machine."

EPILOG = """\
examples:
  vehicled bench step                 the prototype's model and filter, beside a dense solver
  vehicled bench step --json          one JSON object, times in microseconds
  vehicled bench mechanisms           the problems A01 to A05 of the IFToMM library of multibody benchmarks

step: times of single calls, taking turns in one run of the drive mixed_drive: one step of the multibody model
(4 ms), one whole step of the filter (simulate, correct with every sensor that has spoken, project, estimate
with standard deviations), and scipy's LU solution of a dense 169 × 169 system.

mechanisms: the library's figure of merit, processor time at the accuracy asked for, of each problem at the longest
step (1, 2, 3, 4, 6, 8, 12 … to a sample) that meets it: error by the library's relative measure up to 1e-3, against
solutions in few coordinates, and change of energy within the library's limit where it states one. The smallest
time of three runs counts, of steps alone, without compiling."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("what", metavar="WHAT", choices=("step", "mechanisms"), help="step or mechanisms")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    # One thread for the dense solver, as everything else has: before numpy loads its library.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if args.what == "mechanisms":
        return _mechanisms(args)
    from vehicled.benchmarks.step import bench_step
    from vehicled.configuration import load_configuration
    from vehicled.progress import Progress
    from vehicled.simulation.drive import simulate
    from vehicled.simulation.plant import make_plant
    from vehicled.simulation.scenario import find_scenario

    configuration, scenario = load_configuration("prototype"), find_scenario("mixed_drive")
    plant = make_plant(configuration, scenario.plant)
    with Progress("simulating", scenario.length, "s", quiet=args.json) as progress:
        measurements, _ = simulate(scenario, plant, 1, progress.update)
    with Progress("measuring", scenario.length, "s", quiet=args.json) as progress:
        found = bench_step(configuration, measurements, scenario.begin.speed, progress.update)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


_ROWS = {
    "model_step_us": "model step",
    "filter_step_us": "filter step",
    "filter_step_with_fix_us": "  with a GNSS fix",
    "lu169_us": "LU of 169 × 169",
}


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{'µs':<20} {'median':>9} {'99 %':>9} {'99.9 %':>9}"]
    for key, name in _ROWS.items():
        times = found[key]
        lines.append(f"{name:<20} {times['median']:>9.1f} {times['p99']:>9.1f} {times['p999']:>9.1f}")
    operations = found["operations"]
    kernels = ", ".join(f"{name} {n}" for name, n in operations["kernels"].items())
    return [
        *lines,
        "",
        f"a model step of {operations['iterations']} iterations takes {operations['step']} operations,",
        f"one on all four corners counted once: {kernels}",
    ]


def _mechanisms(args: argparse.Namespace) -> int:
    from vehicled.benchmarks.mechanisms import BENCHMARKS, bench_mechanisms
    from vehicled.progress import Progress

    with Progress("measuring", len(BENCHMARKS), "problems", quiet=args.json) as progress:
        found = bench_mechanisms(progress.update)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_mechanism_lines(found)))
    return 0


def _mechanism_lines(found: dict[str, Any]) -> list[str]:
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
