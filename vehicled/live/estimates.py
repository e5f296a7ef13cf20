"""Estimates from their messages: one message for each group of columns, in the order of `TOPIC_COLUMNS`."""

from __future__ import annotations

from vehicled.schemas import TOPIC_COLUMNS, decode_estimate

_LAST = tuple(TOPIC_COLUMNS)[-1]


class EstimateMessages:
    """Messages of the newest complete estimate. They are decoded when it is read, as few of them are shown."""

    def __init__(self) -> None:
        self._coming: dict[str, bytes] = {}
        self._whole: dict[str, bytes] = {}

    def add(self, topic: str, message: bytes) -> bool:
        """Take a message of a topic of `TOPIC_COLUMNS`; returns whether it completes an estimate."""
        self._coming[topic] = message
        if topic != _LAST or len(self._coming) < len(TOPIC_COLUMNS):
            return False
        self._whole, self._coming = self._coming, {}
        return True

    def read(self) -> tuple[int, dict[str, float | None]] | None:
        """Time (ns) and columns, None where unknown. None before the first, and if a message was lost or damaged."""
        if not self._whole:
            return None
        try:
            parts = [decode_estimate(topic, message) for topic, message in self._whole.items()]
        except ValueError:  # includes errors of msgspec
            return None
        (t, *others), values = zip(*parts, strict=True)
        return (
            None if others != [t] * len(others) else (t, {c: v for part in values for c, v in part.items()})
        )
