"""`vehicled check`: validates a configuration or mechanism, and describes its model."""

from __future__ import annotations

import argparse
import json
import time
from typing import TYPE_CHECKING, Any

from vehicled.messages import WHEELS

if TYPE_CHECKING:
    from vehicled.daemon.configuration import DaemonConfiguration
    from vehicled.vehicle.car import Car

HELP = "Validate a configuration, with its devices and its CAN database, or a mechanism; describe its model."

EPILOG = """\
examples:
  vehicled check prototype
  vehicled check my_car.yaml --json       one JSON object in SI units
  vehicled check four_bar                 a mechanism: pendulum, four_bar, five_bar, slider_crank, …

No device is opened. The first check of a kind of vehicle compiles its model, which the daemon then finds in
the cache."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled check`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("config", metavar="CONFIG", help="YAML file, or a shipped one's name")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Load the file and describe its model; returns the exit status. Raises SettingsError, UsageError."""
    from vehicled.multibody.files import is_mechanism

    if is_mechanism(args.config):
        found = _describe_mechanism(args.config)
        print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_mechanism_lines(found)))
        return 0
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.daemon.daemon import make_driver

    configuration = load_daemon_configuration(args.config)
    for name, device in configuration.daemon.devices.items():
        make_driver(name, device, lambda _: None)  # reads its options and what they name; opens nothing
    found = _describe(configuration)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


def _describe(configuration: DaemonConfiguration) -> dict[str, Any]:
    from vehicled.estimator import Estimator
    from vehicled.vehicle.topology import calc_topology

    begun = time.perf_counter()
    estimator = Estimator(configuration)
    seconds = time.perf_counter() - begun
    car = estimator.filter.car
    topology = calc_topology(car)
    # On level ground, wherever the filter has put it.
    car.rest()
    car.ground[:] = (0.0, 0.0, 1.0, 0.0)
    car.report()
    return {
        "bodies": len(topology.bodies),
        "coordinates": len(topology.coordinates),
        "constraints": len(topology.constraints),
        "rank": topology.rank,
        "dof": topology.degrees_of_freedom,
        "sensors": list(estimator.status()["sensors"]),
        "body_names": topology.bodies,
        "devices": {name: device.driver for name, device in configuration.daemon.devices.items()},
        "steering": configuration.sensors.steering.source,
        "tyre": configuration.vehicle.tyre,
        "drive": _describe_drive(car),
        "mass": configuration.vehicle.mass,
        "design_height": car.design_height,
        "wheel_loads": dict(zip(WHEELS, car.corner_output("tyre.fz").tolist(), strict=True)),
        "point": list(configuration.point),
        "rate": configuration.daemon.loop.rate,
        "ready_seconds": seconds,
    }


def _describe_drive(car: Car) -> dict[str, dict[str, Any]]:
    """By driven axle: share of the torque, and kind of differential."""
    vehicle = car.vehicle
    front = vehicle.calc_front_share(car.slip_stiffness)
    shares = {"front": front, "rear": 1.0 - front}
    return {
        axle: {"share": share, "differential": getattr(vehicle, axle).differential.kind}
        for axle, share in shares.items()
        if vehicle.driven in (axle, "all")
    }


def _describe_mechanism(name_or_path: str) -> dict[str, Any]:
    from vehicled.multibody.checks import calc_topology
    from vehicled.multibody.mechanism import Mechanism

    topology = calc_topology(Mechanism.load(name_or_path))
    return {
        "bodies": len(topology.bodies),
        "coordinates": len(topology.coordinates),
        "constraints": len(topology.constraints),
        "rank": topology.rank,
        "dof": topology.degrees_of_freedom,
        "sensors": [],
        "body_names": topology.bodies,
        "coordinate_names": topology.coordinates,
        "independent": topology.independent,
        "redundant": topology.redundant,
    }


def _mechanism_lines(found: dict[str, Any]) -> list[str]:
    rows = [
        ("bodies", f"{found['bodies']}: {', '.join(found['body_names'])}"),
        ("coordinates", f"{found['coordinates']}: {', '.join(found['coordinate_names'])}"),
        ("constraints", f"{found['constraints']}, of rank {found['rank']}"),
        ("redundant", "; ".join(found["redundant"]) or "none"),
        ("degrees of freedom", f"{found['dof']} = {found['coordinates']} − {found['rank']}"),
        ("independent", ", ".join(found["independent"]) or "none"),
    ]
    return [f"{name:<20} {value}" for name, value in rows]


def _lines(found: dict[str, Any]) -> list[str]:
    loads = ", ".join(f"{w} {load:.0f} N" for w, load in found["wheel_loads"].items())
    drive = [
        f"{axle} {100 * d['share']:.0f} %, {d['differential'].replace('_', ' ')}"
        for axle, d in found["drive"].items()
    ]
    rows = [
        ("bodies", f"{found['bodies']}: {_gather(found['body_names'])}"),
        ("coordinates", found["coordinates"]),
        ("constraints", f"{found['constraints']}, of rank {found['rank']}"),
        ("degrees of freedom", f"{found['dof']} = {found['coordinates']} − {found['rank']}"),
        ("mass", f"{found['mass']:.6g} kg"),
        ("origin over ground", f"{found['design_height']:.4g} m, at design height"),
        ("static wheel loads", loads),
        ("tyres", found["tyre"]),
        ("drive", "; ".join(drive)),
        ("steering from", found["steering"]),
        ("sensors", ", ".join(found["sensors"]) or "none"),
        ("devices", ", ".join(f"{n} ({d})" for n, d in found["devices"].items()) or "none"),
        ("estimates are of", f"({', '.join(f'{p:.4g}' for p in found['point'])}) m from the origin"),
        ("rate", f"{found['rate']:g} Hz"),
        ("estimator ready in", f"{found['ready_seconds']:.2f} s"),
    ]
    return [f"{name:<20} {value}" for name, value in rows]


def _gather(names: list[str]) -> str:
    """`chassis, rack, knuckle fl fr rl rr, …`: bodies of the corners once, with their corners."""
    corners: dict[str, list[str]] = {}
    for name in names:
        body, _, corner = name.rpartition(" ")
        if corner in WHEELS:
            corners.setdefault(body, []).append(corner)
        else:
            corners[name] = []
    return ", ".join(" ".join([body, *where]) for body, where in corners.items())
