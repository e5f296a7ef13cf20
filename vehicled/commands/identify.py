"""`vehicled identify`: parameters of a car from its drives, or of a mechanism from its motions."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from replay.foreign.options import add_mapping_argument, read_mapping
from vehicled.jobs.options import add_executor_arguments, open_executor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from replay.foreign.mapping import LogMapping
    from vehicled.daemon.daemon import DaemonOptions
    from vehicled.identification.mechanism.estimate import Recorded
    from vehicled.identification.vehicle.names import Parameter
    from vehicled.identification.vehicle.session import Recording
    from vehicled.multibody.mechanism import Mechanism

HELP = (
    "Find parameters of a car (masses, tyres, springs, mounting of sensors) from recorded drives, or those of a "
    "mechanism from recorded motions and forces."
)

EPILOG = """\
The filter that runs in the car predicts every measurement; this command finds the parameters with which it does so
best, given the values in the file and how accurate such values usually are. Inputs are interpolated between their
samples, and the plant noise is that which fits the model best (the file keeps its own). A parameter with little
influence on the drives is named and left as it is; so is one that can be found only together with others, and one
that makes the prediction of the drive that was not used worse.

Straight driving has no information on tyres: drive corners at all speeds, brake, accelerate. Include friction
(`*.friction`) only if the car was driven at the limit: otherwise errors of the model are mistaken for low friction.
Where wheel torques are measured, forces and masses are no more accurate than those (sensors.wheel_torques.scale).

The new file differs from the old one in the values that were found, and nothing else: units and comments stay.

`--mechanism` takes a mechanism's file instead, and CSV logs of its motion: t (s), each independent coordinate by its
name (m, rad), and NAME.force (N, N·m) for each one that is driven. Masses, centres of mass, inertia, springs, dampers
and friction are found together, from where the file has them (its values count as known to 30 %); what no motion can
distinguish, what this one does not determine, and what makes the prediction of the log of --validate worse, is named
and keeps the file's value. Logs in other units, and such whose forces the mechanism does not explain, are refused.

examples:
  vehicled identify drive.mcap --config my_car.yaml --output found.yaml
  vehicled identify a.mcap b.mcap --config my_car.yaml --validate c.mcap --parameters 'mass,*.friction' --plots found
  vehicled identify --config my_car.yaml --list            the parameters, and their values in the file
  vehicled tune drive.mcap --config found.yaml             next: the remaining noise
  vehicled identify motion.csv --mechanism four_bar --output found.yaml --validate other.csv
"""

_ONLY_CARS = ("parameters", "mapping", "list", "plots", "workers", "scheduler")
"""Options that are not for a mechanism."""
_FORCE = ".force"
"""Suffix of a log's channels of forces."""
_LARGEST = 1e12
"""Limit on a log's coordinates and forces in any unit: larger numbers cannot be measurements."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled identify`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "--parameters",
        metavar="NAMES",
        help="between commas, with * for any; default: mass, centre of mass, yaw inertia, tyre stiffness, springs, "
        "steering offset; friction too where a drive reaches the limit of grip",
    )
    parser.add_argument("--list", action="store_true", help="list the parameters of this configuration")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--config", metavar="VEHICLE", help="YAML file, or a shipped one's name")
    what.add_argument("--mechanism", metavar="FILE", help="a mechanism's YAML file, or a shipped one's name")
    add_common_arguments(parser, "any log that `replay` reads; with --mechanism a CSV file")


def add_common_arguments(parser: argparse.ArgumentParser, logs: str = "any log that `replay` reads") -> None:
    """Declare the common arguments of `vehicled identify` and `vehicled tune`: logs, their roles, and output."""
    parser.add_argument("logs", nargs="*", type=Path, metavar="LOG", help=logs)
    parser.add_argument("--output", type=Path, metavar="VEHICLE.yaml", help="where the new file goes")
    parser.add_argument(
        "--validate",
        type=Path,
        metavar="LOG",
        help="another log to compare on (default for cars: the last third of the last log)",
    )
    add_mapping_argument(parser, "all logs")
    add_executor_arguments(parser)
    parser.add_argument(
        "--anyway", action="store_true", help="use logs that are in doubt, as by length or units"
    )
    parser.add_argument("--plots", type=Path, metavar="DIRECTORY", help="draw what was found")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """List the parameters or estimate them from the logs; returns the exit status. Raises UsageError, RunError."""
    if args.mechanism is not None:
        return _run_mechanism(args)
    from vehicled.identification.vehicle.names import PARAMETERS

    if args.list:
        return list_all(args, PARAMETERS)
    return run_with(args, args.parameters, tuning=False)


def run_with(args: argparse.Namespace, names: str | None, tuning: bool) -> int:
    """Estimate parameters by name, or noise when `tuning`; returns the exit status. Raises UsageError, RunError.

    `names`: None for the usual parameters.
    """
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.identification.vehicle.session import as_json, format_session
    from vehicled.identification.vehicle.session import run as run_session
    from vehicled.reading.settings import config_path

    _check_logs(args, "drive")
    _check_output(args, {"configuration": [config_path(args.config)]})
    daemon = load_daemon_configuration(args.config).daemon
    mapping = read_mapping(args)
    logs = [_read(path, daemon, mapping) for path in args.logs]
    validate = None if args.validate is None else _read(args.validate, daemon, mapping)
    # A single drive needs no other process, and can show its progress.
    alone = args.scheduler is None and (len(logs) == 1 or args.workers == 1)
    with contextlib.nullcontext() if alone else open_executor(args, len(logs)) as executor:
        session = run_session(logs, args.config, names, tuning, validate, args.anyway, args.json, executor)
    if args.output is not None:
        from vehicled.terminal.output_files import write_output

        write_output(args.output, session.text.encode())
    if args.plots is not None:
        from vehicled.report.identification import draw

        draw(session, args.plots)
    if args.json:
        print(json.dumps(as_json(session)))
    else:
        print("\n".join(format_session(session)))
        if args.output is not None:
            print(f"{args.output}: written")
    return 0


def _check_logs(args: argparse.Namespace, what: str) -> None:
    """Raise UsageError without a log, and for a log given twice: it would count twice, or validate itself."""
    from vehicled.errors import UsageError

    if not args.logs:
        raise UsageError(f"LOG is missing: expected at least one recorded {what}")
    seen = set()
    for path in [*args.logs, *([] if args.validate is None else [args.validate])]:
        if path.resolve() in seen:
            raise UsageError(f"{path}: given twice; expected each log once, and another one for --validate")
        seen.add(path.resolve())


def _check_output(args: argparse.Namespace, source: dict[str, list[Path]]) -> None:
    """Raise UsageError if the new file would replace a log or `source`, or if its folder does not exist."""
    from vehicled.terminal.output_files import OutputFile, check_folder, check_outputs

    check_folder("--plots", args.plots)
    check_outputs(
        [OutputFile("--output", args.output, (".yaml", ".yml"))],
        {**source, "log": [*args.logs, args.validate], "mapping": [args.mapping]},
    )


def _read(path: Path, daemon: DaemonOptions, mapping: LogMapping | None) -> Recording:
    """A log in steps of the car's own rate, without the commands of an earlier run."""
    from replay.log import log_devices, open_log, read_steps
    from replay.rates import find_slow_clock
    from vehicled.errors import UsageError
    from vehicled.identification.vehicle.session import Recording

    log = open_log(path, log_devices(daemon.devices), mapping)
    warning = find_slow_clock(str(path), log.measurements())
    if warning is not None:
        print(warning, file=sys.stderr)
    steps = [s._replace(commands=()) for s in read_steps(log, daemon.loop.period)]
    log.problems.show(sys.stderr)
    if not steps:
        raise UsageError(f"{path}: no measurement that could be used")
    return Recording(str(path), steps)


def list_all(args: argparse.Namespace, known: Mapping[str, Parameter]) -> int:
    """Parameters of a configuration and their values."""
    from vehicled.configuration import File
    from vehicled.identification.vehicle.names import for_file, with_defaults
    from vehicled.reading import settings

    file = with_defaults(settings.load(settings.config_path(args.config), File))
    values = {p.name: p.get(file) for p in known.values()}
    if args.json:
        print(json.dumps(values))
        return 0
    for p in (for_file(p, file) for p in known.values()):
        value = values[p.name]
        given = "–" if value is None else f"{value:.5g}"
        print(f"{p.full_name:<42} {given:>12} {p.unit:<10} {p.meaning}")
    return 0


def _run_mechanism(args: argparse.Namespace) -> int:
    """Estimate a mechanism's parameters from logs; returns the exit status. Raises UsageError, RunError."""
    from vehicled.errors import UsageError
    from vehicled.identification.mechanism.report import as_json, format_session
    from vehicled.identification.mechanism.session import run as run_session
    from vehicled.identification.mechanism.text import write
    from vehicled.identification.mechanism.unknowns import MechanismUnknowns
    from vehicled.identification.regressors import Regressor, spring_columns
    from vehicled.multibody.checks import require_freedom
    from vehicled.multibody.files import mechanism_path
    from vehicled.multibody.mechanism import Mechanism
    from vehicled.reading import settings

    for option in _ONLY_CARS:
        if getattr(args, option):
            raise UsageError(f"--{option}: expected with --config, not with --mechanism")
    _check_logs(args, "motion")
    path = mechanism_path(args.mechanism)
    _check_output(args, {"mechanism": [path]})
    text = settings.read(path)
    mechanism = Mechanism.load(path)
    if mechanism.description.inputs:
        raise UsageError(
            f"{path}: inputs: expected none, as a log has no channel for them; "
            f"make the coordinates that they drive independent"
        )
    try:
        require_freedom(mechanism)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    unknowns = MechanismUnknowns(Regressor(mechanism, spring_columns(mechanism)))
    runs = [read_motion(log, mechanism) for log in args.logs]
    validate = None if args.validate is None else read_motion(args.validate, mechanism)
    session = run_session(unknowns, runs, validate, args.anyway, args.json)
    if args.output is not None:
        from vehicled.terminal.output_files import write_output

        found_text = write(text, session.estimate.quantities, ", ".join(log.name for log in args.logs))
        write_output(args.output, found_text.encode())
    if args.json:
        print(json.dumps(as_json(session), ensure_ascii=False))
        return 0
    print("\n".join(format_session(session)))
    if args.output is not None:
        print(f"{args.output}: written")
    return 0


def _leave_out_spikes(
    path: Path, table: np.ndarray, names: Sequence[str], coordinates: Sequence[str]
) -> np.ndarray:
    """A log's table without rows in which a coordinate does not fit its neighbours; they are named."""
    import numpy as np

    from vehicled.identification.mechanism.spikes import find_spikes

    t = table[:, names.index("t")]
    left_out = np.zeros(len(t), dtype=bool)
    for name in coordinates:
        values = table[:, names.index(name)]
        spikes = find_spikes(t, values)
        left_out[spikes] = True
        if len(spikes):
            first, more = spikes[0], len(spikes) - 1
            those = (
                f"and {more} more do not fit those beside them, and are"
                if more
                else ("does not fit those beside it, and is")
            )
            print(
                f"{path}: sample {name} = {values[first]:.6g} at t = {t[first]:.6g} s {those} left out",
                file=sys.stderr,
            )
    return table[~left_out]


def read_motion(path: Path, mechanism: Mechanism) -> Recorded:
    """A CSV log: `t`, each independent coordinate by its name, and `NAME.force` if something drives it.

    s, m or rad, N or N·m. Rows without all of these are omitted. Raises UsageError for a file that cannot be
    read, for columns that are missing, unknown or without numbers, and if nothing drives the mechanism.
    """
    import numpy as np

    from replay.foreign.csv_signals import CsvSignals
    from vehicled.errors import UsageError
    from vehicled.identification.mechanism.estimate import Recorded

    coordinates = [mechanism.coordinate_names[k] for k in mechanism.independent]
    forces = [name + _FORCE for name in coordinates]
    known = ["t", *coordinates, *forces]
    try:
        signals = CsvSignals(path, _LARGEST)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    columns = list(signals.units)
    for name in columns:
        if name not in known:
            raise UsageError(f"{path}: column '{name}': expected one of {', '.join(known)}")
    for name in ("t", *coordinates):
        if name not in columns:
            raise UsageError(f"{path}: column '{name}' is missing")
    driven = [name for name in forces if name in columns]
    if not driven:
        raise UsageError(f"{path}: no force: expected a column {' or '.join(forces)}")
    wanted = [name for name in known if name in columns]
    table = np.array([[r.values[name] for name in wanted] for r in signals.records(wanted)], dtype=float)
    signals.problems.show(sys.stderr)
    table = table.reshape(-1, len(wanted))
    if not len(table):
        raise UsageError(f"{path}: no samples: expected rows of numbers below its header")
    given = np.isfinite(table)
    whole = given.all(axis=1)
    if not whole.all():
        lacking = [f"{name} ({n})" for name, n in zip(wanted, np.sum(~given, axis=0), strict=True) if n]
        left_out = f"{path}: {np.sum(~whole)} of {len(table)} rows have no number in {', '.join(lacking)}"
        if not whole.any():
            raise UsageError(f"{left_out}: expected one in every column of a row")
        print(f"{left_out}, and are left out", file=sys.stderr)
    table = _leave_out_spikes(path, table[whole], wanted, coordinates)
    by_name = dict(zip(wanted, table.T, strict=True))
    t = by_name["t"]
    z = np.column_stack([by_name[name] for name in coordinates])
    applied = np.column_stack([by_name.get(name, np.zeros(len(t))) for name in forces])
    return Recorded(str(path), t, z, applied)
