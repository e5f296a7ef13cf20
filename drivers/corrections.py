"""Corrections for a GNSS receiver: from an NTRIP caster into the port of the receiver, whose driver owns the port."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

from drivers.caster_options import CasterOptions
from drivers.ntrip import Connection, NtripError, RefusedError, is_mountpoint, make_gga
from drivers.rtcm import BaseStation, RtcmDecoder, is_correction, message_number, read_base
from vehicled.backoff import Backoff
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import Measurement
from vehicled.units import Positive, Range, Seconds

_WAIT_S = 0.5
_GLANCE_S = 0.001
_WRITE_FOR_S = 0.1
"""Longest time of writing frames, s, before the caster is read again. If the receiver's line is too slow,
frames must not grow old in the network's buffers, which are large."""
_MOST_PER_S = 32_000
"""Limit of the rate of reading, bytes/s: three times that of all observations of all systems at 10 Hz."""
_LATE_NS = 2_000_000_000
"""A frame that could not be written to the receiver within this time is dropped: newer ones are worth
more."""
_REFUSED_NS = 60_000_000_000
"""Pause after a refusal: casters ban clients that repeat a refused request."""
_MINUTE_NS = 60_000_000_000
_SUMMARY_NS = 1_000_000_000
_RECENT = 6000
"""Largest number of frames in the statistics by message number: one minute at 100 Hz."""
_LISTED = 40
"""Largest number of message numbers listed in `status`."""
_DAMAGED = 100
"""A stream is given up after this many frames with a wrong checksum, plus a quarter of the correct ones: TCP
does not damage data, so it is another format, and each false frame costs the time of a checksum."""


@runtime_checkable
class Receiver(Protocol):
    """A driver that can write to its device."""

    def write(self, data: bytes) -> None:
        """Send bytes to the device, from any thread. Raises OSError."""


@dataclass(frozen=True, kw_only=True)
class CorrectionOptions(CasterOptions):
    """Where a receiver's corrections come from."""

    mountpoint: str
    """Name of the stream; `vehicled ntrip HOST` lists them."""
    send_position: Annotated[Seconds, Positive] | None = None
    """How often the receiver's position is sent to the caster, s, which virtual stations need; None: never."""
    max_age: Annotated[Seconds, Range(1.0, 600.0)] = 15.0
    """Older corrections are a fault of the source, s; after so long without any frame the connection is renewed."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong), never with what may be a password."""
        yield from super().check()
        if not is_mountpoint(self.mountpoint):
            yield "mountpoint", "expected a name of printable characters without spaces"


class _Position(NamedTuple):
    latitude: float
    longitude: float
    height: float
    quality: int


class Corrections:
    """Reads a caster in a thread of its own and writes whole RTCM 3 frames to the receiver, until `stop`.

    The thread survives every failure: two attempts within a minute are immediate, further ones wait up to a minute,
    as does one after a refusal. What the receiver's line does not take in time is left out.
    """

    def __init__(self, name: str, options: CorrectionOptions) -> None:
        """`name`: of the receiver."""
        self.name = name
        self._options = options
        self._log = logging.getLogger(f"drivers.{name}")
        self._max_age_ns = round(options.max_age * 1e9)
        self._position: _Position | None = None
        self._position_due_ns = 0
        self._counters = dict.fromkeys(
            ("connections", "bytes", "frames", "forwarded", "late", "unsent", "positions", "internal_errors"),
            0,
        )
        self._decoder = RtcmDecoder()
        self._whole = self._damaged = 0
        """Numbers of correct and of damaged frames before the present connection."""
        self._waiting: deque[tuple[int, bytes]] = deque()
        """Frames not yet written to the receiver, each with its arrival, ns."""
        self._recent: deque[tuple[int, int]] = deque(maxlen=_RECENT)
        """Arrival, ns, and message number."""
        self._summary_due_ns = 0
        self._per_minute: dict[str, int] = {}
        self._base: BaseStation | None = None
        self._distance: float | None = None
        self._state = "stopped"
        self._error: str | None = None
        """Why there are no corrections at present."""
        self._last_error: str | None = None
        self._corrected_ns: int | None = None
        """Time at which the last correction was written to the receiver, ns."""
        self._counted_from_ns = 0
        self._stopping = threading.Event()
        self._write: Callable[[bytes], None]
        self._thread = threading.Thread(target=self._run, name=f"corrections-{name}", daemon=True)

    def start(self, write: Callable[[bytes], None]) -> None:
        """Start the thread. `write` sends bytes to the receiver, and raises OSError."""
        self._write = write
        self._state = "disconnected"
        self._counted_from_ns = time.monotonic_ns()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; harmless if called again or before `start`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=3.0)
        self._state = "stopped"

    def observe(self, m: Measurement) -> None:
        """Keep the receiver's position, which the caster may need. Callable from any thread; never blocks."""
        for channel, latitude in m.values.items():
            if channel.startswith("gnss") and channel.endswith(".lat"):
                place = channel[: -len("lat")]
                longitude = m.values.get(f"{place}lon", math.nan)
                height = m.values.get(f"{place}alt", 0.0)
                quality = m.values.get(f"{place}quality", 1.0)
                if math.isfinite(latitude + longitude + height):
                    known = int(quality) if 1.0 <= quality <= 9.0 else 1
                    self._position = _Position(latitude, longitude, height, known)
                return

    @property
    def fault(self) -> str | None:
        """Why the receiver has no corrections that are younger than `max_age`; None if it has."""
        since = self._counted_from_ns if self._corrected_ns is None else self._corrected_ns
        if self._state == "stopped" or time.monotonic_ns() - since <= self._max_age_ns:
            return None
        return f"no corrections: {self._error or 'messages without observations'}"

    def status(self) -> dict[str, Any]:
        """State, age of corrections (s), messages per minute, base and distance to it (m), counts."""
        at = self._corrected_ns
        base, decoded = self._base, self._decoder.counters
        return {
            "state": self._state,
            "age": None if at is None else (time.monotonic_ns() - at) / 1e9,
            "last_error": self._last_error,
            "per_minute": self._per_minute,
            "base": None if base is None else base._asdict(),
            "distance": self._distance,
            **self._counters,
            "checksum_errors": decoded["checksum_errors"],
            "garbage_bytes": decoded["garbage_bytes"],
        }

    def _run(self) -> None:
        backoff = Backoff()
        while not self._stopping.is_set():
            if self._options.send_position is not None and self._position is None:
                self._fail("waiting", "the receiver has no position to send yet")
                self._stopping.wait(_WAIT_S)
                continue
            due = backoff.schedule(time.monotonic_ns())
            self._stopping.wait((due - time.monotonic_ns()) / 1e9)
            if self._stopping.is_set():
                return
            refused = False
            try:
                self._state = "connecting"
                self._serve()
            except NtripError as error:
                refused = isinstance(error, RefusedError)
                self._fail("disconnected", str(error))
            except Exception as error:  # no failure ends the thread
                self._counters["internal_errors"] += 1
                self._fail("disconnected", f"internal error: {error!r}")
                self._log.debug("%s: corrections", self.name, exc_info=error)
            self._decoder.reset()
            self._waiting.clear()
            if refused:
                self._stopping.wait(_REFUSED_NS / 1e9)

    def _fail(self, state: str, error: str) -> None:
        self._state = state
        if error != self._error:
            self._log.warning("%s: corrections: %s", self.name, error)
        self._error = self._last_error = error
        self._summarise(time.monotonic_ns())

    def _serve(self) -> None:
        """One connection, until it ends. Raises NtripError."""
        o = self._options
        received_ns = time.monotonic_ns()
        self._position_due_ns = 0
        self._whole, self._damaged = (self._decoder.counters[c] for c in ("messages", "checksum_errors"))
        with contextlib.closing(
            Connection(o.find_caster(), o.mountpoint, self._make_position(received_ns))
        ) as c:
            while not self._stopping.is_set():
                data = c.read(_GLANCE_S if self._waiting else _WAIT_S)
                now = time.monotonic_ns()
                if c.accepted and self._state != "connected":
                    self._state = "connected"
                    self._counters["connections"] += 1
                    self._log.info("%s: corrections: connected to %s", self.name, o.caster)
                if self._take(data, now):
                    received_ns = now
                elif now - received_ns > self._max_age_ns:
                    raise NtripError(f"{o.caster}/{o.mountpoint}: no RTCM 3 for {o.max_age:g} s")
                self._forward()
                if c.accepted and (sentence := self._make_position(now)):
                    c.write(sentence)
                if now >= self._summary_due_ns:
                    self._summarise(now)
                if c.complete:
                    raise NtripError(f"{o.caster}/{o.mountpoint}: ended by the caster")
                self._stopping.wait(len(data) / _MOST_PER_S)

    def _take(self, data: bytes, now_ns: int) -> bool:
        """Queue the frames that `data` completes; return whether it does. Raises NtripError for another format."""
        counters, decoded = self._counters, self._decoder.counters
        frames = self._decoder.take(data, now_ns)
        counters["bytes"] += len(data)
        counters["frames"] += len(frames)
        whole, damaged = decoded["messages"] - self._whole, decoded["checksum_errors"] - self._damaged
        if damaged > _DAMAGED + whole / 4:
            raise RefusedError(f"{self._options.caster}/{self._options.mountpoint}: is not RTCM 3")
        for frame in frames:
            self._waiting.append((now_ns, frame))
            self._recent.append((now_ns, message_number(frame)))
            self._base = read_base(frame) or self._base
        return bool(frames)

    def _forward(self) -> None:
        """Write queued frames as far as the receiver's line takes them at once; drop those that are late."""
        until = time.monotonic_ns() + round(_WRITE_FOR_S * 1e9)
        while self._waiting and (now := time.monotonic_ns()) < until:
            arrival, frame = self._waiting.popleft()
            if now - arrival > _LATE_NS:
                self._counters["late"] += 1
                continue
            try:
                self._write(frame)
            except OSError as error:
                self._counters["unsent"] += 1
                self._error = self._last_error = f"the receiver does not take them: {error}"
                continue
            self._counters["forwarded"] += 1
            if is_correction(message_number(frame)):
                self._corrected_ns = time.monotonic_ns()
                self._error = None

    def _make_position(self, now_ns: int) -> bytes:
        """The GGA sentence if it is time to send one; otherwise empty."""
        every, position = self._options.send_position, self._position
        if every is None or position is None or now_ns < self._position_due_ns:
            return b""
        self._position_due_ns = now_ns + round(every * 1e9)
        self._counters["positions"] += 1
        return make_gga(*position, datetime.now(UTC))

    def _summarise(self, now_ns: int) -> None:
        """Prepare what takes too long for `status`, which the estimator's thread calls."""
        self._summary_due_ns = now_ns + _SUMMARY_NS
        while self._recent and now_ns - self._recent[0][0] > _MINUTE_NS:
            self._recent.popleft()
        counts = Counter(number for _, number in self._recent)
        self._per_minute = {str(number): count for number, count in sorted(counts.most_common(_LISTED))}
        base, position = self._base, self._position
        if base is not None and position is not None:
            origin = WorldOrigin(base.latitude, base.longitude, base.height)
            east, north, up = origin.to_world(position.latitude, position.longitude, position.height)
            self._distance = float((east * east + north * north + up * up) ** 0.5)
