"""An output file that cannot be completed is named in one line and set aside."""

import errno
import os
import re
import resource
import shlex
import signal
import subprocess
import sys

import pytest
from estimator_rig import mixed

from replay.log import create_log
from vehicled.cli import main
from vehicled.terminal.output_files import open_output, write_output, writing

LIMIT = 20_000
"""Largest size of a file, bytes."""
TOO_LARGE = os.strerror(errno.EFBIG)


@pytest.fixture
def small_files():
    """Limit files of this process to `LIMIT` bytes; the error occurs where that of a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "drive.mcap"
    measurements = [m for m in mixed(3.0).measurements() if m.arrival < 3e9]
    with create_log(path, {c for m in measurements for c in m.values}) as writer:
        for m in measurements:
            writer.write(m)
    return path


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("convert {log} {out}", "out.csv"),
        ("convert {log} {out}", "out.mcap"),
        ("convert {log} {out}", "out.parquet"),
        ("replay {log} --config prototype --fast --estimates {out}", "out.csv"),
        ("replay {log} --config prototype --fast --record {out}", "out.mcap"),
        ("simulate sine_with_dwell --config prototype --output {out}", "out.csv"),
        ("simulate sine_with_dwell --config prototype --output {out}", "out.mcap"),
    ],
)
def test_an_incomplete_file_is_named_and_set_aside(tmp_path, capsys, log, small_files, command, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    out = tmp_path / name
    assert main(shlex.split(command.format(log=log, out=out))) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line == f"vehicled: {out}: {TOO_LARGE}; the incomplete file is {out}.part"
    assert not out.exists()
    assert 0 <= (tmp_path / f"{name}.part").stat().st_size <= LIMIT


def test_a_file_that_cannot_be_opened_stays_as_it_is(tmp_path):
    path = tmp_path / "result.csv"
    path.write_text("of another day")
    with pytest.raises(OSError, match="Permission denied"), writing(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))
    assert path.read_text() == "of another day"
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_is_not_renamed(tmp_path):
    link = tmp_path / "full.csv"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match=re.escape(f"No space left on device: '{link}'")):
        write_output(link, b"1")
    assert link.is_symlink()


def test_bytes_are_written_and_appended_unchanged(tmp_path):
    path = tmp_path / "a.bin"
    write_output(path, b"one")
    with open_output(path, "ab") as file:
        file.write(b", two")
    assert path.read_bytes() == b"one, two"


def test_ctrl_c_sets_incomplete_files_aside(tmp_path):
    paths = [tmp_path / "estimates.csv", tmp_path / "run.mcap"]

    def write():
        with writing(paths[0]), writing(paths[1]):
            for path in paths:
                path.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        write()
    assert sorted(tmp_path.iterdir()) == [path.with_name(f"{path.name}.part") for path in paths]
    assert stopped.value.args == tuple(f"the incomplete file is {path}.part" for path in reversed(paths))


def test_sigterm_sets_an_incomplete_file_aside_and_ends_the_process(tmp_path):
    out = tmp_path / "table.csv"
    script = (
        "import sys, time, types\nfrom vehicled.terminal.output_files import writing\n"
        "m = types.ModuleType('vehicled.commands.check')\nm.HELP = ''\nm.configure = lambda p: None\n"
        f"def run(args):\n    with writing({str(out)!r}), open({str(out)!r}, 'w') as file:\n"
        "        file.write('half')\n        print('begun', flush=True)\n        time.sleep(30)\n"
        "m.run = run\nsys.modules[m.__name__] = m\n"
        "from vehicled.cli import main\nsys.exit(main(['check']))"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=-1, stderr=-1) as process:
        process.stdout.readline()
        process.terminate()
        assert process.stderr.read().decode() == f"vehicled: the incomplete file is {out}.part\n"
    assert process.returncode == -signal.SIGTERM
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv.part"]
