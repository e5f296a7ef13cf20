"""`vehicled bench`: what the program costs on this machine."""

import argparse
import json
import os
from typing import Any

from vehicled.errors import UsageError

HELP = "Measure speed on this machine."

EPILOG = """\
examples:
  vehicled bench step                 the prototype's model and filter, beside a dense solver
  vehicled bench step --json          one JSON object, times in microseconds
  vehicled bench codegen              what the model compiler makes of two mechanisms
  vehicled bench codegen --print four_bar

step: times of single calls, taking turns in one run of the drive mixed_drive: one step of the multibody model
(4 ms), one whole step of the filter (simulate, correct with every sensor that has spoken, project, estimate
with standard deviations), and scipy's LU solution of a dense 169 × 169 system.

codegen: operations to evaluate mass matrix and generalised forces together, and seconds to generate the
function, for a planar four-bar linkage and for a locomotive of 21 bodies and 76 relative coordinates: with
operators on the trees of points and bases; by atomisation alone, from an explicit derivation; and by SymPy and
CasADi, where they are installed (pip install 'vehicled[bench]'), from the same explicit derivation and their own
search for common sub-expressions. One operation is one addition, subtraction, multiplication, division, negation
or function call; loads, stores and constants do not count. Published for this four-bar linkage and for another
such locomotive (Plaza et al. 2017): 264 and 36,695 with operators, 285 and 636,695 by atomisation alone."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("what", metavar="WHAT", choices=("step", "codegen"), help="step or codegen")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    output.add_argument(
        "--print",
        choices=("four_bar", "locomotive"),
        help="codegen: measure nothing, print the function as Python that people can read",
    )
    parser.add_argument("--all", action="store_true", help="codegen: also what takes SymPy many minutes")


def run(args: argparse.Namespace) -> int:
    if args.what == "codegen":
        return _codegen(args)
    if args.print or args.all:
        raise UsageError(f"--print and --all go with codegen, not with {args.what}")
    # One thread for the dense solver, as everything else has: before numpy loads its library.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
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


def _codegen(args: argparse.Namespace) -> int:
    from vehicled.benchmarks.codegen import bench_codegen, python_text
    from vehicled.progress import Progress

    if args.print:
        print(python_text(args.print), end="")
        return 0
    with Progress("deriving", None, "functions", quiet=args.json) as progress:
        found = bench_codegen(args.all, progress.update)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_codegen_lines(found)))
    return 0


def _codegen_lines(found: dict[str, Any]) -> list[str]:
    from vehicled.benchmarks.algebras import PEERS
    from vehicled.benchmarks.codegen import LINKAGES

    rows: dict[str, dict[str, tuple[int, float]]] = {}
    for name, of in (("operators on trees", ""), ("atomisation alone", "_atomised")):
        rows[name] = {m: (found[m][f"operations{of}"], found[m][f"seconds{of}"]) for m in LINKAGES}
    for package, peer in found["peers"].items():
        of_both = {m: peer[m] for m in LINKAGES if m in peer}
        rows[f"{package} {peer['version']}"] = {
            m: (x["operations"], x["seconds"]) for m, x in of_both.items()
        }
    lines = [" ".join([f"{'operations; seconds':<20}", *(f"{m:>12} {'s':>8}" for m in LINKAGES)])]
    for name, row in rows.items():
        cells = [
            f"{row[m][0]:>12} {row[m][1]:>8.3f}" if m in row else f"{'–':>12} {'–':>8}" for m in LINKAGES
        ]
        lines.append(" ".join([f"{name:<20}", *cells]))
    if any(len(row) < len(LINKAGES) for row in rows.values()):
        lines.append("–: takes many minutes, ask with --all")
    return lines + [f"{package}: not installed" for package in PEERS if package not in found["peers"]]
