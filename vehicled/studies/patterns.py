"""Choice of a study's cases by patterns of their names."""

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from vehicled.errors import UsageError

_FEW, _ALIKE = 5, 0.5
"""Most names that a message has; and how similar to a pattern these have to be, from 0 to 1."""


def choose(names: Sequence[str], patterns: Sequence[str] | None, what: str) -> list[str]:
    """The names that match any pattern with `*`, ignoring case, in their order; all names if `patterns` is None.

    UsageError for a pattern without match; `what`: kind of the names, for its message.
    """
    if patterns is None:
        return list(names)
    for pattern in patterns:
        if not any(matches(name, pattern) for name in names):
            raise UsageError(f"--only: no {what} is called {pattern!r}; {_describe(pattern, names)}")
    return [name for name in names if any(matches(name, pattern) for pattern in patterns)]


def _describe(pattern: str, names: Sequence[str]) -> str:
    """The names that a pattern is most like; else the first ones."""
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(pattern.casefold().strip("*"), folded, n=_FEW, cutoff=_ALIKE)
    if near:
        return f"similar: {'; '.join(folded[name] for name in near)}"
    return f"known: {'; '.join(names[:_FEW])}" + ("; …" if len(names) > _FEW else "")


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern with `*`, ignoring case."""
    return fnmatchcase(name.casefold(), pattern.casefold())
