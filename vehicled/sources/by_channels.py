"""What there is to be done with a measurement, by the channels that it has: devices send a few combinations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_MOST = 256
"""Combinations that are kept: more than devices have. A log may have any number of them."""


class ByChannels(dict[tuple[str, ...], T]):
    """Found once for each combination of channels, in their order: `plans[tuple(m.values)]`."""

    def __init__(self, find: Callable[[tuple[str, ...]], T]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, channels: tuple[str, ...]) -> T:
        found = self._find(channels)
        if len(self) < _MOST:
            self[channels] = found
        return found
