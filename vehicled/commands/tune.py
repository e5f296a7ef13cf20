"""`vehicled tune`: the filter's noise settings from its innovations."""

import argparse

from vehicled.commands.identify import add_common_arguments, list_all, run_with

HELP = "Find the noise of sensors and model from recorded drives, so that the filter's standard deviations are right."

EPILOG = """\
Noise that is too small makes the filter reject good measurements and follow a wrong model; noise that is too large
makes it slow. This command finds the settings under which the recorded measurements are most probable; NIS, the mean
normalised innovation squared, is then near 1, also on a drive that was not used. Tune the result of
`vehicled identify`: noise accounts for the errors of the model.

examples:
  vehicled tune drive.mcap --config my_car.yaml --output tuned.yaml
  vehicled tune drive.mcap --config my_car.yaml --parameters 'gyro.noise,plant.*'
  vehicled tune --config my_car.yaml --list
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled tune`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("--parameters", metavar="NAMES", help="between commas, with * for any; default: all")
    parser.add_argument("--list", action="store_true", help="list the noise settings of this configuration")
    parser.add_argument(
        "--config", required=True, metavar="VEHICLE", help="YAML file, or a shipped one's name"
    )
    add_common_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """List the noise settings or estimate them from logs; returns the exit status. Raises UsageError, RunError."""
    from vehicled.identification.vehicle.noise import NOISE

    if args.list:
        return list_all(args, NOISE)
    return run_with(args, args.parameters or "*", tuning=True)
