"""`vehicled check`: validates a configuration, a mechanism or a log, and describes it."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from replay.foreign.options import add_mapping_argument, read_mapping
from vehicled.commands.checks.mechanism import (
    STAGES,
    count_parts,
    describe_doubt,
    describe_mechanism,
    make_lines,
)
from vehicled.messages import CHANNELS, WHEELS

if TYPE_CHECKING:
    from vehicled.daemon.configuration import DaemonConfiguration
    from vehicled.log_check.check import LogCheck
    from vehicled.particles.configuration import ParticlesConfiguration
    from vehicled.vehicle.car import Car

_STEP = 1e-3
"""Initial time step of a mechanism's generated code, s."""

HELP = (
    "Validate a configuration, with its devices and its CAN database, or a mechanism; describe its model. Validate "
    "a configuration of `vehicled particles`. "
    "With --log, find what is probably wrong in a log."
)

EPILOG = """\
examples:
  vehicled check prototype
  vehicled check my_car.yaml --json       one JSON object in SI units
  vehicled check --log drive.csv --config my_car.yaml     units, signs, exchanged wheels, time offsets, pauses
  vehicled check four_bar                 a mechanism: pendulum, four_bar, five_bar, slider_crank, …
  vehicled check four_bar --step 0.005 --integrator runge_kutta_4     is that step short enough?
  vehicled check prototype --mechanism    the car of a configuration in the language of mechanisms

No device is opened. The first check of a kind of vehicle compiles its model, which the daemon then finds in
the cache."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled check`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("checked", metavar="CONFIG", nargs="?", help="YAML file, or a shipped one's name")
    parser.add_argument("--log", metavar="LOG", help="check this log, in place of a configuration")
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="with --log: car and sensors; without, a usual car, IMU pointing ahead",
    )
    add_mapping_argument(parser, "the log given by --log")
    parser.add_argument("--mechanism", action="store_true", help="describe the car as a mechanism")
    parser.add_argument(
        "--step",
        type=float,
        metavar="S",
        help="of a mechanism: the time step, s, to be judged (default 0.001)",
    )
    parser.add_argument(
        "--integrator",
        choices=("trapezoidal", "runge_kutta_4", "forward_euler"),
        help="of a mechanism: the rule of that step (default trapezoidal, by ALI3-P)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Load the file and describe its model; returns the exit status. Raises SettingsError, UsageError."""
    from vehicled.errors import SettingsError, UsageError

    if args.log is not None:
        if args.checked is not None:
            raise UsageError("--log: expected its configuration as --config FILE")
        if args.mechanism:
            raise UsageError("--mechanism: expected a CONFIG to describe, not --log")
        return _check_log(args)
    of_logs = [name for name in ("config", "mapping") if getattr(args, name) is not None]
    if of_logs:
        raise UsageError(f"{', '.join(f'--{name}' for name in of_logs)}: only with --log LOG")
    if args.checked is None:
        raise UsageError("expected a CONFIG, or --log LOG (see 'vehicled check --help')")
    try:
        return _check_file(args)
    except SettingsError as error:
        if args.json:
            print(json.dumps({"mistakes": error.mistakes}, ensure_ascii=False))
        raise


def _check_file(args: argparse.Namespace) -> int:
    from vehicled.errors import UsageError
    from vehicled.multibody.files import is_mechanism
    from vehicled.particles.configuration import check_particles_configuration, is_particles_file
    from vehicled.reading.settings import config_path

    of_mechanism = is_mechanism(args.checked)
    if args.mechanism and not of_mechanism and is_particles_file(config_path(args.checked)):
        raise UsageError(
            f"{args.checked}: --mechanism: expected the configuration of a car, not of particles"
        )
    if args.mechanism or of_mechanism:
        return _check_mechanism(args)
    if args.step is not None or args.integrator is not None:
        raise UsageError("--step, --integrator: expected a mechanism with them")
    from vehicled.daemon.configuration import check_daemon_configuration

    path = config_path(args.checked)
    if is_particles_file(path):
        found = _describe_particles(check_particles_configuration(path))
        print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_particles_lines(found)))
        return 0
    found = _describe(check_daemon_configuration(args.checked))
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


def _check_mechanism(args: argparse.Namespace) -> int:
    import sys

    from vehicled.garbage import collector_off
    from vehicled.terminal.progress import Progress

    step, integrator = _read_step(args)
    quiet = args.json or not args.mechanism or not sys.stderr.isatty()
    # Without the collector it takes a tenth less: the expressions of a car are half a million objects.
    with collector_off(), Progress("describing", unit=f"of {len(STAGES)}", quiet=quiet) as progress:
        found = describe_mechanism(args.checked, step, integrator, lambda k: progress.update(k, STAGES[k]))
        progress.update(len(STAGES))
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(make_lines(found)))
    return 0


def _check_log(args: argparse.Namespace) -> int:
    import dataclasses
    import sys

    from replay.log import log_devices, open_log
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.errors import RunError
    from vehicled.log_check.check import USUAL_CAR, LogChecker
    from vehicled.terminal.progress import Progress

    configuration = None if args.config is None else load_daemon_configuration(args.config)
    devices = {} if configuration is None else log_devices(configuration.daemon.devices)
    log = open_log(args.log, devices, read_mapping(args))
    checker = LogChecker(configuration)
    with Progress("reading", unit="measurements", quiet=args.json) as progress:
        n = 0
        for n, m in enumerate(log.measurements(), start=1):
            checker.take(m)
            progress.update(n)
    if not args.json:
        log.problems.show(sys.stderr)
    if not n:
        raise RunError(f"{args.log}: no measurements in it")
    found = checker.find(log.problems.absurd)
    car = USUAL_CAR if args.config is None else args.config
    if args.json:
        result = {
            "log": args.log,
            "car": car,
            **dataclasses.asdict(found),
            "problems": dict(log.problems.counts),
        }
        print(json.dumps(_without_nan(result), ensure_ascii=False))
    else:
        print("\n".join(_log_lines(found, car, sum(log.problems.counts.values()))))
    return 0


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _log_lines(found: LogCheck, car: str, problems: int) -> list[str]:
    lines = [f"{'sensor':<14} {'samples':>9} {'rate':>10} {'longest pause':>14} {'latency':>10}  channels"]
    for r in found.rates:
        rate = f"{r.rate:.4g} Hz" if math.isfinite(r.rate) else "–"
        lines.append(
            f"{r.source:<14} {r.samples:>9} {rate:>10} {r.longest:>12.3f} s {r.latency * 1e3:>7.1f} ms  "
            f"{', '.join(r.channels)}"
        )
    if found.lags:
        lines += ["", f"{'channel':<18} {'compared with':<14} {'later by':>15} {'correlation':>12} {'of':>9}"]
    for lag in found.lags:
        known = math.isfinite(lag.sigma)
        later = f"{lag.offset * 1e3:.0f} ± {lag.sigma * 1e3:.0f} ms" if known else "–"
        lines.append(
            f"{lag.channel:<18} {lag.reference:<14} {later:>15} {lag.correlation:>12.3f} "
            f"{lag.seconds:>7.0f} s"
        )
    lines.append("")
    for motion, channels in found.not_compared.items():
        if channels:
            alone = found.is_alone(motion)
            why = f"no other sensor shows {motion} beside" if alone else f"too few {motion} for"
            lines.append(f"not compared: {why} {', '.join(channels)}")
    if not found.findings:
        beside = f" beside the {problems} problem{'s' * (problems > 1)} of reading it" if problems else ""
        lines.append(f"nothing wrong was found{beside} (compared as for {car})")
    for f in found.findings:
        lines.append(f"{f.kind}: {', '.join(f.channels)}: {f.text}")
    return lines


def _describe(configuration: DaemonConfiguration) -> dict[str, Any]:
    from vehicled.estimator import Estimator
    from vehicled.reading.expectations import join_path
    from vehicled.sources.latency_doubts import find_latency_doubts
    from vehicled.sources.place_doubts import find_place_doubts
    from vehicled.vehicle.doubts import find_doubts
    from vehicled.vehicle.steering import SteeringGeometry
    from vehicled.vehicle.topology import calc_topology

    begun = time.perf_counter()
    estimator = Estimator(configuration)
    seconds = time.perf_counter() - begun
    car = estimator.filter.car
    topology = calc_topology(car)
    # On level ground, wherever the filter has placed the car.
    car.rest()
    car.ground[:] = (0.0, 0.0, 1.0, 0.0)
    car.report()
    sensors, vehicle, height = configuration.sensors, configuration.vehicle, car.output("z")
    of_sensors = find_place_doubts(sensors, vehicle, height)
    of_sensors += find_latency_doubts(sensors, configuration.filter.memory)
    doubts = [
        *((join_path("vehicle", key), text) for key, text in find_doubts(car)),
        *((join_path("sensors", key), text) for key, text in of_sensors),
    ]
    return {
        **count_parts(topology),
        **_sort_sensors(configuration, estimator.status()["sensors"]),
        "body_names": topology.bodies,
        "devices": {name: device.driver for name, device in configuration.daemon.devices.items()},
        "steering": configuration.sensors.steering.source,
        "tyre": configuration.vehicle.tyre,
        "drive": _describe_drive(car),
        "mass": configuration.vehicle.mass,
        "design_height": car.design_height,
        "rest_height": height,
        "wheel_loads": dict(zip(WHEELS, car.corner_output("tyre.fz").tolist(), strict=True)),
        "rack_per_angle": SteeringGeometry(car.vehicle).rack_per_angle,
        "point": list(configuration.point),
        "rate": configuration.daemon.loop.rate,
        "ready_seconds": seconds,
        "doubtful": [{"key": key, "text": text} for key, text in doubts],
    }


def _sort_sensors(configuration: DaemonConfiguration, kinds: Iterable[str]) -> dict[str, list[str]]:
    """Kinds of observation that the file configures, and others, which are used if they are measured."""
    import yaml

    from vehicled.sources.sensors import find_kinds

    written = yaml.safe_load(configuration.text).get("sensors") or {}
    sent = configuration.find_signals()
    found: dict[str, list[str]] = {"sensors": [], "sensors_by_default": []}
    for kind in kinds:
        device = kind.partition(".")[0] + "."
        limits = ((name, section.LIMITS) for name, section in find_kinds().items())
        of_device = [one for one in limits if any(channel.startswith(device) for channel in one[1])]
        name, channels = next((one for one in of_device if kind in one[1]), of_device[0])
        # If some channels of a section are on the bus, the others are not available.
        is_there = name in written and (kind not in channels or kind in sent or sent.isdisjoint(channels))
        found["sensors" if is_there else "sensors_by_default"].append(kind)
    return found


def _describe_particles(configuration: ParticlesConfiguration) -> dict[str, Any]:
    return {
        "particles": configuration.particles.count,
        "sensors": [
            {
                "source": device,
                "channel": channel,
                "measures": ("rate of " if o.rate is not None else "") + o.measured,
                "sigma": o.sigma,
                "unit": CHANNELS[channel],
            }
            for device, channels in configuration.sensors.items()
            for channel, o in channels.items()
        ],
        "devices": {name: device.driver for name, device in configuration.daemon.devices.items()},
    }


def _particles_lines(found: dict[str, Any]) -> list[str]:
    sensors = [
        f"{s['source']}.{s['channel']}: {s['measures']} to {s['sigma']:.4g} {s['unit']}"
        for s in found["sensors"]
    ]
    devices = [f"{name} ({driver})" for name, driver in found["devices"].items()] or ["none: for logs only"]
    rows = [
        ("particles", found["particles"]),
        ("sensors", ", ".join(sensors)),
        ("devices", ", ".join(devices)),
    ]
    return [
        *(f"{name:<13} {value}" for name, value in rows),
        "whether the sensors fit a mechanism: vehicled particles --mechanism FILE --config this one",
    ]


def _describe_drive(car: Car) -> dict[str, dict[str, Any]]:
    """For each driven axle: share of the torque, and kind of differential."""
    vehicle = car.vehicle
    front = vehicle.calc_front_share(car.slip_stiffness)
    shares = {"front": front, "rear": 1.0 - front}
    return {
        axle: {"share": share, "differential": getattr(vehicle, axle).differential.kind}
        for axle, share in shares.items()
        if vehicle.driven in (axle, "all")
    }


def _read_step(args: argparse.Namespace) -> tuple[float, str]:
    from vehicled.errors import UsageError

    step = _STEP if args.step is None else args.step
    if not 0.0 < step < math.inf:
        raise UsageError(f"--step {step}: expected a time above 0 s")
    return step, args.integrator or "trapezoidal"


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
        (
            "origin over ground",
            f"{found['rest_height']:.4g} m at rest, {found['design_height']:.4g} m in design position",
        ),
        ("static wheel loads", loads),
        ("tyres", found["tyre"]),
        ("drive", "; ".join(drive)),
        ("steering from", found["steering"]),
        ("rack", _rack_text(found["rack_per_angle"])),
        ("sensors", ", ".join(found["sensors"]) or "none"),
        ("also, if measured", ", ".join(found["sensors_by_default"]) or "none"),
        ("devices", ", ".join(f"{n} ({d})" for n, d in found["devices"].items()) or "none"),
        ("estimates are of", f"({', '.join(f'{p:.4g}' for p in found['point'])}) m from the origin"),
        ("rate", f"{found['rate']:g} Hz"),
        ("estimator ready in", f"{found['ready_seconds']:.2f} s"),
        (
            "as a mechanism",
            "with --mechanism: its coordinates, constraints and operations (some seconds)",
        ),
    ]
    lines = [f"{name:<20} {value}" for name, value in rows]
    return lines + [describe_doubt(doubt) for doubt in found["doubtful"]]


def _rack_text(per_angle: float) -> str:
    side = "left" if per_angle > 0.0 else "right"
    return f"moves {side} to steer left, {1e3 * abs(per_angle) * math.radians(1.0):.2g} mm per degree of the wheels"


def _gather(names: list[str]) -> str:
    """`chassis, rack, knuckle fl fr rl rr, …`: bodies of the corners once, followed by their corners."""
    corners: dict[str, list[str]] = {}
    for name in names:
        body, _, corner = name.rpartition(" ")
        if corner in WHEELS:
            corners.setdefault(body, []).append(corner)
        else:
            corners[name] = []
    return ", ".join(" ".join([body, *where]) for body, where in corners.items())
