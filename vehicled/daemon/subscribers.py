"""Subscriptions of the publishing socket's clients, and their limits."""

from __future__ import annotations

import time
from collections.abc import Sequence

import zmq

from vehicled.daemon.connections import Connections
from vehicled.trust.token_bucket import TokenBucket

MAX_SUBSCRIPTIONS = 64
"""Most subscriptions of one connection: ten times the number of topics."""
MAX_BYTES = 16384
"""Most bytes of one connection's subscriptions together. ZeroMQ keeps about 50 bytes for each of them."""
_OF_SOURCES = b"innovation."
"""Prefix of the topic of one kind of observation's innovations, before the kind."""
_REQUESTS_PER_S = 10.0
_REQUESTS_AT_ONCE = 2.0 * MAX_SUBSCRIPTIONS
_WELCOMES_PER_S = 50.0
_WELCOMES_AT_ONCE = 100.0


class _Subscriptions:
    """Subscriptions of one connection."""

    def __init__(self) -> None:
        self.prefixes: set[bytes] = set()
        self.bytes = 0
        self.requests = TokenBucket(_REQUESTS_PER_S, _REQUESTS_AT_ONCE)


class Subscribers:
    """Handles requests of an XPUB socket with XPUB_VERBOSER. A connection with too many of them is cut off.

    XPUB keeps every subscription, even of unknown topics, so all of them count. To be used by the thread that
    owns the socket.
    """

    def __init__(self, bound: zmq.Socket[bytes], topics: Sequence[str]) -> None:
        self._socket = bound
        self._topics = {topic: topic.encode() for topic in topics}
        self._connections = Connections(bound, _Subscriptions, MAX_BYTES)
        self._welcomes = TokenBucket(_WELCOMES_PER_S, _WELCOMES_AT_ONCE)
        self._holders: dict[bytes, int] = {}
        self.monitor = self._connections.monitor
        """To be polled with the socket: readable when clients have come or gone."""
        self.wanted: frozenset[str] = frozenset()
        """Topics with a subscriber."""
        self.wanted_sources: tuple[bytes, ...] = ()
        """Prefixes of subscribed topics of single sources of innovations."""
        self.ignored = 0
        """Requests that named no topic."""

    @property
    def refused(self) -> int:
        """Connections cut off."""
        return self._connections.refused

    def close(self) -> None:
        """Stop monitoring; call before the socket is closed."""
        self._connections.close()

    def check(self) -> None:
        """Cut off clients that fill the memory; to be called often."""
        self._connections.check()

    def update(self) -> list[str]:
        """Handle new requests; returns the topics whose last value a new subscriber is to get, in their order."""
        welcome: set[str] = set()
        for gone in self._connections.update():
            for prefix in gone.prefixes:
                self._release(prefix)
        while True:
            try:
                frames = self._socket.recv_multipart(zmq.DONTWAIT, copy=False)
            except zmq.Again:
                break
            welcome |= self._take(frames)
        self.wanted = frozenset(
            t for t, name in self._topics.items() if any(name.startswith(p) for p in self._holders)
        )
        self.wanted_sources = tuple(p for p in self._holders if p.startswith(_OF_SOURCES))
        return [topic for topic in self._topics if topic in welcome]

    def _take(self, frames: list[zmq.Frame]) -> set[str]:
        sender = self._connections.of(frames)
        if sender is None:
            return set()
        descriptor, client = sender
        now = time.monotonic_ns()
        request = frames[0].bytes
        kind, prefix = request[:1], request[1:]
        proper = len(frames) == 1 and kind in (b"\x00", b"\x01")
        new = proper and kind == b"\x01" and prefix not in client.prefixes
        if new:
            client.prefixes.add(prefix)
            client.bytes += len(prefix)
            self._holders[prefix] = self._holders.get(prefix, 0) + 1
        elif proper and kind == b"\x00" and prefix in client.prefixes:
            client.prefixes.remove(prefix)
            client.bytes -= len(prefix)
            self._release(prefix)
        too_many = len(client.prefixes) > MAX_SUBSCRIPTIONS or client.bytes > MAX_BYTES
        if too_many or not client.requests.take(now):
            self._connections.cut_off(descriptor)
            return set()
        named = (
            {topic for topic, name in self._topics.items() if name.startswith(prefix)} if proper else set()
        )
        self.ignored += not (named or prefix.startswith(_OF_SOURCES))
        return named if new and self._welcomes.take(now) else set()

    def _release(self, prefix: bytes) -> None:
        self._holders[prefix] -= 1
        if not self._holders[prefix]:
            del self._holders[prefix]
