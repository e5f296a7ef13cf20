"""Tests of the service under a real systemd with emulated devices, in order: from first start to recordings.

`.ci/service` boots that systemd and runs this file, which pytest does not collect by itself.
"""

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
import zmq

from replay.emulator import Emulator
from replay.laps import Laps
from replay.mcap_log import McapLog
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.messages import WHEELS, Measurement
from vehicled.rig.configuration import plan_devices

CONFIGURATION = Path("/etc/vehicled/vehicled.yaml")
COMMANDS = "ipc:///run/vehicled/commands"
STATE = Path("/var/lib/private/vehicled")
DISK_MB = 256
DEVICES = {"imu", "gnss", "can"}
IMU_HZ = 100
S = 1_000_000_000
SPEED, WHEEL_RADIUS = 12.0, 0.3
KILLED: list[int] = []
"""Times just before the process was killed, ns."""


def straight_drive():
    """An hour straight to the north at constant speed."""
    turn, north = SPEED / WHEEL_RADIUS, math.degrees(SPEED / 6_361_000.0)
    imu = {"imu.ax": 0.0, "imu.ay": 0.0, "imu.az": 9.81, "imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": 0.0}
    gnss = {"gnss.lon": -8.41, "gnss.alt": 100.0, "gnss.quality": 4.0}
    gnss |= {"gnss.speed": SPEED, "gnss.course": 0.0}
    lap = []
    for i in range(IMU_HZ):
        t = i * S // IMU_HZ
        can = {f"wheel.{w}.angle": turn * t / S for w in WHEELS} | {"steer.rack": 0.0, "brake.pressure": 0.0}
        lap += [Measurement("imu", t, t, imu), Measurement("can", t, t, can)]
        if i % 10 == 0:
            lap.append(Measurement("gnss", t, t, gnss | {"gnss.lat": 43.33 + north * t / S}))
    gained = {"gnss.lat": north} | {f"wheel.{w}.angle": turn for w in WHEELS}
    return Laps(lap, S, gained, 3600 * S)


@pytest.fixture(scope="module", autouse=True)
def emulator():
    """Emulated devices at ports with the names of the udev rules; a small disk for the state directory."""
    whole = yaml.safe_load(Path("/opt/tree/config/prototype.yaml").read_text())
    daemon = whole["daemon"]
    daemon["devices"]["can"]["options"] |= {"interface": "slcan", "channel": "/dev/vehicled-can"}
    daemon["publish"]["command_endpoint"] = COMMANDS
    daemon["record"] = {"directory": "/var/lib/vehicled", "keep_free": 0.0}
    CONFIGURATION.write_text(yaml.safe_dump(whole, allow_unicode=True))
    STATE.mkdir(parents=True)
    STATE.parent.chmod(0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "disk", STATE], check=True)
    plan = plan_devices(load_daemon_configuration(CONFIGURATION))
    assert set(plan) == DEVICES
    with Emulator(plan, straight_drive()) as emulator:
        emulator.start()
        yield emulator


def systemctl(*arguments):
    return subprocess.run(["systemctl", *arguments], capture_output=True, text=True, check=False)


def show(name):
    return systemctl("show", "--value", f"--property={name}", "vehicled").stdout.strip()


def main_pid():
    return int(show("MainPID"))


def journal(since):
    """Log lines of systemd and the service since a time, s since the epoch."""
    command = ["journalctl", "--output=cat", "--unit=vehicled", f"--since=@{since:.6f}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wait_for(condition, seconds, what):
    give_up = time.monotonic() + seconds
    while not (result := condition()):
        status = systemctl("status", "vehicled").stdout
        assert time.monotonic() < give_up, f"not within {seconds} s: {what}\n{status}"
        time.sleep(0.1)
    return result


def counters(seconds=5.0):
    """The daemon's counters, by the command socket."""
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.linger = 0
        socket.connect(COMMANDS)
        socket.send(b'{"command": "status"}')
        assert socket.poll(round(seconds * 1e3)), "no reply to the command status"
        return json.loads(socket.recv())["status"]["counters"]


def wait_for_device_states(states, seconds=10.0):
    def are_so():
        devices = counters()["devices"]
        return all(devices[name]["state"] in states[name] for name in states)

    wait_for(are_so, seconds, f"devices {states}")


def start():
    systemctl("reset-failed", "vehicled")  # also resets the count of starts
    began = time.monotonic()
    done = systemctl("start", "vehicled")
    assert done.returncode == 0, done.stderr + systemctl("status", "vehicled").stdout
    print(f"ready after {time.monotonic() - began:.1f} s")


def wait_for_restart(old_pid, since, result, seconds):
    """Wait until another process is ready. `result`: pattern of systemd's result for the old process."""
    ended = re.compile(f"Failed with result '{result}'")
    wait_for(lambda: ended.search(journal(since)), seconds, f"end with {result}")
    wait_for(lambda: main_pid() not in (0, old_pid) and show("SubState") == "running", 60.0, "the restart")
    wait_for_device_states(dict.fromkeys(DEVICES, ("connected",)))
    wait_for(lambda: counters()["loop"]["steps"] > 500, 10.0, "steps")


def test_the_service_notifies_systemd_when_ready_and_has_a_status_line():
    start()  # the model is not compiled yet
    assert (show("Type"), show("ActiveState"), show("SubState")) == ("notify", "active", "running")
    status = wait_for(lambda: show("StatusText"), 10.0, "a status line")
    assert re.search(r"\d[\d,]* steps", status), status


def test_the_service_runs_as_a_dynamic_user_without_capabilities():
    lines = Path(f"/proc/{main_pid()}/status").read_text().splitlines()
    fields = dict(line.split(":\t", 1) for line in lines)
    assert 61184 <= int(fields["Uid"].split()[0]) <= 65519  # range of dynamic users
    for kind in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(fields[kind], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    assert fields["Seccomp"] == "2"


def test_all_threads_have_realtime_priority_and_one_of_them_a_higher_one():
    """The thread with the higher priority is the estimator's, which reports its own."""
    threads = [int(thread.name) for thread in Path(f"/proc/{main_pid()}/task").iterdir()]
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_FIFO}
    if "Max realtime priority     40" not in Path(f"/proc/{main_pid()}/limits").read_text():
        pytest.skip("not even root may raise the limit of priorities on this machine")
    priorities = sorted(os.sched_getparam(thread).sched_priority for thread in threads)
    assert priorities == [20] * (len(threads) - 1) + [30]
    assert counters()["loop"]["scheduling"].startswith("SCHED_FIFO 30 on ")


def test_all_devices_send_and_nothing_is_lost():
    wait_for_device_states(dict.fromkeys(DEVICES, ("connected",)))
    before = counters()
    time.sleep(3.0)
    after = counters()
    for name in DEVICES:
        counted = after["devices"][name]["measurements"] - before["devices"][name]["measurements"]
        assert counted >= 3 * 10 * 0.9, name
    assert after["queue"]["dropped"] == before["queue"]["dropped"]


def test_reload_rereads_noise_settings_and_refuses_an_invalid_file():
    since, pid, whole = time.time(), main_pid(), CONFIGURATION.read_text()
    assert systemctl("reload", "vehicled").returncode == 0
    wait_for(lambda: "noise settings reloaded" in journal(since), 10.0, "the reload")
    CONFIGURATION.write_text(whole.replace("filter:", "filtre:", 1))
    systemctl("reload", "vehicled")
    wait_for(lambda: "noise settings not reloaded" in journal(since), 10.0, "the refusal")
    CONFIGURATION.write_text(whole)
    assert (main_pid(), show("SubState")) == (pid, "running")


def test_a_device_reconnects_once_it_is_plugged_in_again(emulator):
    emulator.unplug("gnss")
    wait_for_device_states({"gnss": ("disconnected",), "imu": ("connected",)})
    emulator.replug("gnss")
    wait_for_device_states({"gnss": ("connected",)})


def test_a_killed_process_is_restarted():
    since, pid = time.time(), main_pid()
    KILLED.append(time.monotonic_ns())
    os.kill(pid, signal.SIGKILL)
    wait_for_restart(pid, since, "signal", 10.0)


def test_a_stopped_process_is_restarted_by_the_watchdog():
    since, pid = time.time(), main_pid()
    KILLED.append(time.monotonic_ns())
    os.kill(pid, signal.SIGSTOP)
    wait_for_restart(pid, since, "watchdog", 40.0)  # 5 s until the watchdog acts, 20 s to end


def test_a_full_state_directory_stops_only_the_recorder():
    pid = main_pid()
    wait_for(lambda: counters()["recorder"]["state"] == "recording", 10.0, "recording")
    filler = STATE / "filler"
    with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(65536))
    wait_for(lambda: counters()["recorder"]["state"] == "failed", 20.0, "the recorder's failure")
    before = counters()["loop"]["steps"]
    wait_for(lambda: counters()["loop"]["steps"] > before + 250, 10.0, "further steps")
    filler.unlink()
    wait_for(lambda: counters()["recorder"]["state"] == "recording", 60.0, "recording again")
    assert main_pid() == pid


def memory_group():
    """The unit's control group for memory. Version 1 of control groups has a separate hierarchy for memory."""
    mounted = Path("/sys/fs/cgroup/memory")
    return (mounted if mounted.is_dir() else mounted.parent) / show("ControlGroup").lstrip("/")


def test_the_service_restarts_after_it_reaches_the_memory_limit():
    """The disk is a tmpfs, so data written by a process of the same control group count as memory. At the limit, the
    kernel kills the largest process of the group: the service."""
    since, pid = time.time(), main_pid()
    limit = int(show("MemoryCurrent")) + 2_000_000
    assert systemctl("set-property", "--runtime", "vehicled", f"MemoryMax={limit}").returncode == 0
    filler = STATE / "filler"
    write = f"echo $$ >{memory_group()}/cgroup.procs; exec head -c {limit} /dev/zero >{filler}"
    seen = [time.monotonic_ns()]

    def has_ended():
        now = time.monotonic_ns()
        if main_pid() != pid:
            return True
        seen.append(now)
        return False

    writer = subprocess.Popen(["sh", "-c", write])
    try:
        wait_for(has_ended, 20.0, "the end by the kernel")
        KILLED.append(seen[-1])
        systemctl("set-property", "--runtime", "vehicled", "MemoryMax=infinity")
    finally:
        writer.kill()
        writer.wait()
        filler.unlink(missing_ok=True)
    # With control groups of version 1, systemd does not know why the kernel killed the process.
    wait_for_restart(pid, since, "(oom-kill|signal)", 10.0)


def test_systemctl_stop_ends_the_service_cleanly():
    began = time.time()
    assert systemctl("stop", "vehicled").returncode == 0
    assert time.time() - began < 10.0
    assert (show("Result"), show("ExecMainStatus"), show("ActiveState")) == ("success", "0", "inactive")
    assert "SIGTERM: ending" in journal(began)
    assert not Path("/run/vehicled").exists()


def test_a_bad_configuration_fails_without_restarts_and_names_the_line():
    whole = CONFIGURATION.read_text()
    lines = whole.splitlines()
    line = next(i for i, text in enumerate(lines, 1) if text.startswith("world:"))
    CONFIGURATION.write_text(whole.replace("world:", "wolrd:", 1))
    systemctl("reset-failed", "vehicled")
    assert systemctl("start", "vehicled").returncode != 0
    time.sleep(3.0)  # RestartSec is one second
    CONFIGURATION.write_text(whole)
    assert (show("ActiveState"), show("ExecMainStatus"), show("NRestarts")) == ("failed", "2", "0")
    assert f"vehicled.yaml:{line}" in systemctl("status", "vehicled").stdout


def test_all_recordings_are_readable():
    """Each recording is whole; a killed process has lost at most its last half second."""
    runs = {path: McapLog(path).read_run() for path in sorted(STATE.glob("*.mcap"))}
    assert len(runs) > len(KILLED)
    for path, run in runs.items():
        assert not run.problems, f"{path}: {run.problems}"
        assert {m.source for m in run.measurements} == DEVICES
        assert run.innovations
        assert run.estimates.t[0] - run.steps[0].t < S
        assert run.estimates.columns["vx"][-1] == pytest.approx(SPEED, rel=0.1)  # wheel radii differ
        times = [step.t for step in run.steps]
        assert all(a < b for a, b in pairwise(times))
    ends = [run.steps[-1].t for run in runs.values()]
    for killed in KILLED:
        assert any(killed - S // 2 < end < killed + S for end in ends), (killed, ends)
    last = list(runs.values())[-1]
    seconds = (last.steps[-1].t - last.steps[0].t) / S
    samples = sum(m.source == "imu" for m in last.measurements)
    assert samples == pytest.approx(seconds * IMU_HZ, rel=0.05, abs=10)
