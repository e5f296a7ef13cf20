"""Disturbances of the daemon and of its machine, in addition to faults of sensors and lines; in real time."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import zmq

from vehicled.errors import RunError

if TYPE_CHECKING:  # so that processes started here start quickly
    from vehicled.rig.rig import Rig

Disturbance = Callable[["Rig", float], None]
"""Disturbs a rig until a time (CLOCK_MONOTONIC, s)."""

_HOG_PRIORITY = 30
"""Priority of the estimator's thread."""
_PAUSE = 0.01
_REPLY_WITHIN_S = 12
"""For a process that reads the configuration again, on a busy machine; the daemon waits 10 s for it."""
_RESTART_AFTER = 1.0
"""s: RestartSec of the unit."""


def send_hangups(rig: Rig, until: float) -> None:
    """Send SIGHUP a hundred times a second: the configuration is read repeatedly."""
    while time.monotonic() < until:
        os.kill(rig.daemon.pid, signal.SIGHUP)
        time.sleep(_PAUSE)


def send_commands(rig: Rig, until: float) -> None:
    """Send requests in a loop: unknown, not JSON, too long, `reload_noise` and `status`."""
    requests = [b'{"command": "status"}', b"\xff{", b'{"command": "none"}', b'{"command": "reload_noise"}']
    requests += [json.dumps({"command": "set_position", "x": "far"}).encode(), b"[" * 16000]
    with _connected(zmq.REQ, rig.command_endpoint) as socket:
        number = 0
        while time.monotonic() < until:
            socket.send(requests[number % len(requests)])
            number += 1
            if not socket.poll(3000):
                return
            socket.recv()


def change_filter(rig: Rig, until: float) -> None:
    """Send `reset`, `reload_noise` and a valid `set_position` in a loop; each is granted at its rate, or refused."""
    requests: list[dict[str, str | float]] = [{"command": "reset"}, {"command": "reload_noise"}]
    requests.append({"command": "set_position", "x": 0.0, "y": 0.0, "sigma": 1000.0})
    with _connected(zmq.REQ, rig.command_endpoint) as socket:
        number = 0
        while time.monotonic() < until:
            socket.send_json(requests[number % len(requests)])
            number += 1
            if not socket.poll(_REPLY_WITHIN_S * 1000):
                raise RunError(f"no reply within {_REPLY_WITHIN_S} s")
            socket.recv()


def subscribe_hostile(rig: Rig, until: float) -> None:
    """Subscribe thousands of times, also to random bytes, by a subscriber that reads nothing."""
    with _connected(zmq.SUB, rig.endpoint) as socket:
        socket.rcvhwm = 1
        while time.monotonic() < until:
            for prefix in (b"", b"position", os.urandom(200)):
                socket.subscribe(prefix)
            socket.unsubscribe(b"")
            time.sleep(_PAUSE / 10)


def reset_filter(rig: Rig, until: float) -> None:
    """Send the command `reset` once."""
    with _connected(zmq.REQ, rig.command_endpoint) as socket:
        socket.send(b'{"command": "reset"}')
        socket.poll(3000)


def suspend(rig: Rig, until: float) -> None:
    """Stop the daemon, as if the whole PC were suspended: the clock continues."""
    os.kill(rig.daemon.pid, signal.SIGSTOP)
    sleep_until(until)
    os.kill(rig.daemon.pid, signal.SIGCONT)


def hog_processor(rig: Rig, until: float) -> None:
    """Run a process that computes all the time at the estimator's priority, on one processor."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_compute, args=(until,), daemon=True)
    process.start()
    process.join(max(until - time.monotonic(), 0.0) + 5.0)


def limit_files(rig: Rig, until: float) -> None:
    """Prevent the daemon's files from growing."""
    before = resource.prlimit(rig.daemon.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(rig.daemon.pid, resource.RLIMIT_FSIZE, (1024, before[1]))
    sleep_until(until)
    resource.prlimit(rig.daemon.pid, resource.RLIMIT_FSIZE, before)


def configure_with_pipe(rig: Rig, until: float) -> None:
    """Replace the configuration file by a pipe that nobody writes to, and request that it is read again in all ways.

    It stays so to the end of the run, which must still be in time.
    """
    rig.path.unlink()
    os.mkfifo(rig.path)
    with _connected(zmq.REQ, rig.command_endpoint) as socket:
        while time.monotonic() < until:
            os.kill(rig.daemon.pid, signal.SIGHUP)
            socket.send(b'{"command": "reload_noise"}')
            if not socket.poll(_REPLY_WITHIN_S * 1000):
                raise RunError(f"no reply to reload_noise within {_REPLY_WITHIN_S} s")
            if json.loads(socket.recv())["ok"]:
                raise RunError("noise settings were read from a pipe")
            time.sleep(10 * _PAUSE)


def kill(rig: Rig, until: float) -> None:
    """Send SIGKILL, and start again a second later, as the service manager does."""
    rig.daemon.restart(_RESTART_AFTER)


def share_port(rig: Rig, until: float) -> None:
    """Let the receiver's name lead to the IMU's port, as with a udev rule that matches both."""
    imu, gnss = (Path(rig.devices[name][1].port) for name in ("imu", "gnss"))
    rig.emulator.unplug("gnss")
    gnss.symlink_to(imu.readlink())
    sleep_until(until)
    gnss.unlink()
    rig.emulator.replug("gnss")


def sleep_until(t: float) -> None:
    """Sleep until a time (CLOCK_MONOTONIC, s)."""
    time.sleep(max(t - time.monotonic(), 0.0))


def _compute(until: float) -> None:
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_HOG_PRIORITY))
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    while time.monotonic() < until:
        pass


@contextlib.contextmanager
def _connected(kind: int, endpoint: str) -> Iterator[zmq.Socket[bytes]]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        socket = context.socket(kind)
        socket.connect(endpoint)
        yield socket
    finally:
        context.destroy(linger=0)
