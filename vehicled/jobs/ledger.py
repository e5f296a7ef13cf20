"""Results of jobs, each a row of JSON, and the file from which an interrupted run goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

from vehicled.errors import UsageError
from vehicled.terminal.output_files import open_output

J = TypeVar("J", bound=Hashable)


class Ledger(Generic[J]):
    """Results of jobs, each a row of JSON that names its job; in a file too, a line each, if there is one."""

    def __init__(
        self,
        path: Path | None,
        key: Callable[[dict[str, Any]], J],
        expected: str,
        lasting: Callable[[dict[str, Any]], bool] = lambda _: True,
    ) -> None:
        """`key`: the job of a row, KeyError or TypeError if it is none; `expected`: the rows in messages.

        Rows that are not `lasting` do not enter the file: their jobs are tried again by the next run.
        Without a path they are kept for this run alone. Raises UsageError for a file of something else.
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
        if whole != text:  # cut off while it was written
            if not whole:
                raise UsageError(f"{path}:1: expected {expected}")
            path.write_text(whole)

    def __getitem__(self, job: J) -> dict[str, Any]:
        return self._rows[job]

    def __contains__(self, job: J) -> bool:
        return job in self._rows

    def missing(self, jobs: Iterable[J]) -> list[J]:
        """Those without a row, in order, each once."""
        return [job for job in dict.fromkeys(jobs) if job not in self]

    def enter(self, row: dict[str, Any]) -> None:
        """Keep a row, and append it to the file. Raises OSError."""
        self._rows[self._key(row)] = row
        if self._path is not None and self._lasting(row):
            with open_output(self._path, "ab") as file:
                # ASCII: names of files may have bytes that are no text, and characters that end a line.
                file.write(json.dumps(row).encode("ascii") + b"\n")
