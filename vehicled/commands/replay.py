"""`vehicled replay`: the daemon's estimator on a recorded log."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.foreign.options import add_mapping_argument, read_mapping

if TYPE_CHECKING:
    from replay.log import Log
    from vehicled.daemon.configuration import DaemonConfiguration
    from vehicled.drive_summary import Summary
    from vehicled.smoothing.smoother import Smoother

HELP = "Run the daemon's estimator on a recorded log, as fast as it goes or in real time."

EPILOG = """\
examples:
  vehicled replay drive.csv --config prototype --fast --estimates out.csv
  vehicled replay run.mcap --config prototype --fast --record again.mcap
  vehicled replay 20261122T080000Z.mcap 20261122T090000Z.mcap --config prototype --fast --estimates out.csv
  vehicled replay can.blf --config mycar.yaml --rate 1 --publish tcp://127.0.0.1:5550
  vehicled replay drive.mf4 --config mycar.yaml --mapping mycar_mdf.yaml --fast --estimates out.csv
  vehicled replay drive.csv --config prototype --smooth --estimates track.csv

A recording of the daemon (.mcap) is replayed with exactly the steps of that run, and gives exactly its
estimates; so are all of its files together, where the daemon began new ones after a time or size. Any other
log is stepped at the configured rate from its first sample on.

With --smooth each estimate uses all measurements of the log, before and after it. Measurements then count as if they
had arrived when they were measured, and a recording is stepped at the configured rate, too.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled replay`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "log",
        type=Path,
        nargs="+",
        metavar="LOG",
        help="a log of any format that `convert` reads; or all .mcap files of one run of the daemon, in their order",
    )
    parser.add_argument("--config", required=True, metavar="FILE", help="YAML file, or a shipped one's name")
    add_mapping_argument(parser)
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=float, metavar="R", help="times real time (default 1)")
    pace.add_argument("--fast", action="store_true", help="as fast as the machine can")
    parser.add_argument(
        "--smooth",
        action="store_true",
        help="fixed-interval smoother over the whole log, as fast as the machine can; for --estimates",
    )
    parser.add_argument("--estimates", type=Path, metavar="OUT.csv", help="write a row per filter step")
    parser.add_argument("--record", type=Path, metavar="OUT.mcap", help="record all inputs and outputs")
    parser.add_argument(
        "--publish", metavar="ENDPOINT", help="publish as the daemon does, such as tcp://127.0.0.1:5550"
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object and nothing else: totals, faults, and what was found of car and sensors",
    )


def run(args: argparse.Namespace) -> int:
    """Replay the log into files and sockets; returns the exit status. Raises UsageError, RunError."""
    import sys

    from replay.log import log_devices, open_log
    from replay.rates import find_slow_clock
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.errors import RunError, UsageError
    from vehicled.reading.settings import config_path
    from vehicled.terminal.output_files import OutputFile, check_outputs

    if args.rate is not None and not args.rate > 0.0:
        raise UsageError(f"--rate {args.rate}: expected a number above 0")
    if args.smooth:
        _check_smooth(args)
    check_outputs(
        [
            OutputFile("--estimates", args.estimates, (".csv",)),
            OutputFile("--record", args.record, (".mcap",)),
        ],
        {"log": args.log, "configuration": [config_path(args.config)], "mapping": [args.mapping]},
    )
    configuration = load_daemon_configuration(args.config)
    mapping = read_mapping(args)
    path, *following = args.log
    log = open_log(path, log_devices(configuration.daemon.devices), mapping, following)
    warning = find_slow_clock(str(log.path), log.measurements())
    for line in (configuration.find_unused(args.config), warning):
        if line is not None:
            print(line, file=sys.stderr)
    summary = (_smooth if args.smooth else _replay)(args, configuration, log)
    log.problems.show(sys.stderr)
    for channels, fault in summary.units.items():
        print(f"{log.path}: {channels}: {fault}", file=sys.stderr)
    for key, unread in configuration.sensors.find_unread(summary.channels).items():
        print(f"{log.path}: {', '.join(unread)}: not read, as {args.config} has no `{key}`", file=sys.stderr)
    if summary.steps == 0:
        raise RunError(f"{log.path}: no measurement that could be used")
    if summary.estimates == 0:
        raise RunError(f"{log.path}: the filter never started: {summary.line()}")
    if args.json:
        print(json.dumps(_describe(args, log, summary), ensure_ascii=False))
    else:
        print("\n".join(summary.lines()))
        if summary.restarted or summary.faults:
            print(f"what the log itself shows: {_find_check(args)}")
    return 0


def _find_check(args: argparse.Namespace) -> str:
    """The command that looks for units, signs, time offsets and pauses in the log."""
    words = ["vehicled", "check", "--log", str(args.log[0]), "--config", args.config]
    return shlex.join([*words, "--mapping", str(args.mapping)] if args.mapping else words)


def _describe(args: argparse.Namespace, log: Log, summary: Summary) -> dict[str, Any]:
    found = summary.to_dict()
    logs = [str(path) for path in args.log]
    return {"log": logs, "config": args.config, **found, "problems": dict(log.problems.counts)}


def _check_smooth(args: argparse.Namespace) -> None:
    from vehicled.errors import UsageError

    if args.rate is not None:
        raise UsageError("--rate: not with --smooth, which goes as fast as the machine can")
    if args.record is not None or args.publish is not None:
        option = "--publish" if args.record is None else "--record"
        raise UsageError(f"{option}: not with --smooth, whose estimates come after the last measurement")
    if args.estimates is None:
        raise UsageError(
            "--smooth: expected --estimates OUT.csv, the only place that smoothed estimates go to"
        )


def _smooth(args: argparse.Namespace, configuration: DaemonConfiguration, log: Log) -> Summary:
    import sys

    from replay.log import read_steps_as_measured
    from vehicled.smoothing.wrong_antenna import run_smoother
    from vehicled.stepping import play_back
    from vehicled.terminal.progress import Progress

    summaries: list[Summary] = []

    def run(smoother: Smoother, is_again: bool) -> None:
        if is_again:
            log.problems.clear()  # they are found again
        if is_again and not args.json:
            text = "an antenna is elsewhere than configured: once more, with a wider antenna_sigma"
            print(text, file=sys.stderr)
        steps = read_steps_as_measured(log, round(1e9 / configuration.daemon.loop.rate))
        with Progress("replaying", unit="s", quiet=args.json) as progress:
            summary = play_back(smoother.estimator, steps, [smoother.take], progress=progress.update)
            progress.update(summary.drive_seconds)
        summaries.append(summary)

    with run_smoother(configuration, run) as smoother:
        if summaries[-1].estimates:
            _write_smoothed(args, configuration, smoother, summaries[-1])
    return summaries[-1]


def _write_smoothed(
    args: argparse.Namespace, configuration: DaemonConfiguration, smoother: Smoother, summary: Summary
) -> None:
    from replay.csv_log import EstimatesWriter
    from vehicled.terminal.output_files import writing
    from vehicled.terminal.progress import Progress

    with (
        Progress("smoothing", summary.drive_seconds, "s", quiet=args.json) as progress,
        writing(args.estimates),
        EstimatesWriter(args.estimates, configuration.point) as writer,
    ):
        for estimate in smoother.smooth(progress.update):
            writer.write(estimate)
        progress.update(summary.drive_seconds)


def _replay(args: argparse.Namespace, configuration: DaemonConfiguration, log: Log) -> Summary:
    import contextlib

    from replay.csv_log import EstimatesWriter
    from replay.log import read_steps
    from replay.steps import play
    from vehicled.daemon.replay_outputs import ReplayOutputs
    from vehicled.estimator import Estimator
    from vehicled.foxglove.scene import Scene
    from vehicled.messages import Estimate
    from vehicled.stepping import play_back
    from vehicled.terminal.output_files import writing
    from vehicled.terminal.progress import Progress

    steps = read_steps(log, configuration.daemon.loop.period)
    if not args.fast:
        steps = play(steps, 1.0 if args.rate is None else args.rate)
    estimator = Estimator(configuration)
    with contextlib.ExitStack() as stack:
        outputs = ReplayOutputs[Estimate](stack, estimator)
        if args.estimates is not None:
            point, loads = configuration.point, configuration.loads
            writer: EstimatesWriter | None = None

            def keep(t: int, measurements: object, estimate: Estimate | None, innovations: object) -> None:
                nonlocal writer
                if estimate is None:
                    return
                if writer is None:  # a log without estimates writes no empty table, and replaces none
                    stack.enter_context(writing(args.estimates))
                    writer = stack.enter_context(EstimatesWriter(args.estimates, point, loads=loads))
                writer.write(estimate)

            outputs.sinks.append(keep)
        if args.record is not None:
            outputs.record(
                args.record, log, configuration.daemon, configuration.text, Scene(configuration.vehicle)
            )
        if args.publish is not None:
            outputs.publish(args.publish, configuration.daemon)
        progress = stack.enter_context(Progress("replaying", unit="s", quiet=args.json))
        summary = play_back(estimator, steps, outputs.sinks, outputs.on_command, progress.update)
        progress.update(summary.drive_seconds)
    return summary
