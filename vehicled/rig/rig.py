"""A drive in real time: emulated devices send it as bytes to a daemon that runs on them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from replay.emulator import Emulator
from replay.faults import Fault
from vehicled.daemon.configuration import DaemonConfiguration
from vehicled.errors import RunError
from vehicled.messages import Measurement
from vehicled.rig.configuration import plan_devices
from vehicled.rig.daemon_process import RUN, DaemonProcess

_LEAD_S = 0.3
"""Between the announcement of a drive and its first byte, for subscribers to connect."""
_CONNECT_WITHIN_S = 30.0
"""With a model that is still to be compiled."""
_STATUS_WITHIN_S = 5.0
_CHECK_EVERY_S = 0.05


@dataclass(frozen=True)
class DriveEnd:
    """The drive is over, and all of it has been consumed."""

    counters: dict[str, Any]
    """Of the daemon's last status."""
    sent: dict[str, int]
    """By device, messages that it put on its line."""
    unread_bytes: int
    """That no driver took from its port in time."""
    late_max: int
    """How late the emulation sent at most, ns."""
    cpu: float
    """Seconds of processor time of the daemon per second of the drive."""


class Rig:
    """Emulated devices and a daemon, in a process each. A context manager; leaving it ends both in order."""

    def __init__(
        self,
        configuration: DaemonConfiguration,
        path: Path,
        log: Path,
        measurements: Iterable[Measurement],
        faults: Sequence[Fault] = (),
        timed: Collection[str] = (),
        module: tuple[str, ...] = RUN,
    ) -> None:
        """configuration: of `path`, from `write_configuration`. log: file for what the daemon prints.

        measurements, faults, timed: as for `Emulator`. module: as for `DaemonProcess`.
        """
        self.configuration = configuration
        self.path = path
        self.endpoint = configuration.daemon.publish.endpoint
        """Where the daemon publishes."""
        commands = configuration.daemon.publish.command_endpoint
        assert commands is not None  # see `write_configuration`
        self.command_endpoint = commands
        self.devices = plan_devices(configuration)
        """Driver and options of each."""
        with contextlib.ExitStack() as opened:
            self.emulator = opened.enter_context(Emulator(self.devices, measurements, faults, timed))
            self.daemon = opened.enter_context(DaemonProcess(path, commands, log, module))
            self._opened = opened.pop_all()
        self._start_ns = 0
        self._cpu = 0.0

    def begin(self) -> int:
        """Start the drive once all devices are open; the time of its first sample, ns, CLOCK_MONOTONIC.

        Raises RunError.
        """
        give_up = time.monotonic() + _CONNECT_WITHIN_S
        shut = ["the daemon"]
        while shut:
            if time.monotonic() > give_up:
                raise RunError(f"not open within {_CONNECT_WITHIN_S:g} s: {', '.join(shut)}")
            status = self.daemon.poll_status(_CHECK_EVERY_S)
            if status is not None:
                devices = status["counters"]["devices"].items()
                shut = [name for name, device in devices if device["state"] in ("connecting", "disconnected")]
                if shut:
                    time.sleep(_CHECK_EVERY_S)
        self._cpu = self.daemon.get_cpu_seconds()
        self._start_ns = self.emulator.start(time.monotonic_ns() + round(_LEAD_S * 1e9))
        return self._start_ns

    def is_over(self) -> bool:
        """Whether the last sample has been sent. Raises RunError where a process has ended."""
        self.daemon.check()
        return self.emulator.report().done

    def finish(self) -> DriveEnd:
        """After the last sample: the daemon's counters once it has consumed that. Raises RunError."""
        end = time.monotonic_ns()
        cpu = (self.daemon.get_cpu_seconds() - self._cpu) / ((end - self._start_ns) * 1e-9)
        give_up = time.monotonic() + _STATUS_WITHIN_S
        while (status := self.daemon.poll_status(_CHECK_EVERY_S)) is None or status["t"] < end:
            if time.monotonic() > give_up:
                raise RunError(f"no status of the daemon within {_STATUS_WITHIN_S:g} s")
            time.sleep(_CHECK_EVERY_S)
        report = self.emulator.report()
        sent = {name: counters["messages"] for name, counters in report.counters.items()}
        return DriveEnd(status["counters"], sent, report.unread_bytes, report.latest_ns, cpu)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)
