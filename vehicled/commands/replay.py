"""`vehicled replay`: the daemon's estimator on a recorded log."""

import argparse
from pathlib import Path

HELP = "Run the daemon's estimator on a recorded log, as fast as it goes or in real time."

EPILOG = """\
examples:
  vehicled replay drive.csv --config prototype --fast --estimates out.csv
  vehicled replay run.mcap --config prototype --fast --record again.mcap
  vehicled replay can.blf --config mycar.yaml --rate 1 --publish tcp://127.0.0.1:5550

A recording of the daemon (.mcap) is replayed with exactly the steps of that run, and gives exactly its
estimates. Any other log is stepped at the configured rate from its first sample on.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled replay`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("log", type=Path, metavar="LOG", help=".mcap, .csv, CAN log or NMEA text")
    parser.add_argument("--config", required=True, metavar="FILE", help="YAML file, or a shipped one's name")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=float, default=1.0, metavar="R", help="times real time (default 1)")
    pace.add_argument("--fast", action="store_true", help="as fast as the machine can")
    parser.add_argument("--estimates", type=Path, metavar="OUT.csv", help="write a row per filter step")
    parser.add_argument("--record", type=Path, metavar="OUT.mcap", help="record all inputs and outputs")
    parser.add_argument(
        "--publish", metavar="ENDPOINT", help="publish as the daemon does, such as tcp://127.0.0.1:5550"
    )


def run(args: argparse.Namespace) -> int:
    """Replay the log into files and sockets; returns the exit status. Raises UsageError, RunError."""
    import contextlib
    import dataclasses
    import sys

    from replay.csv_log import EstimatesWriter
    from replay.log import log_devices, open_log, read_steps
    from replay.mcap_log import McapLog
    from replay.steps import play
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.daemon.endpoints import Endpoints
    from vehicled.daemon.publisher import Publisher
    from vehicled.daemon.recorder import Recorder
    from vehicled.errors import RunError, UsageError
    from vehicled.estimator import Estimator
    from vehicled.messages import Estimate
    from vehicled.progress import Progress
    from vehicled.stepping import Sink, play_back

    if not args.rate > 0.0:
        raise UsageError(f"--rate {args.rate}: expected a number above 0")
    configuration = load_daemon_configuration(args.config)
    log = open_log(args.log, log_devices(configuration.daemon.devices))
    rate = configuration.daemon.loop.rate
    steps = read_steps(log, round(1e9 / rate))
    if not args.fast:
        steps = play(steps, args.rate)
    estimator = Estimator(configuration)
    with contextlib.ExitStack() as stack:
        sinks: list[Sink] = []
        on_command = None
        if args.estimates is not None:
            write = stack.enter_context(EstimatesWriter(args.estimates)).write

            def keep(t: int, measurements: object, estimate: Estimate | None, innovations: object) -> None:
                if estimate is not None:
                    write(estimate)

            sinks.append(keep)
        if args.record is not None:
            offset = log.utc_offset_ns if isinstance(log, McapLog) else 0
            recorder = stack.enter_context(Recorder(args.record, configuration.text, 0, offset, live=False))
            sinks.append(recorder.record_step)
            on_command = recorder.record_command
        if args.publish is not None:
            options = dataclasses.replace(configuration.daemon.publish, endpoint=args.publish)
            endpoints = Endpoints(options)
            stack.callback(endpoints.close)
            publisher = Publisher(endpoints, options)
            publisher.start()
            stack.callback(publisher.close)
            sinks.append(
                lambda t, measurements, estimate, innovations: publisher.publish_step(estimate, innovations)
            )
        progress = stack.enter_context(Progress("replaying", unit="s"))
        summary = play_back(estimator, steps, sinks, on_command, progress.update)
        progress.update(summary.drive_seconds)
    log.problems.show(sys.stderr)
    if summary.steps == 0:
        raise RunError(f"{args.log}: no measurement that could be used")
    if summary.estimates == 0:
        raise RunError(f"{args.log}: the filter never started: {summary.line()}")
    print(summary.line())
    return 0
