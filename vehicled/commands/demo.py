"""`vehicled demo`: the whole chain on a simulated car, live."""

import argparse
import dataclasses
import json
import math
import tempfile
from contextlib import ExitStack
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from vehicled.errors import RunError, UsageError

if TYPE_CHECKING:
    from vehicled.demo.rig import Begun, Ended, Rig, Simulated
    from vehicled.simulation.scenario import Scenario

HELP = "the whole chain on an emulated vehicle; nothing to configure"

_DRIVE = "mixed_drive"
_CAR = "prototype"
_SHORTEST = 4.0
"""s: the car stands for the first 1.5 s, and there is little to compare before it moves."""
_REDRAW_S = 0.1


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled demo`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = fill(
        "Simulates a drive of a car that is heavier and has less grip than its model, with the "
        "errors of real sensors; sends it, in real time, as the bytes of an IMU and a GNSS receiver on "
        "pseudo-terminals and as frames on a virtual CAN bus; runs the real daemon on them; subscribes "
        "to what that publishes; and compares with the truth.",
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
    parser.add_argument("--duration", type=float, metavar="S", help="only the first S seconds of the drive")
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
    from vehicled.configuration import load_configuration
    from vehicled.demo.configuration import write_configuration
    from vehicled.demo.result import DemoResult
    from vehicled.demo.rig import Job, Rig
    from vehicled.geodesy import WorldOrigin
    from vehicled.messages import ESTIMATE_COLUMNS
    from vehicled.progress import Progress
    from vehicled.scoring import score_receiver
    from vehicled.simulation.drive import Truth
    from vehicled.simulation.equipment import find_equipment

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
        with Rig(Job(scenario, args.seed, configuration, folder / "daemon.log")) as rig:
            drive, begun = _prepare(rig, args.json)
            title = f"{Path(args.scenario).stem}, {'RTK' if args.gnss == 'rtk' else args.gnss} receiver"
            end = _watch(rig, drive, begun, title, args.json)

    (recording,) = set(folder.glob("*.mcap")) - recordings
    recording = recording.replace(folder / "run.mcap")
    truth = Truth(drive.truth.t + begun.offset, drive.truth.values)
    files = {"recording": recording, "truth": folder / "truth.csv", "configuration": configuration}
    with Progress("comparing with the truth", 2, "parts", quiet=args.json) as progress:
        with EstimatesWriter(files["truth"]) as writer:
            for row in truth.rows():
                writer.write(row)
        progress.update(1)
        # matplotlib takes a second to load: not before it is needed.
        from vehicled.report import write_report
        from vehicled.report.data import load_run

        if args.no_report:
            data = load_run(recording, files["truth"])
        else:
            files["report"] = folder / "report.html"
            data = write_report(recording, files["report"], files["truth"])
        progress.update(2)
    assert data.scores is not None
    car = load_configuration(configuration)
    gnss = car.sensors.gnss
    assert gnss is not None
    latitude, longitude, height = scenario.sensors.find_origin(find_equipment(car, ()))
    origin = WorldOrigin(math.degrees(latitude), math.degrees(longitude), height)
    columns = dict(zip(ESTIMATE_COLUMNS, drive.truth.values.T, strict=True))
    receiver = score_receiver(drive.measurements, drive.truth.t, columns, gnss.antenna, origin)
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
    """The drive as far as asked for, with the receiver asked for, and its latency, s. Raises UsageError."""
    from vehicled.simulation.scenario import find_scenario
    from vehicled.simulation.sensor_settings import CONVENTIONAL, RTK

    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: expected 0 or more")
    scenario = find_scenario(args.scenario)
    if args.duration is not None and not _SHORTEST <= args.duration <= scenario.length:
        raise UsageError(f"--duration {args.duration:g}: expected {_SHORTEST:g} to {scenario.length:g} s")
    gnss = {"rtk": RTK, "conventional": CONVENTIONAL}[args.gnss]
    sensors = dataclasses.replace(scenario.sensors, gnss=gnss)
    duration = args.duration or scenario.duration
    return dataclasses.replace(scenario, duration=duration, sensors=sensors), gnss.latency


def _prepare(rig: "Rig", quiet: bool) -> "tuple[Simulated, Begun]":
    """Until the drive begins: every stage with its progress."""
    from vehicled.demo.rig import Begun, Simulated, Stage
    from vehicled.progress import Progress

    with ExitStack() as stack:
        shown = ""
        progress, done = Progress("starting", quiet=True), 0.0
        while True:
            message = rig.poll(_REDRAW_S)
            if isinstance(message, Simulated):
                drive = message
            if isinstance(message, Begun):
                return drive, message
            if isinstance(message, Stage):
                done = message.done
                if message.what != shown:
                    shown = message.what
                    stack.close()
                    progress = stack.enter_context(Progress(shown, message.total, message.unit, quiet=quiet))
            progress.update(done)


def _watch(rig: "Rig", drive: "Simulated", begun: "Begun", title: str, quiet: bool) -> "Ended":
    """Subscribe, and show what comes until the drive has ended."""
    from vehicled.demo.feed import Feed
    from vehicled.demo.rig import Ended
    from vehicled.demo.screen import Screen

    with Feed(begun.endpoint) as feed, Screen(title, drive.truth, begun.offset, quiet) as screen:
        while True:
            feed.take(_REDRAW_S)
            message = rig.poll(0)
            screen.show(feed)
            if isinstance(message, Ended):
                return message
