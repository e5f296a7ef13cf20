"""Drivers of other packages that fail in calls from the daemon, or emit invalid measurements."""

import json
import threading
import time
from dataclasses import dataclass

import pytest
import zmq
from daemon_fakes import FakeEstimator
from live_rig import wait_until

from drivers.base import Driver
from vehicled.daemon import daemon
from vehicled.daemon.daemon import Daemon, DaemonOptions, statistics_line
from vehicled.messages import Measurement
from vehicled.reading import settings

TEXT = """\
devices:
  good: {{driver: good, options: {{}}}}
  bad: {{driver: bad, options: {{}}}}
loop: {{realtime_priority: 0}}
publish: {{endpoint: "tcp://127.0.0.1:*", command_endpoint: "ipc://{folder}/commands"}}
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """No options."""


class Decoder:
    def __init__(self):
        self.counters = {}

    def reset(self):
        pass


class Good(Driver):
    """Measures every five milliseconds."""

    Options = Options

    def __init__(self, name, options, emit):
        super().__init__(name, options, emit)
        self.decoder = Decoder()

    def make(self, now):
        return Measurement(self.name, now, now, {"vehicle.speed": 1.0})

    def _open(self):
        pass

    def _receive(self):
        time.sleep(0.005)
        return True, [self.make(time.monotonic_ns())]

    def _close(self):
        pass


def fail(*_):
    raise KeyError("no such counter")


@pytest.fixture
def run(monkeypatch, socket_folder):
    """Starts a daemon with a good driver, and a bad one that differs in the given attributes."""
    opened = []

    def start(**attributes):
        bad = type("Bad", (Good,), attributes)
        monkeypatch.setattr(daemon, "load_driver", {"good": Good, "bad": bad}.get)
        text = TEXT.format(folder=socket_folder)
        d = Daemon(settings.loads(text, DaemonOptions), FakeEstimator(), text, dict)
        d.start()
        opened.append(d)
        return d

    yield start
    for d in opened:
        d.stop()


def wait_for(d, found):
    """Wait for a status after more than a hundred steps for which `found` is true."""
    wait_until(lambda: d.status is not None and d.status.counters["loop"]["steps"] > 100 and found(d.status))
    return d.status


@pytest.mark.parametrize(
    "describe",
    [fail, lambda self: None, lambda self: {"connections": object()}, lambda self: {"state": object()}],
)
def test_a_driver_whose_description_fails_disturbs_nothing_else(run, connect, describe):
    d = run(describe=describe)
    status = wait_for(d, lambda s: True)
    assert status.counters["devices"]["good"]["state"] == "connected"
    bad = status.counters["devices"]["bad"]
    assert bad["state"] == "connected"
    assert "Error" in bad["error"]
    client = connect(zmq.REQ, d.command_endpoint)
    for _ in range(2):
        client.send_json({"command": "status"})
        assert client.recv_json()["status"]["counters"]["devices"]["bad"] == bad
    subscriber = connect(zmq.SUB, d.endpoint)
    subscriber.subscribe("status")
    assert json.loads(subscriber.recv_multipart()[1])["counters"]["devices"]["bad"] == bad


def test_a_driver_whose_description_hangs_is_silent_and_blocks_nothing_else(run):
    ended = threading.Event()
    described = []

    def describe(self):
        described.append(threading.current_thread().name)
        if len(described) > 1:
            ended.wait(20)
        return {"opened": True}

    try:
        status = wait_for(run(describe=describe), lambda s: s.counters["devices"]["bad"]["state"] == "silent")
        assert status.counters["devices"]["bad"]["opened"] is True
        assert status.counters["devices"]["good"]["state"] == "connected"
        assert ("bad", "silent") in [(f.source, f.reason) for f in status.faults]
        line = statistics_line(status)
        assert "bad: silent" in line
        assert "bad silent" not in line  # it is not reported twice
        assert set(described) == {"driver-bad"}
    finally:
        ended.set()


def test_a_device_is_connecting_until_its_opening_fails_or_takes_too_long(monkeypatch):
    opens, fails = threading.Event(), threading.Event()

    def open_late(driver: Driver) -> None:
        opens.wait()
        fails.set()
        raise OSError("not there")

    monkeypatch.setattr(Good, "_open", open_late)
    driver = Good("late", Options(), print)
    assert driver.description["state"] == "connecting"
    driver.start()
    try:
        assert driver.state == "connecting"
        with monkeypatch.context() as later:  # if opening hangs, that is a fault after a while
            now = time.monotonic_ns()
            later.setattr(time, "monotonic_ns", lambda: now + 3_000_000_000)
            assert driver.state == "disconnected"
        opens.set()
        assert fails.wait(5.0)
        wait_until(lambda: driver.counters()["open_errors"] > 0)
        assert driver.state == "disconnected"
    finally:
        opens.set()
        driver.stop()


def test_counters_in_a_description_are_up_to_date():
    driver = Good("good", Options(), print)
    driver.decoder.counters["messages"] = 1
    driver.start()
    wait_until(lambda: driver.description.get("messages") == 1)
    driver.decoder.counters["messages"] = 2
    assert driver.description["messages"] == 2
    driver.stop()
    assert driver.description["state"] == "stopped"


@pytest.mark.parametrize("name", ["state", "description"])
def test_a_driver_class_must_not_define_state_or_description(name):
    with pytest.raises(TypeError, match=rf"^Bad\.{name} is a driver's own; expected `describe`"):
        type("Bad", (Good,), {name: property(fail)})


@pytest.mark.parametrize(
    "wrong",
    [
        {"arrival": 1.5},
        {"arrival": None},
        {"arrival": 10**19},
        {"t": 1.5},
        {"t": 10**30},
        {"t": -(10**30)},
        {"arrival": -(10**30)},
        {"source": None},
        {"values": {"vehicle.speed": 1.0, 5: 1.0}},
        {"values": {"vehicle.speed": 2**70}},
        {"values": {"vehicle.speed": None}},
        {"values": {"vehicle.speed": "1.0"}},
        {"values": None},
    ],
)
def test_an_invalid_measurement_is_an_error_of_its_driver_only(run, wrong):
    def make(self, now):
        good = {"source": self.name, "t": now, "arrival": now, "values": {"vehicle.speed": 1.0}}
        return Measurement(**good | wrong)

    status = wait_for(run(make=make), lambda s: s.counters["devices"]["bad"]["internal_errors"] > 1)
    assert status.counters["loop"]["estimator_errors"] == 0
    assert status.counters["devices"]["good"]["internal_errors"] == 0
    assert status.counters["estimator"]["seen"] > 50
    assert status.counters["queue"]["waiting"] < 100
