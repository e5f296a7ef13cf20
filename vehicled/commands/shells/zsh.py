"""The script for zsh."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from vehicled.commands.shells.arguments import ArgumentValue, CommandArguments, Option

_HEAD = """\
#compdef vehicled
# Completion of vehicled for zsh. Made by `vehicled completion zsh`; make it anew after an update.
"""
_TAIL = """
if [[ $funcstack[1] == _vehicled ]]; then
    _vehicled "$@"
else
    compdef _vehicled vehicled
fi
"""


def make_script(commands: Sequence[CommandArguments]) -> str:
    """The script that defines the completion of `vehicled`, for `source` and as a file `_vehicled` of `$fpath`."""
    top = CommandArguments(
        (),
        "",
        (Option(("-h", "--help"), "help", None), Option(("--version",), "version", None)),
        ArgumentValue(),
    )
    functions = ["\n".join(_function(c, commands)) for c in (top, *commands)]
    return _HEAD + "\n" + "\n\n".join(functions) + "\n" + _TAIL


def _function(command: CommandArguments, commands: Sequence[CommandArguments]) -> Iterator[str]:
    below = [c for c in commands if c.path[:-1] == command.path]
    name = "_".join(("_vehicled", *command.path))
    yield f"{name}() {{"
    if below:
        yield "    local line state"
        yield "    local -a names=("
        yield from (f"        '{c.path[-1]}:{_escape(c.help, ':')}'" for c in below)
        yield "    )"
    specs = [spec for option in command.options for spec in _specs(option)]
    if below:
        specs += ["'1: :{_describe command names}'", "'*:: :->rest'"]
    elif command.operands != ArgumentValue():
        specs.append(f"'*:{_completer(command.operands)}'")
    yield (
        f"    _arguments {'-C ' if below else ''}"
        + "".join(f"\\\n        {spec} " for spec in specs).rstrip()
    )
    if below:
        yield "    [[ $state != rest ]] || case $line[1] in"
        yield from (f"        {c.path[-1]}) {'_'.join(('_vehicled', *c.path))} ;;" for c in below)
        yield "    esac"
    yield "}"


def _specs(option: Option) -> Iterator[str]:
    others = f"({' '.join(option.flags)})"
    for flag in option.flags:
        value = "" if option.value is None else f":{_completer(option.value)}"
        equals = "=" if value and flag.startswith("--") else ""
        yield f"'{others}{flag}{equals}[{_escape(option.help, '[]:')}]{value}'"


def _completer(value: ArgumentValue) -> str:
    """`MESSAGE:ACTION` of an argument."""
    words = " ".join(value.words)
    if value.words and value.files:
        return f' :_alternative "words\\: \\:({words})" "files\\: \\:_files"'
    if value.files:
        return " :_files"
    return f" :({words})" if words else " : "


def _escape(text: str, special: str) -> str:
    return re.sub(f"([\\\\{re.escape(special)}])", r"\\\1", text).replace("'", "'\\''")
