"""Reads the lines of a text log from any file, without reading lines longer than any log has."""

from collections.abc import Iterator
from typing import IO, AnyStr

from replay.problems import Problems

LONGEST_LINE = 1 << 16
"""Characters or bytes."""


def bounded_lines(file: IO[AnyStr], problems: Problems, first: int = 1) -> Iterator[tuple[int, AnyStr]]:
    """Yield (number, line with its end) from here on, numbered from `first`; too long lines are problems."""
    number = first
    while line := file.readline(LONGEST_LINE):
        if _is_whole(line):
            yield number, line
        else:
            problems.add("line too long", f"line {number}", f"more than {LONGEST_LINE} characters; skipped")
            while (rest := file.readline(LONGEST_LINE)) and not _is_whole(rest):
                pass
        number += 1


def _is_whole(line: str | bytes) -> bool:
    return len(line) < LONGEST_LINE or line[-1:] in ("\n", b"\n")
