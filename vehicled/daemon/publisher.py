"""Publishes results over ZeroMQ; a new subscriber first gets each topic's last value."""

import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

import zmq

from vehicled import schemas
from vehicled.daemon.endpoints import Endpoints, PublishOptions, endpoint_of
from vehicled.daemon.subscribers import Subscribers
from vehicled.daemon.utc import UtcClock
from vehicled.messages import AnyEstimate, Estimate, Innovation, Parameters, Status
from vehicled.schemas import CommandRecord

_BACKLOG = 256
"""Steps that may wait for the publishing thread: one second of them at 250 Hz."""
_LISTEN_EVERY_S = 0.02
"""Time between checks for new subscriptions while there is nothing to publish, s."""
_MAX_SUBSCRIPTION = 512
"""Bytes: far more than a topic has, as the handshake of CURVE has to fit too."""
# Plain numbers, as combining pyzmq's flags takes as long as sending a message.
_EVENTS, _POLLIN = int(zmq.EVENTS), int(zmq.POLLIN)
_LAST, _NOT_LAST = int(zmq.DONTWAIT), int(zmq.DONTWAIT | zmq.SNDMORE)

_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    **{topic: partial(schemas.encode_estimate, topic) for topic in schemas.TOPIC_COLUMNS},
    "points": schemas.encode_points,
    "mechanism": schemas.encode,
    "loads": schemas.encode_loads,
    "status": schemas.encode,
    "parameters": schemas.encode,
    "command": schemas.encode,
    "innovation": schemas.encode_innovation,
}

_Report = Status | Parameters | CommandRecord
_TOPICS: dict[type[_Report], str] = {Status: "status", Parameters: "parameters", CommandRecord: "command"}
_Item = tuple[AnyEstimate | None, list[Innovation], _Report | None]
"""Results of a step, or a report."""


class Publisher:
    """Owns an XPUB socket, to which SUB sockets connect as to any PUB.

    XPUB reports subscriptions: a topic without subscribers is not encoded, and a new subscriber gets the last
    value of a topic at once (its other subscribers get the same message again), unless very many come at
    once. The estimator's thread only appends to a bounded queue; encoding and sockets are in another thread.
    Beyond `high_water_mark` waiting messages, ZeroMQ drops those for a slow subscriber only. A client with
    more subscriptions than any needs is disconnected.
    """

    def __init__(self, endpoints: Endpoints, options: PublishOptions, utc: UtcClock | None = None) -> None:
        """Binds at once. `utc`: gives the time of day; by default the host's clock. Raises UsageError."""
        self._utc = UtcClock() if utc is None else utc
        self._socket = endpoints.bind(zmq.XPUB, options.endpoint, _MAX_SUBSCRIPTION)
        self._socket.setsockopt(zmq.XPUB_VERBOSER, 1)
        self.endpoint = endpoint_of(self._socket)
        """Endpoint that it is bound to, with the real port if the options said `*`."""
        self._subscribers = Subscribers(self._socket, schemas.PUBLISHED)
        self._last: dict[str, Any] = {}
        self._backlog: SimpleQueue[_Item | None] = SimpleQueue()
        """Ends with None. Unlike writing to a file descriptor, putting an item does not hand the interpreter
        to this thread in the middle of a step."""
        self._dropped = 0
        self._sent = dict.fromkeys(schemas.PUBLISHED, 0)
        self._errors = 0
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def publish_step(self, estimate: AnyEstimate | None, innovations: list[Innovation]) -> None:
        """The results of one filter step, which must not be changed afterwards; never blocks."""
        self._hand_over(estimate, innovations, None)

    def publish_status(self, status: Status) -> None:
        """Publish the status, as `publish_step` does a step."""
        self._hand_over(None, [], status)

    def publish_parameters(self, parameters: Parameters) -> None:
        """Publish the slow states, as `publish_step` does a step."""
        self._hand_over(None, [], parameters)

    def publish_command(self, step_ns: int, name: str, arguments: dict[str, Any]) -> None:
        """Publish a command executed before the step at `step_ns`, as `publish_step` does a step."""
        self._hand_over(None, [], CommandRecord(step_ns, name, arguments))

    def counters(self) -> dict[str, Any]:
        """Counters since its start.

        Messages `sent` by topic, `dropped` steps, `errors` of encoding or sending, `ignored` requests,
        `subscribed` topics, connections that were `refused`.
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
        self._backlog.put(None)
        self._thread.join()

    def _hand_over(
        self, estimate: AnyEstimate | None, innovations: list[Innovation], report: _Report | None
    ) -> None:
        if self._backlog.qsize() >= _BACKLOG:
            self._dropped += 1
            return
        self._backlog.put((estimate, innovations, report))

    def _run(self) -> None:
        try:
            while True:
                try:
                    item = self._backlog.get(timeout=_LISTEN_EVERY_S)
                except Empty:
                    self._take_subscriptions()
                    continue
                # Subscriptions first: a new subscriber gets the last value, then what is new.
                self._take_subscriptions()
                if item is None:
                    return
                self._publish(*item)
        finally:
            self._subscribers.close()
            self._socket.close()

    def _publish(
        self, estimate: AnyEstimate | None, innovations: list[Innovation], report: _Report | None
    ) -> None:
        if isinstance(estimate, Estimate):
            for topic in schemas.TOPIC_COLUMNS:
                self._offer(topic, estimate)
            if estimate.points is not None:
                self._offer("points", estimate)
            if estimate.loads is not None:
                self._offer("loads", estimate)
        elif estimate is not None:
            self._offer("mechanism", estimate)
        for innovation in innovations:
            self._offer("innovation", innovation)
            if self._subscribers.wanted_sources:
                name = f"innovation.{innovation.sensor}"
                if name.encode().startswith(self._subscribers.wanted_sources):
                    self._send("innovation", innovation, name)
        if report is not None:
            self._offer(_TOPICS[type(report)], report)

    def _offer(self, topic: str, message: Any) -> None:
        self._last[topic] = message
        if topic in self._subscribers.wanted:
            self._send(topic, message)

    def _send(self, topic: str, message: Any, name: str | None = None) -> None:
        """`name`: topic under which the message is sent, if it differs from `topic`."""
        try:
            t = message.step if isinstance(message, CommandRecord) else message.t
            payload = schemas.stamp(_ENCODERS[topic](message), t + self._utc.find_offset(t))
            self._socket.send((name or topic).encode(), _NOT_LAST)
            self._socket.send(payload, _LAST)
            self._sent[topic] += 1
        except Exception:
            # A message that cannot be encoded or sent must not prevent the others.
            self._errors += 1

    def _take_subscriptions(self) -> None:
        self._subscribers.check()
        if (int(self._socket.get(_EVENTS)) | int(self._subscribers.monitor.get(_EVENTS))) & _POLLIN:
            for topic in self._subscribers.update():
                if topic in self._last:
                    self._send(topic, self._last[topic])
