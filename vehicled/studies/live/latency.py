"""From a sample's bytes to the estimate that includes it: which was sent when, read when, and used by which step."""

from __future__ import annotations

import numpy as np


def pair_sent(sent: np.ndarray, arrived: np.ndarray) -> np.ndarray:
    """(m,) for each sample that arrived, the place in `sent` (n,) of the one that it is; −1 where there is none.

    Both in ascending order, ns, same clock. A sample is the latest one that had been sent when it arrived and that no
    later one is; so samples that are lost do not shift those after them.
    """
    places = np.searchsorted(sent, arrived, side="right") - 1
    # Each place at most once: the minimum of its own and of those of all later ones, one less for each between.
    number = np.arange(len(places))
    free = number + np.minimum.accumulate((places - number)[::-1])[::-1]
    return np.asarray(np.maximum(free, -1))


def summarise(durations_ns: np.ndarray) -> dict[str, float]:
    """Median and high percentiles, µs; NaN without any."""
    if not len(durations_ns):
        return dict.fromkeys(("median", "p99", "p999"), float("nan"))
    points = np.percentile(durations_ns * 1e-3, (50, 99, 99.9))
    return dict(zip(("median", "p99", "p999"), points.tolist(), strict=True))
