"""A running daemon, live in Foxglove: its messages and the drawing of the car, over the viewer's WebSocket protocol.

It is a subscriber like any other, in a process of its own: the daemon does not notice it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import foxglove
import msgspec
import numpy as np
import zmq

from vehicled.errors import UsageError
from vehicled.foxglove.scene import Scene
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, Estimate
from vehicled.schemas import PUBLISHED, TOPIC_COLUMNS, viewer_schema
from vehicled.viewer_messages import VIEWER_TOPICS

_WAITING = 100
"""Messages that wait for this process; further ones are dropped."""
_CHECK_EVERY_MS = 200
_DRAWN_EVERY_NS = 40_000_000
_Fields = dict[str, object]


class FoxgloveServer:
    """Sends what a daemon publishes to the Foxglove windows that connect. A context manager."""

    def __init__(self, endpoint: str, scene: Scene, host: str, port: int) -> None:
        """`endpoint`: of the daemon's results; `host`, `port`: of the WebSocket; port 0: any. Raises UsageError."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.rcvhwm = _WAITING
        self._socket.linger = 0
        try:
            self._socket.connect(endpoint)
            self._viewers = foxglove.Context()
            self._server = foxglove.start_server(name="vehicled", host=host, port=port, context=self._viewers)
        except (zmq.ZMQError, RuntimeError, OSError) as error:
            self._context.destroy()
            raise UsageError(f"{endpoint} to ws://{host}:{port}: {error}") from None
        self.port: int = self._server.port
        self._channels = {topic: self._make_channel(topic) for topic in (*PUBLISHED, *VIEWER_TOPICS)}
        for topic in PUBLISHED:
            self._socket.subscribe(topic)
        self._scene = scene
        self._parts: dict[str, tuple[int, _Fields]] = {}
        """The last message of each topic of the estimate, with its time."""
        self._drawn_ns = 0
        self._decode = msgspec.json.Decoder(dict[str, object]).decode

    def _make_channel(self, topic: str) -> foxglove.Channel:
        name, schema = viewer_schema(topic)
        described = foxglove.Schema(name=name, encoding="jsonschema", data=json.dumps(schema).encode())
        return foxglove.Channel(f"/{topic}", schema=described, message_encoding="json", context=self._viewers)

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Forward until `stop` says so, or Ctrl-C."""
        while not stop():
            if self._socket.poll(_CHECK_EVERY_MS):
                topic, payload = self._socket.recv_multipart()[:2]
                self._take(topic.decode(), payload)

    def _take(self, topic: str, payload: bytes) -> None:
        channel = self._channels.get(topic)
        if channel is None:
            return
        now = time.time_ns()
        channel.log(payload, log_time=now)
        if topic not in TOPIC_COLUMNS:
            return
        try:
            fields = self._decode(payload)
        except msgspec.DecodeError:
            return
        t = fields.get("t")
        if not isinstance(t, int):
            return
        self._parts[topic] = t, fields
        complete = len(self._parts) == len(TOPIC_COLUMNS) and len({t for t, _ in self._parts.values()}) == 1
        if complete and not 0 <= t - self._drawn_ns < _DRAWN_EVERY_NS:
            self._drawn_ns = t
            self._draw(t, now)

    def _draw(self, t: int, now: int) -> None:
        values = np.full(len(ESTIMATE_COLUMNS), np.nan)
        for topic, columns in TOPIC_COLUMNS.items():
            fields = self._parts[topic][1]
            for column in columns:
                value = fields.get(column)
                if isinstance(value, int | float):
                    values[ESTIMATE_INDEX[column]] = value
        for name, message in self._scene.draw(Estimate(t, values), now):
            self._channels[name].log(message, log_time=now)

    def close(self) -> None:
        """End the connections."""
        self._server.stop()
        self._socket.close()
        self._context.term()

    def __enter__(self) -> FoxgloveServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
