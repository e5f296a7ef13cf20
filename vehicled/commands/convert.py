"""`vehicled convert`: a log in another format."""

import argparse
import sys
from pathlib import Path
from textwrap import fill

import numpy as np

from replay.csv_log import CsvLogWriter, EstimatesWriter, Table
from replay.foreign import gpx, parquet
from replay.foreign.options import add_mapping_argument, read_mapping
from replay.log import FORMATS, WRITTEN, Log, create_log, describe_log, log_devices, open_log
from replay.log_about import LogAbout
from replay.mcap_log import McapLog
from replay.merged_log import MergedLog
from replay.rows import RowMerger, source_of
from replay.steps import sort_by_arrival
from replay.truth import TruthWriter, find_truth_columns
from vehicled.daemon.configuration import DaemonConfiguration, load_daemon_configuration
from vehicled.errors import RunError, UsageError
from vehicled.log_check.clocks import ClockFinder, describe_clock
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import CHANNELS, ESTIMATE_COLUMNS, LOAD_COLUMNS, Estimate
from vehicled.points import ORIGIN
from vehicled.reading.settings import config_path
from vehicled.schemas import ROW_COLUMNS
from vehicled.scoring.scores import read_configuration
from vehicled.terminal.output_files import OutputFile, check_outputs, writing
from vehicled.terminal.progress import Progress

HELP = "convert a log into another format"

_OF_ESTIMATES = (".csv", parquet.SUFFIX, gpx.SUFFIX)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled convert`."""
    parser.description = fill(
        "Converts the measurements of a log, or with --estimates the estimates of a recording, or with --truth "
        f"what a reference measured. Reads {FORMATS}; writes {', '.join(WRITTEN)}. What the output cannot hold is "
        "reported.",
        90,
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
examples:
  vehicled convert drive.csv drive.mcap                    for a robotics viewer
  vehicled convert run.mcap drive.csv                      for a spreadsheet
  vehicled convert run.mcap estimates.parquet --estimates  the estimates that were recorded, for pandas
  vehicled convert run.mcap track.gpx                      the receiver's fixes, for a map
  vehicled convert drive.blf drive.csv --config my_car.yaml   with the signals of the configuration
  vehicled convert drive.mf4 drive.mcap --mapping my_car_mdf.yaml   with the signals of a mapping file
  vehicled convert drive.vbo can.blf drive.mcap --config my_car.yaml   the logs of two loggers as one
  vehicled convert drive.ncom truth.csv --truth --config my_car.yaml   for `vehicled score`"""
    parser.add_argument(
        "inputs",
        metavar="IN",
        nargs="+",
        type=Path,
        help="log to read; several loggers of one drive become one log",
    )
    parser.add_argument(
        "output", metavar="OUT", type=Path, help=f"file to write, {', '.join(WRITTEN)}; overwritten"
    )
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="configuration whose devices a raw log (CAN, NMEA) is from, and whose world the truth is in",
    )
    add_mapping_argument(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--estimates", action="store_true", help="from a recording, its estimates")
    what.add_argument("--truth", action="store_true", help="the log's channels reference.* as truth, .csv")


def run(args: argparse.Namespace) -> int:
    """Write the log, or its estimates or reference, in the other format; returns the exit status. UsageError."""
    endings = _OF_ESTIMATES if args.estimates else (".csv",) if args.truth else WRITTEN
    configurations = [] if args.config is None else [config_path(args.config)]
    check_outputs(
        [OutputFile("", args.output, endings)],
        {"input": args.inputs, "configuration": configurations, "mapping": [args.mapping]},
    )
    configuration = None if args.config is None else load_daemon_configuration(args.config)
    devices = {} if configuration is None else log_devices(configuration.daemon.devices)
    mapping = read_mapping(args)
    if len(args.inputs) > 1 and mapping is not None:
        raise UsageError(
            f"--mapping {args.mapping}: expected one log, as it has the names of one: convert each by itself first"
        )
    logs = [open_log(path, devices, mapping) for path in args.inputs]
    log = logs[0] if len(logs) == 1 else MergedLog(logs)
    with writing(args.output):
        if args.estimates:
            return _convert_estimates(log, args.output)
        if args.truth:
            return _convert_reference(log, args.output, configuration)
        about = describe_log(logs[0])
        if configuration is not None:
            about = about._replace(configuration=configuration.text)
        clocks = None
        if len(logs) > 1:
            clocks = ClockFinder(None if configuration is None else configuration.sensors)
        return _convert(log, args.output, about, clocks)


def _convert(log: Log, output: Path, about: LogAbout, clocks: ClockFinder | None) -> int:
    """`clocks`: for logs of several loggers, whose clocks are compared."""
    is_table = output.suffix.lower() in (".csv", parquet.SUFFIX)
    if next(iter(log.measurements()), None) is None:  # before a file is overwritten
        log.problems.show(sys.stderr)
        raise RunError(f"{log.path}: no measurements in it")
    channels, sources = _survey(log) if is_table else (list(CHANNELS), set())
    written = 0
    with (
        create_log(output, channels, about) as writer,
        Progress("converting", unit="measurements") as progress,
    ):
        for m in sort_by_arrival(log.measurements(), log.problems):
            writer.write(m)
            if clocks is not None:
                clocks.take(m)
            written += 1
            progress.update(written)
    log.problems.show(sys.stderr)
    for clock in [] if clocks is None else clocks.find():
        _report(f"{output.name}: {clock.source}: {describe_clock(clock)}")
    if isinstance(writer, (CsvLogWriter, parquet.ParquetLogWriter)):
        _report_lost(writer.merger, output, sources)
    if log.recorded:
        _report(f"{log.path.name} is a recording: only its measurements were converted")
    if isinstance(writer, gpx.GpxWriter) and not writer.points:
        if output.is_file():
            output.unlink()
        raise RunError(f"{log.path}: no positions in it")
    return 0


def _survey(log: Log) -> tuple[list[str], set[str]]:
    """Channels and devices in a log: a table needs its columns before its first row."""
    channels: set[str] = set()
    sources: set[str] = set()
    with Progress("reading", unit="measurements") as progress:
        for n, m in enumerate(log.measurements(), start=1):
            channels.update(m.values)
            sources.add(m.source)
            progress.update(n)
    return [c for c in CHANNELS if c in channels], sources


def _report_lost(merger: RowMerger, output: Path, sources: set[str]) -> None:
    kind = output.suffix[1:]
    kind = {"csv": "CSV", "parquet": "Parquet"}.get(kind.lower(), kind)
    named = sources - {source_of(channel) for channel in CHANNELS}
    if named:
        _report(f"{output.name}: {kind} has no names of devices ({', '.join(sorted(named))})")
    if merger.arrivals_lost:
        _report(
            f"{output.name}: {kind} has no arrival but that of GNSS; "
            f"{merger.arrivals_lost} samples now arrive when measured"
        )
    if merger.same_instant:
        _report(
            f"{output.name}: {merger.same_instant} second samples of a channel at one instant, "
            "which readers will skip"
        )


def _report(line: str) -> None:
    print(line, file=sys.stderr)


def _convert_reference(log: Log, output: Path, configuration: DaemonConfiguration | None) -> int:
    channels, _ = _survey(log)
    if not find_truth_columns(channels):
        raise RunError(f"{log.path}: no channel reference.* in it, of which truth is made")
    world = None if configuration is None else configuration.world
    origin = None if world is None else WorldOrigin.of(world)
    with TruthWriter(output, channels, origin) as writer:
        for m in log.measurements():
            writer.write(m)
    log.problems.show(sys.stderr)
    if origin is None and writer.origin is not None:
        place = writer.origin
        _report(
            f"{output.name}: x and y are from the reference's first place, {place.latitude:.7f} deg, "
            f"{place.longitude:.7f} deg, {place.height:.3f} m; with --config FILE from its `world`"
        )
    return 0


def _convert_estimates(log: Log, output: Path) -> int:
    if not isinstance(log, McapLog):
        raise UsageError(f"{log.path}: expected a recording (.mcap), as --estimates was given")
    estimates = log.read_run(tuple(ROW_COLUMNS)).estimates
    log.problems.show(sys.stderr)
    if not len(estimates.t):
        raise RunError(f"{log.path}: no estimates in it")
    suffix = output.suffix.lower()
    if suffix == parquet.SUFFIX:
        parquet.write_estimates(output, estimates, describe_log(log))
    elif suffix == gpx.SUFFIX:
        with gpx.GpxWriter(output, log.utc_offset_ns) as writer:
            writer.write_estimates(estimates)
    else:
        _write_estimates(log, estimates, output)
    return 0


def _write_estimates(log: McapLog, estimates: Table, output: Path) -> None:
    rows = np.column_stack([estimates.columns[c] for c in ESTIMATE_COLUMNS])
    has_loads = LOAD_COLUMNS[0] in estimates.columns
    loads = np.column_stack([estimates.columns[c] for c in LOAD_COLUMNS]) if has_loads else [None] * len(rows)
    configuration = read_configuration(log)
    point = ORIGIN if configuration is None else configuration.point
    with EstimatesWriter(output, point, loads=has_loads) as writer:
        for t, row, load in zip(estimates.t.tolist(), rows, loads, strict=True):
            writer.write(Estimate(t, row, loads=load))
