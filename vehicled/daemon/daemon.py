"""The whole process, from start to orderly end: devices, queue, estimator, sockets and recording."""

import contextlib
import logging
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Self

from drivers.base import Driver
from drivers.corrections import CorrectionOptions, Corrections, Receiver
from drivers.flood import FloodGuard
from drivers.ports import find_shared
from drivers.registry import load_driver
from drivers.utc import UTC_CHANNEL
from vehicled.daemon.clock import MonotonicClock
from vehicled.daemon.commands import CommandServer
from vehicled.daemon.endpoints import Endpoints, PublishOptions
from vehicled.daemon.learned import LearnedKeeper
from vehicled.daemon.live_recorder import LiveRecorder
from vehicled.daemon.loop import Loop, LoopOptions
from vehicled.daemon.notify import Notifier
from vehicled.daemon.publisher import Publisher
from vehicled.daemon.pulses import PulseReader
from vehicled.daemon.queue import MeasurementQueue
from vehicled.daemon.recordings import RecordOptions
from vehicled.daemon.signals import Signals
from vehicled.daemon.utc import UtcClock
from vehicled.errors import OptionError, RunError, SettingsError, UsageError
from vehicled.foxglove.scene import Scene
from vehicled.messages import AnyEstimate, Measurement, SourceFault, Status
from vehicled.reading.mistakes import Mistakes
from vehicled.reading.settings import Deferred
from vehicled.requests import SlowBound
from vehicled.stepping import SteppedEstimator
from vehicled.units import Hertz, Positive

_log = logging.getLogger(__name__)

_STARTING_S = 0.01
_CHECK_EVERY_S = 1.0
_LOG_EVERY = 10
"""Checks between statistics lines at level INFO."""
_SAVE_EVERY = 60
"""Checks between saves of learned parameters."""
_END_WITHIN_S = 5.0
_ALL_IT_MEASURES = "all that it measures"
_BY_CORRECTIONS = "position"


@dataclass(frozen=True, kw_only=True)
class DeviceOptions:
    """One device: which driver reads it, and that driver's options."""

    driver: str
    """Kind of device: `xsens`, `vectornav`, `ubx`, `nmea`, `can`, or one that another package adds."""
    options: Deferred
    """Options of the driver."""
    max_rate: Annotated[Hertz, Positive] | None = None
    """Largest number of measurements per second of one channel. Up to a fifth more are accepted; beyond, the
    device is `flooding`.

    Default: 1 kHz for an IMU, 100 Hz for a receiver, 250 Hz for other devices."""
    corrections: CorrectionOptions | None = None
    """For a receiver: source of its RTCM 3 corrections, sent over its own port."""


@dataclass(frozen=True, kw_only=True)
class DaemonOptions:
    """Parts of the process other than its estimator."""

    devices: dict[str, DeviceOptions]
    """By name, which becomes the `source` of the device's measurements."""
    loop: LoopOptions = field(default_factory=LoopOptions)
    publish: PublishOptions = field(default_factory=PublishOptions)
    record: RecordOptions | None = None
    """Without it nothing is recorded."""
    learned: Path | None = None
    """File in which the filter's slow states are kept from one drive to the next.

    Without it each drive begins anew.
    """
    pps: str | None = None
    """Kernel source of the pulses by which a receiver marks the seconds of UTC: with it, the time of day of
    messages is known to less than a millisecond."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) if the source of pulses has no valid kernel name."""
        if self.pps is not None and re.fullmatch(r"pps\d{1,3}", self.pps) is None:
            yield "pps", f"expected a name below /sys/class/pps, such as pps0, got {self.pps!r}"


class Daemon:
    """Runs an estimator on devices: a thread per device, and `estimator`, `publisher`, `commands`, `recorder`.

    Either `run()` in the main thread, which ends with SIGTERM or SIGINT, or as a context manager.
    """

    def __init__(
        self,
        options: DaemonOptions,
        estimator: SteppedEstimator[AnyEstimate],
        configuration: str,
        read_noise: Callable[[], dict[str, Any]],
        counters: Callable[[], dict[str, Any]] = dict,
        scene: Scene | None = None,
        bounds: Mapping[str, SlowBound] | None = None,
    ) -> None:
        """Nothing is opened before `start`.

        `configuration`: the text that is written to the recording. `read_noise` reads the noise settings again
        and gives the arguments of the estimator's command `reload_noise`; it may raise VehicledError.
        `counters`: further counters for `status`, beside the daemon's own. `scene` draws the car in recordings.
        `bounds`: what parameters of an earlier drive can be.
        """
        self._options = options
        self._scene, self._bounds = scene, bounds
        self._configuration = configuration
        self._read_noise = read_noise
        self._estimator = estimator
        self._other_counters = counters
        self._closing = contextlib.ExitStack()
        self._drivers: list[Driver] = []
        self._corrections: dict[str, Corrections] = {}
        """Corrections, by name of the receiver."""
        self._loop: Loop
        self._loop_thread: threading.Thread
        self._learned: LearnedKeeper | None = None
        self._reload: threading.Thread | None = None
        self._is_reload_due = False
        self.endpoint = options.publish.endpoint
        """Where results are published; the real port once started."""
        self.command_endpoint = options.publish.command_endpoint
        """Where commands are taken; the default one only once started."""

    def start(self) -> None:
        """Open everything and start to step. Raises UsageError or RunError, leaving nothing open."""
        with contextlib.ExitStack() as opened:
            self._open(opened)
            self._closing = opened.pop_all()

    def stop(self) -> None:
        """Close everything in the opposite order, so that all measurements reach the disk."""
        self._closing.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def status(self) -> Status | None:
        """Last published status; None before the first one."""
        return self._loop.last_status

    def run(self) -> None:
        """Start, and run until SIGTERM or SIGINT; SIGHUP reads the noise settings again.

        For the main thread. Raises UsageError if it cannot start, RunError if the estimator's thread ends.
        """
        with Signals() as signals, contextlib.closing(Notifier()) as notifier, self:
            self._watch(signals, notifier)

    def _open(self, opened: contextlib.ExitStack) -> None:
        options = self._options
        queue = MeasurementQueue(list(options.devices))
        utc = UtcClock()
        if options.pps is not None:
            pulses = PulseReader(options.pps, utc.take_pulse)
            pulses.start()
            opened.callback(pulses.stop)
        self._make_drivers(queue, utc)
        endpoints = Endpoints(options.publish)
        opened.callback(endpoints.close)
        publisher = Publisher(endpoints, options.publish, utc)
        self.endpoint = publisher.endpoint
        publisher.start()
        opened.callback(publisher.close)
        recorder = None
        if options.record is not None:
            recorder = LiveRecorder(options.record, self._configuration, scene=self._scene)
            recorder.start()
            opened.callback(recorder.close)

        def counters() -> dict[str, Any]:
            return {
                **self._other_counters(),
                "devices": {d.name: self._describe_device(d) for d in self._drivers},
                "publisher": publisher.counters(),
                "time": utc.describe(time.monotonic_ns()),
                "commands": commands.counters(),
                "recorder": None if recorder is None else recorder.counters(),
            }

        clock, find_faults = MonotonicClock(), self._find_device_faults
        self._loop = Loop(
            self._estimator, queue, clock, options.loop, publisher, recorder, counters, find_faults
        )
        commands = CommandServer(
            endpoints, options.publish, self._loop.submit, lambda: self._loop.last_status, self._read_noise
        )
        self.command_endpoint = commands.endpoint
        commands.start()
        opened.callback(commands.close)
        self._load_learned(opened)
        self._loop_thread = threading.Thread(target=self._loop.run, name="estimator", daemon=True)
        self._loop_thread.start()
        opened.callback(self._save_learned)
        opened.callback(self._end_loop)
        self._start_drivers(opened)

    def _make_drivers(self, queue: MeasurementQueue, utc: UtcClock) -> None:
        """Make the drivers of all devices, not opened. Measurements go to the queue, UTC times to `utc`."""

        def take(m: Measurement) -> None:
            if UTC_CHANNEL in m.values:
                utc.take(m.t, m.values[UTC_CHANNEL])
            queue.put(m)

        devices = self._options.devices
        self._drivers = [self._make_driver(name, device, take) for name, device in devices.items()]
        check_ports(devices, self._drivers)

    def _start_drivers(self, opened: contextlib.ExitStack) -> None:
        """Start all drivers, and the corrections of receivers."""
        for driver in self._drivers:
            driver.start()
            opened.callback(driver.stop)
            if driver.name in self._corrections:
                assert isinstance(driver, Receiver)  # see `make_driver`
                self._corrections[driver.name].start(driver.write)
                opened.callback(self._corrections[driver.name].stop)

    def _make_driver(self, name: str, device: DeviceOptions, put: Callable[[Measurement], None]) -> Driver:
        """Make the driver of a device; its corrections also get its measurements."""
        if device.corrections is None:
            return make_driver(name, device, put)
        corrections = self._corrections[name] = Corrections(name, device.corrections)

        def emit(measurement: Measurement) -> None:
            put(measurement)
            corrections.observe(measurement)

        return make_driver(name, device, emit)

    def _describe_device(self, driver: Driver) -> dict[str, Any]:
        """Entry of a device in `status`, with its corrections."""
        found = driver.description
        if driver.name in self._corrections:
            found["corrections"] = self._corrections[driver.name].status()
        return found

    def _load_learned(self, opened: contextlib.ExitStack) -> None:
        """Start the estimator with the parameters learned in earlier drives."""
        if self._options.learned is not None:
            self._learned = LearnedKeeper(self._options.learned, self._configuration, self._bounds)
            opened.callback(self._learned.close)
            before = self._learned.load()
            if before is not None:
                self._loop.submit("set_parameters", before).add_done_callback(_log_learned)

    def _find_device_faults(self) -> tuple[SourceFault, ...]:
        devices = (
            SourceFault(d.name, state, (_ALL_IT_MEASURES,))
            for d in self._drivers
            if (state := d.state) in ("disconnected", "silent", "flooding")
        )
        corrections = (
            SourceFault(f"{name}.corrections", fault, (_BY_CORRECTIONS,))
            for name, c in self._corrections.items()
            if (fault := c.fault) is not None
        )
        return *devices, *corrections

    def _end_loop(self) -> None:
        self._loop.stop()
        self._loop_thread.join(_END_WITHIN_S)
        if self._loop_thread.is_alive():
            _log.error("the estimator did not end within %g s", _END_WITHIN_S)

    def _watch(self, signals: Signals, notifier: Notifier) -> None:
        """Until a signal to end, check that the loop advances, and report to service manager and log."""
        watchdog = notifier.watchdog_period
        check_every = _CHECK_EVERY_S if watchdog is None else min(_CHECK_EVERY_S, watchdog / 2)
        checks = 0
        steps = 0
        due = time.monotonic() + _STARTING_S
        while True:
            caught = signals.wait(max(due - time.monotonic(), 0.0))
            if caught == signal.SIGHUP:
                self._is_reload_due = True
            elif caught is not None:
                _log.info("%s: ending", caught.name)
                notifier.stopping()
                return
            self._reload_if_due()
            if (now := time.monotonic()) < due:
                continue  # requests to reload must not change the time of the next check
            due = now + (check_every if steps else _STARTING_S)
            if not self._loop_thread.is_alive():
                raise RunError("the estimator's thread has ended; see the log before this line")
            if self._loop.steps == steps:
                continue  # not advancing: let the watchdog expire
            if steps == 0:
                notifier.ready()
                _log.info("ready: results at %s, commands at %s", self.endpoint, self.command_endpoint)
                if not self._options.devices:
                    _log.warning(
                        "no devices in daemon.devices: nothing will be measured (see docs/devices.md)"
                    )
            steps = self._loop.steps
            notifier.watchdog()
            if self.status is not None:
                line = statistics_line(self.status)
                notifier.status(line)
                _log.log(logging.DEBUG if checks % _LOG_EVERY else logging.INFO, line)
                checks += 1
                if checks % _SAVE_EVERY == 0:
                    self._save_learned()

    def _save_learned(self) -> None:
        if self._learned is not None:
            self._learned.save(self._loop.last_parameters)

    def _reload_if_due(self) -> None:
        """Reload in a thread, as it may take seconds, while the watchdog must go on.

        A request during a reload leads to one more reload after it, as the file may have changed meanwhile.
        """
        if not self._is_reload_due or (self._reload is not None and self._reload.is_alive()):
            return
        self._is_reload_due = False
        self._reload = threading.Thread(target=self._reload_noise, name="reload", daemon=True)
        self._reload.start()

    def _reload_noise(self) -> None:
        try:
            self._loop.submit("reload_noise", self._read_noise()).add_done_callback(_log_reload)
        except Exception as error:
            _log.error("noise settings not reloaded: %s", error)


def _log_learned(future: Future[dict[str, Any]]) -> None:
    error = future.exception()
    if error is None:
        _log.info("%d parameters of an earlier drive loaded", future.result().get("set", 0))
    else:
        _log.warning("what was learned before is not used: %s", error)


def _log_reload(future: Future[dict[str, Any]]) -> None:
    error = future.exception()
    if error is None:
        _log.info("noise settings reloaded")
    else:
        _log.error("noise settings not reloaded: %s", error)


def make_driver(name: str, device: DeviceOptions, emit: Callable[..., None]) -> Driver:
    """Make the driver of a device. Raises SettingsError with file and line, also for faults that it finds."""
    try:
        kind = load_driver(device.driver)
    except UsageError as error:
        device.options.fail(str(error), beside="driver")
    try:
        driver = kind(name, device.options.to(kind.Options), emit)
    except SettingsError:
        raise
    except OptionError as error:
        device.options.fail(error.message, below=error.key)
    except UsageError as error:
        device.options.fail(str(error))
    if device.corrections is not None and not isinstance(driver, Receiver):
        device.options.fail(
            f"expected a receiver, as it has corrections; the driver {device.driver!r} only reads"
        )
    driver.guard = FloodGuard(device.max_rate)
    return driver


def check_ports(devices: Mapping[str, DeviceOptions], drivers: Iterable[Driver]) -> None:
    """Raise SettingsError if two devices have the same port."""
    mistakes = Mistakes()
    for name, fault in find_shared((d.name, d.port) for d in drivers if d.port is not None):
        with mistakes.part():
            devices[name].options.fail(fault)
    mistakes.raise_any()


def statistics_line(status: Status) -> str:
    """A status in one line, for the log and `systemctl status`."""
    loop, queue = status.counters["loop"], status.counters["queue"]
    step = loop["step_us"]
    parts = [
        "; ".join(
            filter(None, [status.state, status.reason, *(f"{f.source}: {f.reason}" for f in status.faults)])
        ),
        f"{loop['steps']} steps",
        f"{loop['missed']} missed",
        f"step {step['median']:.0f} µs (99.9 % {step['p999']:.0f}, max {step['max']:.0f})"
        if step["median"] is not None
        else "no step",
        f"{queue['put']} measurements",
        f"{sum(queue['dropped'].values())} dropped",
    ]
    named = {f.source for f in status.faults}
    devices = status.counters["devices"].items()
    parts += [f"{name} {device['state']}" for name, device in devices if name not in named]
    recorder = status.counters["recorder"]
    if recorder is not None and recorder["state"] != "recording":
        parts.append(f"recorder {recorder['state']}")
    return ", ".join(parts)
