"""`vehicled bench points`: wheels among the sigma points of the car's UKF."""

import argparse
import dataclasses
import json
import math
from collections.abc import Iterator
from typing import Any

DESCRIPTION = """\
Whether wheels should be among the sigma points of the car's UKF. By speed: frequency and decay of a wheel's spin on
its tyre, its eigenvalue times the step of 4 ms, the share of a displaced spin that is left after a step, what it
changes of the car's speed, and how curved the response to ±0.5 rad/s is, rolling and on the brake. Then the processor
time that all points take for a step: as they are, with the slips of the wheels, and with their angles too; and its
share of 4 ms. With `--drive`, the UKF on `mixed_drive` with either receiver: as configured, and with slips that last
as long as those of points would."""

_SPEED = 20.0
"""m/s, at which slips of points are taken for the drive."""
_SEED = 0


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench points`."""
    parser.add_argument("--drive", action="store_true", help="drive too; some minutes")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print modes, costs, and errors if asked; returns the exit status."""
    from vehicled.configuration import load_configuration
    from vehicled.simulation.scenario import find_scenario
    from vehicled.studies.benchmarks import wheel_points
    from vehicled.studies.benchmarks.vehicle_observers import CONFIGURATION, DRIVE, RECEIVERS
    from vehicled.terminal.progress import Progress

    configuration = load_configuration(CONFIGURATION)
    modes = wheel_points.find_modes(configuration)
    found: dict[str, Any] = {
        "modes": [dataclasses.asdict(mode) for mode in modes],
        "costs": wheel_points.measure_costs(configuration),
        "drives": [],
    }
    if args.drive:
        kept = min(mode.kept for mode in modes if mode.speed == _SPEED)
        for receiver in RECEIVERS:
            steps, truth = wheel_points.measure_drive(receiver, _SEED)
            for share in (None, kept):
                with Progress("driving", find_scenario(DRIVE).length, "s", quiet=args.json) as progress:
                    row = wheel_points.run_drive(steps, truth, share, progress.update)
                found["drives"].append({"receiver": receiver, "seed": _SEED} | row)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


def _lines(found: dict[str, Any]) -> Iterator[str]:
    yield "speed, m/s  axle      Hz  decay, ms  |λ| h  left  to speed, m/s per rad/s  curvature  braked"
    for m in found["modes"]:
        decay = 1e3 * m["decay"]
        yield (
            f"{m['speed']:>10g}  {m['axle']:<5} {m['frequency']:>6.1f} {decay:>10.1f} {m['per_step']:>6.2f}"
            f" {m['kept']:>5.2f} {m['to_speed']:>24.1e} {m['curvature']:>10.1e} {m['braked_curvature']:>7.1e}"
        )
    yield ""
    yield "    points       µs  µs each  of 4 ms"
    for c in found["costs"]:
        yield f"{c['points']:>10} {c['us']:>8.0f} {c['us_per_point']:>8.1f} {100 * c['share']:>6.0f} %"
    if found["drives"]:
        yield ""
        yield (
            "receiver      slips last, s  horizontal, m   yaw, °  vx, m/s  sideslip, °"
            "  NEES horizontal   yaw    vx  sideslip  NIS wheels     µs"
        )
    for d in found["drives"]:
        rmse, nees = d["rmse"], d["nees"]
        yaw, sideslip = math.degrees(rmse["yaw"]), math.degrees(rmse["sideslip"])
        yield (
            f"{d['receiver']:<13} {d['slip_time']:>13.3f} {rmse['horizontal']:>14.3f} {yaw:>8.3f} {rmse['vx']:>8.4f}"
            f" {sideslip:>12.3f} {nees['horizontal']:>16.2f} {nees['yaw']:>5.2f} {nees['vx']:>5.2f}"
            f" {nees['sideslip']:>9.2f} {d['wheels_nis']:>11.2f} {d['us_per_step']:>6.0f}"
        )
