"""A running daemon or a replay that publishes, as a drive for the page."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from vehicled.errors import RunError
from vehicled.live.commander import request
from vehicled.live.feed import Feed
from vehicled.live.shown import ShownStatus
from vehicled.live.subscriber import Publication
from vehicled.schemas import TOPIC_COLUMNS
from vehicled.trust.addresses import is_local
from vehicled.view.messages import command_message, hello, pack_row, status_message

TOPICS = (*TOPIC_COLUMNS, "status", "command")
_ROWS = 15_000
"""Ten minutes of rows, which a page that is opened later receives at once."""
_STATUSES = 1_200
_COMMANDS = 200
_BACK_NS = 1_000_000_000
"""ns: a time older than the newest one by this much is of another drive. Status and estimates of one drive
differ by less."""


class LiveRun:
    """Keeps the last ten minutes. Has to be closed."""

    def __init__(self, publication: Publication) -> None:
        """Raises UsageError for a bad endpoint; the daemon may start later."""
        self._feed = Feed(publication, TOPICS)
        self._endpoint = publication.endpoint
        self._begin: int | None = None
        self._newest = 0
        self._shown = 0
        """Time of the last row."""
        self._status: ShownStatus | None = None
        self._rows: deque[bytes] = deque(maxlen=_ROWS)
        self._statuses: deque[str] = deque(maxlen=_STATUSES)
        self._commands: deque[str] = deque(maxlen=_COMMANDS)

    def close(self) -> None:
        """End the subscription."""
        self._feed.close()

    def _hello(self) -> str:
        return hello(self._endpoint, live=True)

    def backlog(self) -> Iterable[bytes | str]:
        """The messages of the last ten minutes."""
        return [self._hello(), b"".join(self._rows), *self._statuses, *self._commands]

    def poll(self) -> list[bytes | str]:
        """At most one row, the latest; those in between are omitted."""
        feed, new = self._feed, list[bytes | str]()
        feed.take_waiting()
        commands = [feed.commands.popleft() for _ in range(len(feed.commands))]
        status = None if feed.status is self._status else feed.status
        estimate = feed.estimate()
        if estimate is not None and estimate["t"] == self._shown:
            estimate = None
        times: list[int] = [] if status is None else [status.t]
        times += [] if estimate is None else [estimate["t"]]
        if times and (self._begin is None or max(times) < self._newest - _BACK_NS):
            self._begin_anew(min(times))
            new.append(self._hello())
        if self._begin is None:
            return new
        self._newest = max([self._newest, *times])
        if status is not None:
            self._status = status
            self._statuses.append(status_message(self._begin, status, self._command_endpoint() is not None))
            new.append(self._statuses[-1])
        for command in commands:
            self._commands.append(command_message(self._begin, command))
            new.append(self._commands[-1])
        if estimate is not None:
            self._shown = estimate["t"]
            self._rows.append(pack_row((self._shown - self._begin) * 1e-9, estimate))
            new.append(self._rows[-1])
        return new

    def _begin_anew(self, t: int) -> None:
        """Start with a new time: the clock is that of another drive, or of a machine that was restarted."""
        self._begin, self._newest = t, t
        for kept in (self._rows, self._statuses, self._commands):
            kept.clear()

    async def mark(self, text: str) -> None:
        """Send a mark to the publishing daemon, whose status names the socket for commands. Raises RunError."""
        endpoint = self._command_endpoint()
        if endpoint is None:
            raise RunError("nothing to mark: expected a daemon on this machine")
        await asyncio.to_thread(request, endpoint, {"command": "mark", "text": text})

    def _command_endpoint(self) -> str | None:
        """The daemon's socket for commands; None for a replay, and if the socket is a path on another machine."""
        commands = None if self._status is None else self._status.counters.commands
        if commands is None or not is_local(self._endpoint) or not commands.endpoint.startswith("ipc:"):
            return None
        return commands.endpoint
