"""Samples that come more often than what is wrong in them changes."""

from __future__ import annotations

import math
from collections.abc import Sequence

_CHANGES = 0.0025
"""s: noise of a sample is new after it; closer samples share it. A sensor's bandwidth, vibrations, uneven roads and
what the model lacks correlate them, and a gateway may send the same sample several times. The noise in the
configuration holds for rates up to its inverse, 400 Hz."""
_MEMORY = 50.0
"""Samples over which the interval between them is averaged: those of a bus come in bursts."""
_LONGEST = 0.02
"""s: what is longer is a pause."""
_MOST = 100.0


class Oversampling:
    """Finds by which factor to increase variances of samples, so that they tell as much per second as at 400 Hz."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, Sequence[int] | None], tuple[float, float]] = {}
        """Time of the last sample and mean interval, s."""

    def reset(self) -> None:
        """Forget all samples."""
        self._found.clear()

    def take(self, kind: str, present: Sequence[int] | None, t: float) -> float:
        """The factor for a sample at t (s) of that kind; `present`: its axes, None: all."""
        # Axes that come in messages of their own are not more samples of the same axis.
        key = kind, None if present is None else tuple(present)
        before, mean = self._found.get(key, (-math.inf, _CHANGES))
        interval = t - before
        if interval >= 0.0:
            mean += (min(interval, _LONGEST) - mean) / _MEMORY
        self._found[key] = t, mean
        return 1.0 if mean >= _CHANGES else min(_CHANGES / mean, _MOST)
