"""The daemon's recorder on failing and slow disks: it does not block, counts losses and resumes recording."""

import errno
import logging
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live_rig import wait_until
from mcap.reader import make_reader
from recording_rig import PERIOD, START, Disk, messages, step

from replay.mcap_log import McapLog
from replay.mcap_writer import McapWriter
from vehicled.daemon import live_recorder
from vehicled.daemon.live_recorder import LiveRecorder
from vehicled.daemon.recording_file import EVERY_STEP
from vehicled.daemon.recordings import RecordOptions, list_recordings
from vehicled.messages import Status

HEAD = len(["configuration", "clock"])


@pytest.fixture
def start(tmp_path, request, monkeypatch):
    """A function that starts a recorder, with shorter times until a retry and until a hanging disk is reported."""
    monkeypatch.setattr(live_recorder, "_SHORTEST_PAUSE_S", 0.05)
    monkeypatch.setattr(live_recorder, "_STALLED_S", 0.3)

    def start(folder: Path = tmp_path, limit: int = 2048, **options: Any) -> LiveRecorder:
        options = {"keep_free": 0.0, **options}
        recorder = LiveRecorder(
            RecordOptions(directory=folder, rates=EVERY_STEP, **options), "rate: 250 Hz\n", limit
        )
        recorder.start()
        request.addfinalizer(recorder.close)
        return recorder

    return start


def steps_of(path: Path) -> list[int]:
    """Indices of the steps in a file, whose measurements are compared with those that were recorded."""
    found = list(McapLog(path).recorded_steps())
    indices = [(s.t - START) // PERIOD for s in found]
    assert [s.measurements for s in found] == [step(i)[1] for i in indices]
    return indices


def feed(recorder: LiveRecorder, until: Callable[[], object], at_once: int = 1) -> int:
    """Record steps until `until()` is true; return their number. `at_once`: steps recorded without a pause."""
    count = 0

    def some() -> bool:
        nonlocal count
        for _ in range(at_once):
            recorder.record_step(*step(count))
            count += 1
            if until():
                return True
        if recorder.counters()["queue"] > 200:
            time.sleep(0.02)
        return False

    wait_until(some)
    return count


def test_each_file_is_complete_by_itself_and_none_is_overwritten(tmp_path, start):
    for _ in range(3):
        recorder = start()
        for i in range(100):
            recorder.record_step(*step(i))
        recorder.close()
        counters = recorder.counters()
        assert counters["written"] == messages(100) + HEAD
        assert counters["dropped"] == counters["lost"] == counters["errors"] == 0
        path = Path(counters["path"])
        assert counters["bytes"] == path.stat().st_size
        assert McapLog(path).configuration == "rate: 250 Hz\n"
        assert steps_of(path) == list(range(100))
    assert len(list_recordings(tmp_path)) == len(list(tmp_path.iterdir())) == 3


def test_a_step_reaches_the_disk_soon_without_further_steps(start):
    recorder = start()
    wait_until(lambda: recorder.counters()["state"] == "recording")
    path = Path(recorder.counters()["path"])
    recorder.record_step(*step(0))
    wait_until(lambda: steps_of(path) == [0])
    assert recorder.counters()["state"] == "recording"


@pytest.mark.parametrize(
    "status", [Status(START, "running", {"what": object()}), Status(1 << 70, "running", {})]
)
def test_a_message_that_cannot_be_encoded_is_counted_and_the_rest_written(start, status):
    recorder = start()
    recorder.record_status(status)
    recorder.record_step(*step(0))
    recorder.close()
    counters = recorder.counters()
    assert (counters["errors"], counters["lost"]) == (1, 1)
    assert steps_of(Path(counters["path"])) == [0]


def test_at_the_size_limit_a_new_file_continues_with_the_next_step(tmp_path, start):
    recorder = start(file_size_mb=1)
    written = feed(recorder, lambda: len(list_recordings(tmp_path)) == 3, at_once=20)
    recorder.close()
    found = [steps_of(path) for path in list_recordings(tmp_path)]
    assert [i for steps in found for i in steps] == list(range(written))
    assert all(path.stat().st_size > 1_000_000 for path in list_recordings(tmp_path)[:2])
    assert recorder.counters()["written"] == messages(written) + 3 * HEAD
    for path in list_recordings(tmp_path):
        log = McapLog(path)
        assert list(log.recorded_steps())
        assert not log.problems
        with open(path, "rb") as file:
            assert make_reader(file).get_summary() is not None


def test_a_new_file_begins_after_the_duration_limit(tmp_path, start, monkeypatch):
    recorder = start(file_duration=10.0)
    feed(recorder, lambda: recorder.counters()["written"] > HEAD)
    now = time.monotonic
    monkeypatch.setattr(live_recorder.time, "monotonic", lambda: now() + 10.0)
    feed(recorder, lambda: len(list_recordings(tmp_path)) == 2)


def test_a_command_is_in_the_file_of_its_step(tmp_path, start):
    recorder = start(file_size_mb=1)
    following = 0

    def three() -> bool:
        nonlocal following
        following += 1
        recorder.record_command(START + following * PERIOD, "set_position", {"x": following, "y": 0})
        return len(list_recordings(tmp_path)) == 3

    feed(recorder, three, at_once=20)
    recorder.close()
    steps = [s for path in list_recordings(tmp_path) for s in McapLog(path).recorded_steps()]
    commanded = [[c.arguments["x"] for c in s.commands] for s in steps]
    assert commanded == [[], *([i] for i in range(1, following))]


def test_a_full_disk_is_reported_once_and_recording_resumes_in_a_new_file(
    tmp_path, start, monkeypatch, caplog
):
    disk = Disk(monkeypatch)
    recorder = start()
    feed(recorder, lambda: recorder.counters()["written"] > HEAD)
    first = Path(recorder.counters()["path"])
    disk.error = errno.ENOSPC
    feed(recorder, lambda: recorder.counters()["errors"] >= 2)
    counters = recorder.counters()
    assert counters["state"] == "failed"
    assert "No space left on device" in counters["reason"]
    assert counters["lost"] > 0
    assert list_recordings(tmp_path) == [first]
    with open(first, "rb") as file:
        assert len(list(make_reader(file).iter_messages())) == counters["written"]
    disk.error = None
    feed(recorder, lambda: recorder.counters()["state"] == "recording")
    recorder.close()
    counters = recorder.counters()
    assert counters["reason"] is None
    again = Path(counters["path"])
    assert list_recordings(tmp_path) == [first, again]
    assert steps_of(again)
    assert not McapLog(again).read_run().problems
    lines = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert [("cannot record: No space" in line, "recording again" in line) for line in lines] == [
        (True, False),
        (False, True),
    ]


def test_each_message_is_counted_once_when_the_disk_fails(start, monkeypatch):
    disk = Disk(monkeypatch)
    recorder = start()
    wait_until(lambda: recorder.counters()["state"] == "recording")
    disk.error = errno.EIO
    for i in range(200):
        recorder.record_step(*step(i))
    recorder.close()
    counters = recorder.counters()
    assert counters["written"] + counters["lost"] == messages(200) + HEAD
    assert counters["written"] == HEAD


def test_recording_starts_once_a_missing_folder_can_be_created(tmp_path, start):
    (tmp_path / "stick").write_text("in the way")
    recorder = start(tmp_path / "stick" / "runs")
    feed(recorder, lambda: recorder.counters()["state"] == "failed")
    assert "Not a directory" in recorder.counters()["reason"]
    assert recorder.counters()["path"] == str(tmp_path / "stick" / "runs")
    (tmp_path / "stick").unlink()
    feed(recorder, lambda: recorder.counters()["state"] == "recording")
    recorder.close()
    assert len(list_recordings(tmp_path / "stick" / "runs")) == 1


def test_recording_resumes_after_its_folder_disappeared(tmp_path, start):
    folder = tmp_path / "runs"
    recorder = start(folder)
    feed(recorder, lambda: recorder.counters()["written"] > HEAD)
    folder.rename(tmp_path / "elsewhere")
    feed(recorder, lambda: recorder.counters()["errors"] > 0 and recorder.counters()["state"] == "recording")
    recorder.close()
    (path,) = list_recordings(folder)
    assert steps_of(path)


def test_a_hanging_disk_does_not_block_the_caller_and_the_gap_is_reported(
    tmp_path, start, monkeypatch, caplog
):
    disk = Disk(monkeypatch)
    recorder = start(limit=50)
    before = feed(recorder, lambda: recorder.counters()["written"] > HEAD)
    disk.responds.clear()
    feed(recorder, disk.hanging.is_set)
    for i in range(before, before + 200):  # in this thread, which must not wait
        recorder.record_step(*step(i))
    counters = recorder.counters()
    assert counters["dropped"] > 0
    assert counters["queue_high_water"] == 50
    wait_until(lambda: recorder.counters()["state"] == "stalled")
    assert "not responded" in recorder.counters()["reason"]
    disk.responds.set()
    feed(recorder, lambda: "recording again" in caplog.text)
    assert recorder.counters()["state"] == "recording"
    recorder.close()
    (path,) = list_recordings(tmp_path)
    assert steps_of(path)
    log = McapLog(path)
    assert list(log.recorded_steps())
    assert set(log.problems.counts) == {"steps missing"}
    assert caplog.text.count("too slow") == 1


def test_steps_queued_for_a_slow_disk_are_written_together(tmp_path, start, monkeypatch):
    """With one chunk per step, 60 steps would take 6 s, longer than `close` waits for the disk."""
    sync = McapWriter.sync

    def sync_slowly(writer: McapWriter) -> None:
        time.sleep(0.1)
        sync(writer)

    monkeypatch.setattr(McapWriter, "sync", sync_slowly)
    recorder = start()
    before = feed(recorder, lambda: recorder.counters()["written"] > HEAD)
    for i in range(before, before + 60):
        recorder.record_step(*step(i))
    recorder.close()
    (path,) = list_recordings(tmp_path)
    assert steps_of(path) == list(range(before + 60))


@pytest.mark.parametrize("opened", [False, True], ids=["while opening", "while writing"])
def test_close_does_not_wait_for_a_hanging_disk(start, monkeypatch, caplog, opened):
    monkeypatch.setattr(live_recorder, "_END_WITHIN_S", 0.1)
    disk = Disk(monkeypatch)
    if not opened:
        disk.responds.clear()
    recorder = start()
    if opened:
        feed(recorder, lambda: recorder.counters()["written"] > HEAD)
        disk.responds.clear()
    feed(recorder, disk.hanging.is_set)
    recorder.close()
    assert "does not respond" in caplog.text
    assert "recorder" in [t.name for t in threading.enumerate()]
    disk.responds.set()
    wait_until(lambda: "recorder" not in [t.name for t in threading.enumerate()])


RECORD = """
import sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from recording_rig import step
from vehicled.daemon.live_recorder import LiveRecorder
from vehicled.daemon import live_recorder
from vehicled.daemon.recordings import RecordOptions

live_recorder._SHORTEST_PAUSE_S = 0.05
recorder = LiveRecorder(RecordOptions(directory=Path(sys.argv[2]), keep_free=0.0), "x")
recorder.start()
for i in range(100_000):
    recorder.record_step(*step(i))
    print(i, recorder.counters()["lost"], recorder.counters()["state"], flush=True)
    time.sleep(0.002)
"""
"""A process that records until it is killed."""


def run_until(folder: Path, done: Any, before: Any = None) -> int:
    """Run RECORD until a line of its output satisfies `done`, kill it with SIGKILL, and return its last step."""
    command = [sys.executable, "-c", RECORD, str(Path(__file__).parent), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, preexec_fn=before) as process:
        assert process.stdout is not None
        last = 0
        for line in process.stdout:
            number, lost, state = line.split()
            last = int(number)
            if done(last, int(lost), state):
                break
        process.kill()
        for line in process.stdout:
            if line.endswith("\n"):
                last = int(line.split()[0])
    assert process.returncode == -signal.SIGKILL
    return last


def test_the_recording_of_a_killed_process_opens_in_the_default_reader(tmp_path):
    last = run_until(tmp_path, lambda i, *_: i == 350)
    (path,) = list_recordings(tmp_path)
    with open(path, "rb") as file:
        found = list(make_reader(file, validate_crcs=True).iter_messages("/step"))
    assert steps_of(path) == list(range(len(found)))
    # Half a second of steps may be missing: at most 250, as steps are at least 2 ms apart.
    assert last - len(found) < 250


HANG = """
import os, sys
from pathlib import Path
from replay import mcap_writer
from vehicled.daemon import live_recorder
from vehicled.daemon.recordings import RecordOptions

os.mkfifo(sys.argv[1] + "/pipe")
mcap_writer.OutputStream = lambda path, mode: open(sys.argv[1] + "/pipe", "wb", 0)
live_recorder._END_WITHIN_S = 0.1
recorder = live_recorder.LiveRecorder(RecordOptions(directory=Path(sys.argv[1])), "x")
recorder.start()
recorder.close()
print("closed")
"""
"""A process whose disk hangs: opening the pipe for writing blocks, because nothing reads it."""


def test_a_process_ends_while_its_disk_hangs(tmp_path):
    done = subprocess.run([sys.executable, "-c", HANG, tmp_path], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "closed\n")
    assert "the disk does not respond" in done.stderr


def test_recording_resumes_in_a_new_file_at_the_file_size_limit_of_the_system(tmp_path):
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))

    run_until(tmp_path, lambda i, lost, state: len(list_recordings(tmp_path)) == 3, limit)
    first, second, _ = list_recordings(tmp_path)
    found = [steps_of(first), steps_of(second)]
    assert all(found)
    assert found[0][-1] < found[1][0]
    for path in (first, second):
        with open(path, "rb") as file:
            assert list(make_reader(file).iter_messages("/step"))


def test_the_offset_to_utc_does_not_contain_the_delay_of_a_slow_disk(start, monkeypatch):
    offsets, opened, limited = [], live_recorder.open_recording, live_recorder.size_limit

    def open_recording(*arguments):
        offsets.append(arguments[3] - (time.time_ns() - time.monotonic_ns()))
        return opened(*arguments)

    def size_limit(options):
        time.sleep(0.2)
        return limited(options)

    monkeypatch.setattr(live_recorder, "open_recording", open_recording)
    monkeypatch.setattr(live_recorder, "size_limit", size_limit)
    start().close()
    assert abs(offsets[0]) < 50_000_000
