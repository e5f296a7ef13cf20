"""A recording, or a table of estimates, as a drive for the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from replay.csv_log import read_estimates
from replay.mcap_log import McapLog
from replay.mcap_messages import is_mcap
from replay.problems import Problems
from vehicled.errors import RunError, UsageError
from vehicled.live.status import decode_status
from vehicled.schemas import TOPIC_COLUMNS, CommandRecord
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
"""Two hours. Of a longer drive every second row is left out, or more: a page could not show them either."""
_PIECE = 512 * ROW_BYTES
_COMMAND = msgspec.json.Decoder(CommandRecord)
_FIELDS = msgspec.json.Decoder(dict[str, int | float | None])


class RecordedRun:
    """A drive that is over, in memory."""

    def __init__(self, path: Path, progress: Callable[[float], None] = lambda seconds: None) -> None:
        """Reads the file; `progress` takes the seconds of the drive. Raises UsageError, RunError, OSError."""
        self.path = path
        self._rows = bytearray()
        self._interval = INTERVAL_NS
        self._due: int | None = None
        self._begin: int | None = None
        self._messages: list[str] = []
        self._progress = progress
        self.problems: Problems
        """Of the file."""
        if is_mcap(path):
            self._read_recording(McapLog(path))
        else:
            self._read_table()
        if not self._rows:
            raise RunError(f"{path}: no estimates; expected a recording of vehicled run or vehicled replay")

    @property
    def rows(self) -> int:
        """How many there are."""
        return len(self._rows) // ROW_BYTES

    def backlog(self) -> Iterator[bytes | str]:
        """All of it."""
        yield hello(self.path.name, live=False)
        for k in range(0, len(self._rows), _PIECE):
            yield bytes(self._rows[k : k + _PIECE])
        yield from self._messages

    def poll(self) -> list[bytes | str]:
        """Nothing: the drive is over."""
        return []

    async def mark(self, text: str) -> None:
        """Raises UsageError: a recording stays as it is."""
        raise UsageError("a recording cannot be marked")

    def _read_recording(self, log: McapLog) -> None:
        parts: dict[str, dict[str, int | float | None]] = {}
        for message in log.messages((*TOPIC_COLUMNS, "status", "command")):
            try:
                if message.topic == "status":
                    status = decode_status(message.data)
                    self._messages.append(status_message(self._since(status.t), status, takes_marks=False))
                elif message.topic == "command":
                    command = _COMMAND.decode(message.data)
                    self._messages.append(command_message(self._since(command.step), command))
                elif self._is_due(message.log_time - log.utc_offset_ns):
                    # The three topics of a step follow each other; a damaged chunk may have taken the last ones.
                    if message.topic == "position":
                        parts = {}
                    parts[message.topic] = _FIELDS.decode(message.data)
                    if message.topic == "suspension" and len(parts) == len(TOPIC_COLUMNS):
                        self._add({c: v for part in parts.values() for c, v in part.items()})
                        parts = {}
            except (ValueError, KeyError) as error:  # msgspec's errors are ValueErrors
                log.problems.add("bad message", f"/{message.topic} at {message.log_time}", str(error))
        self.problems = log.problems

    def _read_table(self) -> None:
        table = read_estimates(self.path)
        self.problems = table.problems
        columns = {c: table.columns[c] for c in COLUMNS if c in table.columns}
        for k, t in enumerate(table.t.tolist()):
            if self._is_due(t):
                self._add({"t": t, **{c: float(values[k]) for c, values in columns.items()}})

    def _since(self, t: int) -> int:
        """When the drive began; with what comes first."""
        if self._begin is None:
            self._begin = t
        return self._begin

    def _is_due(self, t: int) -> bool:
        return self._due is None or t >= self._due

    def _add(self, estimate: dict[str, int | float | None]) -> None:
        t = estimate["t"]
        assert isinstance(t, int)
        seconds = (t - self._since(t)) * 1e-9
        self._rows += pack_row(seconds, estimate)
        self._due = t + self._interval
        if self.rows % 1000 == 0:
            self._progress(seconds)
        if self.rows >= _MOST_ROWS:
            kept = (self._rows[k : k + ROW_BYTES] for k in range(0, len(self._rows), 2 * ROW_BYTES))
            self._rows = bytearray(b"".join(kept))
            self._interval *= 2
