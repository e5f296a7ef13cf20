"""Lasting jumps of a receiver's velocities relative to the estimate: it is spoofed, with its positions.

Their deviations from the estimate, averaged over a tenth of a second, are compared with those of the two
seconds before. While wheels, speed and IMU agree with the estimate, its own errors change more slowly than
that. A false velocity that fades in over seconds is not found.
"""

from __future__ import annotations

import cmath
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from vehicled.messages import Innovation
from vehicled.sources.gnss.fix_jumps import LONGEST_DOUBT_NS

if TYPE_CHECKING:
    from vehicled.sources.updates import MeasurementUpdates

_BLOCK_NS = 100_000_000
"""Time over which deviations are averaged."""
FOLLOWED_FOR = 0.2
"""s: longest time for which the estimate follows a jump until it is found."""
_REFERENCE_NS, _LEAST_REFERENCE_NS = 2_500_000_000, 1_500_000_000
"""Longest and least time over which earlier averages reach back."""
_BOUND, _SIGMAS = 0.2, 5.0
"""m/s, and standard deviations of the averages: bound of differences without a jump. Wrong latencies,
antennas and scales of the car's own sensors cause less than 0.04 m/s with RTK."""
_BACK = 0.5
"""Share of a jump: if the velocity is closer to its earlier deviation than this, the receiver is right
again."""
_LEAST_WAY = 0.2
"""m, beyond the noise of a fix: way by the jump after which it is decided whether positions went along with
it."""
_FALSE, _FALSE_PER_SPEED, _FALSE_SIGMAS = 0.5, 0.03, 5.0
"""m/s, share of the speed, and number of σ: a velocity that differs more from the estimate's shows nothing of
positions."""
_OUTVOTED_NS = 1_000_000_000
"""Time for which nothing agrees with an estimated speed that a receiver and another device have outvoted."""
_OWN = ("vehicle.speed", "wheel.", "imu.")
"""Kinds of observation of the car's own sensors of motion begin with one of these."""


class _Block(NamedTuple):
    """Mean of some deviations."""

    t_ns: int
    """Time of the first one."""
    mean: complex
    """East and north, m/s."""
    variance: float
    """Of the mean, per axis, m²/s²."""


class VelocityJumps:
    """Compares a receiver's present deviations from the estimated velocity with earlier ones."""

    def __init__(self) -> None:
        self._kept: deque[_Block] = deque()
        self.reset()

    def reset(self) -> None:
        """Restart with the filter."""
        self._kept.clear()
        self._begun_ns, self._sum, self._count = 0, 0j, 0
        self._reference = 0j
        """Deviation before the lasting jump, m/s."""
        self._jump = 0j
        """m/s; zero while there is none."""
        self._is_velocity_alone: bool | None = None
        """Whether only the velocity jumped, and not the positions; None while unknown."""
        self._jumped_ns = 0

    @property
    def lasts(self) -> bool:
        """Whether the velocity has jumped and not come back: then do not use it."""
        return self._jump != 0.0

    @property
    def are_positions_false(self) -> bool:
        """Whether positions may have gone along with a velocity that jumped: then do not use them."""
        return self.lasts and not self._is_velocity_alone

    def compare_position(self, t_ns: int, apart: complex, sigma: float) -> None:
        """Take a fix: its difference from the estimate and its standard deviation per axis, m."""
        if self.lasts and self._is_velocity_alone is None:
            way = self._jump * (t_ns - self._jumped_ns) * 1e-9
            if abs(way) > _LEAST_WAY + _SIGMAS * sigma:
                self._is_velocity_alone = abs(apart) < abs(apart - way)

    def take(self, t_ns: int, deviation: complex, sigma: float, updates: MeasurementUpdates) -> complex:
        """Take a velocity's deviation from the estimate, east + i north, and its σ per axis, m/s.

        Returns the jump, m/s, if there has just been one; else zero. The receiver is held to be wrong only if
        the car's own sensors agree with the estimate, which `updates` knows.
        """
        jump = 0j
        if self._count and t_ns - self._begun_ns >= _BLOCK_NS:
            block = _Block(self._begun_ns, self._sum / self._count, sigma**2 / self._count)
            jump = self._compare(block, updates)
            self._sum, self._count = 0j, 0
        if not self._count:
            self._begun_ns = t_ns
        self._sum += deviation
        self._count += 1
        return jump

    def _compare(self, block: _Block, updates: MeasurementUpdates) -> complex:
        kept, t_ns = self._kept, block.t_ns
        if self.lasts:
            is_back = abs(block.mean - self._reference) < _BACK * abs(self._jump)
            # An accelerometer that had agreed with the estimate has been found to be wrong itself. A gyroscope is no
            # excuse: courses show that it is wrong, and these may be false.
            is_excused = updates.accelerometer_outvoted_ns > self._jumped_ns
            if is_back or is_excused or t_ns - self._jumped_ns > LONGEST_DOUBT_NS:
                self.reset()
            return 0j
        while kept and t_ns - kept[0].t_ns > _REFERENCE_NS:
            kept.popleft()
        before = list(kept)[:-1]  # the last one may contain part of the jump
        kept.append(block)
        if len(before) < 2 or t_ns - before[0].t_ns < _LEAST_REFERENCE_NS:
            return 0j
        reference = sum(b.mean for b in before) / len(before)
        noise = math.sqrt(block.variance + sum(b.variance for b in before) / len(before) ** 2)
        jump = block.mean - reference
        bound = _BOUND + _SIGMAS * noise
        # If a wrong estimate becomes right, its deviation vanishes: that is no jump of the receiver.
        if (
            min(abs(jump), abs(block.mean)) < bound
            or abs(reference) > _BOUND
            or not _do_others_agree(updates)
        ):
            return 0j
        self._reference, self._jump, self._jumped_ns = reference, jump, t_ns
        return jump


def _do_others_agree(updates: MeasurementUpdates) -> bool:
    """Whether the car's own sensors of motion, a speed and a sound IMU among them, agree with the estimate."""
    if updates.speed_doubt or updates.step_ns - updates.outvoted_ns < _OUTVOTED_NS:
        return False
    own = [(k, h) for k, h in updates.health.items() if k.startswith(_OWN) and h.state == "active"]
    has_speed = any(not k.startswith("imu.") for k, _ in own)
    return has_speed and updates.is_imu_sound and all(h.failures == 0 for _, h in own)


def does_agree(velocity: complex, estimated: complex, sigma: float) -> bool:
    """Whether a velocity is near enough to the estimated one for positions to be compared with it."""
    bound = _FALSE + _FALSE_PER_SPEED * abs(velocity) + _FALSE_SIGMAS * sigma
    return abs(velocity - estimated) < bound


def read_velocity(v: Mapping[str, float]) -> complex | None:
    """Velocity, east + i north, m/s, from a vector or else from speed and course; None without them."""
    if "vn" in v and "ve" in v:
        return complex(v["ve"], v["vn"])
    if "speed" in v and "course" in v:
        return cmath.rect(v["speed"], 0.5 * math.pi - v["course"])
    return None


def find_deviation(records: Sequence[Innovation], receiver: str) -> complex | None:
    """Deviation of the last recorded velocity from its estimate, east + i north, m/s; None without one."""
    found = {record.sensor: record for record in records[-2:] if record.innovation}
    if (vector := found.get(f"{receiver}.velocity")) is not None:
        return complex(*vector.innovation[:2])
    speed, course = found.get(f"{receiver}.speed"), found.get(f"{receiver}.course")
    if speed is None or course is None or speed.t != course.t:
        return None
    measured, expected = (
        cmath.rect(s[0], 0.5 * math.pi - c[0])
        for s, c in ((speed.value, course.value), (speed.predicted, course.predicted))
    )
    return measured - expected
