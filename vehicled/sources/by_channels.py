"""A cache, by the channels of a measurement, of how to process it: devices send few different combinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_MOST = 256
"""Largest number of combinations in the cache: more than devices send, but a log may have any number of
them."""


class ByChannels(dict[tuple[str, ...], T]):
    """Calls `find` once for each combination of channels, in their order: `plans[tuple(m.values)]`."""

    def __init__(self, find: Callable[[tuple[str, ...]], T]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, channels: tuple[str, ...]) -> T:
        found = self._find(channels)
        if len(self) < _MOST:
            self[channels] = found
        return found
