"""`vehicled report`: one HTML page with plots of a run."""

import argparse
import os
import sys
from pathlib import Path
from textwrap import fill

from vehicled.terminal.output_files import OutputFile, check_outputs

HELP = "plot a run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled report`."""
    parser.description = fill(
        "Draws a run, or several over each other, into one HTML file that needs nothing else: track, errors, motion, "
        "slip, tyre forces, suspension, innovations and timing, as far as the run has them. All plots zoom together.",
        90,
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
A recording (.mcap, from 'vehicled run' or 'vehicled replay --record') has it all; a table of estimates (.csv)
has no innovations and no timing.

examples:
  vehicled report run.mcap -o report.html
  vehicled report before.mcap after.mcap --truth truth.csv -o report.html
  vehicled report estimates.csv --truth truth.csv -o report.html"""
    parser.add_argument(
        "runs", metavar="RUN", type=Path, nargs="+", help="recording .mcap or estimates .csv; up to six"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        default=Path("report.html"),
        help="HTML file to write (default: %(default)s)",
    )
    parser.add_argument(
        "--truth", metavar="TRUTH", type=Path, help="truth .csv: adds errors with their 3-σ bands"
    )


def run(args: argparse.Namespace) -> int:
    """Write the page and print its path; returns the exit status."""
    check_outputs(
        [OutputFile("--output", args.output, (".html", ".htm"))], {"run": args.runs, "truth": [args.truth]}
    )
    from vehicled.report import write_report

    for data in write_report(args.runs, args.output, args.truth, len(os.sched_getaffinity(0))):
        for problems in data.problems:
            problems.show(sys.stderr)
    print(args.output)
    return 0
