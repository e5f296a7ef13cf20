"""`vehicled demo`: the whole chain on a simulated car, live."""

import argparse
import dataclasses
import json
import math
import tempfile
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from vehicled.errors import RunError, UsageError

if TYPE_CHECKING:
    from vehicled.daemon.configuration import DaemonConfiguration
    from vehicled.messages import Measurement
    from vehicled.rig.rig import DriveEnd, Rig
    from vehicled.simulation.drive import Truth
    from vehicled.simulation.scenario import Scenario

HELP = "the whole chain on an emulated vehicle; nothing to configure"

_DRIVE = "mixed_drive"
_CAR = "prototype"
_SHORTEST = 25.0
"""Shortest drive, s: until the receiver's latency is found, after some ten seconds, an RTK receiver alone is
more accurate than the estimate."""
_REDRAW_S = 0.1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled demo`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = fill(
        "Simulates a drive of a car that is heavier and has less grip than its model, with the "
        "errors of real sensors; sends it, in real time, as the bytes of an IMU, a GNSS receiver and a CAN "
        "adapter on pseudo-terminals; runs the real daemon on them; subscribes to what that publishes; and "
        "compares with the truth. Devices and daemon are processes of their own.",
        90,
    )
    parser.epilog = """\
examples:
  vehicled demo                              a minute with an RTK receiver
  vehicled demo --gnss conventional          the same with a receiver that is a metre off and 80 ms late
  vehicled demo --json > result.json         the figures as one JSON object, in SI units and radians"""
    parser.add_argument(
        "--gnss", choices=("rtk", "conventional"), default="rtk", help="the receiver (default: %(default)s)"
    )
    parser.add_argument(
        "--scenario",
        default=_DRIVE,
        metavar="NAME|FILE",
        help="another drive, as `vehicled simulate` takes it (default: %(default)s)",
    )
    parser.add_argument(
        "--duration",
        type=float,
        metavar="S",
        help=f"only the first S seconds of the drive, at least {_SHORTEST:g}",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of all noise (default: %(default)s)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("vehicled-demo"),
        metavar="FOLDER",
        help="for recording, truth and report (default: ./%(default)s)",
    )
    parser.add_argument("--no-report", action="store_true", help="do not draw the report")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Simulate, run the daemon on emulated devices, score, report; the exit status. Raises UsageError, RunError."""
    from replay.csv_log import EstimatesWriter
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.demo.result import DemoResult
    from vehicled.maths.geodesy import WorldOrigin
    from vehicled.messages import ESTIMATE_COLUMNS
    from vehicled.rig.configuration import write_configuration
    from vehicled.rig.rig import Rig
    from vehicled.scoring.scores import score_receiver
    from vehicled.simulation.drive import Truth
    from vehicled.simulation.equipment import find_equipment
    from vehicled.terminal.output_files import writing
    from vehicled.terminal.progress import Progress

    scenario, latency = _scenario(args)
    folder: Path = args.output
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"{folder}: expected a folder") from None
    recordings = set(folder.glob("*.mcap"))
    configuration = folder / "configuration.yaml"
    with tempfile.TemporaryDirectory(prefix="vehicled-demo-") as ports:
        write_configuration(_CAR, configuration, Path(ports), folder, latency)
        car = load_daemon_configuration(configuration)
        measurements, simulated = _simulate(car, scenario, args.seed, args.json)
        with Rig(car, configuration, folder / "daemon.log", measurements) as rig:
            start = rig.begin()
            offset = start - measurements[0].arrival
            title = f"{Path(args.scenario).stem}, {'RTK' if args.gnss == 'rtk' else args.gnss} receiver"
            end = _watch(rig, simulated, offset, title, args.json)

    made = set(folder.glob("*.mcap")) - recordings
    if len(made) != 1:
        raise RunError(f"{folder}: expected one recording, found {len(made)}; see {folder / 'daemon.log'}")
    recording = made.pop().replace(folder / "run.mcap")
    truth = Truth(simulated.t + offset, simulated.values)
    files = {"recording": recording, "truth": folder / "truth.csv", "configuration": configuration}
    with Progress("comparing with the truth", 2, "parts", quiet=args.json) as progress:
        with writing(files["truth"]), EstimatesWriter(files["truth"]) as writer:
            for row in truth.rows():
                writer.write(row)
        progress.update(1)
        from vehicled.report import write_report
        from vehicled.report.data import load_run

        if args.no_report:
            data = load_run(recording, files["truth"])
        else:
            files["report"] = folder / "report.html"
            (data,) = write_report([recording], files["report"], files["truth"])
        progress.update(2)
    assert data.scores is not None
    gnss = car.sensors.gnss
    assert gnss is not None
    latitude, longitude, height = scenario.sensors.find_origin(find_equipment(car, ()))
    origin = WorldOrigin(math.degrees(latitude), math.degrees(longitude), height)
    columns = dict(zip(ESTIMATE_COLUMNS, simulated.values.T, strict=True))
    receiver = score_receiver(measurements, simulated.t, columns, gnss.antenna, origin)
    result = DemoResult(scenario.length, receiver, data.scores, end)
    if args.json:
        print(json.dumps(result.as_json() | {"files": {k: str(v) for k, v in files.items()}}))
    else:
        print()
        print("\n".join([*result.table(), ""]))
        for name, path in files.items():
            print(f"{name:<26}{path}")
    if fault := result.fault():
        raise RunError(f"demo: {fault}")
    return 0


def _scenario(args: argparse.Namespace) -> "tuple[Scenario, float]":
    """The requested part of the drive with the requested receiver, and its latency, s. Raises UsageError."""
    from vehicled.simulation.scenario import find_scenario
    from vehicled.simulation.sensor_settings import CONVENTIONAL, RTK

    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: expected 0 or more")
    scenario = find_scenario(args.scenario)
    shortest = min(_SHORTEST, scenario.length)
    if args.duration is not None and not shortest <= args.duration <= scenario.length:
        raise UsageError(f"--duration {args.duration:g}: expected {shortest:g} to {scenario.length:g} s")
    gnss = {"rtk": RTK, "conventional": CONVENTIONAL}[args.gnss]
    sensors = dataclasses.replace(scenario.sensors, gnss=gnss)
    duration = args.duration or scenario.duration
    return dataclasses.replace(scenario, duration=duration, sensors=sensors), gnss.latency


def _simulate(
    car: "DaemonConfiguration", scenario: "Scenario", seed: int, quiet: bool
) -> "tuple[list[Measurement], Truth]":
    """Measurements of the sensors in order of arrival, and the truth, both on the time of the drive."""
    from vehicled.estimator import Estimator
    from vehicled.simulation.drive import simulate
    from vehicled.simulation.equipment import find_equipment
    from vehicled.simulation.plant import make_plant
    from vehicled.terminal.progress import Progress

    plant = make_plant(car, scenario.plant)
    Estimator(car)  # compiles its model for the daemon, which then loads it from the disk
    equipment = find_equipment(car, car.find_signals())
    with Progress("simulating", scenario.length, "s", quiet=quiet) as progress:
        return simulate(scenario, plant, seed, progress.update, equipment)


def _watch(rig: "Rig", truth: "Truth", offset: int, title: str, quiet: bool) -> "DriveEnd":
    """Subscribe, and show the messages until the drive has ended."""
    from vehicled.demo.screen import Screen
    from vehicled.live.feed import Feed
    from vehicled.live.subscriber import Publication

    with Feed(Publication(rig.endpoint)) as feed, Screen(title, truth, offset, quiet) as screen:
        while not rig.is_over():
            feed.take(_REDRAW_S)
            screen.show(feed)
        return rig.finish()
