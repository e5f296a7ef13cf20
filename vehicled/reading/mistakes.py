"""Mistakes of parts that do not depend on each other, so that all of them are reported and not the first alone."""

from collections.abc import Iterator
from contextlib import contextmanager

from vehicled.errors import SettingsError


class Mistakes:
    """What is wrong with the parts of a settings file."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}  # each once, also where two parts share it

    @contextmanager
    def part(self) -> Iterator[None]:
        """Within it one part is read: a SettingsError ends that part and is kept."""
        try:
            yield
        except SettingsError as error:
            self._lines |= dict.fromkeys(error.mistakes)

    def raise_any(self) -> None:
        """Raise one SettingsError with all mistakes so far; nothing where there are none."""
        if self._lines:
            raise SettingsError(*self._lines)
