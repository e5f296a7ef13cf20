"""A subscriber, as any user's program would be one: what the daemon publishes, the latest of each topic."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Self

import msgspec
import zmq

from vehicled.errors import UsageError
from vehicled.live.status import ShownStatus, decode_status
from vehicled.schemas import PUBLISHED, TOPIC_COLUMNS, CommandRecord

_WATER_MARK = 10_000
"""Messages that may wait here while something else is done: five seconds of them."""
_LARGEST_MESSAGE = 1 << 20
"""Bytes; a status has some 10 kB. Whoever sends more is disconnected."""
_WINDOW_NS = 1_000_000_000
_COMMANDS = 100
_FIELDS = msgspec.json.Decoder(dict[str, int | float | None])


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
    """The output of a daemon or a replay. A context manager. Messages that are none of theirs are left out."""

    def __init__(self, endpoint: str, topics: Sequence[str] = PUBLISHED) -> None:
        """Subscribes to `topics`, now or when there is a publisher. Raises UsageError for a bad endpoint."""
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket = self._context.socket(zmq.SUB)
        self._socket.rcvhwm = _WATER_MARK
        self._socket.setsockopt(zmq.MAXMSGSIZE, _LARGEST_MESSAGE)
        for topic in topics:
            self._socket.subscribe(topic)
        try:
            self._socket.connect(endpoint)
        except zmq.ZMQError as error:
            self._context.destroy(linger=0)
            expected = "expected 'tcp://ADDRESS:PORT' or 'ipc://PATH'"
            raise UsageError(f"--endpoint {endpoint}: {error.strerror}; {expected}") from None
        self._last: dict[str, bytes] = {}
        self._decode_fix = msgspec.json.Decoder(Fix).decode
        self._decode_command = msgspec.json.Decoder(CommandRecord).decode
        self._previous_put: tuple[int, int] | None = None
        self._last_at = -math.inf
        self.messages = 0
        """Received so far, of all topics."""
        self.status: ShownStatus | None = None
        """The last one."""
        self.measurement_rate: float | None = None
        """Measurements per second that reach the estimator, over the last period of status."""
        self.fixes: deque[Fix] = deque()
        """GNSS positions of the last second."""
        self.commands: deque[CommandRecord] = deque(maxlen=_COMMANDS)
        """The last that were executed."""

    @property
    def silent_for(self) -> float:
        """Since the last message was received, s; infinite before the first."""
        return time.monotonic() - self._last_at

    def take(self, seconds: float) -> None:
        """Receive for so long."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self._socket.poll(max(1, round(left * 1e3))):
                self.take_waiting()

    def take_waiting(self, most: int = _WATER_MARK) -> None:
        """Receive what has come, at most so many messages, and return at once."""
        for _ in range(most):
            try:
                frames = self._socket.recv_multipart(zmq.DONTWAIT)
            except zmq.Again:
                return
            self._last_at = time.monotonic()
            self.messages += 1
            if len(frames) == 2:
                try:
                    self._take(frames[0].decode(), frames[1])
                except ValueError:  # msgspec's too
                    continue

    def _take(self, topic: str, payload: bytes) -> None:
        if topic in TOPIC_COLUMNS:
            self._last[topic] = payload
        elif topic == "status":
            self._note_status(decode_status(payload))
            self._last[topic] = payload
        elif topic == "command":
            self.commands.append(self._decode_command(payload))
        elif topic.startswith("innovation") and b'"sensor":"gnss.position"' in payload:
            self._note_fix(self._decode_fix(payload))

    def _note_fix(self, fix: Fix) -> None:
        self.fixes.append(fix)
        self._forget_fixes(fix.t)

    def _forget_fixes(self, t: int) -> None:
        while self.fixes and self.fixes[0].t < t - _WINDOW_NS:
            self.fixes.popleft()

    def _note_status(self, status: ShownStatus) -> None:
        self.status = status
        self._forget_fixes(status.t)
        queue = status.counters.queue
        if queue is None:
            return
        now, put = status.t, queue.put
        if self._previous_put is not None and now > self._previous_put[0]:
            self.measurement_rate = (put - self._previous_put[1]) / ((now - self._previous_put[0]) * 1e-9)
        self._previous_put = now, put

    def estimate(self) -> dict[str, Any] | None:
        """The latest estimate: `t` (ns) and columns of the estimates table; None before the first."""
        if not TOPIC_COLUMNS.keys() <= self._last.keys():
            return None
        result: dict[str, Any] = {}
        try:
            for topic, columns in TOPIC_COLUMNS.items():
                fields = _FIELDS.decode(self._last[topic])
                result |= {"t": fields.get("t"), **{c: fields.get(c) for c in columns}}
        except ValueError:
            return None
        return result if isinstance(result["t"], int) else None

    def full_status(self) -> Any:
        """The last status with all of its counters; None before the first."""
        return msgspec.json.decode(self._last.get("status", b"null"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._context.destroy(linger=0)
