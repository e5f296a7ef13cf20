"""`vehicled new`: a first configuration of a car, from questions and from devices found on the ports."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from vehicled.errors import SettingsError, UsageError
from vehicled.terminal.output_files import OutputFile, check_outputs

if TYPE_CHECKING:
    from drivers.can import CanSignal
    from vehicled.setup.answers import Answers, DeviceAnswer
    from vehicled.setup.dialogue import Dialogue

HELP = "Make a first configuration from questions about the car and from the devices on the ports."

EPILOG = """\
examples:
  vehicled new my_car.yaml
  vehicled new my_car.yaml --port /dev/ttyS0       listens to this port as well
  vehicled new my_car.yaml --answers car.yaml      asks nothing; what car.yaml leaves out is typical of cars
  vehicled new my_car.yaml --yes --no-probe        a typical car without devices

Enter takes what stands in brackets. Numbers without a unit are in the one shown; others are converted: 1540 mm, 55 %.
Tyres are as on the sidewall, 205/55 R16, 205/50-10 or 18x8.50-8 (inches), or a radius: 0.23 m.
A file of answers has the keys and values of docs/first_configuration.md."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled new`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument("file", metavar="FILE.yaml", type=Path, help="the configuration to make")
    parser.add_argument(
        "--answers", metavar="FILE", type=Path, help="take the answers from a file; ask nothing"
    )
    parser.add_argument(
        "--yes", action="store_true", help="ask nothing: take what is found and what is typical"
    )
    parser.add_argument(
        "--port", metavar="PORT", action="append", default=[], help="another port to listen to"
    )
    parser.add_argument("--no-probe", action="store_true", help="listen to no port")
    parser.add_argument("--force", action="store_true", help="replace FILE.yaml if it exists")


def run(args: argparse.Namespace) -> int:
    """Ask, write and check; returns the exit status. Raises UsageError; nothing is then written."""
    from vehicled.reading.settings import load
    from vehicled.setup.answers import Answers
    from vehicled.setup.dialogue import Dialogue
    from vehicled.setup.questions import RECORD, SENSORS
    from vehicled.setup.text import Draft, make_text

    check_outputs([OutputFile("", args.file, (".yaml", ".yml"))], {"answers": [args.answers]})
    if args.file.exists() and not args.force:
        raise UsageError(f"{args.file}: exists; --force replaces it")
    answers = Answers() if args.answers is None else load(args.answers, Answers)
    quiet = args.yes or args.answers is not None
    dialogue = Dialogue(answers, None if quiet else _read, lambda line: print(line, file=sys.stderr))
    if not quiet:
        dialogue.say("Enter takes what stands in brackets; Ctrl-C leaves everything as it was.\n")
    _ask_vehicle(dialogue, args)
    dialogue.ask(SENSORS)
    devices, signals = _equip(dialogue, answers, args)
    dialogue.ask([RECORD])
    draft = Draft(dialogue.known, frozenset(dialogue.given), devices, signals)
    _write(make_text(draft, args.file), args.file, args.force)
    print(f"{args.file}: written and checked. It describes itself by: vehicled check {quote(str(args.file))}")
    return 0


def _ask_vehicle(dialogue: Dialogue, args: argparse.Namespace) -> None:
    """Ask until the figures of the car are consistent. Raises UsageError if nothing can be asked."""
    from vehicled.configuration import File
    from vehicled.reading import settings
    from vehicled.setup.questions import VEHICLE
    from vehicled.setup.text import Draft, make_vehicle_text

    dialogue.ask(VEHICLE)
    while True:
        try:
            settings.loads(
                make_vehicle_text(Draft(dialogue.known, frozenset(dialogue.given))), File, "these figures"
            )
            return
        except SettingsError as error:
            wrong = re.sub(r"^these figures:\d+: ", "", str(error))
        if not dialogue.asks:
            raise UsageError(f"{args.answers or 'answers'}: {wrong}")
        dialogue.say(f"\nThese figures do not fit together: {wrong}\n")
        dialogue.ask_again(VEHICLE)


def _equip(
    dialogue: Dialogue, answers: Answers, args: argparse.Namespace
) -> tuple[dict[str, DeviceAnswer], dict[str, CanSignal]]:
    """Devices and signals of the bus, as given or found."""
    from vehicled.setup import equipment
    from vehicled.setup.questions import make_bus_questions

    found = [] if args.no_probe or answers.devices is not None else equipment.listen(dialogue, args.port)
    devices = equipment.choose_devices(dialogue, found) if answers.devices is None else answers.devices
    dialogue.ask(make_bus_questions(equipment.find_channels(found)))
    dbc = dialogue.known["dbc"]
    return dict(devices), {} if dbc is None else equipment.choose_signals(dialogue, dbc, answers.signals)


def _write(text: str, path: Path, force: bool) -> None:
    """Put the file in place complete and checked, or not at all. Raises UsageError."""
    from vehicled.daemon.configuration import check_daemon_configuration

    # In the same folder, so that files named in the configuration are found, and a rename puts it in place.
    descriptor, name = tempfile.mkstemp(suffix=path.suffix, prefix=f".{path.stem}-", dir=path.parent)
    draft = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            check_daemon_configuration(draft)
        except UsageError as error:
            raise UsageError(str(error).replace(name, str(path))) from None
        draft.chmod(0o644)
        if not force:
            path.touch(exist_ok=False)
        draft.replace(path)
    except FileExistsError:
        raise UsageError(f"{path}: exists; --force replaces it") from None
    finally:
        draft.unlink(missing_ok=True)


def _read(prompt: str) -> str:
    """A line of input. Raises UsageError at the end of the input."""
    try:
        return input(prompt)
    except EOFError:
        raise UsageError("the input ended before the last question; --yes takes what is typical") from None
