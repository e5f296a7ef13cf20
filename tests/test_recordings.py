"""The folder of recordings: truncated ones are repaired, the oldest removed when the disk runs out of space."""

import errno
import logging
import os
import subprocess
import types
from itertools import count
from pathlib import Path

import pytest
from live_rig import wait_until
from recording_rig import Disk, read_recording, step, write_recording

from vehicled.daemon import live_recorder, recordings
from vehicled.daemon.live_recorder import LiveRecorder
from vehicled.daemon.recordings import Housekeeper, RecordOptions, list_recordings, open_recording

NAMES = [
    "20231114T221320Z.mcap",
    "20231114T221320Z-2.mcap",
    "20231114T221320Z-10.mcap",
    "20240101T000000Z.mcap",
]
"""Oldest first."""


def fill(folder: Path) -> int:
    """Write recordings and other files, which must not be touched; return the size of a recording on the disk."""
    for name in (*NAMES, "notes.mcap", "20231114T221320Z.mcap.bak", "learned.json"):
        write_recording(folder / name, 50)
    return (folder / NAMES[0]).stat().st_blocks * 512


@pytest.fixture
def disk(monkeypatch):
    """A file system as `statvfs` describes it: 1 MB, of which `free` bytes are free."""
    space = types.SimpleNamespace(free=1_000_000)
    monkeypatch.setattr(
        recordings.os,
        "statvfs",
        lambda path: types.SimpleNamespace(f_blocks=1_000_000, f_frsize=1, f_bavail=space.free),
    )
    return space


def names(folder: Path) -> list[str]:
    return [path.name for path in list_recordings(folder)]


def test_the_oldest_recordings_are_removed_until_there_is_room(tmp_path, disk):
    size = fill(tmp_path)
    keeper = Housekeeper(RecordOptions(directory=tmp_path, keep_free=0.5))
    keeper.tend()
    assert names(tmp_path) == NAMES
    disk.free = 500_000 - size - 1
    keeper.tend()
    assert names(tmp_path) == NAMES[2:]
    assert keeper.counters()["removed"] == 2
    disk.free = 0
    keeper.tend()
    assert names(tmp_path) == []
    assert len(list(tmp_path.iterdir())) == 3


def test_the_age_of_a_recording_is_that_of_its_begin_or_its_last_change_whichever_is_later(tmp_path):
    """The clock was behind when one recording began, and when another was repaired."""
    fill(tmp_path)
    begun, repaired = "19700101T001739Z.mcap", NAMES[0]
    write_recording(tmp_path / begun, 50)
    for n, name in enumerate([*NAMES[1:], begun]):
        os.utime(tmp_path / name, (1_710_000_000 + n, 1_710_000_000 + n))
    os.utime(tmp_path / repaired, (1000, 1000))
    assert names(tmp_path) == [*NAMES, begun]


def test_files_of_the_current_run_are_removed_last_even_if_the_clock_is_wrong(tmp_path, disk, monkeypatch):
    size = fill(tmp_path)
    monkeypatch.setattr(live_recorder.time, "time_ns", lambda: 1059 * 10**9)
    recorder = LiveRecorder(RecordOptions(directory=tmp_path, keep_free=0.5), "x")
    recorder.start()
    wait_until(lambda: recorder.counters()["state"] == "recording")
    recorder.close()
    os.utime(tmp_path / "19700101T001739Z.mcap", (1060, 1060))
    disk.free = 500_000 - len(NAMES) * size
    recorder._housekeeper.tend()
    assert names(tmp_path) == ["19700101T001739Z.mcap"]
    disk.free = 500_000 - 1
    recorder._housekeeper.tend()
    assert names(tmp_path) == []


def test_a_recording_that_cannot_be_removed_does_not_stop_the_removal_of_others(tmp_path, disk, caplog):
    fill(tmp_path)
    oldest = tmp_path / "20200101T000000Z.mcap"
    oldest.mkdir()
    disk.free = 0
    keeper = Housekeeper(RecordOptions(directory=tmp_path, keep_free=0.9))
    keeper.tend()
    assert names(tmp_path) == [oldest.name]
    assert keeper.counters()["removed"] == len(NAMES)
    assert f"{oldest}: not removed: Is a directory" in caplog.text


def test_a_new_file_that_cannot_be_opened_leaves_existing_ones_unchanged(tmp_path, monkeypatch):
    recording, path = open_recording(tmp_path, "x", 0, 0)
    recording.writer.close()
    whole = path.read_bytes()
    Disk(monkeypatch).error = errno.EMFILE
    with pytest.raises(OSError, match="Too many open files"):
        open_recording(tmp_path, "x", 0, 0)
    assert path.read_bytes() == whole


def test_no_recording_is_removed_if_no_space_is_to_be_kept_free(tmp_path, disk):
    fill(tmp_path)
    disk.free = 0
    Housekeeper(RecordOptions(directory=tmp_path, keep_free=0.0)).tend()
    assert names(tmp_path) == NAMES


def test_a_recording_that_is_being_written_is_neither_removed_nor_repaired(tmp_path, disk):
    recorder = LiveRecorder(RecordOptions(directory=tmp_path, keep_free=0.0), "x")
    recorder.start()
    wait_until(lambda: recorder.counters()["state"] == "recording")
    fill(tmp_path)
    disk.free = 0
    keeper = Housekeeper(RecordOptions(directory=tmp_path, keep_free=0.9))
    keeper.tend()
    path = Path(recorder.counters()["path"])
    assert list_recordings(tmp_path) == [path]
    recorder.record_step(*step(0))
    recorder.close()
    assert read_recording(path) == [0]
    keeper.tend()
    assert list_recordings(tmp_path) == []


def test_the_next_start_repairs_recordings_that_were_cut_off(tmp_path, caplog):
    path = tmp_path / NAMES[0]
    whole = write_recording(path)
    path.write_bytes(whole[: len(whole) // 2])
    (tmp_path / NAMES[1]).write_bytes(b"")
    (tmp_path / NAMES[2]).write_bytes(b"something else")
    recorder = LiveRecorder(RecordOptions(directory=tmp_path, keep_free=0.0), "x")
    with caplog.at_level(logging.INFO):
        recorder.start()
        wait_until(lambda: recorder.counters()["recovered"] == 1)
        recorder.close()
    assert read_recording(path)
    assert f"{path}: it was cut off; recovered" in caplog.text
    assert caplog.text.count(f"{NAMES[2]}: expected a recording") == 1
    assert NAMES[1] not in caplog.text


@pytest.fixture
def mounted(tmp_path):
    """A real file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def record_again(recorder: LiveRecorder) -> None:
    """Give the recorder steps until it records them."""
    numbers = count()

    def recording() -> bool:
        recorder.record_step(*step(next(numbers)))
        return bool(recorder.counters()["state"] == "recording")

    wait_until(recording)


def test_recording_resumes_after_a_real_disk_was_full(mounted):
    filler = mounted / "filler"
    disk = os.statvfs(mounted)
    filler.write_bytes(bytes(disk.f_bavail * disk.f_frsize))
    recorder = LiveRecorder(RecordOptions(directory=mounted, keep_free=0.0), "x")
    recorder.start()
    wait_until(lambda: recorder.counters()["state"] == "failed")
    assert "No space left" in recorder.counters()["reason"]
    assert names(mounted) == []
    filler.unlink()
    record_again(recorder)
    recorder.close()
    assert read_recording(Path(recorder.counters()["path"]))
    assert len(write_recording(mounted / NAMES[0], 2000)) > 500_000
    os.utime(mounted / NAMES[0], (0, 0))
    disk = os.statvfs(mounted)
    filler.write_bytes(bytes(int((disk.f_bavail - 0.1 * disk.f_blocks) * disk.f_frsize)))
    Housekeeper(RecordOptions(directory=mounted, keep_free=0.2)).tend()
    assert names(mounted) == [Path(recorder.counters()["path"]).name]


def test_recording_resumes_after_a_real_disk_was_read_only(mounted):
    subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
    recorder = LiveRecorder(RecordOptions(directory=mounted), "x")
    recorder.start()
    wait_until(lambda: recorder.counters()["state"] == "failed")
    assert "Read-only file system" in recorder.counters()["reason"]
    subprocess.run(["mount", "-o", "remount,rw", mounted], check=True)
    record_again(recorder)
    recorder.close()
    assert read_recording(Path(recorder.counters()["path"]))
