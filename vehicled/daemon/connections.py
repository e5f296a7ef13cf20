"""Connections of a bound ZeroMQ socket, by file descriptor: limits their number, and cuts them off.

ZeroMQ itself limits neither the number of connections nor the memory of subscriptions and incomplete
messages. A monitor socket reports connections that begin and end, and each message has the descriptor of its
connection. A connection whose descriptor is shut down ends as if its client had gone.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import zmq
from zmq.utils.monitor import recv_monitor_message

from vehicled.daemon.client_memory import MemoryGuard, Received

_log = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
"""Most connections per socket: several times the number of programs that use the daemon."""
CHECK_EVERY_MS = 20
"""Time between checks of the clients' memory, ms: an endless message adds about 10 MB meanwhile."""
_LOG_EVERY_NS = 10_000_000_000
_FRAMING = 64
"""Most bytes around a frame: those of CURVE, with the name of its command."""

C = TypeVar("C")


class Connections(Generic[C]):
    """The connections of one bound socket, with data of type `C` for each, by file descriptor.

    To be used by the thread that owns the socket, which polls `monitor` and calls `update`.
    """

    def __init__(self, bound: zmq.Socket[bytes], make: Callable[[], C], most_waiting: int) -> None:
        """`make` gives the data of a new connection; `most_waiting`: most bytes of its messages not yet taken."""
        self.monitor = bound.get_monitor_socket(zmq.Event.ACCEPTED | zmq.Event.DISCONNECTED)
        """Readable when connections have begun or ended."""
        self._bound = bound
        self._make = make
        self._present: dict[int, C] = {}
        self._cut: set[int] = set()
        self._most_waiting = most_waiting
        self._received: dict[int, Received] = {}
        self._guard = MemoryGuard()
        self._check_due = self._log_due = 0
        self._address = _local_address(bound)
        self.refused = 0
        """Number of connections cut off: beyond the limit, or by `cut_off`."""

    @property
    def needs_check(self) -> bool:
        """Whether `check` has to be called even if nothing arrives."""
        return bool(self._present) or self._guard.is_pending

    def update(self) -> list[C]:
        """Add connections that began, remove those that ended; returns the data of the latter."""
        gone: list[C] = []
        while self.monitor.poll(0):
            event = recv_monitor_message(self.monitor)
            descriptor = event["value"]
            # A descriptor that begins again has ended before, whether or not that was reported.
            if descriptor in self._present:
                gone.append(self._present.pop(descriptor))
                del self._received[descriptor]
            self._cut.discard(descriptor)
            if event["event"] == zmq.Event.ACCEPTED:
                if len(self._present) < MAX_CONNECTIONS:
                    self._present[descriptor] = self._make()
                    self._received[descriptor] = Received(descriptor, time.monotonic_ns())
                else:
                    self.cut_off(descriptor)
        return gone

    def check(self) -> None:
        """Cut off clients that fill the memory; to be called often."""
        now = time.monotonic_ns()
        if now < self._check_due:
            return
        self._check_due = now + CHECK_EVERY_MS * 1_000_000
        clients = {d: r for d, r in self._received.items() if d not in self._cut}
        endless = [d for d, r in clients.items() if r.is_incomplete(self._most_waiting, now)]
        guilty = {*endless, *self._guard.find_guilty(clients, now)}
        for descriptor in guilty:
            self.cut_off(descriptor)
        if guilty and now >= self._log_due:
            self._log_due = now + _LOG_EVERY_NS
            where = self._bound.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
            why = "messages without an end" if endless else "the memory grew while they were connected"
            _log.warning("%s: %d connections cut off: %s", where, len(guilty), why)

    def of(self, frames: list[zmq.Frame]) -> tuple[int, C] | None:
        """Descriptor and data of the connection that a message came from; None if it ends or has ended."""
        try:
            descriptor: int = frames[-1].get(zmq.SRCFD)
        except zmq.ZMQError:  # it has no connection: ZeroMQ itself unsubscribes for one that has ended
            return None
        data = self._present.get(descriptor)
        if descriptor in self._received:
            self._received[descriptor].in_messages += sum(len(frame) + _FRAMING for frame in frames)
        return None if data is None or descriptor in self._cut else (descriptor, data)

    def cut_off(self, descriptor: int) -> None:
        """End a connection. ZeroMQ then frees its memory, including subscriptions."""
        self.refused += 1
        self._cut.add(descriptor)
        with contextlib.suppress(OSError):  # it has ended by itself
            peer = socket.socket(fileno=descriptor)
            try:
                # The descriptor may meanwhile belong to another file; another connection of this socket is
                # not harmed for long.
                if _port_or_path(peer.getsockname()) == self._address:
                    peer.shutdown(socket.SHUT_RDWR)
            finally:
                peer.detach()

    def close(self) -> None:
        """Stop receiving reports; call before the socket is closed."""
        self._bound.disable_monitor()
        self.monitor.close(linger=0)


def _local_address(bound: zmq.Socket[bytes]) -> int | str:
    """Port or path of a bound socket."""
    transport, _, address = bound.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0").partition("://")
    return address if transport == "ipc" else int(address.rpartition(":")[2])


def _port_or_path(name: object) -> object:
    return name[1] if isinstance(name, tuple) else name
