"""Mistakes of independent parts, so that all of them are reported, not only the first."""

from collections.abc import Iterator
from contextlib import contextmanager

from vehicled.errors import SettingsError


class Mistakes:
    """Mistakes in the parts of a settings file."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}  # each once, even if two parts share it

    @contextmanager
    def part(self) -> Iterator[None]:
        """Context in which one part is read: a SettingsError ends that part and is kept."""
        try:
            yield
        except SettingsError as error:
            self._lines |= dict.fromkeys(error.mistakes)

    def raise_any(self) -> None:
        """Raise one SettingsError with all mistakes so far; do nothing if there are none."""
        if self._lines:
            raise SettingsError(*self._lines)
