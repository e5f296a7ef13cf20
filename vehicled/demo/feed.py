"""A subscriber, as any user's program would be one: what the daemon publishes, the latest of each topic."""

from __future__ import annotations

import math
import time
from collections import deque
from typing import Any, Self

import msgspec
import zmq

from vehicled.schemas import PUBLISHED, TOPIC_COLUMNS

_WATER_MARK = 10_000
"""Messages that may wait here while something else is done: five seconds of them."""
_WINDOW_NS = 1_000_000_000


class Fix(msgspec.Struct):
    """The innovation record of a GNSS position."""

    t: int
    sensor: str
    innovation: list[float | None]
    variance: list[float | None]
    fused: bool
    reason: str

    @property
    def horizontal(self) -> float | None:
        """Its distance from what was predicted, m; None if there was no prediction."""
        return _length(self.innovation[:2])

    @property
    def sigma(self) -> float | None:
        """Standard deviation of that distance per axis, m."""
        variances = [v for v in self.variance[:2] if v is not None]
        return math.sqrt(sum(variances) / len(variances)) if variances else None


def _length(components: list[float | None]) -> float | None:
    known = [c for c in components if c is not None]
    return math.hypot(*known) if known else None


class Feed:
    """The daemon's output. A context manager."""

    def __init__(self, endpoint: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.rcvhwm = _WATER_MARK
        for topic in PUBLISHED:
            self._socket.subscribe(topic)
        self._socket.connect(endpoint)
        self._last: dict[str, bytes] = {}
        self._decode_fix = msgspec.json.Decoder(Fix).decode
        self._previous_put: tuple[int, int] | None = None
        self.messages = 0
        """Received so far, of all topics."""
        self.status: dict[str, Any] | None = None
        """The last one's counters."""
        self.measurement_rate: float | None = None
        """Measurements per second that reach the estimator, over the last period of status."""
        self.fixes: deque[Fix] = deque()
        """GNSS positions of the last second."""

    def take(self, seconds: float) -> None:
        """Receive for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._socket.poll(max(1, round(left * 1e3))):
                self._take_waiting()

    def _take_waiting(self) -> None:
        while True:
            try:
                topic, payload = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            self.messages += 1
            name = topic.decode()
            if name == "innovation":
                if b'"sensor":"gnss.position"' in payload:
                    self._note_fix(self._decode_fix(payload))
            elif name == "status":
                self._note_status(msgspec.json.decode(payload))
            else:
                self._last[name] = payload

    def _note_fix(self, fix: Fix) -> None:
        self.fixes.append(fix)
        while self.fixes[0].t < fix.t - _WINDOW_NS:
            self.fixes.popleft()

    def _note_status(self, status: dict[str, Any]) -> None:
        self.status = status["counters"]
        now, put = status["t"], self.status["queue"]["put"]
        if self._previous_put is not None and now > self._previous_put[0]:
            self.measurement_rate = (put - self._previous_put[1]) / ((now - self._previous_put[0]) * 1e-9)
        self._previous_put = now, put

    def estimate(self) -> dict[str, float | None] | None:
        """The latest estimate: `t` (ns) and columns of the estimates table; None before the first."""
        if not TOPIC_COLUMNS.keys() <= self._last.keys():
            return None
        result: dict[str, float | None] = {}
        for topic in TOPIC_COLUMNS:
            result |= msgspec.json.decode(self._last[topic])
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.destroy(linger=0)
