"""A subscriber to the messages of a daemon or a replay, as any user's program would be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import zmq

from vehicled.errors import UsageError
from vehicled.trust.curve import ClientKeys

_WATER_MARK = 10_000
"""Largest number of messages waiting here while something else is done: five seconds of them."""
_LARGEST_MESSAGE = 1 << 20
"""Bytes; a status has some 10 kB. A publisher of larger messages is disconnected."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Endpoint at which results are published."""

    endpoint: str
    keys: ClientKeys | None = None
    """Needed if the publisher has CURVE keys."""


class Subscriber:
    """Receives messages of some topics. A context manager."""

    def __init__(self, publication: Publication, topics: Sequence[str]) -> None:
        """Subscribe to `topics`, now or when there is a publisher. Raises UsageError for a bad endpoint."""
        endpoint = publication.endpoint
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.rcvhwm = _WATER_MARK
        self._socket.setsockopt(zmq.MAXMSGSIZE, _LARGEST_MESSAGE)
        if publication.keys is not None:
            publication.keys.apply(self._socket)
        for topic in topics:
            self._socket.subscribe(topic)
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self.close()
            expected = "expected 'tcp://ADDRESS:PORT' or 'ipc://PATH'"
            raise UsageError(f"--endpoint {endpoint}: {error.strerror}; {expected}") from None

    def wait(self, seconds: float) -> None:
        """Wait until there is a message, at most this time, s."""
        self._socket.poll(max(1, round(seconds * 1e3)))

    def receive(self) -> Iterator[tuple[str, bytes]]:
        """Topic and content of each waiting message; returns at once. Messages without a topic are omitted."""
        for _ in range(_WATER_MARK):
            try:
                frames = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            if len(frames) == 2:
                yield frames[0].decode(errors="replace"), frames[1]

    def close(self) -> None:
        """End the subscription."""
        self._context.destroy(linger=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
