"""Possible words on a command line, read from the parsers of all commands."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import vehicled.commands
from vehicled.multibody.files import mechanisms_folder
from vehicled.reading.settings import shipped_folder
from vehicled.simulation.manoeuvres import MANOEUVRES

_NO_FILES = {"ADDRESS", "ENDPOINT", "NAMES", "POINT", "TOPIC"}
"""Placeholders of arguments without a type that are no files."""


@dataclass(frozen=True)
class ArgumentValue:
    """Possible values of an argument: one of the words, or a file; neither if they are unknown."""

    words: tuple[str, ...] = ()
    files: bool = False


@dataclass(frozen=True)
class Option:
    """An option of a command."""

    flags: tuple[str, ...]
    help: str
    value: ArgumentValue | None
    """None if it takes no value."""


@dataclass(frozen=True)
class CommandArguments:
    """A command or a sub-command."""

    path: tuple[str, ...]
    """Its words: `("bench", "step")`."""
    help: str
    options: tuple[Option, ...]
    operands: ArgumentValue
    """Possible values of its arguments without an option."""


def read_commands() -> list[CommandArguments]:
    """Every command of the program, sub-commands after their own command. Imports all of them."""
    found: list[CommandArguments] = []
    for module_info in pkgutil.iter_modules(vehicled.commands.__path__):
        module = importlib.import_module(f"vehicled.commands.{module_info.name}")
        if not module_info.ispkg and hasattr(module, "HELP"):
            parser = argparse.ArgumentParser(prog=f"vehicled {module_info.name}")
            module.configure(parser)
            found += _read(parser, (module_info.name,), module.HELP)
    return found


def _read(
    parser: argparse.ArgumentParser, path: tuple[str, ...], help_line: str
) -> Iterator[CommandArguments]:
    options, words, files = [], [], False
    below: list[CommandArguments] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            words += list(action.choices)
            helps = {choice.dest: choice.help or "" for choice in action._choices_actions}
            for name, sub in action.choices.items():
                below += _read(sub, (*path, name), helps.get(name, ""))
        elif action.option_strings:
            flags = tuple(action.option_strings)
            options.append(Option(flags, _help(action), None if action.nargs == 0 else _value(action)))
        else:
            value = _value(action)
            words += value.words
            files = files or value.files
    yield CommandArguments(path, _plain(help_line), tuple(options), ArgumentValue(tuple(words), files))
    yield from below


def _value(action: argparse.Action) -> ArgumentValue:
    if action.choices is not None:
        return ArgumentValue(tuple(map(str, action.choices)))
    name = action.metavar if isinstance(action.metavar, str) else ""
    if action.dest == "config" or name in ("CONFIG", "MECHANISM"):
        folders = [shipped_folder(), *([mechanisms_folder()] if name == "MECHANISM" else [])]
        return ArgumentValue(tuple(sorted(p.stem for f in folders for p in f.glob("*.yaml"))), files=True)
    if action.dest == "scenario":
        return ArgumentValue(tuple(MANOEUVRES), files=True)
    return ArgumentValue(
        files=action.type is Path or (action.type is None and bool(name) and name not in _NO_FILES)
    )


def _help(action: argparse.Action) -> str:
    return _plain((action.help or "") % vars(action))


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
