"""The time of fixes: by the configured latency, or by another one that the filter has found.

A configured latency is either right, for example if a receiver stamps its fixes itself, or wrong by much. The
filter itself models only the second case, as a Gaussian error: after a minute it has the latency of a right
one within two milliseconds, and at 20 m/s the place within four centimetres, where the fixes have two. Both
hypotheses follow from its one estimate, as the estimate is linear in the latency: their evidence, and the
estimate under each (a prior of spike and slab, after Mitchell and Beauchamp, "Bayesian variable selection in
linear regression", JASA 83(404), 1988). The mean of both is published; the filter continues with its own
estimate. In a bend, courses of another time also turn the heading and the direction of the velocity; when the
car speeds up, they change the speed.

No fix comes from the future: a negative latency is rejected, unless a speed of known time shows it. In that
case the IMU is late, as `time_vote.py` finds later.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from vehicled.filter.boundary import ObservedFilter
from vehicled.filter.states import ATTITUDE, POSITION, VELOCITY, Group
from vehicled.messages import ESTIMATE_INDEX
from vehicled.units import Vector

RIGHT = 0.001
"""s, 1 σ of the error of a right latency."""
ODDS = 4.0
"""Prior odds: four configured latencies of five are right."""
FALSIFIED = 0.0012
"""s, 1 σ: error of a found latency because tyres, springs and antennas differ from their models."""
_OF_TYRES = 0.004
"""s, 1 σ: error due to tyres in bends. If tyres cause the latency, the heading is right with it, and wrong
without it."""
_INFORMED = 0.999
"""Share of the configured variance: while the variance is no less, measurements have shown nothing."""
_FAR = 6.0
"""Standard deviations beyond which the tail of a normal distribution is negligible."""
_LEAST = 1e-6
"""Least remaining share of a variance, where rounding would leave none."""
_TINY = 1e-30
"""In place of a variance that is zero."""
_SLOWEST = 1.0
"""m/s: at lower speeds the sideslip is undetermined."""
_PLACE = [ESTIMATE_INDEX[name] for name in ("x", "y")]
_ANGLES = [ESTIMATE_INDEX[name] for name in ("roll", "pitch", "yaw")]
_CORRECTED = "x", "y", "yaw", "vx", "vy"
_COLUMNS = [(ESTIMATE_INDEX[name], ESTIMATE_INDEX[f"sigma.{name}"]) for name in _CORRECTED]
"""Columns of these values, and of their σ."""
_YAW, _LEFT = (_CORRECTED.index(name) for name in ("yaw", "vy"))
"""Places in `_CORRECTED`."""
_VX, _VY = (ESTIMATE_INDEX[name] for name in ("vx", "vy"))
_SIDESLIP, _SIGMA_SIDESLIP = ESTIMATE_INDEX["sideslip"], ESTIMATE_INDEX["sigma.sideslip"]


class Latency(NamedTuple):
    """Difference of a latency from the configured one."""

    mean: float
    """s."""
    variance: float
    """s²."""


def weigh(found: Latency, sigma: float, doubt: float, earliest: float = -math.inf) -> Latency:
    """Mean and variance of a latency under both hypotheses.

    Parameters: `found`: estimate of the filter, which began with 0 ± `sigma`, s, relative to the configured
    latency; `doubt`: 1 σ of the time that fixes are compared with, s; `earliest`: least value of a wrong
    latency, s.
    """
    of_prior, right = sigma * sigma, RIGHT * RIGHT
    # The likelihood of the measurements alone is the filter's estimate without its prior.
    likely = 1.0 / (1.0 / found.variance - 1.0 / of_prior)
    shown = found.mean * likely / found.variance
    likely += doubt * doubt + FALSIFIED * FALSIFIED
    if_right, if_wrong = likely + right, likely + of_prior
    log_odds = 0.5 * (math.log(if_wrong / if_right) - shown * shown * (1.0 / if_right - 1.0 / if_wrong))
    wrong, log_possible = cut(found, earliest)
    # The filter's variance lacks the further errors of what has been shown.
    widened = likely * of_prior / if_wrong / found.variance
    wrong = Latency(wrong.mean, widened * wrong.variance)
    # The prior probability of impossible wrong latencies goes to the right one.
    log_odds += math.log(ODDS + _find_upper_tail(-earliest / sigma)) - log_possible
    return mix(log_odds, Latency(shown * right / if_right, likely * right / if_right), wrong)


def mix(log_odds: float, right: Latency, wrong: Latency) -> Latency:
    """Mean and variance of a mixture of two hypotheses. `log_odds`: of `right`, natural logarithm."""
    share, apart = _find_share(log_odds), right.mean - wrong.mean
    variance = share * (right.variance + (1.0 - share) * apart * apart)
    return Latency(wrong.mean + share * apart, variance + (1.0 - share) * wrong.variance)


def _find_share(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(min(log_odds, 100.0), -100.0)))


def cut(found: Latency, least: float) -> tuple[Latency, float]:
    """Mean and variance of a normal distribution truncated below `least`, and the log of the probability left."""
    sigma = math.sqrt(found.variance)
    bound = (least - found.mean) / sigma
    if bound < -_FAR:
        return found, 0.0
    if bound > _FAR:  # nearly an exponential distribution
        log_possible = -0.5 * bound * bound - math.log(math.sqrt(2.0 * math.pi) * bound)
        return Latency(least + sigma / bound, (sigma / bound) ** 2), log_possible
    possible = _find_upper_tail(bound)
    ratio = math.exp(-0.5 * bound * bound) / (math.sqrt(2.0 * math.pi) * possible)
    variance = found.variance * (1.0 + bound * ratio - ratio * ratio)
    return Latency(found.mean + sigma * ratio, variance), math.log(possible)


def _find_upper_tail(x: float) -> float:
    """Probability that a standard normal variable exceeds x."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def _find_share_of_tyres(change: float, variance: float, sigma: float) -> float:
    """Probability that a latency which is corrected by `change`, s, was caused by tyres or noise.

    In that case the direction of the velocity is wrong with the latency, and the heading is right. Otherwise
    the whole estimate is late, as samples of the IMU are, and the sideslip is unchanged.
    """
    of_tyres, of_samples = variance + _OF_TYRES * _OF_TYRES, variance + sigma * sigma
    log_odds = math.log(ODDS) + 0.5 * math.log(of_samples / of_tyres)
    log_odds -= 0.5 * change * change * (1.0 / of_tyres - 1.0 / of_samples)
    return _find_share(log_odds)


class _Effect(NamedTuple):
    """Effect of both hypotheses on an estimate of the filter."""

    by_column: list[tuple[int, int, float, float, float]]
    """Of each of `_CORRECTED`: its column and that of its σ, its change (m, rad, m/s), its variance when the
    hypotheses were weighed, and the reduction of that variance, (unit)²."""
    turned: float
    """Change of the yaw, rad."""
    shared: float
    """Reduction of the covariance of x and y, m²."""


class FixTime:
    """The latency of a receiver's fixes under both hypotheses, and its effect on an estimate."""

    def __init__(self, filter: ObservedFilter, latency: Group, configured: float, sigma: float) -> None:
        """`latency`: its state group, if the filter has it; `configured`: latency, and `sigma` its σ, s."""
        self._filter, self._configured, self._sigma = filter, configured, sigma
        self._found = filter.slow.view(latency)
        states = filter.states
        self._place = states.index(latency) if latency in states else None
        self._corrected = (
            *(states.index(POSITION, axis) for axis in ("x", "y")),
            states.index(ATTITUDE, "yaw"),
            *(states.index(VELOCITY, direction) for direction in ("ahead", "left")),
        )
        self._effect: _Effect | None = None
        """None while nothing is known of the latency."""
        self.found: Latency | None = None
        """The filter's estimate when the hypotheses were weighed; None while measurements have shown nothing."""

    def _read(self) -> tuple[int, Latency] | None:
        """Place of the state, and the filter's estimate; None while measurements have shown nothing."""
        i = self._place
        variance = 0.0 if i is None else self._filter.get_covariance(i, i)
        if i is None or not 0.0 < variance < _INFORMED * self._sigma**2:
            return None
        return i, Latency(self._found.item(0), variance)

    def look(self, doubt: float, has_reference: Callable[[], bool]) -> None:
        """Weigh both hypotheses anew; `correct` uses the result from then on.

        `doubt`: 1 σ of the time that fixes are compared with, s; `has_reference`: whether a speed of known
        time is measured.
        """
        known = self._read()
        if known is None:
            self._effect = self.found = None
            return
        i, self.found = known
        found = self.found
        earliest = -math.inf if has_reference() else -self._configured
        weighed = weigh(found, self._sigma, doubt, earliest)
        change, less = weighed.mean - found.mean, found.variance - weighed.variance
        cov = self._filter.get_covariance
        by = [cov(i, k) / found.variance for k in self._corrected]
        by[_YAW] = cov(i, self._corrected[_YAW]) / (found.variance + _OF_TYRES * _OF_TYRES)
        by[_LEFT] *= _find_share_of_tyres(change, found.variance, self._sigma)
        by_column = [
            (column, sigma, b * change, max(cov(k, k), _TINY), b * b * less)
            for (column, sigma), k, b in zip(_COLUMNS, self._corrected, by, strict=True)
        ]
        self._effect = _Effect(by_column, by[_YAW] * change, by[0] * by[1] * less)

    def correct(self, values: np.ndarray, correlation: float, point: Vector) -> float:
        """Move an estimate (len(ESTIMATE_COLUMNS),) to the place, heading and velocity under both hypotheses.

        `point`: the point that it describes, m in vehicle axes. Returns the correlation of x and y, given the
        earlier one.
        """
        effect = self._effect
        if effect is None:
            return correlation
        by_column, turned, shared = effect
        read, root, of, left = values.item, math.sqrt, [], []
        for column, sigma, move, before, gone in by_column:
            # A point is less certain than the origin, for reasons other than the latency. An update since the
            # hypotheses were weighed may have made both more certain: then the relative reduction is kept.
            # Comparisons take half as long as calls of `max`, here in each step.
            deviation = read(sigma)
            variance = deviation**2
            if not variance > before:
                variance = before
            remaining = 1.0 - gone / variance
            share = root(remaining if remaining > _LEAST else _LEAST)
            of.append(variance)
            left.append(share)
            values[column], values[sigma] = read(column) + move, share * deviation
        vx, vy = read(_VX), read(_VY)
        if math.hypot(vx, vy) > _SLOWEST:
            values[_SIDESLIP] = math.atan2(vy, vx)
            values[_SIGMA_SIDESLIP] = left[_LEFT] * read(_SIGMA_SIDESLIP)
        if any(point):  # it turns about the origin
            _turn(values, point, turned)
        correlation -= shared / math.sqrt(of[0] * of[1])
        return max(-1.0, min(correlation / (left[0] * left[1]), 1.0))


def _turn(values: np.ndarray, point: Vector, angle: float) -> None:
    """Move an estimate's point (m, vehicle axes) by a turn about the origin, rad, that is already in its yaw."""
    roll, pitch, yaw = values[_ANGLES].tolist()
    x, y, z = point
    across, up = y * math.cos(roll) - z * math.sin(roll), y * math.sin(roll) + z * math.cos(roll)
    arm = cmath.rect(1.0, yaw) * complex(x * math.cos(pitch) + up * math.sin(pitch), across)
    moved = arm - arm * cmath.rect(1.0, -angle)
    values[_PLACE] += moved.real, moved.imag
