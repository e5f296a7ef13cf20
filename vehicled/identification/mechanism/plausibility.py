"""Whether an estimate explains the forces of a mechanism's logs.

The file's values count as known to 30 % (`PRIOR_DEVIATION`), and so do the forces that they predict. An estimate that
misses a force by that explains it no better than any file does. Noise of the samples does not count as missed: it
makes an estimate uncertain, not wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from vehicled.identification.mechanism.findings import PRIOR_DEVIATION


def find_unexplained(names: Sequence[str], unexplained: np.ndarray) -> Iterator[str]:
    """Of the coordinates (f,) those of whose force an estimate misses too large a share (f,), one line each."""
    for name, share in zip(names, unexplained, strict=True):
        if share > PRIOR_DEVIATION:
            yield (
                f"{name}: {_percent(share)} of its force is not explained, expected {_percent(PRIOR_DEVIATION)} "
                "at most; check signs, units and geometry"
            )


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"
