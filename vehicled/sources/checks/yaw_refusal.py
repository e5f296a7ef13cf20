"""Biases of the sensors of the yaw rate from before one of them was found to be wrong."""

from __future__ import annotations

from collections import deque

import numpy as np

from vehicled.filter.boundary import EstimatedFilter
from vehicled.filter.states import Group
from vehicled.sources.checks.yaw_vote import Culprit, YawVerdict
from vehicled.sources.imu.model import GYRO_BIAS
from vehicled.sources.yaw_rate import YAW_RATE_BIAS

_EVERY_NS, _KEPT_NS = 100_000_000, 8_000_000_000
"""Time between estimates of the biases that are kept, and for how long."""
_BEFORE = 0.5
"""s: a drift begins before its effect is seen."""
_BIASES: tuple[Group, ...] = GYRO_BIAS, YAW_RATE_BIAS


class YawRefusal:
    """Keeps the filter's biases of the last seconds, and returns to them when a sensor has been found wrong."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, list[list[float]]]] = deque()
        """Time, ns, and biases of gyroscopes and of the car's own sensor, rad/s."""

    def keep(self, f: EstimatedFilter, now_ns: int) -> None:
        """Keep the present biases, if it is time to; `now_ns`: of the step."""
        kept = self._kept
        if kept and not 0 <= now_ns - kept[0][0] <= _KEPT_NS:
            kept.popleft()
        if not kept or now_ns - kept[-1][0] >= _EVERY_NS:
            kept.append((now_ns, [f.slow.view(group).tolist() for group in _BIASES]))

    def reset(self) -> None:
        """The filter starts anew."""
        self._kept.clear()

    def return_to_before(self, f: EstimatedFilter, verdict: YawVerdict, now_ns: int) -> None:
        """Set both biases to what they were when the difference began; that of a wrong own sensor becomes uncertain.

        What a wrong gyroscope has falsified is much more: see `bias_jump.doubt_falsified`.
        """
        begun = now_ns - round((verdict.since + _BEFORE) * 1e9)
        before = next((biases for at, biases in reversed(self._kept) if at <= begun), None)
        if before is None and self._kept:
            before = self._kept[0][1]
        if before is not None:
            for group, values in zip(_BIASES, before, strict=True):
                f.slow.move(group, np.subtract(values, f.slow.view(group)))
        if verdict.culprit == "own":
            widen(f, "own", verdict.apart)


def widen(f: EstimatedFilter, culprit: Culprit, by: float) -> None:
    """Make the bias of a sensor uncertain by so much more, rad/s."""
    if culprit == "own":
        f.add_variance(YAW_RATE_BIAS, "", by * by)
    else:
        f.add_variance(GYRO_BIAS, "z", by * by)
