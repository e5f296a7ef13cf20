"""`vehicled run`: the daemon on this machine's devices."""

import argparse
import logging

HELP = "Read the sensors, estimate, publish over ZeroMQ and record, until SIGTERM or Ctrl-C."


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled run`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
examples:
  vehicled check my_car.yaml              first: is the configuration right?
  vehicled run --config my_car.yaml       then, in another terminal: vehicled top, or vehicled view

systemd/README.md installs it as a service."""
    parser.add_argument("--config", required=True, metavar="FILE", help="YAML file, or a shipped one's name")
    parser.add_argument(
        "--verbose", action="store_true", help="a statistics line every second, not every ten"
    )


def run(args: argparse.Namespace) -> int:
    """Run the daemon until a signal ends it; returns the exit status. Raises SettingsError."""
    from vehicled.daemon.signals import run_as_daemon

    return run_as_daemon(lambda: _run(args))


def _run(args: argparse.Namespace) -> int:
    from vehicled.daemon.configuration import load_configuration_to_run
    from vehicled.daemon.daemon import Daemon
    from vehicled.daemon.log import Logging
    from vehicled.daemon.noise_reader import read_noise
    from vehicled.estimator import Estimator
    from vehicled.foxglove.scene import Scene
    from vehicled.sources.learnable import find_bounds

    configuration = load_configuration_to_run(args.config)
    with Logging(logging.DEBUG if args.verbose else logging.INFO) as log:
        Daemon(
            configuration.daemon,
            Estimator(configuration),
            configuration.text,
            read_noise=lambda: read_noise(args.config, configuration.text),
            counters=lambda: {"log": {"dropped": log.dropped}},
            scene=Scene(configuration.vehicle),
            bounds=find_bounds(configuration.sensors, configuration.filter),
        ).run()
    return 0
