"""`vehicled bench live`: what a live step and a sample cost, beside the same steps in a warm loop."""

import argparse
import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

DESCRIPTION = """\
A live daemon with its recorder, on emulated devices, and a subscriber, each in a process of its own. The drive
mixed_drive is repeated for as long as asked for. Measured are the time of a step; for the IMU and the CAN bus the
time from a sample's bytes on the line to the arrival of the first estimate that includes it; deadlines, processor
time and memory; and then the time of the same steps in a warm loop, from the recording, which takes 25 MB a minute in
the folder for temporary files (TMPDIR)."""

EPILOG = """\
examples:
  vehicled bench live                               a minute of the prototype
  vehicled bench live --config my_car.yaml --json
  vehicled bench live --duration 1h --load          an hour, beside as many busy processes as there are processors
"""

_LEAST_S = 3.0
"""Shortest drive, s: the filter starts after 0.1 to 3 s."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench live`."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--config", default="prototype", metavar="FILE", help="YAML file, or a shipped one's name (prototype)"
    )
    parser.add_argument(
        "--duration", default="60", metavar="T", help="seconds, or with a unit as in 10min, 1h (60)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all noise (1)")
    parser.add_argument(
        "--load", action="store_true", help="keep all processors busy with processes of ordinary priority"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print what was measured; returns the exit status. Raises UsageError, RunError."""
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.errors import UsageError
    from vehicled.estimator import Estimator
    from vehicled.rig.configuration import write_configuration
    from vehicled.studies.live.drive import drive_length, make_drive
    from vehicled.studies.live.run import bench_live, bench_warm, list_recordings
    from vehicled.terminal.progress import Progress

    seconds = _read_duration(args.duration)
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: expected 0 or more")
    load = len(os.sched_getaffinity(0)) if args.load else 0
    # Progress is printed on stderr also with --json: an hour without output would be long.
    with tempfile.TemporaryDirectory(prefix="vehicled-live-") as name:
        folder = Path(name)
        path = folder / "configuration.yaml"
        write_configuration(args.config, path, folder, folder)
        car = load_daemon_configuration(path)
        Estimator(
            car
        )  # compiles the model, if that is still to be done, before anything waits for the daemon
        with Progress("simulating", drive_length(seconds), "s") as progress:
            drive = make_drive(car, seconds, args.seed, progress.update)
        with Progress("driving", seconds, "s") as progress:
            found = bench_live(car, path, folder, drive, load, progress.update)
        with Progress("warm loop") as progress:
            warm = bench_warm(car, list_recordings(folder)[0])
    found["breakdown_us"]["warm"] = warm.pop("parts_us")
    found |= warm | {"load": load}
    print(json.dumps(found) if args.json else "\n".join(_lines(found)))
    return 0


def _read_duration(text: str) -> float:
    """Duration, s. Raises UsageError."""
    from vehicled.errors import UsageError
    from vehicled.terminal.option_values import read_quantity

    duration = read_quantity("--duration", text, "s")
    if not _LEAST_S <= duration < math.inf:
        raise UsageError(f"--duration {text}: expected {_LEAST_S:g} s or more, such as 60, 10min, 1h")
    return duration


_HEADINGS = f"{'median':>9}{'99 %':>9}{'99.9 %':>9}"
_STAGES = {"to_driver": "line, driver", "to_step": "until its step", "to_subscriber": "step, publisher"}
_PARTS = {
    "predict": "predict",
    "update": "updates",
    "correct": "corrections",
    "adapt": "noise and road",
    "output": "output",
    "sources": "sources, screening",
    "step": "step",
    "waiting": "  of it waiting",
}


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{'µs':<26}{_HEADINGS}"]
    rows = {
        "step": found["step_us"],
        "step, queue and delivery": found["tick_us"],
        "begun late by": found["late_us"],
        "sample to subscriber": found["latency_us"],
    } | {f"  {name}": found["latency_us"][name] for name in found["latency_stages_us"]}
    lines += [_row(name, times) for name, times in rows.items()]
    ratio = found["step_us"]["median"] / found["warm_us"]
    lines += [
        f"{'step in a warm loop':<26}{found['warm_us']:>9.0f}{found['warm_p99_us']:>9.0f}"
        f"   live over warm: {ratio:.2f}",
        "",
        f"{'where a sample waits, µs':<26}{_HEADINGS}",
    ]
    for name, stages in found["latency_stages_us"].items():
        lines += [_row(f"  {name}: {text}", stages[stage]) for stage, text in _STAGES.items()]
    lines += ["", f"{'a step, medians, µs':<26}{'live':>9}{'warm':>9}"]
    live, warm = found["breakdown_us"]["live"], found["breakdown_us"]["warm"]
    lines += [
        f"{text:<26}{live[part]['median']:>9.0f}{warm[part]['median']:>9.0f}" for part, text in _PARTS.items()
    ]
    lines += [f"{'deadline to step':<26}{live['begun_after']['median']:>9.0f}", ""]
    growth = found["rss_mb_per_hour"]
    slope = "" if growth is None else f", {growth:+.2f} MB an hour after the first minute"
    load = f", beside {found['load']} busy processes" if found["load"] else ""
    return [
        *lines,
        f"{'deadlines':<26}{found['missed']} of {found['steps']} missed in {found['seconds']:.0f} s{load}"
        + (f"; the filter restarted {found['restarts']} times" if found["restarts"] else ""),
        f"{'samples':<26}{found['lost']} lost; sent at most {found['emulation_late_us']:.0f} µs late",
        f"{'processor':<26}{100 * found['cpu_share']:.0f} % of one ({found['scheduling']})",
        f"{'memory':<26}{found['rss_mb']:.0f} MB{slope}; recording {found['recording_mb']:.1f} MB",
    ]


def _row(name: str, times: dict[str, float]) -> str:
    return f"{name:<26}{times['median']:>9.0f}{times['p99']:>9.0f}{times['p999']:>9.0f}"
