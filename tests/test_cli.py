"""The command line: exit statuses, one-line errors, output files, help, imports at start, and progress."""

import fcntl
import importlib
import io
import json
import os
import pkgutil
import re
import signal
import struct
import subprocess
import sys
import termios
import types

import pytest

import vehicled.commands
from vehicled import __version__
from vehicled.cli import COMMANDS, main, make_parser
from vehicled.errors import RunError, UsageError
from vehicled.multibody.files import mechanisms_folder
from vehicled.reading import settings
from vehicled.terminal.output_files import OutputFile, check_outputs
from vehicled.terminal.progress import Progress


@pytest.fixture
def command(monkeypatch):
    """Replaces `check` by a command of the test, which takes FILE and `--json`."""

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


@pytest.mark.parametrize("joined", [["--json", "-1.3,0,0.1"], ["--json=-1.3,0,0.1"]])
def test_a_value_may_begin_with_a_minus(command, joined):
    command(lambda args: 0 if args.json == "-1.3,0,0.1" else 1)
    assert main(["check", "car.yaml", *joined]) == 0


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
        (KeyboardInterrupt("the incomplete file is a.csv.part"), 130, "the incomplete file is a.csv.part"),
        (BrokenPipeError(), 141, None),
    ],
)
def test_each_error_has_its_exit_status_and_at_most_one_line(command, capfd, error, status, line):
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
        (["check", "a", "--bogus"], "(see 'vehicled check --help')"),
        (["--config", "prototype", "replay", "a.csv"], "--config: expected behind the command"),
        (["run"], "required: --config (see 'vehicled run --help')"),
        (["run", "car.yaml"], "required: --config; did you mean --config car.yaml? (see "),
        (["run", "prototype"], "required: --config; did you mean --config prototype? (see "),
        (
            ["replay", "a.csv", "--fast", "car.yaml"],
            "required: --config; did you mean --config car.yaml? (see ",
        ),
        (["replay", "a.csv", "--mapping", "m.yaml"], "required: --config (see 'vehicled replay --help')"),
    ],
)
def test_bad_usage_is_reported_in_one_line_with_status_2(command, capsys, arguments, part):
    command(lambda args: 0)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("vehicled: ")
    assert err.count("\n") == 1
    assert part in err


REPLAY = "replay p.csv --config mine.yaml --fast"
PARTICLES = "particles --mechanism four_bar --config mine.yaml --log p.csv"


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (f"{REPLAY} --estimates p.csv", "--estimates p.csv: expected another file than the log"),
        (
            f"{REPLAY} --estimates sub/../p.csv",
            "--estimates sub/../p.csv: expected another file than the log",
        ),
        (f"{REPLAY} --estimates linked.csv", "--estimates linked.csv: expected another file than the log"),
        (
            "replay r.mcap --config mine.yaml --fast --record r.mcap",
            "--record r.mcap: expected another file than the log",
        ),
        (f"{REPLAY} --estimates mine.yaml", "--estimates mine.yaml: expected a name that ends in .csv"),
        (f"{REPLAY} --estimates out.parquet", "--estimates out.parquet: expected a name that ends in .csv"),
        (f"{REPLAY} --record out.csv", "--record out.csv: expected a name that ends in .mcap"),
        (f"{REPLAY} --estimates no/out.csv", "--estimates no/out.csv: no such folder"),
        (f"{PARTICLES} --estimates p.csv", "--estimates p.csv: expected another file than the log"),
        (f"{PARTICLES} --record out.csv", "--record out.csv: expected a name that ends in .mcap"),
        (
            "simulate slalom --config prototype --output o.csv --truth o.csv",
            "--truth o.csv: expected another file than --output",
        ),
        (
            "simulate slalom --config prototype --output o.csv --truth t.mcap",
            "--truth t.mcap: expected a name that ends in .csv",
        ),
        ("report e.csv -o e.csv", "--output e.csv: expected a name that ends in .html or .htm"),
        ("report e.csv --truth p.html -o p.html", "--output p.html: expected another file than the truth"),
        (
            "tune p.csv --config mine.yaml --output p.csv",
            "--output p.csv: expected a name that ends in .yaml",
        ),
        ("tune p.csv --config mine.yaml --output mine.yaml", "expected another file than the configuration"),
        (
            "identify p.csv --config mine.yaml --mapping map.yaml --output map.yaml",
            "--output map.yaml: expected another file than the mapping",
        ),
        (
            "identify p.csv --mechanism mine.yaml --output mine.yaml",
            "expected another file than the mechanism",
        ),
        (
            "batch p.parquet --config mine.yaml --parquet p.parquet",
            "--parquet p.parquet: expected another file than the log",
        ),
        (
            "batch p.csv --config mine.yaml --resume p.csv",
            "--resume p.csv: expected another file than the log",
        ),
        ("batch p.csv --config mine.yaml --parquet t.csv", "expected a name that ends in .parquet"),
        ("convert p.csv p.csv", "p.csv: expected another file than the input"),
        ("convert p.csv t.mcap --truth", "t.mcap: expected a name that ends in .csv"),
        (
            "identify p.csv --config mine.yaml --plots e.csv",
            "--plots e.csv: expected a folder, but e.csv is a file",
        ),
        ("tune p.csv --config mine.yaml --plots e.csv/new", "expected a folder, but"),
        ("bench identify --plots e.csv", "--plots e.csv: expected a folder"),
        ("bench observers --plots e.csv", "--plots e.csv: expected a folder"),
        ("bench particles --plots e.csv", "--plots e.csv: expected a folder"),
        ("bench particles --logs e.csv", "--logs e.csv: expected a folder"),
        ("codegen four_bar --language c --output e.csv", "--output e.csv: expected a folder"),
        ("bench robustness --plot e.csv", "--plot e.csv: expected a name that ends in .svg, .png or .pdf"),
        ("bench robustness --plot no/a.png", "--plot no/a.png: no such folder"),
        (
            "bench robustness --drive p.csv e.csv mine.yaml --resume p.csv",
            "--resume p.csv: expected another file than the drive",
        ),
        ("new mine.yaml --answers mine.yaml --force", "mine.yaml: expected another file than the answers"),
    ],
)
def test_no_command_overwrites_its_input_or_another_output(tmp_path, monkeypatch, capsys, line, part):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    for name in ("p.csv", "e.csv", "p.html", "p.parquet", "r.mcap", "mine.yaml", "map.yaml"):
        (tmp_path / name).write_text(name)
    (tmp_path / "linked.csv").symlink_to("p.csv")
    before = {path: path.read_bytes() for path in tmp_path.glob("*.*")}
    assert main(line.split()) == 2
    message = capsys.readouterr().err
    assert part in message
    assert message.count("\n") == 1
    assert {path: path.read_bytes() for path in tmp_path.glob("*.*")} == before


def test_no_command_overwrites_a_file_in_a_folder_that_it_reads(tmp_path):
    """A bag of ROS 2 is a folder with recordings (.mcap)."""
    bag = tmp_path / "bag"
    bag.mkdir()
    (bag / "bag_0.mcap").touch()
    with pytest.raises(
        UsageError, match=r"bag_0\.mcap: expected a file outside of the folder that is the log"
    ):
        check_outputs([OutputFile("--record", bag / "bag_0.mcap", (".mcap",))], {"log": [bag]})
    check_outputs([OutputFile("--record", bag / "new.mcap", (".mcap",))], {"log": [bag]})


def test_a_pipe_may_have_any_name(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    check_outputs([OutputFile("--estimates", tmp_path / "pipe", (".csv",))], {"log": ["p.csv"]})
    with pytest.raises(UsageError, match=r"expected a name that ends in \.mcap or \.csv"):
        check_outputs([OutputFile("--output", tmp_path / "pipe", (".mcap", ".csv"))], {})


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


def test_help_of_a_command_is_printed(command, capsys):
    command(lambda args: 0)
    assert main(["check", "--help"]) == 0
    assert "What the test says." in capsys.readouterr().out


def test_identify_says_which_logs_it_reads(capsys):
    assert main(["identify", "--help"]) == 0
    assert "with --mechanism a CSV file" in " ".join(capsys.readouterr().out.split())
    assert main(["tune", "--help"]) == 0
    assert "--mechanism" not in capsys.readouterr().out


def test_without_a_command_help_goes_to_stderr(capsys):
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "vehicled demo" in err


def test_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"vehicled {__version__}\n"


@pytest.mark.parametrize(("given", "threads"), [(None, "1"), ("2", "2")])
def test_linear_algebra_has_one_thread_unless_the_environment_says_otherwise(monkeypatch, given, threads):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    assert main(["--version"]) == 0
    assert os.environ["OPENBLAS_NUM_THREADS"] == threads


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    script = (
        "import json, sys\nfrom vehicled.cli import main\n"
        f"main({arguments!r})\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stderr.splitlines()[-1]))
    assert not loaded & {"numpy", "scipy", "zmq", "llvmlite", "matplotlib", "yaml", "msgspec"}


@pytest.mark.parametrize(
    ("closed", "arguments", "status"), [(">&-", "schema", 0), ("2>&-", "check no.yaml", 2)]
)
def test_a_closed_output_stream_is_not_an_error(closed, arguments, status):
    """Output to the closed stream does not appear on the other stream."""
    command = f'"{sys.executable}" -m vehicled {arguments} {closed}'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_characters_missing_in_the_encoding_become_question_marks(monkeypatch, encoding):
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
    assert main(["check", "prototype"]) == 0
    assert "degrees of freedom   14 = 91 ? 77" in written.getvalue().decode(encoding)


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
    # It draws the first and the last state, but not each of a thousand steps.
    assert 2 <= text.count("\r") < 100
    assert text.rstrip("\n").split("\r")[-1].startswith("\x1b[Ksimulating: [########################] 100 %")
    assert "0 of 10 s, " in text


@pytest.mark.parametrize("columns", [30, 60, 0])
def test_progress_fits_into_a_line_of_the_terminal(columns):
    leader, follower = os.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with open(follower, "w") as stream:
        with Progress("fitting", 37.2, "s", stream=stream, passes=True) as progress:
            progress.update(
                7.25, "fit 2, pass 6, criterion -224.881, and much more that no line has room for"
            )
        shown = os.read(leader, 10_000).decode()
    os.close(leader)
    lines = [part.strip("\r\n") for part in shown.split("\r\x1b[K")]
    assert all(len(line) < (columns or 80) for line in lines)
    assert lines[-1].startswith("fitting:  19 %, 7.25 of 37.2")


def test_the_time_left_of_a_pass_follows_from_the_pace_of_this_pass(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    clock, out = iter((0.0, 10.0, 20.0, 20.5, 21.5, 22.0)), Terminal()
    monkeypatch.setattr("vehicled.terminal.progress.time.monotonic", lambda: next(clock))
    with Progress("fitting", 40, "s", stream=out, passes=True) as progress:
        for done in (20, 40, 0, 20):
            progress.update(done, "pass 2")
    shown = [line for line in out.getvalue().split("\r\x1b[K") if "left" in line]
    assert "10 s left of this pass" in shown[0]
    assert "1 s left of this pass" in shown[1]


def test_the_time_left_ignores_the_time_before_the_first_step(monkeypatch):
    clock, out = iter((0.0, 160.0, 171.0, 171.0)), io.StringIO()
    monkeypatch.setattr("vehicled.terminal.progress.time.monotonic", lambda: next(clock))
    with Progress("fitting", 40, "s", stream=out, passes=True) as progress:
        progress.update(0)
        progress.update(20)
    assert "11 s left of this pass" in out.getvalue()


def test_progress_is_one_line_outside_of_a_terminal_and_silent_if_quiet():
    lines, nothing = io.StringIO(), io.StringIO()
    for stream, quiet in ((lines, False), (nothing, True)):
        with Progress("replaying", stream=stream, unit="steps", quiet=quiet) as progress:
            for step in range(1000):
                progress.update(step)
    assert lines.getvalue() == "replaying: 999 steps, 0 s\n"
    assert nothing.getvalue() == ""


PARTICLES = "particles: {count: 50}\nsensors: {imu: {imu.wz: {rate: theta, sigma: 0.01 rad/s}}}\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (
            ["run", "--config", "MECHANISM"],
            "space: expected the configuration of a car; this file describes a mech",
        ),
        (
            ["replay", "x.csv", "--config", "PARTICLES"],
            "particles: expected the configuration of a car; this file is",
        ),
        (
            ["identify", "x.csv", "--mechanism", "CAR"],
            "vehicle: expected a mechanism; this file is the configuration",
        ),
        (
            ["particles", "--mechanism", "four_bar", "--config", "MECHANISM"],
            "space: expected a configuration of particles; this file describes a mechanism",
        ),
    ],
)
def test_a_configuration_of_another_kind_is_identified_in_one_line(capsys, tmp_path, command, says):
    (tmp_path / "particles.yaml").write_text(PARTICLES)
    (tmp_path / "x.csv").write_text("t,imu.wz\n0,0\n")
    places = {
        "MECHANISM": str(mechanisms_folder() / "four_bar.yaml"),
        "PARTICLES": str(tmp_path / "particles.yaml"),
        "CAR": str(settings.shipped_folder() / "prototype.yaml"),
        "x.csv": str(tmp_path / "x.csv"),
    }
    assert main([places.get(word, word) for word in command]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
