"""`vehicled simulate`: a drive of the plant model as the log of a car's sensors, or a motion of a mechanism."""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vehicled.errors import UsageError
from vehicled.reading.settings import config_path
from vehicled.terminal.option_values import read_quantity
from vehicled.terminal.output_files import OutputFile, check_outputs, writing

if TYPE_CHECKING:
    from vehicled.multibody.forms import Form
    from vehicled.multibody.mechanism import Mechanism
    from vehicled.particles.configuration import ParticlesConfiguration
    from vehicled.simulation.motion import DrivenMechanism, SimulatedMotion

HELP = (
    "Drive the plant and write what the configured sensors would measure, and the truth; or move a mechanism."
)
_OF_DRIVES = {"scenario": "SCENARIO", "gnss": "--gnss", "road": "--road"}
_OF_MECHANISMS = ("start", "speed", "force", "input", "every", "step", "formulation", "integrator")
_DURATION, _EVERY, _STEP = 10.0, 0.01, 0.001
"""s"""
_MOST_SAMPLES = 10_000_000


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled simulate`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
examples:
  vehicled simulate --list
  vehicled simulate mixed_drive --config prototype --output drive.mcap --truth truth.csv
  vehicled simulate slalom --config prototype --road C --output rough.mcap --truth rough.csv
  vehicled simulate slalom --config my_car.yaml --gnss conventional --seed 7 --output slalom.csv
  vehicled simulate --mechanism four_bar --start theta=40deg --truth fall.csv
  vehicled simulate --mechanism four_bar --force 'theta=300*sin(3*t)' --output motion.csv
  vehicled simulate --mechanism four_bar --config devices.yaml --output readings.csv --truth truth.csv

With --mechanism, --output has what `vehicled identify --mechanism` reads: the independent coordinates, and the forces
of --force. With --config as well, it has what the sensors of that configuration of `vehicled particles` read."""
    parser.add_argument("scenario", metavar="SCENARIO", nargs="?", help="a built-in drive, or a YAML file")
    parser.add_argument("--list", action="store_true", help="list the built-in drives")
    parser.add_argument("--config", metavar="FILE", help="YAML file, or a shipped one's name")
    parser.add_argument("--output", metavar="LOG", help="where the measurements go: .mcap or .csv")
    parser.add_argument("--truth", metavar="TRUTH.csv", help="where the truth goes")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all noise (default: 1)")
    parser.add_argument(
        "--duration",
        metavar="T",
        help="in place of the scenario's; of a mechanism 10 s. In s, or with a unit as in 2min",
    )
    parser.add_argument(
        "--gnss", choices=("rtk", "conventional", "none"), help="the receiver, instead of the scenario's"
    )
    parser.add_argument(
        "--road",
        choices=("A", "B", "C", "D"),
        help="roughness by ISO 8608, from A (very good) to D (poor), instead of the scenario's",
    )
    of_mechanisms = parser.add_argument_group("mechanisms")
    of_mechanisms.add_argument(
        "--mechanism", metavar="FILE", help="move this: YAML file, or a shipped mechanism's name"
    )
    of_mechanisms.add_argument(
        "--start",
        metavar="NAME=VALUE",
        action="append",
        help="an independent coordinate at the start, such as theta=40deg or stroke=0.3; left out: the file's",
    )
    of_mechanisms.add_argument(
        "--speed", metavar="NAME=VALUE", action="append", help="its rate at the start, such as theta=90deg/s"
    )
    of_mechanisms.add_argument(
        "--force",
        metavar="NAME=EXPRESSION",
        action="append",
        help="a force on an independent coordinate (N, N·m), of t, coordinates and parameters, such as "
        "'theta=300*sin(3*t)'",
    )
    of_mechanisms.add_argument(
        "--input",
        metavar="NAME=EXPRESSION",
        action="append",
        help="an input of the file, of t and parameters, such as 'bump=0.05*sin(10*t)'; left out: zero",
    )
    of_mechanisms.add_argument("--every", metavar="T", help="time between samples (10 ms)")
    of_mechanisms.add_argument("--step", metavar="T", help="longest step of integration (1 ms)")
    of_mechanisms.add_argument("--formulation", choices=("ali3p", "matrix_r", "penalty", "lagrange"))
    of_mechanisms.add_argument("--integrator", choices=("trapezoidal", "runge_kutta_4", "forward_euler"))


def run(args: argparse.Namespace) -> int:
    """Simulate, and write log and truth; returns the exit status. Raises UsageError before any work, RunError."""
    if args.seed < 0:
        raise UsageError(f"simulate: expected a seed of at least 0, got {args.seed}")
    if args.mechanism is not None:
        for key, option in _OF_DRIVES.items():
            if getattr(args, key) is not None:
                raise UsageError(f"simulate: expected {option} or --mechanism, not both")
        return _simulate_mechanism(args)
    for key in _OF_MECHANISMS:
        if getattr(args, key) is not None:
            raise UsageError(f"simulate: --{key}: expected --mechanism FILE with it")
    return _simulate_drive(args)


def _read_time(option: str, text: str | None, default: float) -> float:
    """A time, s, above 0. Raises UsageError."""
    if text is None:
        return default
    time = read_quantity(option, text, "s")
    if not 0.0 < time < math.inf:
        raise UsageError(f"{option} {text}: expected a time above 0 s")
    return time


def _simulate_drive(args: argparse.Namespace) -> int:
    from vehicled.simulation.manoeuvres import MANOEUVRES
    from vehicled.simulation.scenario import find_scenario

    if args.list:
        for name, manoeuvre in MANOEUVRES.items():
            print(f"{name:25} {manoeuvre.duration:6.6g} s  {manoeuvre.help}")
        return 0
    for name, value in (("SCENARIO", args.scenario), ("--config", args.config), ("--output", args.output)):
        if value is None:
            raise UsageError(f"simulate: {name} is missing (see 'vehicled simulate --help')")
    check_outputs(
        [
            OutputFile("--output", args.output, (".mcap", ".csv")),
            OutputFile("--truth", args.truth, (".csv",)),
        ],
        {"scenario": [args.scenario], "configuration": [config_path(args.config)]},
    )
    scenario = find_scenario(args.scenario)
    if args.duration is not None:
        scenario = dataclasses.replace(scenario, duration=_read_time("--duration", args.duration, 0.0))
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
    from vehicled.simulation.drive import simulate
    from vehicled.simulation.equipment import find_equipment
    from vehicled.simulation.plant import make_plant
    from vehicled.terminal.progress import Progress

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


def _simulate_mechanism(args: argparse.Namespace) -> int:
    from vehicled.multibody.files import mechanism_path
    from vehicled.multibody.formulations import make_stepper
    from vehicled.particles.configuration import load_particles_configuration
    from vehicled.particles.readings import check_sensors
    from vehicled.simulation.motion import DrivenMechanism, simulate_motion
    from vehicled.simulation.motion_files import write_motion, write_truth
    from vehicled.terminal.progress import Progress

    if args.output is None and args.truth is None:
        raise UsageError("simulate: --output or --truth is missing (see 'vehicled simulate --help')")
    duration = _read_time("--duration", args.duration, _DURATION)
    every = _read_time("--every", args.every, min(_EVERY, duration))
    step = _read_time("--step", args.step, min(_STEP, every))
    if not every <= duration <= _MOST_SAMPLES * every:
        raise UsageError(
            f"--every {every:g} s: expected {duration / _MOST_SAMPLES:.3g} s to the duration, {duration:g} s"
        )
    endings = (".csv",) if args.config is None else (".mcap", ".csv")
    check_outputs(
        [OutputFile("--output", args.output, endings), OutputFile("--truth", args.truth, (".csv",))],
        {"mechanism": [mechanism_path(args.mechanism)], "configuration": [args.config]},
    )
    formulation, integrator = args.formulation or "ali3p", args.integrator or "trapezoidal"
    stepper = make_stepper(formulation, integrator)
    configuration = None if args.config is None else load_particles_configuration(args.config)
    # Particles use natural coordinates, whose names are those of their sensors.
    form: Form | None = None if configuration is None else "natural"
    forces, inputs = _split("--force", args.force), _split("--input", args.input)
    driven = DrivenMechanism(args.mechanism, forces, form, inputs)
    mechanism = driven.mechanism
    if configuration is not None:
        check_sensors(mechanism, configuration.sensors)
    _move(driven, args)
    _warn_of_step(mechanism, step, formulation, integrator)
    with Progress("simulating", duration, "s") as progress:
        motion = simulate_motion(driven, stepper, duration, every, step, progress.update)
    _warn_of_drift(mechanism, motion, min(step, every), integrator)
    if args.output is not None:
        if configuration is None:
            write_motion(args.output, motion)
        else:
            _write_readings(args.output, motion, configuration, args.seed)
        print(f"{args.output}: {motion.t[-1] - motion.t[0]:g} s, {len(motion.t)} samples")
    if args.truth is not None:
        write_truth(args.truth, motion)
        print(f"{args.truth}: {len(motion.t)} rows")
    print(_describe(motion))
    return 0


def _split(option: str, given: Sequence[str] | None) -> dict[str, str]:
    """Names and values of `NAME=VALUE`. Raises UsageError."""
    pairs: dict[str, str] = {}
    for text in given or ():
        name, sign, value = (part.strip() for part in text.partition("="))
        if not (name and sign and value):
            raise UsageError(f"{option} {text}: expected NAME=VALUE")
        if name in pairs:
            raise UsageError(f"{option} {text}: {name} is given twice")
        pairs[name] = value
    return pairs


def _move(driven: DrivenMechanism, args: argparse.Namespace) -> None:
    angles = driven.mechanism.compiled.model.name_angles()
    wanted: list[dict[str, float]] = []
    for option, given, per in (("--start", args.start, ""), ("--speed", args.speed, "/s")):
        wanted.append(
            {
                name: read_quantity(f"{option} {name}", text, ("rad" if name in angles else "m") + per)
                for name, text in _split(option, given).items()
            }
        )
    if any(wanted):
        driven.move(*wanted)


def _warn_of_step(mechanism: Mechanism, step: float, formulation: str, integrator: str) -> None:
    from vehicled.multibody.step_length import find_fast_motion

    fast = find_fast_motion(mechanism, step, formulation, integrator)
    if fast is not None:
        print(f"doubtful: --step: {fast.describe(step)}", file=sys.stderr)


def _warn_of_drift(mechanism: Mechanism, motion: SimulatedMotion, step: float, integrator: str) -> None:
    from vehicled.multibody.step_length import describe_drift

    drift = describe_drift(mechanism.description, motion.energy, motion.kinetic, step, integrator)
    if drift is not None:
        print(f"doubtful: --step: {drift}", file=sys.stderr)


def _write_readings(
    path: str, motion: SimulatedMotion, configuration: ParticlesConfiguration, seed: int
) -> None:
    from replay.log import create_log
    from vehicled.messages import CHANNELS
    from vehicled.particles.readings import make_readings

    measured = {channel for channels in configuration.sensors.values() for channel in channels}
    with writing(path), create_log(path, [c for c in CHANNELS if c in measured]) as log:
        for m in make_readings(motion, configuration.sensors, seed):
            log.write(m)


def _describe(motion: SimulatedMotion) -> str:
    """Measures of the motion's accuracy: energy, constraints, and steps that have not converged."""
    first, last = motion.energy[0], motion.energy[-1]
    text = f"energy {first:.6g} J at the start, {last:.6g} J at the end"
    text += f"; constraints within {motion.violation:.1g} of its size"
    return text + (f"; {motion.unconverged} steps beyond their tolerance" if motion.unconverged else "")
