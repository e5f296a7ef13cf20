"""Completion in real shells: the tests type keys in a terminal, and the command that runs prints its arguments."""

import argparse
import contextlib
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import pytest

from vehicled.cli import COMMANDS, main, make_parser
from vehicled.commands.shells import bash, fish, zsh
from vehicled.commands.shells.arguments import ArgumentValue, CommandArguments, Option, read_commands
from vehicled.reading.settings import shipped_folder

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "bind 'set bell-style none'"),
    "zsh": (
        ["zsh", "-f", "-i"],
        "autoload -Uz compinit; compinit -u -C -d {dump}; setopt NO_BEEP NO_AUTO_LIST",
    ),
}
PRINT = "vehicled() { printf '<%s>' \"$@\"; echo '<end>'; }"
MAKERS = {"bash": bash, "zsh": zsh, "fish": fish}


def until(terminal, pattern, sent=b""):
    """Type, and read until the pattern appears."""
    os.write(terminal, sent)
    text, end = "", time.monotonic() + 30
    while (found := re.search(pattern, text)) is None:
        assert time.monotonic() < end, f"{pattern!r} did not come: {text!r}"
        if select.select([terminal], [], [], 0.1)[0]:
            text += os.read(terminal, 4096).decode(errors="replace")
    return found


@pytest.fixture
def press(tmp_path, tmp_path_factory):
    """Types keys and Enter in a shell that has loaded the completion; returns the command's arguments."""
    running = []
    dump = tmp_path_factory.getbasetemp() / "completions.zsh"  # the first shell writes it, the others read it

    def run(shell, keys, script=None):
        if not shutil.which(shell):
            pytest.skip(f"there is no {shell}")
        file = tmp_path / f"completion.{shell}"
        file.write_text(script or MAKERS[shell].make_script(read_commands()))
        command, setup = SHELLS[shell]
        process, terminal = pty.fork()
        if process == 0:
            os.chdir(tmp_path)
            environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb", "PS1": "$ "}
            os.execvpe(command[0], command, environment)
        running.append((process, terminal))
        begin = f"{setup.format(dump=dump)}; {PRINT}; source {file}; echo rea''dy\r"
        until(terminal, r"ready\r?\n", begin.encode())
        line = until(terminal, r"(?m)((?:<[^<>\r\n]*>)+)<end>", keys.encode() + b"\r")
        return re.findall("<([^<>]*)>", line[1])

    yield run
    for process, terminal in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("recov\t", ["recover"]),
        ("replay --fa\t", ["replay", "--fast"]),
        ("replay drive.mcap --config proto\t", ["replay", "drive.mcap", "--config", "prototype"]),
        ("replay dri\t --config my_\t", ["replay", "drive one.mcap", "--config", "my_car.yaml"]),
        ("check --json hatch\t", ["check", "--json", "hatchback"]),
        ("demo --gnss conv\t", ["demo", "--gnss", "conventional"]),
        ("codegen four\t --lang\tpy\t", ["codegen", "four_bar", "--language", "python"]),
        ("bench mechan\t", ["bench", "mechanisms"]),
        ("bench step --jso\t", ["bench", "step", "--json"]),
        ("bench step --vers\t", ["bench", "step", "--vers"]),
        ("simulate slal\t --seed check --outp\t", ["simulate", "slalom", "--seed", "check", "--output"]),
    ],
)
def test_a_partial_word_is_completed(press, tmp_path, shell, keys, words):
    (tmp_path / "my_car.yaml").touch()
    (tmp_path / "drive one.mcap").touch()
    typed = press(shell, f"vehicled {keys}")
    assert [w for word in typed for w in word.removesuffix("=").split("=") if w] == words


@pytest.mark.parametrize("shell", SHELLS)
def test_an_option_with_an_equals_sign_is_completed(press, shell):
    assert press(shell, "vehicled replay --config=proto\t") == ["replay", "--config=prototype"]


def complete_in_fish(tmp_path, line):
    fish_path = shutil.which("fish")
    if not fish_path:
        pytest.skip("there is no fish")
    file = tmp_path / "vehicled.fish"
    file.write_text(fish.make_script(read_commands()))
    command = [fish_path, "--no-config", "-c", f"source {file}; complete -C {line!r}"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.stderr == ""
    return {row.split("\t")[0] for row in done.stdout.splitlines()}


def test_fish_offers_commands_options_and_configurations(tmp_path):
    (tmp_path / "my_car.yaml").touch()
    assert complete_in_fish(tmp_path, "vehicled ") >= set(COMMANDS)
    assert complete_in_fish(tmp_path, "vehicled bench st") == {"step"}
    assert complete_in_fish(tmp_path, "vehicled bench step --js") == {"--json"}
    configurations = complete_in_fish(tmp_path, "vehicled run --config ")
    assert {"prototype", "hatchback", "my_car.yaml"} <= configurations
    assert "--json" not in complete_in_fish(tmp_path, "vehicled run --")


def test_completion_knows_every_command_and_option():
    known = {c.path: c for c in read_commands()}
    assert {path[0] for path in known} == set(COMMANDS)
    for name in COMMANDS:
        parser = make_parser(name)
        (sub,) = (a.choices[name] for a in parser._actions if isinstance(a, argparse._SubParsersAction))
        flags = {flag for option in known[name,].options for flag in option.flags}
        assert flags == set(sub._option_string_actions)
    shipped = {p.stem for p in shipped_folder().glob("*.yaml")}
    (config,) = (o for o in known["run",].options if "--config" in o.flags)
    assert set(config.value.words) == shipped


@pytest.mark.parametrize("shell", SHELLS)
def test_special_characters_in_help_are_not_interpreted(press, tmp_path, shell):
    option = Option(
        ("--odd",), """it's "a" [test]: $(touch here) `touch here` \\ %s {} *""", ArgumentValue(("one",))
    )
    command = CommandArguments(("try",), option.help, (option,), ArgumentValue())
    script = MAKERS[shell].make_script([command])
    typed = press(shell, "vehicled try --od\ton\t", script)
    assert " ".join(typed).replace("=", " ").split() == ["try", "--odd", "one"]
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize("shell", MAKERS)
def test_the_command_prints_the_script(capsys, shell):
    assert main(["completion", shell]) == 0
    assert capsys.readouterr().out == MAKERS[shell].make_script(read_commands())


def test_another_shell_is_bad_usage(capsys):
    assert main(["completion", "tcsh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err
