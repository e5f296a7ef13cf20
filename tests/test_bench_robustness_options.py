"""`vehicled bench robustness` checks its options before its first run."""

import pytest

from vehicled.cli import main


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--ferrari", "FOLDER"],
            "--ferrari FOLDER: no file drive.csv there; expected drive.csv and drive_t",
        ),
        (["--rav4", "FOLDER"], "--rav4 FOLDER: no file drive.csv there; expected drive.csv and truth.csv"),
        (["--drive", "FOLDER/a", "b", "c"], "--drive: FOLDER/a: no such file; expected LOG TRUTH CONFIG"),
        (["--drive", "FOLDER", "FOLDER", "no_car"], "no_car"),
        (
            ["--only", "Ferrari*"],
            "--only: 'Ferrari*' is a recorded drive; expected --ferrari DIR with its files",
        ),
        (["--only", "rav4"], "--only: 'rav4' is a recorded drive; expected --rav4 DIR with its files"),
    ],
)
def test_wrong_paths_and_patterns_are_refused_before_any_run(tmp_path, capsys, monkeypatch, options, message):
    monkeypatch.setattr("vehicled.commands.benches.robustness._run_jobs", None)
    assert main(["bench", "robustness", *(o.replace("FOLDER", str(tmp_path)) for o in options)]) == 2
    error = capsys.readouterr().err
    assert message.replace("FOLDER", str(tmp_path)) in error
    assert error.count("\n") == 1
