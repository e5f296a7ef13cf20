"""Interface between the server and its data source, a running daemon or a recording."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class ViewSource(Protocol):
    """A drive, as messages of `vehicled.view.messages`: bytes of rows, and JSON as str."""

    def backlog(self) -> Iterable[bytes | str]:
        """All that a new page needs, in large pieces."""

    def poll(self) -> list[bytes | str]:
        """Messages since the last call, for the pages that are open; returns at once."""

    async def mark(self, text: str) -> None:
        """Mark the present time. Raises VehicledError if that is not possible."""
