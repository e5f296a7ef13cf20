"""A recording, or a table of estimates, as a drive for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from replay.csv_log import read_estimates
from replay.mcap_log import McapLog
from replay.mcap_messages import Message, is_mcap
from replay.problems import Problems
from vehicled.errors import RunError, UsageError
from vehicled.live.shown import decode_command, decode_status
from vehicled.schemas import TOPIC_COLUMNS, decode_estimate
from vehicled.view.messages import (
    COLUMNS,
    INTERVAL_NS,
    ROW_BYTES,
    command_message,
    hello,
    pack_row,
    status_message,
)

_MOST_ROWS = 180_000
"""Two hours. Of a longer drive every second row is omitted, or more: a page could not show them either."""
_PIECE = 512 * ROW_BYTES
_LONGEST_HOLD_NS = 1_000_000_000
"""Columns that are recorded less often than the position are shown until their next value, at most for this time."""


class RecordedRun:
    """A completed drive, in memory."""

    def __init__(self, path: Path, progress: Callable[[float], None] = lambda seconds: None) -> None:
        """Read the file; `progress` receives the seconds of the drive. Raises UsageError, RunError, OSError."""
        self.path = path
        self._rows = bytearray()
        self._interval = INTERVAL_NS
        self._due: int | None = None
        self._begin: int | None = None
        self._messages: list[str] = []
        self._progress = progress
        self.problems: Problems
        """Problems of the file."""
        if is_mcap(path):
            self._read_recording(McapLog(path))
        else:
            self._read_table()
        if not self._rows:
            raise RunError(f"{path}: no estimates; expected a recording of vehicled run or vehicled replay")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self._rows) // ROW_BYTES

    def backlog(self) -> Iterator[bytes | str]:
        """All messages of the drive."""
        yield hello(self.path.name, live=False)
        for k in range(0, len(self._rows), _PIECE):
            yield bytes(self._rows[k : k + _PIECE])
        yield from self._messages

    def poll(self) -> list[bytes | str]:
        """Nothing new: the drive is complete."""
        return []

    async def mark(self, text: str) -> None:
        """Raises UsageError: a recording is not changed."""
        raise UsageError("a recording cannot be marked")

    def _read_recording(self, log: McapLog) -> None:
        newest: dict[str, Message] = {}
        step: int | None = None
        for message in log.messages((*TOPIC_COLUMNS, "status", "command")):
            try:
                if message.topic == "status":
                    status = decode_status(message.data)
                    self._messages.append(status_message(self._since(status.t), status, takes_marks=False))
                elif message.topic == "command":
                    command = decode_command(message.data)
                    self._messages.append(command_message(self._since(command.step), command))
                else:
                    if message.log_time != step:
                        self._add_step(step, newest, log)
                        step = message.log_time
                    newest[message.topic] = message
            except ValueError as error:  # errors of msgspec are ValueErrors
                _note(log, message, error)
        self._add_step(step, newest, log)
        self.problems = log.problems

    def _add_step(self, step: int | None, newest: dict[str, Message], log: McapLog) -> None:
        """Add a row for a complete step that has a position, with other values recorded then or shortly before."""
        position = newest.get("position")
        if position is None or position.log_time != step or not self._is_due(step - log.utc_offset_ns):
            return
        try:
            t, estimate = decode_estimate("position", position.data)
        except ValueError as error:
            return _note(log, position, error)
        for message in newest.values():
            if message is not position and 0 <= step - message.log_time <= _LONGEST_HOLD_NS:
                try:
                    estimate |= decode_estimate(message.topic, message.data)[1]
                except ValueError as error:
                    _note(log, message, error)
        self._add(t, estimate)

    def _read_table(self) -> None:
        table = read_estimates(self.path)
        self.problems = table.problems
        columns = {c: table.columns[c] for c in COLUMNS if c in table.columns}
        for k, t in enumerate(table.t.tolist()):
            if self._is_due(t):
                self._add(t, {c: float(values[k]) for c, values in columns.items()})

    def _since(self, t: int) -> int:
        """Begin of the drive: the time of its first message."""
        if self._begin is None:
            self._begin = t
        return self._begin

    def _is_due(self, t: int) -> bool:
        return self._due is None or t >= self._due

    def _add(self, t: int, estimate: Mapping[str, float | None]) -> None:
        seconds = (t - self._since(t)) * 1e-9
        self._rows += pack_row(seconds, estimate)
        self._due = t + self._interval
        if self.rows % 1000 == 0:
            self._progress(seconds)
        if self.rows >= _MOST_ROWS:
            kept = (self._rows[k : k + ROW_BYTES] for k in range(0, len(self._rows), 2 * ROW_BYTES))
            self._rows = bytearray(b"".join(kept))
            self._interval *= 2


def _note(log: McapLog, message: Message, error: ValueError) -> None:
    log.problems.add("bad message", f"/{message.topic} at {message.log_time}", str(error))
