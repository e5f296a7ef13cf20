"""Messages of a daemon, the latest of each topic."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Self

import msgspec

from vehicled.live.estimates import EstimateMessages
from vehicled.live.shown import (
    Fix,
    ShownCommand,
    ShownStatus,
    decode_command,
    decode_fix,
    decode_status,
)
from vehicled.live.subscriber import Publication, Subscriber
from vehicled.schemas import TOPIC_COLUMNS

_FIXES = "innovation.gnss.position"
SHOWN = (*TOPIC_COLUMNS, "status", "command", _FIXES)
"""All topics of which a feed keeps something."""
_WINDOW_NS = 1_000_000_000
_MOST_FIXES = 1_000
"""Limit within that time: far more fixes than a receiver gives."""
_COMMANDS = 100


class Feed:
    """Messages of a daemon or a replay. A context manager. Other messages are ignored."""

    def __init__(self, publication: Publication, topics: Sequence[str] = SHOWN) -> None:
        """Subscribe to `topics`, now or when there is a publisher. Raises UsageError for a bad endpoint."""
        self._subscriber = Subscriber(publication, topics)
        self._estimates = EstimateMessages()
        self._status = b"null"
        self._previous_put: tuple[int, int] | None = None
        self._last_at = -math.inf
        self.messages = 0
        """Number of messages received so far, of all topics."""
        self.status: ShownStatus | None = None
        """The last status."""
        self.measurement_rate: float | None = None
        """Measurements per second that reach the estimator, over the last period of status."""
        self.fixes: deque[Fix] = deque(maxlen=_MOST_FIXES)
        """GNSS positions of the last second."""
        self.commands: deque[ShownCommand] = deque(maxlen=_COMMANDS)
        """The last executed commands."""

    @property
    def silent_for(self) -> float:
        """Time since the last message was received, s; infinite before the first."""
        return time.monotonic() - self._last_at

    def take(self, seconds: float) -> None:
        """Receive messages for this time, s."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._subscriber.wait(left)
            self.take_waiting()

    def take_waiting(self) -> None:
        """Receive waiting messages, and return at once."""
        for topic, payload in self._subscriber.receive():
            self._last_at = time.monotonic()
            self.messages += 1
            try:
                self._take(topic, payload)
            except ValueError:  # includes errors of msgspec
                continue

    def _take(self, topic: str, payload: bytes) -> None:
        if topic in TOPIC_COLUMNS:
            self._estimates.add(topic, payload)
        elif topic == "status":
            self._note_status(decode_status(payload))
            self._status = payload
        elif topic == "command":
            self.commands.append(decode_command(payload))
        elif topic == _FIXES:
            fix = decode_fix(payload)
            self.fixes.append(fix)
            self._forget_fixes(fix.t)

    def _forget_fixes(self, t: int) -> None:
        # Later ones are of another drive: a replay, or the daemon's machine, was restarted.
        while self.fixes and abs(t - self.fixes[0].t) > _WINDOW_NS:
            self.fixes.popleft()

    def _note_status(self, status: ShownStatus) -> None:
        self.status = status
        self._forget_fixes(status.t)
        queue = status.counters.queue
        if queue is None:
            return
        now, put = status.t, queue.put
        before, put_before = self._previous_put or (now, put)
        if now < before or put < put_before:  # the daemon was restarted
            self.measurement_rate = None
        elif now > before:
            self.measurement_rate = (put - put_before) / ((now - before) * 1e-9)
        self._previous_put = now, put

    def estimate(self) -> dict[str, Any] | None:
        """The latest estimate: `t` (ns) and columns of the estimates table; None before the first."""
        read = self._estimates.read()
        return None if read is None else {"t": read[0], **read[1]}

    def full_status(self) -> Any:
        """The last status with all of its counters; None before the first."""
        return msgspec.json.decode(self._status)

    def close(self) -> None:
        """End the subscription."""
        self._subscriber.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
