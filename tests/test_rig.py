"""The daemon as a process of its own, and drives on emulated devices: regular and unexpected ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from live_rig import IMU, is_running

from replay.faults import Unplugged
from replay.mcap_log import McapLog
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.errors import RunError, UsageError
from vehicled.messages import Measurement
from vehicled.reading.settings import shipped_folder
from vehicled.rig.configuration import write_configuration
from vehicled.rig.daemon_process import DaemonProcess
from vehicled.rig.rig import Rig

MS = 1_000_000


@pytest.fixture
def car(tmp_path):
    """(configuration, its file, file for the daemon's log)"""
    path = tmp_path / "car.yaml"
    # With another `keep_free`, older recordings would be removed from a disk that is nearly full.
    given = change("prototype.yaml", tmp_path, record={"directory": "runs", "keep_free": 0.0})
    write_configuration(given, path, tmp_path, tmp_path / "runs")
    return load_daemon_configuration(path), path, tmp_path / "daemon.log"


def wait_for_status(daemon):
    give_up = time.monotonic() + 60
    while (status := daemon.poll_status(0.1)) is None:
        assert time.monotonic() < give_up
    return status


def start(car):
    configuration, path, log = car
    return DaemonProcess(path, configuration.daemon.publish.command_endpoint, log)


def change(name, folder, **sections):
    """A copy of the prototype's configuration whose `daemon` has other entries."""
    root = yaml.safe_load((shipped_folder() / "prototype.yaml").read_text())
    root["daemon"]["devices"]["can"]["options"]["dbc"] = str(shipped_folder() / "prototype.dbc")
    root["daemon"] |= sections
    path = folder / name
    path.write_text(yaml.safe_dump(root, allow_unicode=True))
    return path


@pytest.mark.parametrize(
    ("sections", "where"), [({"devices": 5}, "daemon.devices"), ({"rate": 1}, "daemon.rate"), ({}, "")]
)
def test_a_mistake_is_reported_in_the_file_of_the_user(tmp_path, sections, where):
    path = change("mine.yaml", tmp_path, **sections)
    if not sections:
        path.write_text("")
    with pytest.raises(UsageError, match=f"^{path}:.*{where}"):
        write_configuration(path, tmp_path / "written.yaml", tmp_path, tmp_path)


def test_empty_sections_are_filled(tmp_path):
    path = change("mine.yaml", tmp_path, record=None, learned=None)
    write_configuration(path, tmp_path / "written.yaml", tmp_path, tmp_path)
    written = load_daemon_configuration(tmp_path / "written.yaml").daemon
    assert written.record.directory == tmp_path
    assert written.publish.command_endpoint == f"ipc://{tmp_path}/commands"


def test_a_daemon_runs_until_it_is_stopped(car):
    with start(car) as daemon:
        before = daemon.get_cpu_seconds()
        first = wait_for_status(daemon)
        assert first["counters"]["loop"]["rate_hz"] == 250.0
        while wait_for_status(daemon)["t"] == first["t"]:
            time.sleep(0.05)
        assert daemon.get_cpu_seconds() >= before
        assert 20e6 < daemon.get_memory() < 2e9
        pid = daemon.pid
    assert not Path(f"/proc/{pid}").exists()
    daemon.stop()
    assert "SIGTERM: ending" in car[2].read_text()
    (recording,) = (car[1].parent / "runs").iterdir()
    assert not McapLog(recording).read_run().problems


def fail(daemon, number):
    wait_for_status(daemon)
    os.kill(daemon.pid, number)
    while True:
        daemon.check()
        time.sleep(0.01)


def test_a_daemon_that_dies_is_an_error(car):
    with (
        pytest.raises(RunError, match=r"ended unexpectedly, status -9; see .*daemon\.log"),
        start(car) as daemon,
    ):
        fail(daemon, signal.SIGKILL)


def test_a_daemon_that_is_killed_is_started_again(car):
    with start(car) as daemon:
        wait_for_status(daemon)
        # The recorder's thread may open its file later than the first status goes out.
        while not any(path.stat().st_size for path in (car[1].parent / "runs").iterdir()):
            daemon.check()
            time.sleep(0.01)
        before = daemon.pid
        daemon.restart(0.1)
        assert daemon.pid != before
        assert not is_running(before)
        wait_for_status(daemon)
    recordings = sorted((car[1].parent / "runs").iterdir())
    assert len(recordings) == 2
    assert not any(McapLog(recording).read_run().problems for recording in recordings)


def test_the_last_line_of_the_daemon_is_the_error(car):
    path = car[1]
    path.write_text(path.read_text().replace("realtime_priority", "priority_of_realtime"))
    expected = r"car\.yaml:\d+: daemon\.loop\.priority_of_realtime: unknown key"
    with pytest.raises(UsageError, match=expected), start(car) as daemon:
        wait_for_status(daemon)


OWNER = """
import sys
from pathlib import Path
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.rig.rig import Rig
from vehicled.reading.settings import shipped_folder

if __name__ == "__main__":
    path = Path(sys.argv[1])
    with Rig(load_daemon_configuration(path), path, path.with_suffix(".log"), []) as rig:
        print(rig.daemon.pid, rig.emulator._process.pid, flush=True)
        input()
"""


def test_both_processes_end_with_the_program_that_started_them(car, tmp_path):
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, script, car[1]], env=environment, **pipes) as owner:
        pids = list(map(int, owner.stdout.readline().split()))
        owner.kill()
    give_up = time.monotonic() + 20
    while any(map(is_running, pids)):
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_a_drive_with_an_outage_from_end_to_end(car):
    log = [Measurement("log", k * 10 * MS, k * 10 * MS, IMU) for k in range(150)]
    outage = Unplugged(devices=["imu"], begin=0.5, end=0.7)
    with Rig(*car, log, faults=[outage], timed=["imu"]) as rig:
        begin = rig.begin()
        while not rig.is_over():
            time.sleep(0.02)
        end = rig.finish()
        times = rig.emulator.sent_times("imu")
    assert times[0] >= begin
    assert end.sent == {"imu": len(times), "gnss": 0, "can": 0}
    assert len(times) == 130
    imu = end.counters["devices"]["imu"]
    assert imu["disconnects"] == 1
    assert 50 <= imu["measurements"] <= 130
    assert end.counters["queue"]["put"] == imu["measurements"]
    assert 0.0 < end.cpu < 4.0
