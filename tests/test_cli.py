"""The command line's frame: exit statuses, one-line errors, help, and what a start costs."""

import importlib
import io
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import types

import pytest

import vehicled.commands
from vehicled import __version__
from vehicled.cli import COMMANDS, main, make_parser
from vehicled.errors import RunError, UsageError
from vehicled.progress import Progress


@pytest.fixture
def command(monkeypatch):
    """Puts a command of the test's own in the place of `check`, which takes FILE and `--json`."""

    def install(run):
        module = types.ModuleType("vehicled.commands.check")
        module.HELP = "What the test says."
        module.configure = lambda parser: (parser.add_argument("file"), parser.add_argument("--json"))
        module.run = run
        monkeypatch.setitem(sys.modules, module.__name__, module)

    return install


def raises(error):
    def run(args):
        raise error

    return run


def test_the_command_gets_its_arguments_and_gives_the_exit_status(command):
    command(lambda args: 1 if args.file == "car.yaml" else 0)
    assert main(["check", "car.yaml"]) == 1
    assert main(["check", "other.yaml"]) == 0


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UsageError("car.yaml:3: mass: expected a mass"), 2, "car.yaml:3: mass: expected a mass"),
        (RunError("it\ndiverged"), 1, "it diverged"),
        (
            FileNotFoundError(2, "No such file or directory", "drive.csv"),
            1,
            "drive.csv: No such file or directory",
        ),
        (OSError("no device"), 1, "no device"),
        (KeyboardInterrupt(), 130, None),
        (BrokenPipeError(), 141, None),
    ],
)
def test_every_ending_has_its_status_and_at_most_one_line(command, capfd, error, status, line):
    command(raises(error))
    with open(os.dup(1), "wb") as saved:
        try:
            assert main(["check", "x"]) == status
        finally:
            os.dup2(saved.fileno(), 1)
    assert capfd.readouterr().err == (f"vehicled: {line}\n" if line else "")


def test_a_bug_shows_its_traceback(command):
    command(raises(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        main(["check", "x"])


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["chekc"], "invalid choice: 'chekc'"),
        (["check"], "required: file (see 'vehicled check --help')"),
        (["check", "a", "b"], "unrecognized arguments: b"),
        (["--bogus"], "unrecognized arguments: --bogus"),
        (["run"], "required: --config (see 'vehicled run --help')"),
    ],
)
def test_bad_usage_is_one_line_and_2(command, capsys, arguments, part):
    command(lambda args: 0)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vehicled: ")
    assert err.count("\n") == 1
    assert part in err


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(re.search(rf"(?m)^    {name}( |$)", out) for name in COMMANDS)
    assert "vehicled demo" in out


def test_every_command_module_is_listed_and_has_its_three_names():
    modules = pkgutil.iter_modules(vehicled.commands.__path__)
    names = [module.name for module in modules if not module.ispkg]
    assert set(names) <= set(COMMANDS)
    for name in names:
        module = importlib.import_module(f"vehicled.commands.{name}")
        assert module.HELP.strip()
        assert "\n" not in module.HELP
        make_parser(name)
        assert callable(module.run)


def test_help_of_a_command(command, capsys):
    command(lambda args: 0)
    assert main(["check", "--help"]) == 0
    assert "What the test says." in capsys.readouterr().out


def test_without_a_command_help_goes_to_stderr(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "vehicled demo" in err


def test_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"vehicled {__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    script = (
        "import json, sys\nfrom vehicled.cli import main\n"
        f"main({arguments!r})\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert not loaded & {"numpy", "scipy", "zmq", "llvmlite", "matplotlib", "yaml", "msgspec"}


def test_a_closed_pipe_and_ctrl_c_end_quietly():
    script = (
        "import sys, types\nm = types.ModuleType('vehicled.commands.check')\nm.HELP = ''\n"
        "m.configure = lambda p: None\n"
        "def run(args):\n    print('begun', flush=True)\n    {}\n    return 0\n"
        "m.run = run\nsys.modules[m.__name__] = m\n"
        "from vehicled.cli import main\nsys.exit(main(['check']))"
    )
    endless = script.format("while True: print('y' * 100)")
    with subprocess.Popen([sys.executable, "-c", endless], stdout=-1, stderr=-1) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141
    with subprocess.Popen(
        [sys.executable, "-c", script.format("import time; time.sleep(30)")], stdout=-1, stderr=-1
    ) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
    assert process.returncode == 130


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_redraws_one_line_in_a_terminal():
    stream = Terminal()
    with Progress("simulating", 10.0, "s", stream=stream) as progress:
        for t in range(1000):
            progress.update(t / 100, "step steer")
        progress.update(10.0)
    text = stream.getvalue()
    assert text.count("\n") == 1
    # The first state and the last, and not one for each of a thousand steps.
    assert 2 <= text.count("\r") < 100
    assert text.rstrip("\n").split("\r")[-1].startswith("\x1b[Ksimulating: [########################] 100 %")
    assert "0 of 10 s, " in text


def test_progress_is_sparse_elsewhere_and_silent_with_json():
    lines, nothing = io.StringIO(), io.StringIO()
    for stream, quiet in ((lines, False), (nothing, True)):
        with Progress("replaying", stream=stream, unit="steps", quiet=quiet) as progress:
            for step in range(1000):
                progress.update(step)
    assert lines.getvalue() == "replaying: 999 steps, 0 s\n"
    assert nothing.getvalue() == ""
