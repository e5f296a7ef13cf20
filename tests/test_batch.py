"""`vehicled batch`: results, truth files, errors and output files; also on a cluster while a worker is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jobs_rig
import numpy as np
import pytest
from test_demo import running_in_group

import vehicled
from replay.csv_log import Table, read_estimates
from replay.problems import Problems
from vehicled.batch.truth import pair_truths
from vehicled.cli import main
from vehicled.commands import batch as command
from vehicled.errors import UsageError
from vehicled.scoring.scores import compare, score

LENGTH = 2.0
"""Duration of each drive, s."""


def write_truth(truth: vehicled.Estimates, path: Path) -> None:
    names = ["x", "y", "z", "yaw", "vx", "vy", "wz", "sideslip", "tyre.fl.fy"]
    table = np.column_stack([truth.t_ns * 1e-9, *(truth[name] for name in names)])
    np.savetxt(path, table, "%.12g", ",", header=",".join(["t", *names]), comments="")


@pytest.fixture(scope="module")
def drives(tmp_path_factory) -> Path:
    """Three logs, two of them with a truth."""
    folder = tmp_path_factory.mktemp("drives")
    configuration = vehicled.load_configuration("prototype")
    for name, scenario in (("a", "slalom"), ("b", "step_steer"), ("c", "slalom")):
        drive = vehicled.simulate(scenario, configuration, seed=ord(name), duration=LENGTH, gnss="rtk")
        drive.write(folder / f"{name}.mcap")
        if name != "c":
            write_truth(drive.truth, folder / f"{name}.truth.csv")
    return folder


def batch(capsys, *arguments: object, status: int = 0) -> list[dict]:
    """Rows of the command; with one worker unless on a cluster, as each worker imports everything when it starts."""
    workers = () if "--scheduler" in arguments else ("--workers", "1")
    assert main(["batch", *map(str, (*arguments, *workers)), "--json"]) == status
    return json.loads(capsys.readouterr().out)["rows"]


@pytest.fixture
def here(monkeypatch):
    """Run jobs in this process."""
    monkeypatch.setattr(command, "open_executor", lambda args, jobs: jobs_rig.Here())


def without_times(rows: list[dict]) -> str:
    return json.dumps([{k: v for k, v in row.items() if k != "step_us"} for row in rows])


@pytest.fixture(scope="module")
def options(drives) -> list[object]:
    soft = drives / "soft.yaml"
    text = Path(vehicled.reading.settings.config_path("prototype")).read_text()
    soft.write_text(text.replace("kind: errorEKF_FE", "kind: errorEKF_EJ"))
    assert soft.read_text() != text
    return [drives / "a.mcap", drives / "b.mcap", drives / "c.mcap", "--config", "prototype", soft]


@pytest.fixture(scope="module")
def local(options, tmp_path_factory) -> list[dict]:
    """Rows made by a worker process on this machine."""
    path = tmp_path_factory.mktemp("local") / "rows.json"
    with path.open("w") as file:
        subprocess.run(
            [sys.executable, "-m", "vehicled", "batch", *map(str, options), "--workers", "1", "--json"],
            stdout=file,
            check=True,
        )
    return json.loads(path.read_text())["rows"]


def test_there_is_a_row_for_each_log_and_configuration(local, options, drives):
    logs, configs = options[:3], options[4:]
    assert [(r["log"], r["config"]) for r in local] == [(str(x), str(c)) for x in logs for c in configs]
    assert [r["truth"] for r in local[::2]] == [*(str(drives / f"{n}.truth.csv") for n in "ab"), None]
    assert all(r["error"] is None for r in local)
    assert all(r["seconds"] == pytest.approx(LENGTH, abs=0.1) for r in local)
    assert all(0 < r["step_us"]["median"] <= r["step_us"]["p99"] for r in local)
    assert local[4]["errors"] == {}
    assert local[0]["errors"] != local[1]["errors"]


def test_results_equal_those_of_the_library(local, drives):
    estimates = vehicled.estimate(drives / "a.mcap", vehicled.load_configuration("prototype"))
    table = Table(estimates.t_ns, {c: estimates[c] for c in estimates.columns}, Problems("estimates"))
    scored = score(compare(table, read_estimates(drives / "a.truth.csv")), estimates.innovations)
    assert local[0]["errors"].keys() == scored.quantities.keys() >= {"horizontal", "yaw", "tyre.fl.fy"}
    for quantity, figures in local[0]["errors"].items():
        one = scored.quantities[quantity]
        assert figures == {"rmse": one.rmse, "max": one.max, "unit": one.unit, "nees": one.nees}
    assert local[0]["nis"] == {name: s.nis for name, s in scored.sensors.items()}
    for name, s in scored.sensors.items():
        assert local[0]["rejected"][name] == s.rejected / (s.fused + s.rejected)


def test_a_failed_log_has_an_error_row_and_the_other_logs_continue(here, drives, tmp_path, capsys):
    (tmp_path / "empty.mcap").touch()
    (tmp_path / "foreign.csv").write_text("hello\n")
    (tmp_path / "none.csv").write_text("t,imu.wz\n")
    logs = [tmp_path / "empty.mcap", tmp_path / "foreign.csv", drives / "c.mcap", tmp_path / "none.csv"]
    rows = batch(capsys, *logs, "--config", "prototype", status=1)
    assert [row["error"] is None for row in rows] == [False, False, True, False]
    assert all("\n" not in row["error"] for row in rows if row["error"])
    assert str(tmp_path / "foreign.csv") in rows[1]["error"]
    assert "no measurement" in rows[3]["error"]


def test_the_table_shows_errors_of_rows(here, tmp_path, capsys):
    (tmp_path / "none.csv").write_text("t,imu.wz\n")
    assert main(["batch", str(tmp_path / "none.csv"), "--config", "prototype"]) == 1
    assert "no measurement that could be used" in capsys.readouterr().out


def test_a_truth_without_common_times_is_an_error_and_the_row_keeps_its_nis(here, drives, tmp_path, capsys):
    truth = tmp_path / "truth.csv"
    truth.write_text("t,yaw\n1000,0\n1001,0\n")
    [row] = batch(capsys, drives / "a.mcap", "--config", "prototype", "--truth", truth, status=1)
    assert "no time in common" in row["error"]
    assert row["nis"]


def test_a_truth_with_another_origin_is_noted_in_its_row(here, drives, tmp_path, capsys):
    truth = tmp_path / "truth.csv"
    lines = (drives / "a.truth.csv").read_text().splitlines()
    truth.write_text("\n".join([lines[0] + ",lat,lon", *(line + ",43.4,-8.4" for line in lines[1:])]))
    [row] = batch(capsys, drives / "a.mcap", "--config", "prototype", "--truth", truth)
    assert any(note.startswith("the origins of x and y are ") for note in row["notes"])


def test_resume_keeps_finished_rows_and_retries_failed_ones(here, drives, tmp_path, capsys):
    log, rows = tmp_path / "late.csv", tmp_path / "rows.jsonl"
    log.write_text("t,imu.wz\n")
    options = ["--config", "prototype", "--resume", rows]
    first = batch(capsys, drives / "c.mcap", log, *options, status=1)
    assert [json.loads(line) for line in rows.read_text().splitlines()] == first[:1]
    again = batch(capsys, log, drives / "c.mcap", drives / "a.mcap", *options, status=1)
    assert again[1] == first[0], "with the time of its steps, which a new one would not repeat"
    assert "no measurement" in again[0]["error"]
    assert len(rows.read_text().splitlines()) == 2
    rows.write_text("hello\n")
    assert main(["batch", str(log), *map(str, options)]) == 2
    assert "expected a row of `vehicled batch`" in capsys.readouterr().err


def test_resume_runs_a_changed_log_again(here, drives, tmp_path, capsys):
    log, rows = tmp_path / "log.mcap", tmp_path / "rows.jsonl"
    log.write_bytes((drives / "c.mcap").read_bytes())
    [first] = batch(capsys, log, "--config", "prototype", "--resume", rows)
    log.write_bytes((drives / "b.mcap").read_bytes())
    [again] = batch(capsys, log, "--config", "prototype", "--resume", rows)
    assert again["nis"] != first["nis"]


def test_parquet_has_all_figures_with_units_and_configurations(here, options, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    path, plot = tmp_path / "table.parquet", tmp_path / "table.svg"
    rows = batch(capsys, *options[:2], "--config", "prototype", "--parquet", path, "--plot", plot)
    table = parquet.read_table(path)
    assert table.column("log").to_pylist() == [row["log"] for row in rows]
    assert table.column("errors.yaw.rmse").to_pylist() == [row["errors"]["yaw"]["rmse"] for row in rows]
    assert table.column("nis.imu.gyro").to_pylist() == [row["nis"]["imu.gyro"] for row in rows]
    assert table.schema.field("errors.yaw.rmse").metadata == {b"unit": b"rad"}
    configurations = json.loads(table.schema.metadata[b"vehicled.configurations"])
    assert configurations == {
        "prototype": Path(vehicled.reading.settings.config_path("prototype")).read_text()
    }
    assert plot.read_text().startswith("<?xml")
    assert "<svg" in plot.read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["missing.mcap", "--config", "prototype"], "missing.mcap: No such file"),
        (["{a}", "--config", "nothing"], "expected a file or a shipped configuration"),
        (
            ["{a}", "{b}", "--config", "prototype", "--truth", "{a}"],
            "--truth: expected one for each of 2 logs",
        ),
        (
            ["{a}", "--config", "prototype", "--plot", "table.html"],
            "--plot table.html: expected a name that ends in .svg, .png or .pdf",
        ),
        (
            ["{a}", "--config", "prototype", "--parquet", "no/t.parquet"],
            "--parquet no/t.parquet: no such folder",
        ),
        (["{a}", "--config", "prototype", "--parquet", "."], "--parquet .: expected a file, got a folder"),
        (["{a}", "--config", "prototype", "--workers", "2", "--scheduler", "tcp://x:1"], "not allowed with"),
    ],
)
def test_bad_usage_is_reported_in_one_line(drives, capsys, arguments, expected):
    filled = [a.format(a=drives / "a.mcap", b=drives / "b.mcap") for a in arguments]
    assert main(["batch", *filled]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.count("\n") == 1


def test_truth_files_are_found_beside_their_logs(tmp_path):
    for name in (
        "a.mcap",
        "a.mcap.truth.csv",
        "a.truth.csv",
        "b.csv",
        "b_truth.csv",
        "c.csv",
        "d.csv",
        "d.truth.csv",
    ):
        (tmp_path / name).touch()
    logs = [tmp_path / "a.mcap", *sorted(tmp_path.glob("*.csv"))]
    pairs = {log.name: truth and truth.name for log, truth in pair_truths(logs, []).items()}
    assert pairs.pop("a.truth.csv") is None, "another truth of a.mcap is used"
    assert pairs == {
        "a.mcap": "a.mcap.truth.csv",
        "b.csv": "b_truth.csv",
        "c.csv": None,
        "d.csv": "d.truth.csv",
    }
    with pytest.raises(UsageError, match="one for each of 2 logs, got 1"):
        pair_truths(logs[:2], logs[:1])
    assert pair_truths([Path(".")], []) == {Path("."): None}, "a log may be a folder"


@pytest.fixture(scope="module")
def workers():
    pytest.importorskip("distributed")
    with jobs_rig.start_cluster() as cluster:
        yield cluster


def test_a_cluster_gives_the_same_rows_although_a_worker_is_killed_in_mid_run(
    options, local, workers, capsys, tmp_path, monkeypatch, drives
):
    monkeypatch.chdir(drives)  # not the working directory of the workers
    rows = tmp_path / "rows.jsonl"

    def kill_when_begun() -> None:
        while not rows.exists():
            time.sleep(0.01)
        first = next(iter(workers.workers.values()))
        os.kill(first.process.pid, signal.SIGKILL)

    thread = threading.Thread(target=kill_when_begun)
    thread.start()
    found = batch(capsys, *options, "--scheduler", workers.scheduler_address, "--resume", rows)
    thread.join()
    assert without_times(found) == without_times(local)
    assert len(rows.read_text().splitlines()) == len(found)


def test_a_log_that_is_missing_on_the_worker_has_an_error_row(drives, tmp_path, capsys, workers, monkeypatch):
    """The log is deleted after the command has listed its jobs, as if the worker's machine did not have it."""
    log = tmp_path / "here.mcap"
    log.write_bytes((drives / "c.mcap").read_bytes())
    list_jobs = command._list_jobs

    def list_and_remove(args):
        jobs = list_jobs(args)
        log.unlink()
        return jobs

    monkeypatch.setattr(command, "_list_jobs", list_and_remove)
    rows = batch(
        capsys,
        log,
        drives / "c.mcap",
        "--config",
        "prototype",
        "--scheduler",
        workers.scheduler_address,
        status=1,
    )
    assert f"{log}: No such file or directory on " in rows[0]["error"]
    assert "under the same path" in rows[0]["error"]
    assert rows[1]["error"] is None


def test_ctrl_c_keeps_finished_rows_and_leaves_no_process(options, tmp_path):
    rows = tmp_path / "rows.jsonl"
    program = [
        sys.executable,
        "-m",
        "vehicled",
        "batch",
        *map(str, options),
        "--workers",
        "1",
        "--resume",
        str(rows),
    ]
    process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not rows.exists():
        time.sleep(0.01)
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    _, message = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "of 6 rows are in" in message
    assert "Traceback" not in message
    deadline = time.monotonic() + 10.0
    while running_in_group(process.pid):  # multiprocessing's helper process ends last
        assert time.monotonic() < deadline
        time.sleep(0.05)
