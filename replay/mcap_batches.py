"""Decodes messages of a recording, about a thousand at a time."""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, Self, TypeVar

import msgspec
import numpy as np

from replay.csv_log import Table
from replay.mcap_messages import Message
from replay.problems import Problems
from replay.times import LONGEST_NS
from vehicled.messages import ESTIMATE_COLUMNS, LOAD_COLUMNS
from vehicled.schemas import ROW_COLUMNS, ROW_TYPES, TOPIC_COLUMNS

_T = TypeVar("_T")


@cache
def find_decoder(kind: Any) -> Callable[[bytes], Any]:
    """Decoder of JSON into a type."""
    return msgspec.json.Decoder(kind).decode


def decode_all(
    messages: Sequence[Message], kind: type[_T], decode: Callable[[Message], _T | None], nulls: bool = True
) -> list[_T]:
    """Decode messages, in order.

    decode: decodes one message, None if it is damaged; used if not all messages are of this `kind`, or,
    without `nulls`, if any of them has a null.
    """
    together = b"[%b]" % b",".join([message.data for message in messages])
    if together.isascii() and (nulls or b"null" not in together):
        try:
            found: list[_T] = find_decoder(list[kind])(together)  # type: ignore[valid-type]
        except msgspec.DecodeError:
            found = []
        if len(found) == len(messages):
            return found
    return [one for message in messages if (one := decode(message)) is not None]


class TableReader:
    """Makes one table of the topics whose messages are rows of estimates."""

    def __init__(self, problems: Problems, decode: Callable[[Message, Any], Any]) -> None:
        """`decode`: one message as a type, None if it is damaged."""
        self._problems, self._decode = problems, decode
        self._blocks: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {topic: [] for topic in ROW_COLUMNS}
        """By topic: (n,) times, ns, and (n, 1 + columns): time and values."""

    def take(self, topic: str, messages: Sequence[Message]) -> None:
        """Messages of a key of `ROW_COLUMNS`."""
        kind: Any = ROW_TYPES[topic]
        rows = decode_all(messages, kind, lambda message: self._decode(message, kind))
        if not rows:
            return
        t = np.array([row.t for row in rows], dtype=np.int64)
        values = _tabulate(rows)
        sound = (t >= -LONGEST_NS) & (t <= LONGEST_NS)
        for k in np.flatnonzero(~sound):
            self._problems.add("absurd time", f"/{topic}", f"t = {t[k] / 1e9:.9g} s; skipped")
        self._blocks[topic].append((t, values) if sound.all() else (t[sound], values[sound]))

    def extend(self, following: Self) -> None:
        """Add the rows of the next part of the log."""
        for topic, blocks in following._blocks.items():
            self._blocks[topic] += blocks

    def finish(self) -> Table:
        """The topics of each step as one row, at the times of `position`; with `loads` if there are any."""
        topics = [topic for topic in ROW_COLUMNS if topic in TOPIC_COLUMNS or self._blocks[topic]]
        times = {topic: _join([t for t, _ in self._blocks[topic]], np.int64) for topic in topics}
        rows_t = times["position"]
        columns: dict[str, np.ndarray] = {}
        for topic in topics:
            blocks = [values for _, values in self._blocks.pop(topic)]
            # One column at a time: all at once would need memory twice.
            found = {c: _join([b[:, k] for b in blocks], float) for k, c in enumerate(ROW_COLUMNS[topic], 1)}
            if not np.array_equal(times[topic], rows_t):
                found = _place(found, rows_t, times[topic])
            columns |= found
        named = (*ESTIMATE_COLUMNS, *LOAD_COLUMNS)
        return Table(rows_t, {c: columns[c] for c in named if c in columns}, self._problems)


def _tabulate(rows: Sequence[msgspec.Struct]) -> np.ndarray:
    """(n, fields): NaN for None."""
    fields = list(map(msgspec.structs.astuple, rows))
    n, width = len(fields), len(fields[0])
    try:
        # Takes half of the time of `np.array`, which has to inspect the contents.
        return np.frombuffer(struct.pack(f"{n * width}d", *chain.from_iterable(fields))).reshape(n, width)
    except struct.error:
        return np.array(fields, dtype=float)


def _join(blocks: Sequence[np.ndarray], dtype: Any) -> np.ndarray:
    return np.concatenate(blocks) if blocks else np.empty(0, dtype)


def _place(columns: Mapping[str, np.ndarray], rows_t: np.ndarray, t: np.ndarray) -> dict[str, np.ndarray]:
    """Columns over times `t` (n,) at the times `rows_t`, NaN where these have none."""
    _, here, there = np.intersect1d(rows_t, t, return_indices=True)
    placed = {}
    for name, column in columns.items():
        placed[name] = np.full(len(rows_t), np.nan)
        placed[name][here] = column[there]
    return placed
