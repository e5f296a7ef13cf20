"""The `vehicled` command: finds the sub-command, and turns every outcome into an exit status.

0 done, 1 the run failed, 2 bad usage or bad configuration; 130 after Ctrl-C and 141 when the reader of the
output has gone, as shells expect. SIGTERM is handled like Ctrl-C, and then ends the process. Sub-commands are
in `vehicled.commands`, one module each with `HELP` (one line), `configure(parser)` and `run(args) -> int`;
only the requested one is imported, so help is instant.
"""

import argparse
import gc
import importlib
import io
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from vehicled.errors import SettingsError, UsageError, VehicledError
from vehicled.terminal.termination import Terminated, end_by_sigterm, raising_terminated
from vehicled.version import __version__

COMMANDS = {
    "demo": "the whole chain on an emulated vehicle; nothing to configure",
    "new": "make a first configuration from questions and from the devices found",
    "run": "the daemon: read the sensors, estimate, publish, record",
    "replay": "run the same estimator on a recorded log",
    "top": "a running daemon in the terminal",
    "view": "a running daemon or a recording in a browser",
    "batch": "replay many logs with many configurations into one table",
    "simulate": "drive the plant model and write what its sensors would measure",
    "convert": "convert a log into another format",
    "recover": "repair recordings that power loss has cut off",
    "score": "compare estimates with the truth",
    "report": "plot a run",
    "check": "validate a configuration and describe its vehicle model",
    "codegen": "write the equations of a mechanism as C or Python",
    "identify": "find parameters of a car from recorded drives, of a mechanism from its motion",
    "tune": "find the noise of sensors and model from recorded drives",
    "particles": "follow a mechanism of any kind by particles, from its sensors or a log",
    "bench": "measure speed on this machine",
    "ntrip": "list the streams of corrections that a caster has",
    "foxglove": "show a running daemon in Foxglove",
    "schema": "print the JSON Schemas of the published messages",
    "completion": "print the script by which a shell completes vehicled",
}
"""Name and one line of every sub-command: here, so that the list is shown without importing any of them."""

_PROGRAM = "vehicled"

_COLLECT_EVERY = 10_000
"""Number of objects between two collections of the youngest generation. Python's default of 700 costs a fifth
of the start, in which modules and the model make 150,000 objects that are all kept."""

_NEGATIVE = re.compile(r"-\.?\d")
"""Beginning of values that argparse takes for options, such as `-1.3,0,0.1`; no option of this program begins so."""

_MOST_MISTAKES = 50
"""Number of mistakes of a settings file that are shown."""

_DESCRIPTION = "Real-time vehicle state estimation: position, slip and suspension from a car's sensors."

_EPILOG = """\
to begin:
  vehicled demo                                          see it work: no car, no configuration
  vehicled simulate mixed_drive --config prototype --output drive.mcap --truth truth.csv
  vehicled replay drive.mcap --config prototype --fast --estimates estimates.csv
  vehicled score estimates.csv truth.csv                 how far off was it?
  vehicled check my_car.yaml                             is my configuration right?
  vehicled run --config my_car.yaml                      on the car

--config takes a path, or the name of a configuration that comes with vehicled (prototype, …).
exit status: 0 done, 1 the run failed, 2 bad usage or bad configuration.
'vehicled COMMAND --help' describes each command."""


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line, with a hint where to read more; accepts values that begin with a minus."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As the base class, but with negative values joined to their options."""
        self._given = _join_negative(sys.argv[1:] if args is None else args)
        return super().parse_known_args(self._given, namespace)

    def error(self, message: str) -> NoReturn:
        hint = self._find_hint() if message.endswith("required: --config") else ""
        raise UsageError(f"{message}{hint} (see '{self.prog} --help')")

    def _find_hint(self) -> str:
        """Hint if an argument is probably the configuration, without `--config` before it."""
        own = {name for name, action in self._option_string_actions.items() if action.nargs != 0}
        follows = zip(self._given, ["", *self._given], strict=False)
        words = [word for word, before in follows if not word.startswith("-") and before not in own]
        near = (w for w in words if w.endswith((".yaml", ".yml")) or not self._get_positional_actions())
        return next((f"; did you mean --config {word}?" for word in near), "")


def make_parser(command: str | None) -> argparse.ArgumentParser:
    """Parser of the whole command line in which only `command` (None: no command) has its arguments."""
    parser = _Parser(
        prog=_PROGRAM,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{_PROGRAM} {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command")
    for name, help_line in COMMANDS.items():
        sub = commands.add_parser(name, help=help_line)
        if name == command:
            module = importlib.import_module(f"vehicled.commands.{name}")
            sub.description = module.HELP
            module.configure(sub)
            sub.set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit status."""
    gc.set_threshold(_COLLECT_EVERY, *gc.get_threshold()[1:])
    # Before NumPy loads its library, also for processes that are started: on matrices of a hundred rows and more its
    # threads wait for each other, and beside other programs that takes up to a thousand times as long as one thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_closed()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # σ and ² in a terminal that is not UTF-8
    with raising_terminated():
        return _run(arguments)


def _open_closed() -> None:
    """Open closed standard streams on the null device, so that no file opened later takes their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the process ends


def _run(arguments: Sequence[str]) -> int:
    try:
        # Options before the command (--help, --version) take no value, so the first word is the command.
        command = next((word for word in arguments if not word.startswith("-")), None)
        if command is not None and command not in COMMANDS and command != arguments[0]:
            raise UsageError(
                f"{arguments[0]}: expected behind the command, as in '{_PROGRAM} COMMAND {arguments[0]} …'"
            )
        parser = make_parser(command)
        args, unknown = parser.parse_known_args(arguments)
        if unknown:
            described = " ".join(filter(None, [_PROGRAM, command, "--help"]))
            raise UsageError(f"unrecognized arguments: {' '.join(unknown)} (see '{described}')")
        if args.command is None:
            parser.print_help(sys.stderr)
            return 2
        status = int(args.run(args))
        sys.stdout.flush()
        return status
    except SystemExit as stop:  # argparse after --help and --version
        return int(stop.code or 0)
    except SettingsError as error:
        return _fail_settings(error)
    except VehicledError as error:
        return _fail(str(error), error.exit_status)
    except BrokenPipeError:
        # The interpreter flushes stdout once more at exit, which would raise again: direct it to the null device.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        return _fail(f"{where}{error.strerror or error}", 1)
    except KeyboardInterrupt as stop:
        for line in stop.args:
            _fail(line, 130)
        if isinstance(stop, Terminated):
            sys.stdout.flush()
            end_by_sigterm()
        return 130


def _join_negative(arguments: Iterable[str]) -> list[str]:
    """The arguments, with values that begin with a minus joined to the option before them by `=`."""
    joined: list[str] = []
    for word in arguments:
        if _NEGATIVE.match(word) and joined and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _fail_settings(error: SettingsError) -> int:
    """Print one line for each mistake; a file of another kind may have thousands."""
    for mistake in error.mistakes[:_MOST_MISTAKES]:
        _fail(mistake, error.exit_status)
    more = len(error.mistakes) - _MOST_MISTAKES
    if more > 0:
        _fail(f"{more} more mistake{'s' * (more > 1)}", error.exit_status)
    return error.exit_status


def _fail(message: str, status: int) -> int:
    print(f"{_PROGRAM}: {' '.join(message.split())}", file=sys.stderr)
    return status
