"""What the benchmarks that time single calls have in common."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np


@contextmanager
def collector_off() -> Iterator[None]:
    """As in the daemon: the garbage collector runs between steps or not at all."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def summary(times_ns: Sequence[int]) -> dict[str, float]:
    """Median and high percentiles, µs."""
    points = np.percentile(np.array(times_ns) * 1e-3, (50, 99, 99.9))
    return dict(zip(("median", "p99", "p999"), points.tolist(), strict=True))
