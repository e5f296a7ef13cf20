"""Files that a daemon is configured to write must not be files that it reads; this is checked before it starts."""

import shutil

import pytest

from vehicled.cli import main
from vehicled.reading import settings


@pytest.fixture
def written(tmp_path):
    """A copy of the prototype's configuration with `learned` and `record` as given."""
    for name in ("prototype.yaml", "prototype.dbc"):
        shutil.copy(settings.shipped_folder() / name, tmp_path)
    path = tmp_path / "prototype.yaml"
    text = path.read_text()

    def write(learned, directory):
        assert text.count("\ndaemon:\n") == 1
        head, _, tail = text.partition("\ndaemon:\n")
        kept = [line for line in tail.splitlines() if not line.startswith("  record: ")]
        own = f"  learned: {learned}\n  record: {{directory: {directory}}}\n"
        path.write_text(f"{head}\ndaemon:\n{own}" + "\n".join(kept) + "\n")
        return path

    return write


@pytest.mark.parametrize(
    ("learned", "message"),
    [
        ("prototype.yaml", "expected another file than the configuration"),
        ("prototype.dbc", "prototype.dbc, which the configuration uses"),
        (".", "expected a regular file, got a folder"),
        ("prototype.dbc/learned.json", "expected a folder, but "),
        ("recordings", "expected a file, got a folder that recordings go to"),
        ("a", "expected a file, got a folder that recordings go to"),
    ],
)
@pytest.mark.parametrize("command", [["check"], ["run", "--config"]])
def test_the_file_of_learned_values_must_not_replace_a_file_in_use(
    capsys, written, learned, message, command
):
    path = written(learned, "a/b" if learned == "a" else "recordings")
    before = path.read_bytes()
    assert main([*command, str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ": daemon.learned: " in line
    assert message in line
    assert path.read_bytes() == before


def test_recordings_need_a_folder(capsys, written):
    path = written("learned.json", "prototype.dbc")
    assert main(["check", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert ": daemon.record.directory: expected a folder, but " in line


def test_a_new_file_and_a_new_folder_are_accepted(capsys, written):
    assert main(["check", str(written("new/learned.json", "new/recordings"))]) == 0
    assert capsys.readouterr().err == ""
