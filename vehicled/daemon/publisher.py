"""Results to subscribers over ZeroMQ, each topic's last value first."""

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import zmq

from vehicled import schemas
from vehicled.daemon.endpoints import Endpoints, PublishOptions, endpoint_of
from vehicled.daemon.subscribers import Subscribers
from vehicled.messages import Estimate, Innovation, Parameters, Status

_BACKLOG = 256
"""Steps that may wait for the publishing thread: one second of them at 250 Hz."""
_MAX_SUBSCRIPTION = 512
"""Bytes: far more than a topic has, but the handshake of CURVE also has to fit."""

_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    **{topic: partial(schemas.encode_estimate, topic) for topic in schemas.TOPIC_COLUMNS},
    "status": schemas.encode,
    "parameters": schemas.encode,
    "innovation": schemas.encode_innovation,
}


class Publisher:
    """Owns an XPUB socket, to which SUB sockets connect as to any PUB.

    XPUB reports subscriptions: a topic without subscribers is not even encoded, and a new subscriber gets the last
    value of a topic at once (so, then, do its other subscribers: the same message again), unless very many come at
    once. The estimator's thread only appends to a bounded queue; encoding and sockets live in a thread of their own.
    What a subscriber is too slow to take, ZeroMQ drops for that one alone, beyond `high_water_mark` messages. A
    client with more subscriptions than any needs is disconnected.
    """

    def __init__(self, endpoints: Endpoints, options: PublishOptions) -> None:
        """Binds at once. Raises UsageError."""
        self._socket = endpoints.bind(zmq.XPUB, options.endpoint, _MAX_SUBSCRIPTION)
        self._socket.setsockopt(zmq.XPUB_VERBOSER, 1)
        self.endpoint = endpoint_of(self._socket)
        """Where it is bound; the real port if the options said `*`."""
        self._subscribers = Subscribers(self._socket, schemas.PUBLISHED)
        self._last: dict[str, Any] = {}
        self._backlog: deque[tuple[Estimate | None, list[Innovation], Status | Parameters | None]] = deque()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopping = False
        self._dropped = 0
        self._sent = dict.fromkeys(schemas.PUBLISHED, 0)
        self._errors = 0
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def publish_step(self, estimate: Estimate | None, innovations: list[Innovation]) -> None:
        """The results of one filter step, which must not be changed afterwards; never blocks."""
        self._hand_over(estimate, innovations, None)

    def publish_status(self, status: Status) -> None:
        """Take the status for its topic, as `publish_step` takes a step."""
        self._hand_over(None, [], status)

    def publish_parameters(self, parameters: Parameters) -> None:
        """Take the slow states for their topic, as `publish_step` takes a step."""
        self._hand_over(None, [], parameters)

    def counters(self) -> dict[str, Any]:
        """What it has done since its start.

        Messages `sent` by topic, `dropped` steps, `errors` of encoding or sending, `ignored` requests, `subscribed`
        topics, connections that were `refused`.
        """
        return {
            "sent": dict(self._sent),
            "dropped": self._dropped,
            "errors": self._errors,
            "ignored": self._subscribers.ignored,
            "subscribed": sorted(self._subscribers.wanted),
            "refused": self._subscribers.refused,
        }

    def close(self) -> None:
        """Send what is waiting and close the socket."""
        self._stopping = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)

    def _hand_over(
        self, estimate: Estimate | None, innovations: list[Innovation], report: Status | Parameters | None
    ) -> None:
        if len(self._backlog) >= _BACKLOG:
            self._dropped += 1
            return
        self._backlog.append((estimate, innovations, report))
        os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._subscribers.monitor, zmq.POLLIN)
        poller.register(self._wake, zmq.POLLIN)
        try:
            while not self._stopping or self._backlog:
                ready = dict(poller.poll())
                if self._wake in ready:
                    os.eventfd_read(self._wake)
                # Subscriptions first: a new subscriber gets the last value, then what is new.
                if self._socket in ready or self._subscribers.monitor in ready:
                    self._welcome(self._subscribers.update())
                while self._backlog:
                    self._publish(*self._backlog.popleft())
        finally:
            self._subscribers.close()
            self._socket.close()

    def _publish(
        self, estimate: Estimate | None, innovations: list[Innovation], report: Status | Parameters | None
    ) -> None:
        if estimate is not None:
            for topic in schemas.TOPIC_COLUMNS:
                self._offer(topic, estimate)
        for innovation in innovations:
            self._offer("innovation", innovation)
        if report is not None:
            self._offer("status" if isinstance(report, Status) else "parameters", report)

    def _offer(self, topic: str, message: Any) -> None:
        self._last[topic] = message
        if topic in self._subscribers.wanted:
            self._send(topic, message)

    def _send(self, topic: str, message: Any) -> None:
        try:
            self._socket.send_multipart((topic.encode(), _ENCODERS[topic](message)), zmq.DONTWAIT)
            self._sent[topic] += 1
        except Exception:
            # A message that cannot be encoded or sent must not prevent the others.
            self._errors += 1

    def _welcome(self, topics: list[str]) -> None:
        for topic in topics:
            if topic in self._last:
                self._send(topic, self._last[topic])
