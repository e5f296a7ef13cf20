"""`vehicled tune`: the filter's noise settings from its innovations."""

import argparse

from vehicled.commands.identify import add_common_arguments, list_all, run_with

HELP = "Find the noise of sensors and model from recorded drives, so that the filter knows how good it is."

EPILOG = """\
Noise that is too small makes the filter refuse good measurements and believe a wrong model; noise that is too large
makes it slow. The settings under which the recorded measurements are most probable are looked for; NIS, the mean
normalised innovation squared, is near 1 then, also on a drive that was not used. Tune what
`vehicled identify` has found: noise makes up for what the model gets wrong.

examples:
  vehicled tune drive.mcap --config my_car.yaml --output tuned.yaml
  vehicled tune drive.mcap --config my_car.yaml --parameters 'gyro.noise,plant.*'
  vehicled tune --config my_car.yaml --list
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("--parameters", metavar="NAMES", help="between commas, with * for any; default: all")
    parser.add_argument("--list", action="store_true", help="list the noise settings of this configuration")
    add_common_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from vehicled.identification.vehicle.noise import NOISE

    if args.list:
        return list_all(args, NOISE)
    return run_with(args, args.parameters or "*", tuning=True)
