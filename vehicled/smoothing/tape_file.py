"""Record of a filter's operations in a file that is read backwards: a drive's record exceeds the memory."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

import numpy as np

from vehicled.errors import RunError

BLOCK = 1 << 19
"""Size of a block, numbers."""


class EntryKind(IntEnum):
    """Kind of an entry."""

    PROPAGATE = 0
    UPDATE = 1
    FORGET = 2
    RESTART = 3
    ROW = 4


class Entry(NamedTuple):
    """An entry: its kind and its numbers (float64)."""

    kind: EntryKind
    values: np.ndarray
    """(numbers,)"""


class TapeFile:
    """A `Tape`, and rows of numbers between its entries.

    Entries are kept in blocks. Methods raise RunError where the file cannot be written.
    """

    def __init__(self, path: Path, size: int, block: int = BLOCK) -> None:
        """`size`: number of states; `block`: number of values written at once."""
        self._path, self._size, self._block = path, size, block
        self._file = path.open("w+b")
        self._kinds: list[EntryKind] = []
        self._values: list[np.ndarray] = []
        self._pending = 0
        self._blocks: list[tuple[np.ndarray, np.ndarray]] = []
        """Kinds and lengths of the entries of each block."""
        self._patterns: list[np.ndarray] = []
        """Patterns of the nonzero elements of transition matrices."""

    def close(self) -> None:
        """Close the file without deleting it."""
        self._file.close()

    # -- writing -------------------------------------------------------------------------------------------

    def propagate(self, transition: np.ndarray) -> None:
        """See `Tape`."""
        pattern = np.flatnonzero(transition)
        if not self._patterns or not np.array_equal(pattern, self._patterns[-1]):
            self._patterns.append(pattern)
        number = len(self._patterns) - 1
        self._add(EntryKind.PROPAGATE, [number], transition.ravel()[pattern])

    def update(
        self, innovation: np.ndarray, precision: np.ndarray, rows: np.ndarray, white: np.ndarray
    ) -> None:
        """See `Tape`."""
        places = np.flatnonzero(rows)
        sparse = [len(places)], places, rows.ravel()[places]
        self._add(EntryKind.UPDATE, *sparse, innovation, precision, white.ravel())

    def forget(self, i: int) -> None:
        """See `Tape`."""
        self._add(EntryKind.FORGET, [i])

    def restart(self) -> None:
        """See `Tape`."""
        self._add(EntryKind.RESTART)

    def add_row(self, *values: np.ndarray) -> None:
        """Add a row of numbers, which `read_backwards` returns as one entry."""
        self._add(EntryKind.ROW, *values)

    def _add(self, kind: EntryKind, *parts: np.ndarray | list[int]) -> None:
        values = np.concatenate([*parts, ()])
        self._kinds.append(kind)
        self._values.append(values)
        self._pending += len(values)
        if self._pending >= self._block:
            self._flush()

    def _flush(self) -> None:
        lengths = np.array([len(v) for v in self._values], dtype=np.int32)
        try:
            self._file.write(np.concatenate(self._values).tobytes())
            self._file.flush()
        except OSError as error:
            raise RunError(
                f"{self._path}: {error.strerror}; the smoother keeps the whole drive there"
            ) from None
        self._blocks.append((np.array(self._kinds, dtype=np.int8), lengths))
        self._kinds, self._values, self._pending = [], [], 0

    # -- reading -------------------------------------------------------------------------------------------

    def read_backwards(self) -> Iterator[Entry]:
        """Yield all entries, the last one first. Nothing may be added during this."""
        if self._values:
            self._flush()
        end = sum(int(lengths.sum()) for _, lengths in self._blocks)
        for kinds, lengths in reversed(self._blocks):
            begin = end - int(lengths.sum())
            self._file.seek(8 * begin)
            numbers = np.frombuffer(self._file.read(8 * (end - begin)))
            for kind, part in zip(kinds[::-1], np.split(numbers, np.cumsum(lengths)[:-1])[::-1], strict=True):
                yield Entry(EntryKind(kind), part)
            end = begin

    def read_transition(self, values: np.ndarray) -> np.ndarray:
        """(n, n) F, from the values of its entry."""
        transition = np.zeros(self._size * self._size)
        transition[self._patterns[int(values[0])]] = values[1:]
        return transition.reshape(self._size, self._size)

    def read_update(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The arguments of `update`, from the values of its entry."""
        n, filled = self._size, int(values[0])
        places, elements = values[1 : 1 + 2 * filled].reshape(2, filled)
        dense = values[1 + 2 * filled :]
        m = len(dense) // (2 + n)
        rows = np.zeros(m * n)
        rows[places.astype(np.intp)] = elements
        return dense[:m], dense[m : 2 * m], rows.reshape(m, n), dense[2 * m :].reshape(m, n)
