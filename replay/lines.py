"""Lines of a text log, whatever the file is: none is read that is longer than any log has."""

from collections.abc import Iterator
from typing import IO, AnyStr

from replay.problems import Problems

LONGEST_LINE = 1 << 16
"""Characters or bytes."""


def bounded_lines(file: IO[AnyStr], problems: Problems, first: int = 1) -> Iterator[tuple[int, AnyStr]]:
    """(number, line with its end) from where the file is, numbered from `first`; a longer line is a problem."""
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
