"""`vehicled replay`, through the command line: logs in; estimates, recordings and messages out."""

import csv
import json
import re
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zmq
from estimator_rig import mixed
from mcap.reader import make_reader

import vehicled
from replay.log import create_log
from replay.mcap_log import McapLog
from replay.mcap_writer import McapWriter
from vehicled.cli import main
from vehicled.daemon.live_recorder import LiveRecorder
from vehicled.daemon.recording_file import RecordingFile, StepItem
from vehicled.daemon.recordings import RecordOptions, list_recordings, open_recording
from vehicled.drive_summary import Summary
from vehicled.messages import ESTIMATE_COLUMNS, Condition, Measurement, Parameters, SourceFault

SECONDS = 3.5
UTC_OFFSET_NS = 1_700_000_000_000_000_000
"""Constant, as if the clock were not set between two files."""


@pytest.fixture(scope="module")
def logs(tmp_path_factory) -> Path:
    """A folder with the drive as CSV, its replay's estimates and its recording."""
    folder = tmp_path_factory.mktemp("replay")
    measurements = [m for m in mixed(SECONDS).measurements() if m.arrival < SECONDS * 1e9]
    with create_log(folder / "drive.csv", {c for m in measurements for c in m.values}) as log:
        for m in measurements:
            log.write(m)
    arguments = [str(folder / "drive.csv"), "--config", "prototype", "--fast"]
    arguments += ["--estimates", str(folder / "estimates.csv"), "--record", str(folder / "run.mcap")]
    assert main(["replay", *arguments]) == 0
    return folder


def replay(*arguments: object) -> int:
    try:
        return main(["replay", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)


def test_estimates_have_a_row_per_step_from_the_start_on(logs):
    with open(logs / "estimates.csv") as file:
        header, *rows = csv.reader(file)
    assert header == ["t", *ESTIMATE_COLUMNS]
    assert len(rows) == pytest.approx(SECONDS * 250, abs=10)
    times = [float(r[0]) for r in rows]
    assert all(b - a == pytest.approx(0.004) for a, b in pairwise(times))


def test_a_recording_replays_to_the_same_bytes_and_records_to_the_same_bytes(logs, tmp_path):
    again, recorded = tmp_path / "again.csv", tmp_path / "again.mcap"
    arguments = ["--config", "prototype", "--fast", "--estimates", again, "--record", recorded]
    assert replay(logs / "run.mcap", *arguments) == 0
    assert again.read_bytes() == (logs / "estimates.csv").read_bytes()
    assert recorded.read_bytes() == (logs / "run.mcap").read_bytes()


def test_a_recording_takes_less_than_500_mb_an_hour(tmp_path):
    drive, run = tmp_path / "slalom.csv", tmp_path / "run.mcap"
    vehicled.simulate("slalom", "prototype", seed=1, duration=SECONDS).write(drive)
    assert replay(drive, "--config", "prototype", "--fast", "--record", run) == 0
    with open(run, "rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    # Data that a file has only once, such as the schemas, do not count.
    size = sum(c.chunk_length + c.message_index_length for c in summary.chunk_indexes)
    assert size / SECONDS * 3600 < 490e6


@pytest.fixture(scope="module")
def rotated(logs, tmp_path_factory) -> tuple[list[Path], Path]:
    """The drive as the daemon records it: in several files, and in one."""
    run = list(McapLog(logs / "run.mcap").recorded_steps())
    found = []
    for limit in (50_000.0, 1e9):
        folder = tmp_path_factory.mktemp("daemon")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("vehicled.daemon.live_recorder.size_limit", lambda options, limit=limit: limit)
            patched.setattr("vehicled.daemon.live_recorder._CHUNK_S", 1e-4)
            patched.setattr("vehicled.daemon.live_recorder._END_WITHIN_S", 60.0)
            patched.setattr(
                "vehicled.daemon.live_recorder.open_recording",
                lambda folder, text, t, *_: open_recording(folder, text, t, UTC_OFFSET_NS),
            )
            recorder = LiveRecorder(RecordOptions(directory=folder, keep_free=0.0), "text")
            recorder.start()
            for i, step in enumerate(run):
                if i == 700:
                    recorder.record_command(step.t, "set_position", {"x": 10.0, "y": -5.0, "sigma": 0.1})
                recorder.record_step(step.t, step.measurements, None, [])
                if i % 20 == 0:
                    time.sleep(0.001)
            recorder.close()
        found.append(list_recordings(folder))
    several, (one,) = found
    assert len(several) > 3
    return several, one


def test_the_files_of_one_run_replay_to_the_bytes_of_a_single_one(rotated, tmp_path):
    several, one = rotated
    for name, files in (("several", several), ("one", [one])):
        outputs = ["--estimates", tmp_path / f"{name}.csv", "--record", tmp_path / f"{name}.mcap"]
        assert replay(*files, "--config", "prototype", "--fast", *outputs) == 0
    assert (tmp_path / "several.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert (tmp_path / "several.mcap").read_bytes() == (tmp_path / "one.mcap").read_bytes()
    commands = [s.commands for s in McapLog(tmp_path / "several.mcap").recorded_steps() if s.commands]
    assert [c.name for (c,) in commands] == ["set_position"]


def test_the_files_of_one_run_are_smoothed_as_a_single_one(rotated, tmp_path):
    several, one = rotated
    for name, files in (("several", several), ("one", [one])):
        assert (
            replay(*files, "--config", "prototype", "--smooth", "--estimates", tmp_path / f"{name}.csv") == 0
        )
    assert (tmp_path / "several.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()


def test_a_last_file_without_steps_is_accepted(rotated, tmp_path):
    """The daemon was stopped just after it had begun that file."""
    several, _ = rotated
    recording, last = open_recording(tmp_path, "text", 0, UTC_OFFSET_NS)
    recording.writer.close()
    counts = [sum(1 for _ in McapLog(*files).recorded_steps()) for files in (several, [*several, last])]
    assert counts[0] == counts[1] > 800


def test_files_that_do_not_follow_each_other_are_an_error(rotated, logs, tmp_path, capsys):
    files, one = rotated
    last = sum(1 for _ in McapLog(files[0]).recorded_steps())
    other = tmp_path / "other.mcap"  # its step number fits, its time does not
    recording = RecordingFile(McapWriter(other), "text", 0, 0)
    recording.write(StepItem(last + 1, 3_600_000_000_000, [], None, [], None))
    recording.writer.close()
    with create_log(logs / "log.mcap") as log:
        log.write(Measurement("imu", 1, 1, {"imu.ax": 0.0}))
    for given, message in (
        ([files[0], files[2]], f"{files[2]}: begins with step "),
        ([files[1], files[0]], f"{files[0]}: begins with step 1, -"),
        ([files[0], files[0]], f"expected its step {last + 1} within 10 s: all files of one run"),
        ([files[0], other], f"{other}: begins with step {last + 1}, 359"),
        ([files[0], files[1], one], f"{one}: begins with step 1, -"),
        ([files[0], logs / "drive.csv"], "drive.csv: expected a recording (.mcap), as several files"),
        ([logs / "drive.csv", files[0]], "drive.csv: expected a recording (.mcap), as several files"),
        ([logs / "log.mcap", files[0]], "log.mcap: no filter steps; expected a recording"),
        ([files[0], tmp_path / "none.mcap"], "none.mcap: No such file or directory"),
    ):
        assert replay(*given, "--config", "prototype", "--fast") == 2
        error = capsys.readouterr().err
        assert message in error
        assert len(error.splitlines()) == 1


def test_a_recording_has_the_status_once_a_second_and_at_the_end(logs):
    run = McapLog(logs / "run.mcap").read_run()
    changes = [s for s in run.statuses if s.t == s.since]
    assert [s.state for s in changes if s.state != "waiting"] == ["aligning", "running"]
    assert len(run.statuses) - len(changes) == pytest.approx(SECONDS, abs=1.5)
    assert run.statuses[-1].t == run.steps[-1].t
    estimator = run.statuses[-1].counters["estimator"]
    assert (estimator["restarts"], estimator["inputs"]["steering"]) == (0, "measured")
    assert estimator["steps"] == len(run.estimates.t)


def test_the_report_of_a_replay_has_restarts_and_missing_steering(logs, tmp_path):
    with open(logs / "drive.csv") as file, open(tmp_path / "blind.csv", "w") as blind:
        rows = csv.DictReader(file)
        writer = csv.DictWriter(blind, rows.fieldnames)
        writer.writeheader()
        writer.writerows({c: v for c, v in row.items() if not c.startswith("steer.")} for row in rows)
    for log, share in (("drive", "100 %"), ("blind", "0 %")):
        folder = logs if log == "drive" else tmp_path
        recording, page = tmp_path / f"{log}.mcap", tmp_path / f"{log}.html"
        assert replay(folder / f"{log}.csv", "--config", "prototype", "--fast", "--record", recording) == 0
        assert main(["report", str(recording), "-o", str(page)]) == 0
        text = re.sub("<[^>]*>", " ", page.read_text())
        assert re.search(r"\b0\s+restarts of the filter", text)
        assert re.search(rf"\s{share}\s+steps with measured steering", text)


def test_a_truncated_recording_is_replayed_to_its_end_and_reported(logs, tmp_path, capsys):
    whole = (logs / "run.mcap").read_bytes()
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    assert replay(cut, "--config", "prototype", "--fast", "--estimates", tmp_path / "cut.csv") == 0
    assert "cut.mcap" in capsys.readouterr().err
    beginning = (tmp_path / "cut.csv").read_bytes()
    assert beginning.count(b"\n") > 300
    assert (logs / "estimates.csv").read_bytes().startswith(beginning)


def test_results_are_published(logs):
    context = zmq.Context()
    port = context.socket(zmq.PULL).bind_to_random_port("tcp://127.0.0.1")
    context.destroy(linger=0)
    endpoint = f"tcp://127.0.0.1:{port}"
    context = zmq.Context()
    socket = context.socket(zmq.SUB)
    socket.setsockopt(zmq.RCVTIMEO, 10_000)
    socket.subscribe(b"")
    socket.connect(endpoint)
    seen: dict[str, dict] = {}

    def listen() -> None:
        while not {"position", "slip", "suspension", "innovation", "status", "parameters"} <= set(seen):
            topic, payload = socket.recv_multipart()
            seen[topic.decode()] = json.loads(payload)

    listener = threading.Thread(target=listen)
    listener.start()
    try:
        assert replay(logs / "drive.csv", "--config", "prototype", "--rate", 8, "--publish", endpoint) == 0
    finally:
        listener.join(15)
        context.destroy(linger=0)
    assert {"position", "slip", "suspension", "innovation", "status", "parameters"} <= set(seen)
    assert seen["status"]["state"] in ("waiting", "aligning", "running")
    assert {"schema", "t", "x", "y", "lat", "sigma.x"} <= set(seen["position"])
    assert seen["innovation"]["reason"] in ("fused", "gate", "not moving", "too old")


def line(capsys) -> str:
    """The last line on stderr, where there must be no traceback."""
    text = capsys.readouterr().err.strip()
    assert text
    assert "Traceback" not in text
    return text.splitlines()[-1]


@pytest.mark.parametrize(
    ("log", "content", "status", "message"),
    [
        ("missing.csv", None, 2, "missing.csv: No such file"),
        ("empty.csv", "", 2, "empty.csv: empty"),
        ("odd.csv", "t,imu.speed\n0,1\n", 2, "unknown column 'imu.speed'"),
        ("header.csv", "t,imu.ax\n", 1, "header.csv: no measurement that could be used"),
        ("blank.csv", "t,imu.ax\n0,\n1,\n", 1, "blank.csv: no measurement that could be used"),
        ("strange.xyz", "what\n", 2, "unknown kind of log"),
        ("short.csv", "t,steer.rack\n0,0\n0.1,0\n", 1, "short.csv: the filter never started"),
    ],
)
def test_logs_that_cannot_be_replayed_are_reported(tmp_path, capsys, log, content, status, message):
    if content is not None:
        (tmp_path / log).write_text(content)
    assert replay(tmp_path / log, "--config", "prototype", "--fast") == status
    assert message in line(capsys)


@pytest.mark.parametrize("smooth", [[], ["--smooth"]])
def test_a_log_without_estimates_leaves_no_table_and_replaces_none(tmp_path, capsys, smooth):
    log, table = tmp_path / "short.csv", tmp_path / "estimates.csv"
    log.write_text("t,steer.rack\n0,0\n0.1,0\n")
    arguments = [log, "--config", "prototype", "--fast", "--estimates", table, *smooth]
    assert replay(*arguments) == 1
    assert not table.exists()
    table.write_text("of another drive\n")
    assert replay(*arguments) == 1
    assert table.read_text() == "of another drive\n"
    assert "the filter never started" in line(capsys)


def test_wrong_configurations_and_rates_are_usage_errors(logs, tmp_path, capsys):
    log = logs / "drive.csv"
    assert replay(log, "--config", "spaceship") == 2
    assert "spaceship" in line(capsys)
    (tmp_path / "mine.yaml").write_text("vehicle: {kind: hard_points, wings: 2}\n")
    assert replay(log, "--config", tmp_path / "mine.yaml") == 2
    assert "mine.yaml" in line(capsys)
    assert replay(log, "--config", "prototype", "--rate", "0") == 2
    assert "--rate" in line(capsys)
    assert replay(log, "--config", "prototype", "--rate", "2", "--fast") == 2
    assert replay(log, "--config", "prototype", "--fast", "--estimates", tmp_path / "no" / "where.csv") in (
        1,
        2,
    )
    assert "where.csv" in line(capsys)


def test_a_log_in_another_unit_of_time_gets_a_warning_first(tmp_path, capsys):
    log = tmp_path / "slow.csv"
    log.write_text("t,vehicle.speed\n" + "".join(f"{4 * k},10\n" for k in range(8)))
    warning = f"{log}: 0.25 Hz is the highest rate: is the time in another unit? (vehicled check --log)"
    assert replay(log, "--config", "prototype", "--fast") == 0
    assert capsys.readouterr().err.splitlines()[0] == warning
    for command in ("identify", "tune"):
        assert main([command, str(log), "--config", "prototype"]) == 2
        assert capsys.readouterr().err.splitlines()[0] == warning
    assert main(["batch", str(log), "--config", "prototype", "--workers", "1"]) == 0
    assert warning in capsys.readouterr().err


def test_a_damaged_log_is_replayed_and_its_damage_counted(logs, tmp_path, capsys):
    rows = (logs / "drive.csv").read_text().splitlines()
    rows[400] = rows[400][: len(rows[400]) // 2]
    rows[500] = "nonsense" + rows[500]
    rows[600] = rows[600].replace(",", ",nan", 1)
    rows[700:720] = rows[719:699:-1]
    (tmp_path / "damaged.csv").write_text("\n".join(rows) + "\n")
    assert replay(tmp_path / "damaged.csv", "--config", "prototype", "--fast") == 0
    shown = capsys.readouterr()
    assert " problems (" in shown.err
    assert "estimates" in shown.out


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    assert replay(*arguments, "--json") == 0
    out, said = capsys.readouterr()
    assert said == ""
    return json.loads(out)


def test_estimated_parameters_are_in_the_recording_the_summary_and_the_report(logs, capsys, tmp_path):
    recorded = tmp_path / "run.mcap"
    arguments = ["--config", "prototype", "--fast", "--record", recorded]
    found = run_json(capsys, logs / "drive.csv", *arguments)
    log = McapLog(recorded)
    topics = dict.fromkeys(("parameters", "status"), 0)
    last = None
    for topic, messages in log.batches(tuple(topics)):
        topics[topic] += len(messages)
        if topic == "parameters":
            last = log.decode_all(messages, Parameters)[-1]
    assert topics["parameters"] == topics["status"] >= SECONDS
    assert last is not None
    assert {"gyro_bias.z", "gnss_latency", "antenna.x"} <= last.value.keys()
    given = {name: (p["value"], p["sigma"], p["unit"]) for name, p in found["parameters"].items()}
    assert given == {n: (last.value[n], last.sigma[n], last.unit[n]) for n in last.value}
    page = tmp_path / "report.html"
    assert main(["report", str(recorded), "-o", str(page)]) == 0
    assert all(f"<td>{name}</td>" in page.read_text() for name in last.value)


def test_the_summary_contains_rejected_values_and_the_times_of_faults(capsys, tmp_path):
    """The gyroscope has an offset for a second, and the fixes end."""
    jumping = tmp_path / "jumping.csv"
    with create_log(jumping, {c for m in mixed(6.0).measurements() for c in m.values}) as log:
        for m in mixed(6.0).measurements():
            if "gnss.lat" in m.values and m.t > 5e9:
                continue
            if "imu.wz" in m.values and 2e9 < m.t < 3e9:
                m = msgspec.structs.replace(m, values={**m.values, "imu.wz": m.values["imu.wz"] + 3.0})
            log.write(m)
    found = run_json(capsys, jumping, "--config", "prototype", "--fast")
    left_out = found["not_used"]["imu.wz"]
    assert sum(left_out.values()) > 50
    (blamed,) = [f for f in found["faults"] if f["source"] == "imu.gyro"]
    assert blamed["begun"] == pytest.approx(2.0, abs=0.2)
    assert blamed["ended"] == pytest.approx(3.0, abs=0.5)
    (lost,) = [f for f in found["faults"] if f["source"] == "gnss.position"]
    assert (lost["ended"], lost["reason"]) == (None, "silent")
    assert replay(jumping, "--config", "prototype", "--fast") == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert re.search(r"\d+ values left out", first)
    (reason,) = left_out
    assert any(line.startswith(f"left out, {reason}: ") and "imu.wz" in line for line in lines)
    (line,) = [line for line in lines if line.startswith("fault of imu.gyro")]
    assert f"{blamed['begun']:.2f} s to {blamed['ended']:.2f} s" in line
    assert any("gnss.position" in line and "to the end" in line for line in lines)
    assert lines[-1].endswith(f": vehicled check --log {jumping} --config prototype")
    assert len(lines) < 11


def test_a_fault_whose_numbers_change_is_one_fault():
    """The reason of the fault contains the largest value so far."""
    summary = Summary(ended_ns=20_000_000_000)
    texts = [f"values up to {largest} seem to be in deg, not in rad" for largest in ("8", "59.5", "1e+03")]
    for t, text in enumerate(texts):
        fault = SourceFault("steer.wheel", text, ("yaw",))
        summary.take_condition(t * 1_000_000_000, Condition("degraded", 0, None, (fault,)))
    summary.take_condition(3_000_000_000, Condition("running", 3_000_000_000))
    assert [line for line in summary.lines() if line.startswith("fault")] == [
        f"fault of steer.wheel: {texts[2]}: 0.00 s to 3.00 s"
    ]
    (fault,) = summary.to_dict()["faults"]
    assert (fault["reason"], fault["begun"], fault["ended"]) == (texts[2], 0.0, 3.0)


def test_restarts_are_named_with_their_reason_and_time():
    summary = Summary(ended_ns=20_000_000_000)
    fault = SourceFault("imu.gyro", "silent", ("yaw",))
    conditions = [
        Condition("running"),
        Condition("recovering", 1, "the filter was lost"),
        Condition("running"),
    ]
    conditions += [Condition("degraded", 2, None, (fault,)), Condition("running")] * 6
    for k, condition in enumerate(conditions):
        for t in (k, k + 0.5):
            summary.take_condition(round(t * 1e9), condition)
    summary.finish({"sensors": {"gnss.position": {"resets": 2}}, "restarts": 1}, {})
    text = list(summary.lines())
    assert "restart at 1.00 s: the filter was lost" in text
    assert "reset to a source: gnss.position 2" in text
    assert len(summary.restarted) == 1
    (line,) = [line for line in text if line.startswith("fault of imu.gyro: silent: ")]
    assert "3.00 s to 4.00 s" in line
    assert line.endswith("and 2 more, 6.0 s in all")


@pytest.mark.parametrize(("car", "share"), [("prototype", 0.0), ("hatchback", 1.0)])
def test_a_drive_without_torque_or_brake_pressure_is_reported(tmp_path, capsys, car, share):
    """Then suspension travel is up to 54 mm off in braking. Before, only the documentation said so."""
    log, drive = tmp_path / "drive.csv", tmp_path / "drive.yaml"
    inputs = "rear_torque: [[0.5, 0], [1, 500], [2, 500], [2.5, 0]], brake_pressure: [[3, 0], [3.5, 4e6]]"
    drive.write_text(f"duration: 5 s\ninitial: {{speed: 15 m/s}}\ninputs: {{{inputs}}}\n")
    arguments = ["--gnss", "rtk", "--output", str(log), "--truth", str(tmp_path / "truth.csv")]
    assert main(["simulate", str(drive), "--config", car, *arguments]) == 0
    capsys.readouterr()
    assert replay(log, "--config", car, "--fast", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["without_drive"] / found["estimates"] == pytest.approx(share, abs=0.01)
    summary = Summary(steps=found["steps"], estimates=found["estimates"])
    summary.finish({"sensors": {}, "restarts": 0, "without_drive": found["without_drive"]}, {})
    said = [line for line in summary.lines() if line.startswith("without drive torque or brake pressure")]
    assert [line.split(":")[0].endswith(" 100 % of the time") for line in said] == [True] * round(share)
