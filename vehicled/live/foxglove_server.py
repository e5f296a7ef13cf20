"""A running daemon, live in Foxglove: its messages and the drawing of the car, over the viewer's WebSocket protocol.

It is a subscriber like any other, in its own process, and does not affect the daemon.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable

import foxglove
import numpy as np

from vehicled.errors import UsageError
from vehicled.foxglove.scene import Scene
from vehicled.live.estimates import EstimateMessages
from vehicled.live.subscriber import Publication, Subscriber
from vehicled.messages import CORRELATION, ESTIMATE_COLUMNS, Estimate
from vehicled.schemas import PUBLISHED, TOPIC_COLUMNS, viewer_schema
from vehicled.viewer_messages import VIEWER_TOPICS

_CHECK_EVERY_S = 0.2
"""s between checks whether to stop."""
_DRAWN_EVERY_NS = 40_000_000


class FoxgloveServer:
    """Sends what a daemon publishes to the Foxglove windows that connect. A context manager."""

    def __init__(self, publication: Publication, scene: Scene, host: str, port: int) -> None:
        """`publication`: the daemon's results; `host`, `port`: of the WebSocket; port 0: any. Raises UsageError."""
        self._subscriber = Subscriber(publication, PUBLISHED)
        self._viewers = foxglove.Context()
        try:
            self._server = foxglove.start_server(name="vehicled", host=host, port=port, context=self._viewers)
        except (RuntimeError, OSError) as error:
            self._subscriber.close()
            raise UsageError(f"ws://{host}:{port}: cannot be bound: {error}") from None
        self.port: int = self._server.port
        self._channels = {topic: self._make_channel(topic) for topic in (*PUBLISHED, *VIEWER_TOPICS)}
        self._scene = scene
        self._estimates = EstimateMessages()
        self._drawn_ns = 0

    def _make_channel(self, topic: str) -> foxglove.Channel:
        name, schema = viewer_schema(topic)
        described = foxglove.Schema(name=name, encoding="jsonschema", data=json.dumps(schema).encode())
        return foxglove.Channel(f"/{topic}", schema=described, message_encoding="json", context=self._viewers)

    def run(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Forward messages until `stop` returns True, or Ctrl-C."""
        while not stop():
            self._subscriber.wait(_CHECK_EVERY_S)
            for topic, payload in self._subscriber.receive():
                self._take(topic, payload)

    def _take(self, topic: str, payload: bytes) -> None:
        channel = self._channels.get(topic)
        if channel is None:  # a topic of a single source, requested by another subscriber
            return
        now = time.time_ns()
        channel.log(payload, log_time=now)
        is_whole = topic in TOPIC_COLUMNS and self._estimates.add(topic, payload)
        if is_whole and not 0 <= now - self._drawn_ns < _DRAWN_EVERY_NS:
            self._drawn_ns = now
            self._draw(now)

    def _draw(self, now: int) -> None:
        read = self._estimates.read()
        if read is None:
            return
        t, columns = read
        values = np.array([columns[c] for c in ESTIMATE_COLUMNS], dtype=float)  # None is NaN
        correlation = columns[CORRELATION]
        estimate = Estimate(t, values, correlation=math.nan if correlation is None else correlation)
        for name, message in self._scene.draw(estimate, now):
            self._channels[name].log(message, log_time=now)

    def close(self) -> None:
        """Close the connections."""
        self._server.stop()
        self._subscriber.close()

    def __enter__(self) -> FoxgloveServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
