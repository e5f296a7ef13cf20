"""`vehicled convert`: a log in another format."""

import argparse
import sys
from pathlib import Path
from textwrap import fill

import numpy as np

from replay.csv_log import CsvLogWriter, EstimatesWriter, source_of
from replay.log import FORMATS, Log, create_log, log_devices, open_log
from replay.mcap_log import McapLog
from replay.steps import sort_by_arrival
from vehicled.errors import RunError, UsageError
from vehicled.messages import CHANNELS, ESTIMATE_COLUMNS, Estimate
from vehicled.points import ORIGIN
from vehicled.progress import Progress
from vehicled.scoring import read_configuration

HELP = "convert a log into another format"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled convert`."""
    parser.description = fill(
        "Converts the measurements of a log, or with --estimates the estimates of a recording. Formats go by "
        f"extension: it reads {FORMATS}, and writes .csv and .mcap. What the output cannot hold is reported.",
        90,
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
examples:
  vehicled convert drive.csv drive.mcap                    for a robotics viewer
  vehicled convert run.mcap drive.csv                      for a spreadsheet
  vehicled convert run.mcap estimates.csv --estimates      the estimates that were recorded
  vehicled convert drive.blf drive.csv --config my_car.yaml   with the signals of the configuration
  vehicled convert receiver.nmea fixes.csv"""
    parser.add_argument("input", metavar="IN", type=Path, help="log to read")
    parser.add_argument("output", metavar="OUT", type=Path, help="log to write, .csv or .mcap; overwritten")
    parser.add_argument(
        "--config", metavar="FILE", help="configuration whose devices a raw log (CAN, NMEA) is from"
    )
    parser.add_argument("--estimates", action="store_true", help="from a recording, its estimates as CSV")


def run(args: argparse.Namespace) -> int:
    """Write the log, or its estimates, in the other format; returns the exit status. Raises UsageError."""
    devices = {}
    if args.config is not None:
        from vehicled.daemon.configuration import load_daemon_configuration

        devices = log_devices(load_daemon_configuration(args.config).daemon.devices)
    log = open_log(args.input, devices)
    if args.output.exists() and args.output.samefile(args.input):
        raise UsageError(f"{args.output}: expected another file than the input")
    if args.estimates:
        return _convert_estimates(log, args.output)
    return _convert(log, args.output)


def _convert(log: Log, output: Path) -> int:
    if output.suffix.lower() not in (".csv", ".mcap"):
        raise UsageError(f"{output}: expected an output that ends in .csv or .mcap")
    channels, sources = _survey(log) if output.suffix.lower() == ".csv" else (list(CHANNELS), set())
    offset = log.utc_offset_ns if isinstance(log, McapLog) else 0
    written = 0
    with (
        Progress("converting", unit="measurements") as progress,
        create_log(output, channels, offset) as writer,
    ):
        for m in sort_by_arrival(log.measurements(), log.problems):
            writer.write(m)
            written += 1
            progress.update(written)
    log.problems.show(sys.stderr)
    if isinstance(writer, CsvLogWriter):
        _report_lost(writer, output, sources)
    if log.recorded:
        _report(f"{log.path.name} is a recording: only its measurements were converted")
    if not written:
        raise RunError(f"{log.path}: no measurements in it")
    return 0


def _survey(log: Log) -> tuple[list[str], set[str]]:
    """Channels and devices in a log: a CSV file has its columns before its first row."""
    channels: set[str] = set()
    sources: set[str] = set()
    with Progress("reading", unit="measurements") as progress:
        for n, m in enumerate(log.measurements(), start=1):
            channels.update(m.values)
            sources.add(m.source)
            progress.update(n)
    return [c for c in CHANNELS if c in channels], sources


def _report_lost(writer: CsvLogWriter, output: Path, sources: set[str]) -> None:
    named = sources - {source_of(channel) for channel in CHANNELS}
    if named:
        _report(f"{output.name}: CSV has no names of devices ({', '.join(sorted(named))})")
    if writer.arrivals_lost:
        _report(
            f"{output.name}: CSV has no arrival but that of GNSS; "
            f"{writer.arrivals_lost} samples now arrive when measured"
        )
    if writer.same_instant:
        _report(
            f"{output.name}: {writer.same_instant} second samples of a channel at one instant, "
            "which readers will skip"
        )


def _report(line: str) -> None:
    print(line, file=sys.stderr)


def _convert_estimates(log: Log, output: Path) -> int:
    if not isinstance(log, McapLog) or output.suffix.lower() != ".csv":
        raise UsageError("--estimates: expected a recording (.mcap) as input and a .csv file as output")
    estimates = log.read_run().estimates
    log.problems.show(sys.stderr)
    if not len(estimates.t):
        raise RunError(f"{log.path}: no estimates in it")
    rows = np.column_stack([estimates.columns[c] for c in ESTIMATE_COLUMNS])
    configuration = read_configuration(log)
    with EstimatesWriter(output, ORIGIN if configuration is None else configuration.point) as writer:
        for t, row in zip(estimates.t.tolist(), rows, strict=True):
            writer.write(Estimate(t, row))
    return 0
