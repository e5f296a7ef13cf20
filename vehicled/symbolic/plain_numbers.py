"""Arrays of a workspace written or read as plain numbers, a few at once.

For a few numbers, NumPy's overhead exceeds the time of the copy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

import numpy as np

from vehicled.symbolic.program import Layout

_SIZE = 8
"""Bytes of a number."""


class PlainNumbers:
    """The first numbers of some arrays, in the order of their places in the workspace."""

    def __init__(self, layout: Layout, workspace: np.ndarray, **counts: int) -> None:
        """`counts`: number of elements by array. Raises KeyError, and ValueError for arrays in another order."""
        begin = end = layout.places[next(iter(counts))].offset
        form = "="
        for name, count in counts.items():
            offset = layout.places[name].offset
            if offset < end:
                raise ValueError(f"array {name!r} lies before those in front of it")
            form += f"{(offset - end) * _SIZE}x{count}d"
            end = offset + count
        packed = struct.Struct(form)
        buffer, at = workspace.data.cast("B"), begin * _SIZE
        self.write: Callable[..., None] = partial(packed.pack_into, buffer, at)
        """Write all of them, each as an argument; what lies between the arrays becomes zero."""
        self.read: Callable[[], tuple[float, ...]] = partial(packed.unpack_from, buffer, at)
        """Read all of them."""
