"""What a wrong sensor of the yaw rate has falsified before it was found, and how the filter is told of it."""

from __future__ import annotations

from collections import deque

import numpy as np

from vehicled.filter.boundary import EstimatedFilter
from vehicled.filter.states import ATTITUDE, VELOCITY, Group
from vehicled.sources.checks.yaw_vote import Culprit, YawVerdict
from vehicled.sources.imu.model import GYRO_BIAS
from vehicled.sources.yaw_rate import YAW_RATE_BIAS
from vehicled.vehicle.arrays import AHEAD

_EVERY_NS, _KEPT_NS = 100_000_000, 8_000_000_000
"""Time between estimates of the biases that are kept, and for how long."""
_BEFORE = 0.5
"""s: a drift begins before its effect is seen."""
_FOLLOWED = 0.75
"""Share of a variance that has to be missing for it to be widened."""
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
        """Set both biases to what they were when the difference began; heading and its kind become uncertain."""
        begun = now_ns - round((verdict.since + _BEFORE) * 1e9)
        before = next((biases for at, biases in reversed(self._kept) if at <= begun), None)
        if before is None and self._kept:
            before = self._kept[0][1]
        if before is not None:
            for group, values in zip(_BIASES, before, strict=True):
                f.slow.move(group, np.subtract(values, f.slow.view(group)))
        widen(f, verdict.culprit, verdict.apart)
        if verdict.culprit == "own":
            return
        turned = abs(verdict.angle)
        for group, element, sigma in (
            (ATTITUDE, "yaw", turned),
            (VELOCITY, "left", abs(f.pose.item(AHEAD)) * turned),
        ):
            missing = sigma**2 - f.get_variance(group, element)
            if missing > _FOLLOWED * sigma**2:
                f.add_variance(group, element, missing)


def widen(f: EstimatedFilter, culprit: Culprit, by: float) -> None:
    """Make the bias of a sensor uncertain by so much more, rad/s."""
    if culprit == "own":
        f.add_variance(YAW_RATE_BIAS, "", by * by)
    else:
        f.add_variance(GYRO_BIAS, "z", by * by)
