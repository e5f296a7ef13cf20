"""The whole daemon with a fake estimator, and a device that another process emulates."""

import contextlib
import json
import os
import re
import signal
import socket
import sys
import threading
import time
import types
from itertools import pairwise

import pytest
import zmq
from daemon_fakes import FakeEstimator
from live_rig import wait_until
from recording_rig import Disk

from drivers.xsens import XsensOptions
from replay.emulator import Emulator
from replay.laps import Laps
from replay.mcap_log import McapLog
from vehicled.cli import main
from vehicled.configuration import load_configuration
from vehicled.daemon import learned, live_recorder
from vehicled.daemon.daemon import Daemon, DaemonOptions, statistics_line
from vehicled.daemon.signals import Signals, hold_reload
from vehicled.errors import RunError, UsageError
from vehicled.messages import Measurement, SlowState
from vehicled.reading import settings
from vehicled.stepping import run_steps

CONFIGURATION = """\
devices:
  imu: {driver: xsens, options: {port: "%s"}}
loop: {realtime_priority: 0}
publish: {endpoint: "tcp://127.0.0.1:*", command_endpoint: "ipc://FOLDER/commands"}
"""
SAMPLE = {"imu.ax": 2.5, "imu.ay": -1.25, "imu.az": 9.75, "imu.wx": 0.125, "imu.wy": -0.5, "imu.wz": 0.75}


@pytest.fixture(scope="module")
def configuration(tmp_path_factory):
    """A configuration with a device that another process emulates and that measures every two milliseconds."""
    port = tmp_path_factory.mktemp("ports") / "imu"
    sample = Measurement("imu", 0, 0, SAMPLE)
    with Emulator(
        {"imu": ("xsens", XsensOptions(port=str(port)))}, Laps([sample], 2_000_000, {}, 10**18)
    ) as emulator:
        emulator.start()
        yield CONFIGURATION % port


@pytest.fixture
def estimator():
    """The estimator of the daemon that `make` creates."""
    return FakeEstimator()


@pytest.fixture
def make(tmp_path, socket_folder, estimator, configuration):
    def make(change=str, read_noise=dict):
        text = change(configuration)
        if "record" not in text:
            text += f"record: {{directory: {tmp_path}/runs}}\n"
        text = text.replace("FOLDER", str(socket_folder))
        options = settings.loads(text, DaemonOptions)
        return Daemon(options, estimator, text, read_noise)

    return make


def test_measurements_reach_estimator_subscriber_and_recording(make, estimator, connect, tmp_path):
    daemon = make()
    with daemon:
        subscriber = connect(zmq.SUB, daemon.endpoint)
        subscriber.subscribe("position")
        messages = [json.loads(subscriber.recv_multipart()[1]) for _ in range(20)]
        commands = connect(zmq.REQ, daemon.command_endpoint)
        commands.send(b'{"command": "set_position", "x": 1, "y": 2}')
        assert json.loads(commands.recv()) == {"ok": True, "executed": "set_position"}
        commands.send(b'{"command": "mark", "text": "kerb"}')
        assert json.loads(commands.recv()) == {"ok": True}
        commands.send(b'{"command": "status"}')
        status = json.loads(commands.recv())["status"]
    assert status["counters"]["commands"]["endpoint"] == daemon.command_endpoint
    assert all(b["t"] > a["t"] and b["x"] >= a["x"] for a, b in pairwise(messages))
    assert messages[-1]["x"] > messages[0]["x"]
    assert set(status["counters"]) == {
        *("devices", "publisher", "commands", "recorder", "queue", "loop", "estimator", "time")
    }
    assert status["counters"]["devices"]["imu"]["state"] in ("connecting", "connected", "disconnected")

    # The recording has exactly the measurements that the estimator got, in the same order.
    (file,) = (tmp_path / "runs").iterdir()
    steps = list(McapLog(file).recorded_steps())
    assert [(s.t, s.measurements) for s in steps] == estimator.steps
    given = [m for _, ms in estimator.steps for m in ms]
    assert len(given) > 20
    assert all(m.values == SAMPLE for m in given)
    assert [(c.name, c.arguments) for s in steps for c in s.commands] == [
        ("set_position", {"x": 1.0, "y": 2.0}),
        ("mark", {"text": "kerb"}),
    ]

    # A replay passes the mark on with its step, but not to the estimator.
    again, executed = FakeEstimator(), []
    for _ in run_steps(again, iter(steps), on_command=lambda *command: executed.append(command)):
        pass
    assert [name for name, _ in again.commands] == ["set_position"]
    (marked,) = (s.t for s in steps for c in s.commands if c.name == "mark")
    assert executed[-1] == (marked, "mark", {"text": "kerb"}, None)


def test_a_flooding_device_is_decimated_and_reported_in_the_status(make, estimator):
    daemon = make(lambda text: text.replace("driver: xsens,", "driver: xsens, max_rate: 50 Hz,"))
    with daemon:
        wait_until(lambda: len(estimator.steps) > 2)
        wait_until(lambda: daemon.status.counters["devices"]["imu"]["state"] == "flooding")
        wait_until(lambda: daemon.status.counters["devices"]["imu"]["decimated"] > 100)
        device = daemon.status.counters["devices"]["imu"]
    assert sum(len(ms) for _, ms in estimator.steps) < device["measurements"] / 3


def test_the_daemon_stops_without_lost_measurements_or_remaining_threads(make, estimator):
    daemon = make()
    with daemon:
        wait_until(lambda: len(estimator.steps) > 5)
    assert daemon.status.counters["queue"]["dropped"] == {}
    assert not [t.name for t in threading.enumerate() if t.name in ("estimator", "publisher", "commands")]
    daemon.stop()


def run_and_signal(daemon, estimator, actions):
    """Run the daemon in the main thread. Another thread runs `actions` after the first steps, then sends SIGTERM."""
    done = []

    def act():
        try:
            wait_until(lambda: len(estimator.steps) > 3)
            for action in actions:
                action()
                done.append(action)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=act)
    thread.start()
    daemon.run()
    thread.join()
    assert len(done) == len(actions)


def receive_until(manager, what):
    """Notifications up to the first one that contains `what`."""
    received = []
    for _ in range(500):
        received.append(manager.recv(1000).decode())
        if what in received[-1]:
            return received
    raise AssertionError(f"no {what} in {received}")


def test_the_daemon_runs_until_a_signal_and_notifies_the_service_manager(
    make, estimator, monkeypatch, tmp_path
):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "100000")
        manager.settimeout(5)
        received = []

        def receive(what):
            received.extend(receive_until(manager, what))

        # The first status lines may be older than the connection.
        acts = [lambda what=what: receive(what) for what in ("READY", "WATCHDOG", "imu connected")]
        run_and_signal(make(), estimator, acts)
        receive("STOPPING")
    assert received[0] == "READY=1"
    assert all(line.startswith("STATUS") for line in received if "imu connected" in line)


def test_watchdog_notifications_stop_while_the_loop_hangs_and_then_continue(
    make, estimator, monkeypatch, tmp_path
):
    """The loop's progress is checked every 25 ms."""
    hanging, hang_ends = threading.Event(), threading.Event()

    def hang(t):
        hanging.set()
        hang_ends.wait(20)

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "50000")
        manager.settimeout(10)

        def receive():
            receive_until(manager, "WATCHDOG")

        def receive_what_is_left():
            """Nothing comes for 0.3 s, after at most what waits in the socket."""
            manager.settimeout(0.3)
            left = 0
            with contextlib.suppress(TimeoutError):
                while left < 15:
                    manager.recv(1000)
                    left += 1
            assert left < 15
            manager.settimeout(10)

        def stop_the_loop():
            estimator.on_step = hang
            assert hanging.wait(20)

        def continue_the_loop():
            estimator.on_step = lambda t: None
            hang_ends.set()

        acts = [receive, stop_the_loop, receive_what_is_left, continue_the_loop, receive]
        run_and_signal(make(), estimator, acts)


def test_a_daemon_without_devices_logs_a_warning(make, estimator, caplog):
    daemon = make(lambda text: re.sub(r"devices:\n.*\n", "devices: {}\n", text))

    def warned():
        wait_until(lambda: any("no devices in daemon.devices" in r.getMessage() for r in caplog.records))

    run_and_signal(daemon, estimator, [warned])
    (record,) = [r for r in caplog.records if "no devices" in r.getMessage()]
    assert record.levelname == "WARNING"
    assert "docs/devices.md" in record.getMessage()


def test_sighup_reloads_the_noise_settings(make, estimator, caplog):
    arguments = {"imu.gyro": 0.02}
    daemon = make(read_noise=lambda: arguments)

    def reload():
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: estimator.commands)

    run_and_signal(daemon, estimator, [reload])
    assert estimator.commands == [("reload_noise", arguments)]


def test_a_bad_configuration_at_sighup_changes_nothing(make, estimator, caplog):
    def read_noise():
        raise UsageError("car.yaml:3: noise.imu: expected a number")

    def reload():
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: any("car.yaml:3" in r.getMessage() for r in caplog.records))

    daemon = make(read_noise=read_noise)
    run_and_signal(daemon, estimator, [reload])
    assert estimator.commands == []


def test_a_reload_that_never_ends_delays_neither_steps_nor_the_end(make, estimator, caplog):
    never, begun_to_read = threading.Event(), threading.Event()

    def read_noise():
        begun_to_read.set()
        never.wait(20)
        return {}

    def reload_twice():
        os.kill(os.getpid(), signal.SIGHUP)
        begun_to_read.wait(20)
        os.kill(os.getpid(), signal.SIGHUP)

    def go_on():
        steps = len(estimator.steps)
        wait_until(lambda: len(estimator.steps) > steps + 10)

    begun = time.monotonic()
    run_and_signal(make(read_noise=read_noise), estimator, [reload_twice, go_on])
    assert time.monotonic() - begun < 10
    never.set()


def test_requests_during_a_reload_cause_one_more_reload(make, estimator):
    file, read, written = {"imu.gyro": 0.01}, threading.Event(), threading.Event()

    def read_noise():
        found = dict(file)
        read.set()
        written.wait(20)
        return found

    def change_twice():
        os.kill(os.getpid(), signal.SIGHUP)
        read.wait(20)
        file["imu.gyro"] = 0.02
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.05)
        written.set()
        wait_until(lambda: len(estimator.commands) == 2)

    run_and_signal(make(read_noise=read_noise), estimator, [change_twice])
    assert [arguments["imu.gyro"] for _, arguments in estimator.commands] == [0.01, 0.02]


def test_endless_requests_to_reload_do_not_delay_the_watchdog(
    make, estimator, caplog, socket_folder, monkeypatch
):
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(socket_folder / "notify"))
    manager.setblocking(False)
    monkeypatch.setenv("NOTIFY_SOCKET", str(socket_folder / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    received = []

    def reload_for_a_while():
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.01)
            with contextlib.suppress(BlockingIOError):
                received.append(manager.recv(4096).decode().partition("=")[0])

    run_and_signal(make(), estimator, [reload_for_a_while])
    manager.close()
    assert received.count("WATCHDOG") > 3


def test_the_command_runs_the_daemon_until_a_signal(
    configuration, socket_folder, estimator, monkeypatch, capsys
):
    """`vehicled run` with a fake estimator and fakes of the modules that read the configuration."""
    text = configuration.replace("FOLDER", str(socket_folder))
    car = load_configuration("prototype")
    loaded = types.SimpleNamespace(
        daemon=settings.loads(text, DaemonOptions),
        text=text,
        vehicle=car.vehicle,
        sensors=car.sensors,
        filter=car.filter,
    )
    load = {"car.yaml": loaded}.__getitem__
    for name, member, value in (
        (
            "vehicled.daemon.noise_reader",
            "read_noise",
            lambda name, running: {("car.yaml", text): {"imu.gyro": 0.5}}[name, running],
        ),
        ("vehicled.daemon.configuration", "load_configuration_to_run", load),
        ("vehicled.estimator", "Estimator", lambda c: estimator),
    ):
        module = types.ModuleType(name)
        setattr(module, member, value)
        monkeypatch.setitem(sys.modules, name, module)

    def act():
        wait_until(lambda: len(estimator.steps) > 3)
        os.kill(os.getpid(), signal.SIGHUP)
        wait_until(lambda: estimator.commands)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=act)
    thread.start()
    status = main(["run", "--config", "car.yaml"])
    thread.join()
    assert status == 0
    assert estimator.commands == [("reload_noise", {"imu.gyro": 0.5})]
    err = capsys.readouterr().err
    assert "ready: results at tcp://127.0.0.1:" in err
    assert "noise settings reloaded" in err
    assert "SIGTERM: ending" in err


def test_signal_handlers_are_restored(make, estimator):
    taken = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(s) for s in taken]
    run_and_signal(make(), estimator, [])
    assert [signal.getsignal(s) for s in taken] == before
    assert signal.set_wakeup_fd(-1) == -1


def test_signals_reach_the_main_thread_from_any_other_and_none_is_lost():
    with Signals() as signals:
        assert signals.wait(0) is None
        thread = threading.Thread(target=lambda: signal.raise_signal(signal.SIGTERM))
        thread.start()
        thread.join()
        signal.raise_signal(signal.SIGHUP)
        assert [signals.wait(5), signals.wait(5), signals.wait(0)] == [signal.SIGTERM, signal.SIGHUP, None]


def test_a_flood_of_requests_to_reload_does_not_hide_sigterm():
    with Signals() as signals:
        for _ in range(1000):  # more than a socket has room for
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        assert [signals.wait(5), signals.wait(5), signals.wait(0)] == [signal.SIGTERM, signal.SIGHUP, None]


def test_a_request_to_reload_during_the_start_is_kept():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with hold_reload():
        signal.raise_signal(signal.SIGHUP)  # to this thread: the test runner's threads do not block it
        with Signals() as signals:
            assert [signals.wait(5), signals.wait(0)] == [signal.SIGHUP, None]
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def test_a_failed_start_leaves_no_threads(make):
    with make():
        second = make()  # with a free port for results, but the same command socket
        before = threading.active_count()
        with pytest.raises(RunError, match=r"commands: cannot be bound: Address already in use"):
            second.start()
        assert threading.active_count() == before


def test_estimation_continues_if_nothing_can_be_recorded(make, estimator, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with make(lambda text: text + f"record: {{directory: {tmp_path}/file}}\n") as daemon:
        wait_until(lambda: daemon.status is not None and daemon.status.counters["recorder"]["lost"] > 0)
        recorder = daemon.status.counters["recorder"]
        assert (recorder["state"], recorder["path"]) == ("failed", f"{tmp_path}/file")
        assert "FileExistsError" in recorder["reason"]
        assert statistics_line(daemon.status).endswith("recorder failed")
        steps = len(estimator.steps)
        wait_until(lambda: len(estimator.steps) > steps + 20)


@pytest.mark.parametrize("since", ["the start", "later"])
def test_a_disk_that_hangs_delays_neither_steps_nor_status_nor_the_end(
    make, estimator, connect, monkeypatch, tmp_path, since
):
    """The disk holds the recording and the learned parameters."""
    monkeypatch.setattr(live_recorder, "_STALLED_S", 0.2)
    monkeypatch.setattr(live_recorder, "_END_WITHIN_S", 0.2)
    monkeypatch.setattr(learned, "_END_WITHIN_S", 0.2)
    monkeypatch.setattr(learned, "_LOAD_WITHIN_S", 0.2)
    monkeypatch.setattr(estimator, "parameters", lambda: {"gyro_scale": SlowState(0.1, 0.01, "")})
    disk = Disk(monkeypatch)
    monkeypatch.setattr(learned, "read_bounded", lambda path, most: disk.check() or b"")
    monkeypatch.setattr(learned.os, "fsync", lambda descriptor: disk.check())
    (tmp_path / "learned.json").write_text("{}")
    if since == "the start":
        disk.responds.clear()
    daemon = make(lambda text: text + f"learned: {tmp_path}/learned.json\n")
    with daemon:
        wait_until(lambda: len(estimator.steps) > 50)
        disk.responds.clear()
        wait_until(disk.hanging.is_set)
        steps = len(estimator.steps)
        wait_until(lambda: len(estimator.steps) > steps + 100)
        wait_until(lambda: daemon.status.counters["recorder"]["state"] == "stalled")
        commands = connect(zmq.REQ, daemon.command_endpoint)
        commands.send(b'{"command": "status"}')
        assert json.loads(commands.recv())["ok"]
        ending = time.monotonic()
    assert time.monotonic() - ending < 5.0, "each of them is waited for 0.2 s"
    disk.responds.set()
    wait_until(lambda: not {"recorder", "learned"} & {t.name for t in threading.enumerate()})


def test_an_error_in_device_options_names_the_line(make):
    daemon = make(lambda text: text.replace("port:", "prot:"))
    with pytest.raises(UsageError, match=r":2: devices\.imu\.options\.prot: unknown key"):
        daemon.start()


def test_sigterm_during_the_start_ends_the_daemon_cleanly(monkeypatch, capsys):
    """For example, while the model compiles."""
    monkeypatch.setattr(
        "vehicled.daemon.configuration.load_configuration_to_run",
        lambda path: signal.raise_signal(signal.SIGTERM),
    )
    assert main(["run", "--config", "prototype"]) == 0
    assert capsys.readouterr().err == "vehicled: SIGTERM: ending\n"
