"""The thread that every device gets: opens it, reads it, and recovers from every failure."""

import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Protocol, final

import msgspec

from drivers.flood import FloodGuard
from vehicled.messages import Measurement
from vehicled.units import Range, Seconds

Latency = Annotated[Seconds, Range(0.0, 1.0)]
"""Time from measurement to arrival, s. The limit of 1 s reveals a number given in ms instead of s."""

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 0.25
_SILENT_NS = 2_000_000_000
_LOG_EVERY_NS = 10_000_000_000
_DESCRIBE_EVERY_NS = 500_000_000
_STOOD_STILL_NS = 1_000_000_000
"""A thread that has not read for this long was stopped, alone or with the whole machine; on a busy machine,
threads wait for a few tenths of a second only. The age of what arrived in the meantime is unknown: it is
discarded."""

_LARGEST = 1 << 62
"""Largest integer admitted: the range of integers in recordings, with room for sums. A number that cannot be
recorded would make the recording of its whole step fail, with the measurements of other devices."""

_FAULT_COUNTERS = (
    *("checksum_errors", "truncated", "garbage_bytes", "out_of_range", "error_frames", "bus_off"),
    *("decimated", "discarded_bytes", "stale"),
)


def check_measurement(m: Measurement, now_ns: int) -> None:
    """Raise TypeError or ValueError for what no device can measure and what would disturb other devices' data.

    A measurement with an arrival in the future would stay in the queue until then, and displace present ones.
    """
    if type(m.source) is not str:
        raise TypeError(f"expected the name of the device as source, got {m.source!r}")
    if type(m.t) is not int or type(m.arrival) is not int:
        raise TypeError(f"expected times in ns as int, got t={m.t!r} and arrival={m.arrival!r}")
    if m.arrival > now_ns:
        raise ValueError(f"expected an arrival by the monotonic clock, now {now_ns} ns, got {m.arrival}")
    if not (-_LARGEST <= m.t <= _LARGEST and m.arrival >= -_LARGEST):
        raise ValueError(f"expected times in ns of the monotonic clock, got t={m.t} and arrival={m.arrival}")
    for channel, value in m.values.items():
        if type(value) is float and type(channel) is str:
            continue
        if not isinstance(channel, str):
            raise TypeError(f"expected the name of a channel, got {channel!r}")
        if not isinstance(value, float | int) or (isinstance(value, int) and abs(value) > _LARGEST):
            raise TypeError(f"{channel}: expected a float, got {value!r}")


class Decoder(Protocol):
    """The part that is specific to a family of devices: bytes or frames in, measurements out."""

    counters: dict[str, int]

    def reset(self) -> None:
        """The connection was lost: discard an incomplete message."""


class Driver(ABC):
    """Reads one device in a thread of its own and hands every measurement to `emit`, in that thread.

    A subclass opens, reads and closes the device, and names the decoder. When the device is lost the thread
    goes on: it opens the device again, with pauses that grow from 0.1 s to 0.25 s, until `stop`. If a device
    measures far too often, some of its measurements are dropped.
    """

    Options: ClassVar[type[Any]]
    """A frozen dataclass with the settings of this kind of device."""
    FAULTS: ClassVar[tuple[type[Exception], ...]] = (OSError,)
    """What opening and reading raise when the device is not there or broken."""

    decoder: Decoder

    def __init__(self, name: str, options: Any, emit: Callable[[Measurement], None]) -> None:
        self.name = name
        self.options = options
        self._emit = emit
        self._log = logging.getLogger(f"drivers.{name}")
        self._counters = {
            **{"open_errors": 0, "disconnects": 0, "reconnects": 0, "internal_errors": 0},
            **{"decimated": 0, "discarded_bytes": 0, "stale": 0},
        }
        self.guard = FloodGuard()
        """Limits the rate of measurements taken from the device."""
        self._state = "connecting"
        self._given_up_ns = math.inf
        """Limit for the first opening, ns, monotonic clock: afterwards the state is `disconnected`, as
        opening may hang."""
        self._received_ns = 0
        self._read_ns = 0
        """Time of the last read, ns, by the clock that continues while the machine is suspended
        (CLOCK_BOOTTIME)."""
        self._connections = 0
        self._pause_s = _FIRST_PAUSE_S
        self._next_log_ns: dict[int, int] = {}
        self._next_report_ns = 0
        self._reported: dict[str, int] = {}
        self._description: dict[str, Any] = {}
        self._live: dict[str, int] = {}
        """The decoder's counters, once they are known to be a plain dictionary: reading it cannot hang."""
        self._next_description_ns = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"driver-{name}", daemon=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Raises TypeError if a subclass overrides `state` or `description`: the estimator waits for both."""
        super().__init_subclass__(**kwargs)
        for name in ("state", "description"):
            if getattr(cls, name) is not getattr(Driver, name):
                raise TypeError(
                    f"{cls.__name__}.{name} is a driver's own; expected `describe` with further entries"
                )

    @property
    def port(self) -> str | None:
        """The port that the device uses exclusively; None if several devices may read the same."""
        return None

    def start(self) -> None:
        """Starts the thread. Whether the device is there shows in `state`, not here."""
        self._given_up_ns = time.monotonic_ns() + _SILENT_NS
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread and closes the device; harmless if called again or before `start`."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=3.0)
        self._state = "stopped"

    def counters(self) -> dict[str, int]:
        """Counts of what was read and of every kind of fault, since the start."""
        return {**self.decoder.counters, **self._counters}

    def describe(self) -> dict[str, Any]:
        """What `status` shows of the device: its state and its counters.

        Called in the device's thread: a `describe` that is slow or fails affects its own device only.
        """
        return {"state": self.state, **self.counters()}

    @final
    @property
    def description(self) -> dict[str, Any]:
        """Current state and counters, other entries of the last `describe`, or its `error`; never blocks."""
        found = {**self._description, "state": self.state}
        # The counters are current: the number received until a given time is compared with the number sent.
        counts = {**self._live, **self._counters}
        return found | {k: n for k, n in counts.items() if k in found and type(n) is int}

    @final
    @property
    def state(self) -> str:
        """`connecting`, `disconnected`, `connected`, `silent`, `flooding` or `stopped`.

        `connecting`: not opened yet, no attempt has failed; after two seconds of this, `disconnected`.
        `silent`: open, but nothing came for two seconds. `flooding`: too much arrived within the last two
        seconds, so measurements or bytes were dropped.
        """
        if self._state == "connected":
            now = time.monotonic_ns()
            if self.guard.is_flooding(now):  # perhaps with bytes that are no messages
                return "flooding"
            if now - self._received_ns > _SILENT_NS:
                return "silent"
        if self._state == "connecting" and time.monotonic_ns() > self._given_up_ns:
            return "disconnected"
        return self._state

    @abstractmethod
    def _open(self) -> None:
        """Opens the device. Raises one of FAULTS if it cannot."""

    @abstractmethod
    def _receive(self) -> tuple[bool, list[Measurement]]:
        """Waits a moment for the device. Returns whether data came, and the measurements.

        Raises one of FAULTS if the device is gone.
        """

    def _discard_waiting(self) -> int:
        """Discards what has arrived but was not read; returns the number of bytes or frames (by default 0).

        Raises one of FAULTS if the device is gone.
        """
        return 0

    @abstractmethod
    def _close(self) -> None:
        """Closes the device if it is open; what it raises is only logged."""

    def _discarded(self, count: int) -> None:
        """Count bytes in excess of the line's rate, which are discarded before decoding."""
        self._counters["discarded_bytes"] += count
        self.guard.exceeded(time.monotonic_ns())

    def _run(self) -> None:
        self._refresh_description(time.monotonic_ns())
        while not self._stopping.is_set():
            opened = False
            try:
                self._open()
                opened = True
                self._connected()
                while not self._stopping.is_set():
                    self._pump()
            except Exception as error:  # no failure ends the thread
                self._failed(error, opened)
            finally:
                self._shut()
            self._refresh_description(time.monotonic_ns())
            self._stopping.wait(self._pause_s)
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _pump(self) -> None:
        received, measurements = self._receive()
        before, self._read_ns = self._read_ns, time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if self._read_ns - before > _STOOD_STILL_NS:
            self._counters["stale"] += len(measurements) + self._discard_waiting()
            self.decoder.reset()
            measurements = []
        now = time.monotonic_ns()
        if received:
            self._received_ns = now
            self._pause_s = _FIRST_PAUSE_S
        for measurement in measurements:
            check_measurement(measurement, now)
            channel = next(iter(measurement.values), "")
            if self.guard.admits(channel, channel, now, measurement.values):
                self._emit(measurement)
            else:
                self._counters["decimated"] += 1
        if now >= self._next_report_ns:
            self._next_report_ns = now + _LOG_EVERY_NS
            self._report()
        if now >= self._next_description_ns:
            self._refresh_description(now)

    def _refresh_description(self, now_ns: int) -> None:
        self._next_description_ns = now_ns + _DESCRIBE_EVERY_NS
        try:
            # An entry that cannot be encoded would make the whole status impossible to publish.
            self._description = msgspec.to_builtins(dict(self.describe()), str_keys=True)
            if type(self.decoder.counters) is dict:
                self._live = self.decoder.counters
        except Exception as error:
            self._description = {"state": self.state, "error": f"{type(error).__name__}: {error}"}

    def _connected(self) -> None:
        self._connections += 1
        self._counters["reconnects"] = self._connections - 1
        self._received_ns = time.monotonic_ns()
        self._read_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._state = "connected"
        self._log_limited(logging.INFO, "connected")

    def _failed(self, error: Exception, opened: bool) -> None:
        self._state = "disconnected"
        if not isinstance(error, self.FAULTS):
            self._counters["internal_errors"] += 1
            self._log_limited(logging.ERROR, f"internal error: {error!r}", exc_info=error)
        elif opened:
            self._counters["disconnects"] += 1
            self._log_limited(logging.WARNING, f"lost: {error}")
        else:
            self._counters["open_errors"] += 1
            self._log_limited(logging.WARNING, f"cannot be opened: {error}")

    def _shut(self) -> None:
        try:
            self._close()
        except Exception as error:  # a lost device cannot always be closed cleanly
            self._log_limited(logging.DEBUG, f"closing: {error}")
        self.decoder.reset()

    def _report(self) -> None:
        """Log one line with the faults since the last one, if there were any."""
        counters = self.counters()
        since = {k: counters[k] - self._reported.get(k, 0) for k in _FAULT_COUNTERS if k in counters}
        self._reported = counters
        if any(since.values()):
            what = ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in since.items() if v)
            self._log.warning("%s: %s", self.name, what)

    def _log_limited(self, level: int, message: str, exc_info: Exception | None = None) -> None:
        """Log at most one line per level in 10 s, so that an unreliable connection does not fill the log."""
        now = time.monotonic_ns()
        if now >= self._next_log_ns.get(level, 0):
            self._next_log_ns[level] = now + _LOG_EVERY_NS
            self._log.log(level, "%s: %s", self.name, message, exc_info=exc_info)
