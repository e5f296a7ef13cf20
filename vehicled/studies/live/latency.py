"""From a sample's bytes to the estimate that includes it: times of sending and reading, and the step that used it."""

from __future__ import annotations

import numpy as np


def pair_sent(sent: np.ndarray, arrived: np.ndarray) -> np.ndarray:
    """(m,) for each sample that arrived, its index in `sent` (n,); −1 if there is none.

    Both in ascending order, ns, same clock. A sample is matched to the latest one that was sent before its
    arrival and that is not matched to a later sample; so lost samples do not shift those after them.
    """
    places = np.searchsorted(sent, arrived, side="right") - 1
    # Each index at most once: the minimum of its own and those of all later ones, less one for each sample
    # between.
    number = np.arange(len(places))
    free = number + np.minimum.accumulate((places - number)[::-1])[::-1]
    return np.asarray(np.maximum(free, -1))


def summarise(durations_ns: np.ndarray) -> dict[str, float]:
    """Median and high percentiles, µs; NaN without any."""
    if not len(durations_ns):
        return dict.fromkeys(("median", "p99", "p999"), float("nan"))
    points = np.percentile(durations_ns * 1e-3, (50, 99, 99.9))
    return dict(zip(("median", "p99", "p999"), points.tolist(), strict=True))
