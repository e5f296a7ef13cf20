"""`vehicled particles`: a mechanism followed by particles, live or from a log."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from replay.foreign.options import add_mapping_argument, read_mapping

if TYPE_CHECKING:
    from replay.log import Log
    from vehicled.drive_summary import Summary
    from vehicled.messages import ParticleEstimate
    from vehicled.multibody.mechanism import Mechanism
    from vehicled.particles.configuration import ParticlesConfiguration
    from vehicled.particles.tracker import MechanismTracker

HELP = "Follow a mechanism of any kind by a particle filter, from live sensors or from a log."

EPILOG = """\
examples:
  vehicled particles --mechanism four_bar --config devices.yaml
  vehicled particles --mechanism rig.yaml --config devices.yaml --log drive.csv --fast --estimates out.csv

Without --log it is a daemon as `vehicled run`: it reads the devices of the configuration, publishes its estimates in
the topic `mechanism` and takes the commands reset, mark and status, until SIGTERM or Ctrl-C. A recording of it is
replayed with exactly its steps, and gives exactly its estimates. docs/mechanisms.md describes the configuration."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled particles`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "--mechanism", required=True, metavar="FILE", help="YAML file, or a shipped mechanism's name"
    )
    parser.add_argument(
        "--config", required=True, metavar="FILE", help="YAML file with particles, sensors and daemon"
    )
    parser.add_argument("--log", type=Path, metavar="LOG", help="a log that `replay` reads, not devices")
    add_mapping_argument(parser)
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=float, metavar="R", help="of the log, times real time (default 1)")
    pace.add_argument("--fast", action="store_true", help="the log as fast as the machine can")
    parser.add_argument(
        "--estimates", type=Path, metavar="OUT.csv", help="of the log: write a row per estimate"
    )
    parser.add_argument(
        "--record", type=Path, metavar="OUT.mcap", help="of the log: record inputs and outputs"
    )
    parser.add_argument(
        "--publish",
        metavar="ENDPOINT",
        help="of the log: publish as the daemon, such as tcp://127.0.0.1:5550",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="without a log: a statistics line every second, not every ten"
    )


def run(args: argparse.Namespace) -> int:
    """Follow the mechanism; returns the exit status. Raises UsageError, RunError."""
    from vehicled.daemon.signals import run_as_daemon

    return run_as_daemon(lambda: _run(args)) if args.log is None else _run(args)


def _run(args: argparse.Namespace) -> int:
    from vehicled.errors import UsageError
    from vehicled.multibody.files import mechanism_path
    from vehicled.multibody.mechanism import Mechanism
    from vehicled.particles.configuration import load_particles_configuration
    from vehicled.particles.tracker import MechanismTracker
    from vehicled.terminal.output_files import OutputFile, check_outputs

    if args.log is None:
        for name in ("mapping", "rate", "fast", "estimates", "record", "publish"):
            if getattr(args, name):
                raise UsageError(f"--{name}: expected --log LOG with it; live, it is in the configuration")
    elif args.rate is not None and not args.rate > 0.0:
        raise UsageError(f"--rate {args.rate}: expected a number above 0")
    check_outputs(
        [
            OutputFile("--estimates", args.estimates, (".csv",)),
            OutputFile("--record", args.record, (".mcap",)),
        ],
        {
            "log": [args.log],
            "configuration": [args.config],
            "mechanism": [mechanism_path(args.mechanism)],
            "mapping": [args.mapping],
        },
    )
    configuration = load_particles_configuration(args.config)
    if args.log is None and not configuration.daemon.devices:
        raise UsageError(f"{args.config}: daemon.devices: expected at least one, or --log LOG")
    mechanism = Mechanism.load(args.mechanism, form="natural")
    try:
        tracker = MechanismTracker(mechanism, configuration)
    except UsageError as error:
        raise UsageError(f"{args.mechanism} with {args.config}: {error}") from None
    _warn_of_step(mechanism, configuration.particles.longest_step)
    if args.log is None:
        _follow(args, configuration, tracker)
    else:
        _replay(args, configuration, tracker)
    return 0


def _warn_of_step(mechanism: Mechanism, longest: float) -> None:
    import sys

    from vehicled.multibody.step_length import find_fast_motion

    fast = find_fast_motion(mechanism, longest, "matrix_r", "runge_kutta_4")
    if fast is not None:
        print(f"doubtful: particles.longest_step: {fast.describe(longest)}", file=sys.stderr)


def _follow(
    args: argparse.Namespace, configuration: ParticlesConfiguration, tracker: MechanismTracker
) -> None:
    import logging
    from typing import Any

    from vehicled.daemon.daemon import Daemon
    from vehicled.daemon.log import Logging
    from vehicled.errors import UsageError

    def read_noise() -> dict[str, Any]:
        raise UsageError("particles: noise is read at the start only")

    with Logging(logging.DEBUG if args.verbose else logging.INFO) as log:
        Daemon(
            configuration.daemon,
            tracker,
            configuration.text,
            read_noise=read_noise,
            counters=lambda: {"log": {"dropped": log.dropped}},
        ).run()


def _replay(
    args: argparse.Namespace, configuration: ParticlesConfiguration, tracker: MechanismTracker
) -> None:
    import sys

    from replay.log import log_devices, open_log
    from vehicled.errors import UsageError
    from vehicled.particles.table import format_estimate

    mapping = read_mapping(args)
    log = open_log(args.log, log_devices(configuration.daemon.devices), mapping)
    summary, last = _play(args, configuration, tracker, log)
    log.problems.show(sys.stderr)
    silent = tracker.find_silent()
    if last is None and (summary.errors or len(silent) < len(tracker.status()["sensors"])):
        print("\n".join(summary.lines()))
        raise UsageError(
            f"{log.path}: no particle fits its readings; expected sigma, scale and offset of the sensors, and rate "
            "and motion of the coordinates, to be right"
        )
    if last is None:
        wanted = ", ".join(sorted({c for channels in configuration.sensors.values() for c in channels}))
        raise UsageError(f"{log.path}: none of the channels of `sensors` in it: {wanted}")
    if silent:
        print(
            f"{log.path}: no readings of {', '.join(silent)} in it, which `sensors` expects", file=sys.stderr
        )
    print("\n".join(summary.lines()))
    print("\n".join(format_estimate(last)))


def _play(
    args: argparse.Namespace, configuration: ParticlesConfiguration, tracker: MechanismTracker, log: Log
) -> tuple[Summary, ParticleEstimate | None]:
    """Summary of the replay, and its last estimate."""
    import contextlib

    from replay.log import read_steps
    from replay.steps import play
    from vehicled.daemon.replay_outputs import ReplayOutputs
    from vehicled.messages import ParticleEstimate
    from vehicled.particles.table import MechanismWriter
    from vehicled.stepping import play_back
    from vehicled.terminal.output_files import writing
    from vehicled.terminal.progress import Progress

    steps = read_steps(log, configuration.daemon.loop.period)
    if not args.fast:
        steps = play(steps, args.rate or 1.0)
    last: ParticleEstimate | None = None
    with contextlib.ExitStack() as stack:
        outputs = ReplayOutputs[ParticleEstimate](stack, tracker)
        writer = None
        if args.estimates is not None:
            stack.enter_context(writing(args.estimates))
            writer = stack.enter_context(MechanismWriter(args.estimates))

        def keep(t: int, measurements: object, estimate: ParticleEstimate | None, records: object) -> None:
            nonlocal last
            if estimate is not None:
                last = estimate
                if writer is not None:
                    writer.write(estimate)

        outputs.sinks.append(keep)
        if args.record is not None:
            outputs.record(args.record, log, configuration.daemon, configuration.text)
        if args.publish is not None:
            outputs.publish(args.publish, configuration.daemon)
        progress = stack.enter_context(Progress("following", unit="s"))
        summary = play_back(tracker, steps, outputs.sinks, outputs.on_command, progress.update)
        progress.update(summary.drive_seconds)
    return summary, last
