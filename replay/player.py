"""Plays a log on emulated devices in real time, from one thread, on absolute deadlines."""

import math
import time
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from typing import Any

import msgspec

from drivers.utc import UTC_CHANNEL
from replay.emulate import Damage, EmulatedDevice
from replay.faults import Fault, LineDamage, LineFault, Unplugged, make_damage
from replay.problems import Problems
from replay.steps import sort_by_arrival
from vehicled.messages import Measurement

Wait = Callable[[float], bool]
"""Waits for at most so many seconds; returns whether to go on."""


@dataclass(frozen=True)
class PlayReport:
    """How far a play is."""

    done: bool
    """Whether the log has ended."""
    sent: int
    """Number of measurements so far."""
    latest_ns: int
    """Largest delay of a measurement, ns."""
    counters: dict[str, dict[str, int]]
    """Counters of each device: `messages` on the line; of a pseudo-terminal `bytes`, `unread_bytes`; damage
    by noise."""

    @property
    def unread_bytes(self) -> int:
        """Bytes that no driver has read from its port in time."""
        return sum(c.get("unread_bytes", 0) for c in self.counters.values())


class Player:
    """Sends each sample at its time of arrival, relative to the start; late samples at once.

    A measurement whose source is the name of a device goes to that device, any other to every device that has
    a channel for it. Receivers send the time of day at which it is played, not that of the log.
    """

    def __init__(
        self,
        devices: Mapping[str, EmulatedDevice],
        measurements: Iterable[Measurement],
        faults: Sequence[Fault] = (),
        timed: Collection[str] = (),
    ) -> None:
        """measurements: in order of arrival to within a second. timed: devices whose times of sending are kept."""
        self._devices = devices
        self._measurements = measurements
        self._faults = [f for f in faults if not isinstance(f, Unplugged | LineFault)]
        self._noise: dict[str, list[LineDamage]] = {name: [] for name in devices}
        for fault in faults:
            if isinstance(fault, LineFault):
                self._noise[fault.device].append(make_damage(fault))
        self._plugs = sorted(_plugs(devices, faults), key=lambda p: p[0])
        self.times = {name: array("q") for name in timed}
        """Time at which the bytes of each message were written, ns, CLOCK_MONOTONIC."""
        self._begin_ns = 0
        self._utc_offset_ns: int | None = None
        """Time of day less the clock of the measurements, known from the first measurement on."""
        self._done = False
        self._sent = 0
        self._latest_ns = 0

    def report(self) -> PlayReport:
        """Progress of the play."""
        counters = {
            name: dict(device.counters)
            | {k: n for noise in self._noise[name] for k, n in noise.counters.items()}
            for name, device in self._devices.items()
        }
        return PlayReport(self._done, self._sent, self._latest_ns, counters)

    def play(self, start_ns: int, wait: Wait) -> None:
        """Play the log, its first sample at start_ns, host monotonic clock; ends early if `wait` returns False."""
        plugs = iter(self._plugs)
        plug = next(plugs, None)
        for since, together in groupby(self._schedule(start_ns), lambda m: m.arrival - self._begin_ns):
            while plug is not None and plug[0] <= since:
                if not self._wait_until(start_ns + plug[0], wait):
                    return
                plug[1]()
                plug = next(plugs, None)
            samples = list(together)
            packed = self._pack(samples)  # before they are due: packing takes longer than sending
            if not self._wait_until(start_ns + since, wait):
                return
            self._send(packed, since * 1e-9)
            self._sent += len(samples)
        self._done = True

    def send(self, m: Measurement) -> None:
        """Send a measurement at once, on lines without noise that is limited in time."""
        if self._utc_offset_ns is None:
            self._utc_offset_ns = _find_utc_offset(m.arrival, time.monotonic_ns())
        self._send(self._pack([m]), 0.0)

    def _schedule(self, start_ns: int) -> Iterator[Measurement]:
        """Measurements to send, in order of arrival, the first one at start_ns."""
        ordered = sort_by_arrival(self._measurements, Problems("log"))
        first = next(ordered, None)
        if first is None:
            return
        self._begin_ns = first.arrival
        self._utc_offset_ns = _find_utc_offset(first.arrival, start_ns)
        stream: Iterator[Measurement] = chain((first,), ordered)
        if self._faults:
            stream = sort_by_arrival(self._change(stream), Problems("faults"))
        yield from stream

    def _change(self, stream: Iterable[Measurement]) -> Iterator[Measurement]:
        for m in stream:
            changed = [m]
            for fault in self._faults:
                changed = [n for c in changed for n in fault.apply(c, (c.arrival - self._begin_ns) * 1e-9)]
            yield from changed

    def _wait_until(self, due: int, wait: Wait) -> bool:
        """Wait for a time, ns; returns whether to go on."""
        while True:
            left = due - time.monotonic_ns()
            if not wait(max(left, 0) * 1e-9):
                return False
            if left <= 0:
                self._latest_ns = max(self._latest_ns, -left)
                return True

    def _pack(self, measurements: Iterable[Measurement]) -> dict[str, list[Any]]:
        """By device, its messages for measurements that are due together."""
        packed: dict[str, list[Any]] = {}
        for m in measurements:
            for name in (m.source,) if m.source in self._devices else self._devices:
                device = self._devices[name]
                values = {c: v for c, v in m.values.items() if c in device.channels}
                if values:
                    self._add_utc(values, m.t, device)
                    messages = device.pack(msgspec.structs.replace(m, values=values))
                    packed.setdefault(name, []).extend(messages)
        return packed

    def _add_utc(self, values: dict[str, float], t: int, device: EmulatedDevice) -> None:
        is_fix = UTC_CHANNEL in device.channels and any(c.startswith("gnss.") for c in values)
        if is_fix and self._utc_offset_ns is not None:
            values[UTC_CHANNEL] = (t + self._utc_offset_ns) * 1e-9

    def _send(self, packed: Mapping[str, Sequence[Any]], t: float) -> None:
        for name, messages in packed.items():
            damage: list[Damage] = [partial(noise.apply, t=t) for noise in self._noise[name]]
            now = time.monotonic_ns()
            sent = self._devices[name].send(messages, damage)
            if name in self.times:
                self.times[name].extend([now] * sent)


def _find_utc_offset(t: int, host_ns: int) -> int:
    """The host's time of day less the clock of measurements, which has t when the monotonic one has host_ns.

    In whole milliseconds, as receivers measure at such times of day.
    """
    offset = host_ns - t + time.time_ns() - time.monotonic_ns()
    return offset // 1_000_000 * 1_000_000


def _plugs(
    devices: Mapping[str, EmulatedDevice], faults: Sequence[Fault]
) -> Iterator[tuple[int, Callable[[], None]]]:
    for fault in faults:
        if isinstance(fault, Unplugged):
            for name in fault.devices:
                yield round(fault.begin * 1e9), devices[name].unplug
                if math.isfinite(fault.end):
                    yield round(fault.end * 1e9), devices[name].replug
