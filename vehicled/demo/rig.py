"""The car and its daemon, in a process of their own: simulated, then sent as device bytes in real time.

The daemon is the real one. The emulated devices share its process, because python-can's virtual bus is
limited to one process; all subscribers are outside, as on the road.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

from vehicled.errors import RunError, UsageError, VehicledError
from vehicled.messages import Measurement
from vehicled.simulation.drive import Truth
from vehicled.simulation.scenario import Scenario

_END_WITHIN_S = 5.0
_CHECK_EVERY_S = 0.05
_REPORT_EVERY_S = 0.1
_LEAD_S = 0.3
"""Between the announcement of a drive and its first byte, for subscribers to connect."""
_CONNECT_WITHIN_S = 5.0
_PRIORITY = 20
"""As in the service's unit: below the estimator's thread, above everything ordinary."""


@dataclass(frozen=True)
class Job:
    """What the process has to do."""

    scenario: Scenario
    seed: int
    configuration: Path
    """From `write_configuration`."""
    log: Path
    """File for what the process would print to stderr."""


@dataclass(frozen=True)
class Stage:
    """How far the preparations are."""

    what: str
    done: float
    total: float
    unit: str


@dataclass(frozen=True)
class Simulated:
    """The drive has been simulated. Sent before the daemon runs, which sending so much would delay."""

    truth: Truth
    measurements: list[Measurement]
    """All that the sensors will measure; both on the time of the drive."""


@dataclass(frozen=True)
class Begun:
    """The drive is about to begin."""

    endpoint: str
    """Where the daemon publishes."""
    offset: int
    """Host monotonic time less the time of the drive, ns."""


@dataclass(frozen=True)
class Ended:
    """The drive is over, everything is on the disk."""

    counters: dict[str, Any]
    """Of the daemon's last status."""
    sent: dict[str, int]
    """By device, messages with a measurement that it sent."""
    unread_bytes: int
    """That no driver took from its port in time."""
    late_max: int
    """How late the emulation sent at most, ns."""
    cpu: float
    """Seconds of processor time per second of the drive, daemon and emulated devices together."""


@dataclass(frozen=True)
class _Failed:
    message: str
    exit_status: int


class Rig:
    """The process, seen from outside. A context manager; leaving it always ends the process.

    For the main thread, as it handles Ctrl-C.
    """

    def __init__(self, job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._log = job.log
        self._daemon_runs = False
        self._process = context.Process(target=_run, args=(theirs, job), name="vehicled-demo", daemon=True)
        # Ctrl-C reaches all processes of a terminal. This one inherits that SIGINT is ignored: it ends when
        # we close the pipe, in order.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._process.start()
        finally:
            signal.signal(signal.SIGINT, handler)
        theirs.close()

    def poll(self, seconds: float) -> Stage | Simulated | Begun | Ended | None:
        """The next message within so many seconds, None without one. Raises UsageError or RunError when it failed."""
        try:
            if not self._pipe.poll(seconds):
                return None
            message = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(_END_WITHIN_S)
            raise RunError(
                f"the daemon's process ended unexpectedly, status {self._process.exitcode}; see {self._log}"
            ) from None
        if isinstance(message, _Failed):
            raise (UsageError if message.exit_status == 2 else RunError)(message.message)
        self._daemon_runs |= isinstance(message, Simulated)  # or soon will
        assert isinstance(message, Stage | Simulated | Begun | Ended)
        return message

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        if self._daemon_runs:
            self._process.join(_END_WITHIN_S)  # it sees the pipe's end, and closes recording and devices
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


class _AbandonedError(Exception):
    """The other end of the pipe was closed."""


def _run(pipe: Connection, job: Job) -> None:
    """The process. Ends early when the other end of the pipe is closed."""
    from vehicled.daemon.log import Logging

    log = os.open(job.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 2)  # tracebacks and warnings too: the terminal belongs to the view
    os.close(log)
    try:
        with Logging(20):
            pipe.send(_drive(pipe, job))
    except VehicledError as error:
        pipe.send(_Failed(str(error), error.exit_status))
    except (_AbandonedError, BrokenPipeError):
        pass


def _drive(pipe: Connection, job: Job) -> Ended:
    from replay.emulate import Emulation
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.daemon.daemon import Daemon
    from vehicled.demo.configuration import emulated_devices
    from vehicled.estimator import Estimator
    from vehicled.simulation.drive import simulate
    from vehicled.simulation.equipment import find_equipment
    from vehicled.simulation.plant import make_plant

    def check() -> None:
        if pipe.poll():
            raise _AbandonedError

    scenario = job.scenario
    configuration = load_daemon_configuration(job.configuration)
    compiling = "compiling the model, once"
    pipe.send(Stage(compiling, 0, 2, "parts"))
    plant = make_plant(configuration, scenario.plant)
    pipe.send(Stage(compiling, 1, 2, "parts"))
    estimator = Estimator(configuration)
    pipe.send(Stage(compiling, 2, 2, "parts"))

    def report(done: float) -> None:
        check()
        pipe.send(Stage("simulating", done, scenario.length, "s"))

    equipment = find_equipment(configuration, configuration.find_signals())
    measurements, truth = simulate(scenario, plant, job.seed, _seldom(report), equipment)
    report(scenario.length)
    pipe.send(Simulated(truth, measurements))
    devices = emulated_devices(configuration)
    emulation = Emulation(measurements, devices)
    daemon = Daemon(configuration.daemon, estimator, configuration.text, configuration.noise_arguments)
    _claim_processor()
    try:
        with daemon:
            _wait_for_devices(daemon, check)
            start = time.monotonic_ns() + round(_LEAD_S * 1e9)
            emulation.start(start)
            pipe.send(Begun(daemon.endpoint, emulation.offset_ns))
            cpu = time.process_time()
            while not emulation.join(_CHECK_EVERY_S):
                check()
            end = time.monotonic_ns()
            cpu = time.process_time() - cpu
            while daemon.status is None or daemon.status.t < end:
                check()
                time.sleep(_CHECK_EVERY_S)
            counters = daemon.status.counters
    finally:
        emulation.stop()
    return Ended(
        counters,
        {name: device.counters["messages"] for name, device in devices.items()},
        sum(device.counters.get("unread_bytes", 0) for device in devices.values()),
        emulation.latest_ns,
        cpu / ((end - start) * 1e-9),
    )


def _claim_processor() -> None:
    """Real-time scheduling for all threads to come, as the service has it, where the system permits.

    If only the estimator had it, it would wait for whichever thread has the interpreter, and that one for the
    other programs on this machine.
    """
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))


def _seldom(report: Callable[[float], None]) -> Callable[[float], None]:
    due = 0.0

    def update(done: float) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + _REPORT_EVERY_S
            report(done)

    return update


def _wait_for_devices(daemon: Any, check: Callable[[], None]) -> None:
    """Until every driver has opened its device, according to the daemon's status. Raises RunError."""
    give_up = time.monotonic() + _CONNECT_WITHIN_S
    while True:
        states: dict[str, str] = {}
        if daemon.status is not None:
            states = {name: d["state"] for name, d in daemon.status.counters["devices"].items()}
            if all(state != "disconnected" for state in states.values()):
                return
        if time.monotonic() > give_up:
            shut = [name for name, state in states.items() if state == "disconnected"]
            raise RunError(f"not open within {_CONNECT_WITHIN_S:g} s: {', '.join(shut) or 'the daemon'}")
        check()
        time.sleep(_CHECK_EVERY_S)
