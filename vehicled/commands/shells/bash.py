"""The script for bash (4 or newer)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from vehicled.commands.shells.arguments import ArgumentValue, CommandArguments

_SCRIPT = """\
# Completion of vehicled for bash. Made by `vehicled completion bash`; make it anew after an update.
_vehicled() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}} command='' words='' files='' i
    COMPREPLY=()
    # bash makes three words of --option=value.
    if [[ $cur == = ]]; then
        cur=''
    elif [[ $prev == = ]]; then
        prev=${{COMP_WORDS[COMP_CWORD - 2]}}
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "$command/${{COMP_WORDS[i]}}" in
            {paths}) command+=/${{COMP_WORDS[i]}} ;;
        esac
    done
    case "$command $prev" in
{values}
        *)
            case "$command $cur" in
{options}
{operands}
            esac
            ;;
    esac
    mapfile -t COMPREPLY < <(
        compgen -W "$words" -- "$cur"
        [[ -z $files ]] || compgen -f -- "$cur"
    )
    [[ -z $files ]] || compopt -o filenames
}}
complete -F _vehicled vehicled
"""


def make_script(commands: Sequence[CommandArguments]) -> str:
    """The script that defines the completion of `vehicled`."""
    return _SCRIPT.format(
        paths=" | ".join(f"/{'/'.join(c.path)}" for c in commands),
        values="\n".join(_values(commands)),
        options="\n".join(_options(commands)),
        operands="\n".join(_operands(commands)),
    )


def _values(commands: Sequence[CommandArguments]) -> Iterator[str]:
    for command in commands:
        for option in command.options:
            if option.value is not None:
                patterns = " | ".join(f"'/{'/'.join(command.path)} {flag}'" for flag in option.flags)
                yield f"        {patterns}) {_assign(option.value)} ;;"


def _options(commands: Sequence[CommandArguments]) -> Iterator[str]:
    yield "                ' -'*) words='--help --version' ;;"
    for command in commands:
        words = " ".join(flag for option in command.options for flag in option.flags)
        yield f"                '/{'/'.join(command.path)} -'*) words={shlex.quote(words)} ;;"


def _operands(commands: Sequence[CommandArguments]) -> Iterator[str]:
    yield f"                ' '*) words='{' '.join(c.path[0] for c in commands if len(c.path) == 1)}' ;;"
    for command in commands:
        yield f"                '/{'/'.join(command.path)} '*) {_assign(command.operands)} ;;"


def _assign(value: ArgumentValue) -> str:
    parts = [f"words={shlex.quote(' '.join(value.words))}"] if value.words else []
    if value.files:
        parts.append("files=yes")
    return " ".join(parts) or ":"
