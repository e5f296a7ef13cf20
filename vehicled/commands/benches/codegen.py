"""`vehicled bench codegen`: what the model compiler makes of two mechanisms."""

import argparse
import json
from typing import Any

DESCRIPTION = """\
Operations to evaluate mass matrix and generalised forces together, and seconds to generate the function, for a
planar four-bar linkage and for a locomotive of 21 bodies and 76 relative coordinates: with operators on the trees
of points and bases; by atomisation alone, from an explicit derivation; and by SymPy and CasADi, where they are
installed (pip install 'vehicled[bench]'), from the same explicit derivation and their own search for common
sub-expressions. One operation is one addition, subtraction, multiplication, division, negation or function
call; loads, stores and constants do not count. Published for this four-bar linkage and for another such
locomotive (Plaza et al. 2017): 264 and 36,695 with operators, 285 and 636,695 by atomisation alone."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench codegen`."""
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    output.add_argument(
        "--print",
        choices=("four_bar", "locomotive"),
        help="measure nothing, print the function as Python that people can read",
    )
    parser.add_argument("--all", action="store_true", help="also what takes SymPy many minutes")


def run(args: argparse.Namespace) -> int:
    """Print operation counts and times, or generated code; returns the exit status."""
    from vehicled.progress import Progress
    from vehicled.studies.benchmarks.codegen import bench_codegen, python_text

    if args.print:
        print(python_text(args.print), end="")
        return 0
    with Progress("deriving", None, "functions", quiet=args.json) as progress:
        found = bench_codegen(args.all, progress.update)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


def _lines(found: dict[str, Any]) -> list[str]:
    from vehicled.studies.benchmarks.algebras import PEERS
    from vehicled.studies.benchmarks.codegen import LINKAGES

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
