"""Emulated devices in a process of their own, as in a car: they and other programs do not wait for each other."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import select
import signal
import time
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Self

import can

from replay.emulate import EmulatedDevice, EmulatedSlcan, emulate
from replay.faults import Fault, LineFault, Unplugged
from replay.player import Player, PlayReport
from vehicled.errors import RunError, UsageError, VehicledError
from vehicled.messages import Measurement

_END_WITHIN_S = 5.0
_POLL_S = 0.05
_PRIORITY = 20
"""SCHED_FIFO priority if permitted, as devices do not wait for ordinary programs. Below that of the
estimator's thread, whose times are measured."""

DevicePlan = tuple[str, Any]
"""Kind of driver, and its options, which name the port."""


class Emulator:
    """Controls the process. A context manager; leaving it always ends the process and removes the ports.

    After construction, all devices are on their lines, and silent until `start` or `send`. The process ends
    with this program.
    """

    def __init__(
        self,
        devices: Mapping[str, DevicePlan],
        measurements: Iterable[Measurement] = (),
        faults: Sequence[Fault] = (),
        timed: Collection[str] = (),
    ) -> None:
        """Start the process.

        devices: by name; a measurement whose source is such a name goes to that device, any other to every device
        that has one of its channels. measurements: a list, a log, `Laps` or whatever else can be sent to another
        process; in order of arrival to within a second. faults: applied in this order. timed: devices that
        `sent_times` gives. Raises UsageError for devices that cannot be emulated, or faults of none of these.
        """
        for fault in faults:
            named = fault.devices if isinstance(fault, Unplugged) else ()
            for name in (fault.device,) if isinstance(fault, LineFault) else named:
                if name not in devices:
                    raise UsageError(f"no device {name!r} for a fault: expected one of {', '.join(devices)}")
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        plan = (theirs, dict(devices), measurements, tuple(faults), tuple(timed))
        self._process = context.Process(target=_run, args=plan, name="emulated-devices", daemon=True)
        # Ctrl-C reaches all processes of a terminal. The new process inherits the blocked SIGINT, and ends
        # when the pipe is closed.
        resource_tracker.ensure_running()  # otherwise started below, and left with SIGINT unblocked
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        try:
            self._receive()  # all devices are on their lines
        except BaseException:
            self.close()
            raise

    def start(self, start_ns: int | None = None) -> int:
        """Play the log, its first sample at start_ns, host monotonic clock, or now; returns that time."""
        start = time.monotonic_ns() if start_ns is None else start_ns
        self._call("start", start)
        return start

    def report(self) -> PlayReport:
        """Progress of the play."""
        report: PlayReport = self._call("report")
        return report

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the log; returns whether it was reached in time."""
        end = time.monotonic() + timeout_s
        while not self.report().done:
            left = end - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(_POLL_S, left))
        return True

    def sent_times(self, device: str) -> array[int]:
        """Times at which each message of a timed device was about to be written, ns, CLOCK_MONOTONIC."""
        times: array[int] = self._call("sent_times", device)
        return times

    def send(self, m: Measurement) -> None:
        """Send a measurement at once, outside the log."""
        self._call("send", m)

    def write(self, device: str, data: bytes) -> None:
        """Put raw bytes on the line of a device."""
        self._call("write", device, data)

    def unplug(self, device: str) -> None:
        """Take a device off its line."""
        self._call("unplug", device)

    def replug(self, device: str) -> None:
        """Put it back, under the same name."""
        self._call("replug", device)

    def received(self, device: str) -> list[can.Message]:
        """Frames that the host has sent through an slcan adapter, the last of them."""
        frames: list[can.Message] = self._call("received", device)
        return frames

    def close(self) -> None:
        """End the process and remove the ports; harmless if called again."""
        if self._pipe.closed:
            return
        self._pipe.close()
        self._process.join(_END_WITHIN_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, name: str, *arguments: Any) -> Any:
        with contextlib.suppress(BrokenPipeError):  # `_receive` then raises
            self._pipe.send((name, arguments))
        return self._receive()

    def _receive(self) -> Any:
        try:
            result = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(_END_WITHIN_S)
            status = self._process.exitcode
            raise RunError(f"the emulated devices ended unexpectedly, status {status}") from None
        if isinstance(result, _Failed):
            raise (UsageError if result.exit_status == 2 else RunError)(result.message)
        return result


class _Failed:
    def __init__(self, error: Exception) -> None:
        self.message = str(error)
        self.exit_status = getattr(error, "exit_status", 1)


def _run(
    pipe: Connection,
    plans: Mapping[str, DevicePlan],
    measurements: Iterable[Measurement],
    faults: Sequence[Fault],
    timed: Collection[str],
) -> None:
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    devices: dict[str, EmulatedDevice] = {}
    try:
        for name, (kind, options) in plans.items():
            devices[name] = emulate(kind, options)
        player = Player(devices, measurements, faults, timed)
        pipe.send(None)
        gc.freeze()
        gc.disable()  # objects made here have no cycles
        _Process(pipe, devices, player).run()
    except (VehicledError, OSError, can.CanError) as error:
        with contextlib.suppress(BrokenPipeError):
            pipe.send(_Failed(error))
    finally:
        for device in devices.values():
            device.close()


class _Process:
    """Executes requests from the pipe, and lets devices reply to their hosts, before, during and after the play."""

    def __init__(self, pipe: Connection, devices: dict[str, EmulatedDevice], player: Player) -> None:
        self._pipe = pipe
        self._devices = devices
        self._player = player
        self._start_ns: int | None = None

    def run(self) -> None:
        while self._wait(None):
            if self._start_ns is not None:
                start, self._start_ns = self._start_ns, None
                self._player.play(start, self._wait)

    def _wait(self, seconds: float | None) -> bool:
        """Serve pipe and devices, waiting at most so many seconds; returns whether the pipe is still open."""
        taking = {fd: device for device in self._devices.values() if (fd := device.fileno()) is not None}
        pipe = self._pipe.fileno()
        for ready in select.select([pipe, *taking], [], [], seconds)[0]:
            if ready != pipe:
                taking[ready].reply()
            elif not self._serve():
                return False
        return True

    def _serve(self) -> bool:
        try:
            name, arguments = self._pipe.recv()
            self._pipe.send(self._execute(name, arguments))
        except (EOFError, ConnectionResetError, BrokenPipeError):
            return False
        return True

    def _execute(self, name: str, arguments: tuple[Any, ...]) -> Any:
        match name:
            case "start":
                (self._start_ns,) = arguments
            case "report":
                return self._player.report()
            case "sent_times":
                return self._player.times[arguments[0]]
            case "send":
                self._player.send(*arguments)
            case "write":
                self._devices[arguments[0]].write(arguments[1])
            case "unplug":
                self._devices[arguments[0]].unplug()
            case "replug":
                self._devices[arguments[0]].replug()
            case "received":
                device = self._devices[arguments[0]]
                return list(device.adapter.received) if isinstance(device, EmulatedSlcan) else []
        return None
