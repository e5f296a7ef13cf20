"""What can happen to the daemon itself and to its machine, beside faults of sensors and lines; in real time."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import zmq

if TYPE_CHECKING:
    from vehicled.rig.rig import Rig

Disturbance = Callable[["Rig", str, float], None]
"""Disturbs a rig, whose command endpoint it gets, until a time (CLOCK_MONOTONIC, s)."""

_HOG_PRIORITY = 30
"""That of the estimator's thread."""
_PAUSE = 0.01


def send_hangups(rig: Rig, commands: str, until: float) -> None:
    """SIGHUP a hundred times a second: the configuration is read again and again."""
    while time.monotonic() < until:
        os.kill(rig.daemon.pid, signal.SIGHUP)
        time.sleep(_PAUSE)


def send_commands(rig: Rig, commands: str, until: float) -> None:
    """Requests in a loop: unknown, not even JSON, too long, `reload_noise` and `status`."""
    requests = [b'{"command": "status"}', b"\xff{", b'{"command": "none"}', b'{"command": "reload_noise"}']
    requests += [json.dumps({"command": "set_position", "x": "far"}).encode(), b"[" * 16000]
    with _connected(zmq.REQ, commands) as socket:
        number = 0
        while time.monotonic() < until:
            socket.send(requests[number % len(requests)])
            number += 1
            if not socket.poll(3000):
                return
            socket.recv()


def subscribe_hostile(rig: Rig, commands: str, until: float) -> None:
    """Thousands of subscriptions, of random bytes too, by a subscriber that reads nothing."""
    with _connected(zmq.SUB, rig.endpoint) as socket:
        socket.rcvhwm = 1
        while time.monotonic() < until:
            for prefix in (b"", b"position", os.urandom(200)):
                socket.subscribe(prefix)
            socket.unsubscribe(b"")
            time.sleep(_PAUSE / 10)


def reset_filter(rig: Rig, commands: str, until: float) -> None:
    """The command `reset`, once."""
    with _connected(zmq.REQ, commands) as socket:
        socket.send(b'{"command": "reset"}')
        socket.poll(3000)


def suspend(rig: Rig, commands: str, until: float) -> None:
    """The daemon stands still, as with the whole PC: its clock goes on."""
    os.kill(rig.daemon.pid, signal.SIGSTOP)
    time.sleep(max(until - time.monotonic(), 0.0))
    os.kill(rig.daemon.pid, signal.SIGCONT)


def hog_processor(rig: Rig, commands: str, until: float) -> None:
    """A process that computes all the time at the estimator's priority, on one processor."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_compute, args=(until,), daemon=True)
    process.start()
    process.join(max(until - time.monotonic(), 0.0) + 5.0)


def fill_disk(rig: Rig, commands: str, until: float) -> None:
    """Files of the daemon cannot grow."""
    before = resource.prlimit(rig.daemon.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(rig.daemon.pid, resource.RLIMIT_FSIZE, (1024, before[1]))
    time.sleep(max(until - time.monotonic(), 0.0))
    resource.prlimit(rig.daemon.pid, resource.RLIMIT_FSIZE, before)


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
