"""Choice of a study's cases by patterns of their names."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from vehicled.errors import UsageError


def choose(names: Sequence[str], patterns: Sequence[str] | None, what: str) -> list[str]:
    """The names that match any pattern with `*`, ignoring case, in their order; all names if `patterns` is None.

    UsageError for a pattern without match; `what`: kind of the names, for its message.
    """
    if patterns is None:
        return list(names)
    for pattern in patterns:
        if not any(matches(name, pattern) for name in names):
            raise UsageError(f"--only: no {what} is called {pattern!r}; known: {'; '.join(names)}")
    return [name for name in names if any(matches(name, pattern) for pattern in patterns)]


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern with `*`, ignoring case."""
    return fnmatchcase(name.casefold(), pattern.casefold())
