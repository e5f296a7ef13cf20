"""What a page can show: the interface of a running daemon and of a recording to the server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class ViewSource(Protocol):
    """A drive, as messages of `vehicled.view.messages`: bytes of rows, and JSON as str."""

    def backlog(self) -> Iterable[bytes | str]:
        """All that a new page has to know, in large pieces."""

    def poll(self) -> list[bytes | str]:
        """What is new since the last call, for the pages that are there; returns at once."""

    async def mark(self, text: str) -> None:
        """Mark this moment. Raises VehicledError where that is not possible."""
