"""The script for fish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vehicled.commands.shells.arguments import ArgumentValue, CommandArguments, Option

_HEAD = """\
# Completion of vehicled for fish. Made by `vehicled completion fish`; make it anew after an update.
complete -c vehicled -f
complete -c vehicled -n __fish_use_subcommand -s h -l help -d help
complete -c vehicled -n __fish_use_subcommand -l version -d version
"""


def make_script(commands: Sequence[CommandArguments]) -> str:
    """The script that defines the completion of `vehicled`."""
    return _HEAD + "\n".join(line for c in commands for line in _lines(c, commands)) + "\n"


def _lines(command: CommandArguments, commands: Sequence[CommandArguments]) -> Iterator[str]:
    before = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.path[:-1])
    begin = (
        f"{before}; and not __fish_seen_subcommand_from {command.path[-1]}"
        if before
        else "__fish_use_subcommand"
    )
    yield f"complete -c vehicled -n {_quote(begin)} -a {command.path[-1]} -d {_quote(command.help)}"
    here = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in command.path)
    for option in command.options:
        yield f"complete -c vehicled -n {_quote(here)} {_option(option)}"
    if (command.operands.words or command.operands.files) and not any(
        c.path[:-1] == command.path for c in commands
    ):
        yield f"complete -c vehicled -n {_quote(here)}{_value(command.operands)}"


def _option(option: Option) -> str:
    flags = " ".join(f"-l {f[2:]}" if f.startswith("--") else f"-s {f[1:]}" for f in option.flags)
    value = "" if option.value is None else f" -r{_value(option.value)}"
    return f"{flags}{value} -d {_quote(option.help)}"


def _value(value: ArgumentValue) -> str:
    words = f" -a {_quote(' '.join(value.words))}" if value.words else ""
    return words + (" -F" if value.files else "")


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
