"""`vehicled simulate`: a drive of the plant model, as the log of a car's sensors."""

import argparse
import dataclasses

from vehicled.errors import UsageError
from vehicled.output_files import OutputFile, check_outputs, writing
from vehicled.settings import config_path

HELP = "Drive the plant model and write what the configured sensors would measure, and the truth."


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled simulate`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
examples:
  vehicled simulate --list
  vehicled simulate mixed_drive --config prototype --output drive.mcap --truth truth.csv
  vehicled simulate slalom --config prototype --road C --output rough.mcap --truth rough.csv
  vehicled simulate slalom --config my_car.yaml --gnss conventional --seed 7 --output slalom.csv"""
    parser.add_argument("scenario", metavar="SCENARIO", nargs="?", help="a built-in drive, or a YAML file")
    parser.add_argument("--list", action="store_true", help="list the built-in drives")
    parser.add_argument("--config", metavar="FILE", help="YAML file, or a shipped one's name")
    parser.add_argument("--output", metavar="LOG", help="where the measurements go: .mcap or .csv")
    parser.add_argument("--truth", metavar="TRUTH.csv", help="where the truth goes")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all noise (default: 1)")
    parser.add_argument(
        "--gnss", choices=("rtk", "conventional", "none"), help="the receiver, instead of the scenario's"
    )
    parser.add_argument(
        "--road",
        choices=("A", "B", "C", "D"),
        help="roughness by ISO 8608, from A (very good) to D (poor), instead of the scenario's",
    )


def run(args: argparse.Namespace) -> int:
    """Simulate the drive and write log and truth; returns the exit status. Raises UsageError before any work."""
    from vehicled.simulation.manoeuvres import MANOEUVRES
    from vehicled.simulation.scenario import find_scenario

    if args.list:
        for name, manoeuvre in MANOEUVRES.items():
            print(f"{name:25} {manoeuvre.duration:6.6g} s  {manoeuvre.help}")
        return 0
    for name, value in (("SCENARIO", args.scenario), ("--config", args.config), ("--output", args.output)):
        if value is None:
            raise UsageError(f"simulate: {name} is missing (see 'vehicled simulate --help')")
    if args.seed < 0:
        raise UsageError(f"simulate: expected a seed of at least 0, got {args.seed}")
    check_outputs(
        [
            OutputFile("--output", args.output, (".mcap", ".csv")),
            OutputFile("--truth", args.truth, (".csv",)),
        ],
        {"scenario": [args.scenario], "configuration": [config_path(args.config)]},
    )
    scenario = find_scenario(args.scenario)
    if args.gnss is not None:
        gnss = None if args.gnss == "none" else args.gnss
        scenario = dataclasses.replace(scenario, sensors=dataclasses.replace(scenario.sensors, gnss=gnss))
    if args.road is not None:
        ground = dataclasses.replace(scenario.ground, roughness=args.road, seed=args.seed)
        scenario = dataclasses.replace(scenario, ground=ground)

    from replay.csv_log import EstimatesWriter
    from replay.log import create_log
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.messages import CHANNELS
    from vehicled.progress import Progress
    from vehicled.simulation.drive import simulate
    from vehicled.simulation.equipment import find_equipment
    from vehicled.simulation.plant import make_plant

    configuration = load_daemon_configuration(args.config)
    equipment = find_equipment(configuration, configuration.find_signals())
    plant = make_plant(configuration, scenario.plant)
    with Progress("simulating", scenario.length, "s") as progress:
        measurements, truth = simulate(scenario, plant, args.seed, progress.update, equipment)
    measured = {channel for m in measurements for channel in m.values}
    with writing(args.output), create_log(args.output, [c for c in CHANNELS if c in measured]) as log:
        for m in measurements:
            log.write(m)
    print(f"{args.output}: {scenario.length:g} s, {len(measurements)} measurements")
    if args.truth is not None:
        with writing(args.truth), EstimatesWriter(args.truth, configuration.point) as writer:
            for row in truth.at(configuration.point).rows():
                writer.write(row)
        print(f"{args.truth}: {len(truth.t)} rows")
    return 0
