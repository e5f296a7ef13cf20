"""Frames for the targets of `tests/fuzz.py`, and how they are damaged."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

MS = 1_000_000
Rng = random.Random


class Frame(NamedTuple):
    """Bytes that arrive together."""

    gap_ns: int
    """Time since the frame before."""
    data: bytes


Feed = Callable[[Frame], bool]
"""Takes a frame and returns whether it had valid content. An exception is a failure."""


class Target(Protocol):
    name: str
    limit_ms: float
    """Processor time that a frame may take."""

    def open(self) -> contextlib.AbstractContextManager[Feed]:
        """Start the target afresh."""

    def frames(self, rng: Rng) -> Iterator[Frame]:
        """An endless sequence of frames."""


def damage(rng: Rng, data: bytes, before: bytes, syncs: bytes) -> bytes:
    """Flip bits; lose, repeat, insert or overwrite bytes; cut off the end; splice with the data before."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(out) + 1)
        end = min(at + rng.choice((1, 1, 2, 4, 40)), len(out))
        match rng.randrange(8):
            case 0 if at < len(out):
                out[at] ^= 1 << rng.randrange(8)
            case 1:
                del out[at:end]
            case 2:
                out[at:at] = out[at:end] * rng.choice((1, 1, 5))
            case 3:
                out[at:at] = rng.randbytes(rng.randint(1, 9))
            case 4:
                out[at:end] = rng.choice((b"\0", b"\xff", b"\x7f", b"\x80")) * (end - at)
            case 5:
                del out[at:]
            case 6:
                out[at:] = before[rng.randrange(len(before) + 1) :]
            case 7:
                out[at:end] = bytes(rng.choices(syncs, k=rng.randint(1, 6)))
    return bytes(out)


def in_pieces(rng: Rng, data: bytes) -> Iterator[Frame]:
    """The bytes at once, in a few pieces, or one by one; sometimes after a long gap."""
    kind = rng.random()
    if kind < 0.02:
        cuts = list(range(1, len(data)))
    else:
        cuts = sorted(rng.randrange(len(data) + 1) for _ in range(0 if kind < 0.6 else rng.randint(1, 3)))
    gap = rng.choice((1, 5, 10, 10, 10, 40, 300)) * MS if rng.random() < 0.999 else rng.randrange(10**14)
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        yield Frame(gap, data[begin:end])
        gap = rng.randrange(2 * MS)
