"""`vehicled bench codegen`: what the model compiler makes of two mechanisms."""

import argparse
import json
from typing import Any

DESCRIPTION = """\
Operations to evaluate mass matrix and generalised forces together, size of the function in C, and seconds to generate
it, for a planar four-bar linkage and for a locomotive of 21 bodies and 76 relative coordinates. Two derivations: with
operators on the trees of points and bases, and explicitly, body by body. Three forms: written out in full, where
nothing is shared (counted without writing it); atomised; and atomised with sums of angles in place of products of
their sines and cosines. Beside them SymPy and CasADi, where they are installed (pip install 'vehicled[algebra]'),
from the same explicit derivation and their own search for common sub-expressions. One operation is one addition,
subtraction, multiplication, division, negation or function call; loads, stores and constants do not count. Published
figures are of this four-bar linkage and of another such locomotive (Plaza et al. 2017)."""


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
    from vehicled.studies.benchmarks.codegen import bench_codegen, python_text
    from vehicled.terminal.progress import Progress

    if args.print:
        print(python_text(args.print), end="")
        return 0
    with Progress("deriving", None, "functions", quiet=args.json) as progress:
        found = bench_codegen(args.all, progress.update)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


_ROWS = (
    ("explicit, written out", "_plain"),
    ("operators, written out", "_operators_plain"),
    ("explicit, atomised", "_atomised"),
    ("  with sums of angles", "_atomised_joined"),
    ("operators, atomised", ""),
    ("  with sums of angles", "_joined"),
)
"""Name of a row, and suffix of its keys."""


def _lines(found: dict[str, Any]) -> list[str]:
    from vehicled.studies.benchmarks.algebras import PEERS
    from vehicled.studies.benchmarks.codegen import LINKAGES, PUBLISHED

    lines, peers = [], found["peers"]
    for linkage in LINKAGES:
        ours, published = found[linkage], PUBLISHED[linkage]
        lines.append(_line(linkage, "operations", "published", "bytes in C", "published", "s"))
        for name, suffix in _ROWS:
            operations, size = f"operations{suffix}", f"bytes{suffix}"
            counts = (ours[operations], published.get(operations), ours[size], published.get(size))
            lines.append(_line(name, *map(_number, counts), _seconds(ours.get(f"seconds{suffix}"))))
        for package, peer in peers.items():
            theirs = peer.get(linkage, {})
            cells = (_number(theirs.get("operations")), *"–––", _seconds(theirs.get("seconds")))
            lines.append(_line(f"{package} {peer['version']}", *cells))
        lines.append("")
    if any(len(peer) <= len(LINKAGES) for peer in peers.values()):
        lines.append("A row without figures takes many minutes: ask with --all")
    return lines + [f"{package}: not installed" for package in PEERS if package not in peers]


def _line(name: str, *cells: str) -> str:
    widths = (13, 11, 14, 12, 8)
    return " ".join([f"{name:<24}", *(f"{c:>{width}}" for c, width in zip(cells, widths, strict=True))])


def _number(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


def _seconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds:.3f}"
