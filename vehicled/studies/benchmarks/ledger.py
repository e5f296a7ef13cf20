"""Rows that have been made, so that a benchmark that was interrupted goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

from vehicled.errors import UsageError

K = TypeVar("K", bound=Hashable)


class Ledger(Generic[K]):
    """Rows by what they are rows of; a line of JSON each in a file, if there is one."""

    def __init__(self, path: Path | None, key: Callable[[dict[str, Any]], K], expected: str):
        """`key`: what a row is the row of, KeyError or TypeError if it is none; `expected`: what to call the rows.
        Without a path they are kept for the run alone. Raises UsageError for a file of something else."""
        self._path, self._key = path, key
        self._rows: dict[K, dict[str, Any]] = {}
        if path is None or not path.exists():
            return
        text = path.read_text(errors="replace")
        whole = text[: text.rfind("\n") + 1]
        for n, line in enumerate(whole.splitlines(), 1):
            try:
                row = json.loads(line)
                self._rows[key(row)] = row
            except (ValueError, KeyError, TypeError):
                raise UsageError(f"{path}:{n}: expected {expected}") from None
        if whole != text:  # cut off while it was written
            if not whole:
                raise UsageError(f"{path}:1: expected {expected}")
            path.write_text(whole)

    def __getitem__(self, run: K) -> dict[str, Any]:
        return self._rows[run]

    def missing(self, runs: Iterable[K]) -> list[K]:
        """Those of which there is no row, in order, each once."""
        return [run for run in dict.fromkeys(runs) if run not in self._rows]

    def enter(self, row: dict[str, Any]) -> None:
        self._rows[self._key(row)] = row
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
