"""Results of jobs, each a row of JSON, and the file from which an interrupted run continues."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

from vehicled.errors import UsageError
from vehicled.terminal.output_files import open_output

J = TypeVar("J", bound=Hashable)


class Ledger(Generic[J]):
    """Results of jobs, each a row of JSON that names its job; also in a file, one line each, if a path is given."""

    def __init__(
        self,
        path: Path | None,
        key: Callable[[dict[str, Any]], J],
        expected: str,
        lasting: Callable[[dict[str, Any]], bool] = lambda _: True,
    ) -> None:
        """`key`: the job of a row, KeyError or TypeError if it is none; `expected`: name of the rows in messages.

        Rows that are not `lasting` are not written to the file: the next run tries their jobs again. Without
        a path rows are kept for this run only. Raises UsageError for a file of another kind.
        """
        self._path, self._key, self._lasting = path, key, lasting
        self._rows: dict[J, dict[str, Any]] = {}
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
        if whole != text:  # cut off during writing
            if not whole:
                raise UsageError(f"{path}:1: expected {expected}")
            path.write_text(whole)

    def __getitem__(self, job: J) -> dict[str, Any]:
        return self._rows[job]

    def __contains__(self, job: J) -> bool:
        return job in self._rows

    def missing(self, jobs: Iterable[J]) -> list[J]:
        """Jobs without a row, in order, each once."""
        return [job for job in dict.fromkeys(jobs) if job not in self]

    def enter(self, row: dict[str, Any]) -> None:
        """Keep a row, and append it to the file. Raises OSError."""
        self._rows[self._key(row)] = row
        if self._path is not None and self._lasting(row):
            with open_output(self._path, "ab") as file:
                # ASCII: names of files may have bytes that are no text, and characters that end a line.
                file.write(json.dumps(row).encode("ascii") + b"\n")
