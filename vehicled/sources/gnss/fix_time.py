"""Of what time fixes are: of the configured latency, or of another one that the filter has found.

A configured latency is either right, as where a receiver stamps its fixes itself, or wrong by much. The filter knows
the second alone, as a Gaussian error: after a minute it has the latency of a right one within two milliseconds, and
at 20 m/s the place within four centimetres, where the fixes have two. Both hypotheses follow from its one estimate,
as it is linear in the latency: their evidence, and the estimate under each (a prior of spike and slab, after Mitchell
and Beauchamp, "Bayesian variable selection in linear regression", JASA 83(404), 1988). What is published is the mean
of both; the filter goes on with its own. In a bend courses of another time turn the heading, too, and the direction
of the velocity; where the car speeds up, they make the speed another one.

No fix is of the future: a latency that would be negative is none, but for one that a speed of known time shows. Then
it is the IMU that is late, as `time_vote.py` finds later.
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

_RIGHT = 0.001
"""s, 1 σ of a latency that is right."""
ODDS = 4.0
"""That four configured latencies of five are right, before any measurement."""
_FALSIFIED = 0.0012
"""s, 1 σ: what tyres, springs and antennas that differ from their models add to a latency that is found."""
_OF_TYRES = 0.004
"""s, 1 σ: what tyres add in bends. With a latency that they make the heading is right, and not without it."""
_INFORMED = 0.999
"""Of the configured variance: as long as it is no less, measurements have not told anything."""
_FAR = 6.0
"""Standard deviations beyond which hardly anything is left of a normal distribution."""
_LEAST = 1e-6
"""Of a variance: what is left where rounding would leave none."""
_TINY = 1e-30
"""In place of a variance that is zero."""
_SLOWEST = 1.0
"""m/s: of a slower car the sideslip is anything."""
_PLACE = [ESTIMATE_INDEX[name] for name in ("x", "y")]
_ANGLES = [ESTIMATE_INDEX[name] for name in ("roll", "pitch", "yaw")]
_CORRECTED = "x", "y", "yaw", "vx", "vy"
_COLUMNS = [(ESTIMATE_INDEX[name], ESTIMATE_INDEX[f"sigma.{name}"]) for name in _CORRECTED]
"""Of these, and of their σ."""
_YAW, _LEFT = (_CORRECTED.index(name) for name in ("yaw", "vy"))
"""Places in `_CORRECTED`."""
_VX, _VY = (ESTIMATE_INDEX[name] for name in ("vx", "vy"))
_SIDESLIP, _SIGMA_SIDESLIP = ESTIMATE_INDEX["sideslip"], ESTIMATE_INDEX["sigma.sideslip"]


class Latency(NamedTuple):
    """A latency beside the configured one."""

    mean: float
    """s."""
    variance: float
    """s²."""


def weigh(found: Latency, sigma: float, doubt: float, earliest: float = -math.inf) -> Latency:
    """Mean and variance under both hypotheses.

    Parameters: what the filter has `found` of a latency of 0 ± `sigma`, s, beside the configured one, and the
    `doubt` of the time that fixes are compared with, 1 σ, s; a wrong latency is no less than `earliest`, s.
    """
    of_prior, right = sigma * sigma, _RIGHT * _RIGHT
    # What measurements alone say is what the filter has found without its prior.
    likely = 1.0 / (1.0 / found.variance - 1.0 / of_prior)
    shown = found.mean * likely / found.variance
    likely += doubt * doubt + _FALSIFIED * _FALSIFIED
    if_right, if_wrong = likely + right, likely + of_prior
    log_odds = 0.5 * (math.log(if_wrong / if_right) - shown * shown * (1.0 / if_right - 1.0 / if_wrong))
    wrong, log_possible = _cut(found, earliest)
    # What is impossible of the wrong ones counts as right.
    log_odds += math.log(ODDS + _find_upper_tail(-earliest / sigma)) - log_possible
    return mix(log_odds, Latency(shown * right / if_right, likely * right / if_right), wrong)


def mix(log_odds: float, right: Latency, wrong: Latency) -> Latency:
    """Mean and variance of two hypotheses. `log_odds`: of the first one, natural logarithm."""
    share, apart = _find_share(log_odds), right.mean - wrong.mean
    variance = share * (right.variance + (1.0 - share) * apart * apart)
    return Latency(wrong.mean + share * apart, variance + (1.0 - share) * wrong.variance)


def _find_share(log_odds: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(min(log_odds, 100.0), -100.0)))


def _cut(found: Latency, least: float) -> tuple[Latency, float]:
    """A normal distribution without what is less than `least`, and the log of the probability of the rest."""
    sigma = math.sqrt(found.variance)
    bound = (least - found.mean) / sigma
    if bound < -_FAR:
        return found, 0.0
    if bound > _FAR:  # an exponential distribution, nearly
        log_possible = -0.5 * bound * bound - math.log(math.sqrt(2.0 * math.pi) * bound)
        return Latency(least + sigma / bound, (sigma / bound) ** 2), log_possible
    possible = _find_upper_tail(bound)
    ratio = math.exp(-0.5 * bound * bound) / (math.sqrt(2.0 * math.pi) * possible)
    variance = found.variance * (1.0 + bound * ratio - ratio * ratio)
    return Latency(found.mean + sigma * ratio, variance), math.log(possible)


def _find_upper_tail(x: float) -> float:
    """Of the standard normal distribution."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def _find_share_of_tyres(change: float, variance: float, sigma: float) -> float:
    """How likely a latency that is taken back by a change, s, is one that tyres or noise have made.

    The direction of the velocity is wrong with it then, and the heading is not. Otherwise the whole estimate is late,
    as samples of the IMU are, and the sideslip what it was.
    """
    of_tyres, of_samples = variance + _OF_TYRES * _OF_TYRES, variance + sigma * sigma
    log_odds = math.log(ODDS) + 0.5 * math.log(of_samples / of_tyres)
    log_odds -= 0.5 * change * change * (1.0 / of_tyres - 1.0 / of_samples)
    return _find_share(log_odds)


class _Effect(NamedTuple):
    """What both hypotheses do to an estimate of the filter."""

    moves: list[float]
    """Of `_CORRECTED`: by how much they change, m, rad, m/s;"""
    before: list[float]
    """their variances at the look, (unit)²,"""
    gone: list[float]
    """by how much these become less;"""
    shared: float
    """by how much the covariance of x and y becomes less, m²."""


class FixTime:
    """The latency of a receiver's fixes under both hypotheses, and what it does to an estimate."""

    def __init__(self, filter: ObservedFilter, latency: Group, configured: float, sigma: float) -> None:
        """`latency`: its state, if the filter has it; as `configured`, and σ of that, s."""
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
        """None as long as nothing is known of the latency."""

    def _read(self) -> tuple[int, Latency] | None:
        """Which state it is, and what the filter has found; None as long as that is nothing."""
        i = self._place
        variance = 0.0 if i is None else self._filter.get_covariance(i, i)
        if i is None or not 0.0 < variance < _INFORMED * self._sigma**2:
            return None
        return i, Latency(self._found.item(0), variance)

    def look(self, doubt: float, has_reference: Callable[[], bool]) -> None:
        """Weigh both hypotheses anew; `correct` goes by that from then on.

        `doubt` of the time that fixes are compared with, 1 σ, s; `has_reference`: whether a speed of known time is
        measured.
        """
        known = self._read()
        if known is None:
            self._effect = None
            return
        i, found = known
        earliest = -math.inf if has_reference() else -self._configured
        weighed = weigh(found, self._sigma, doubt, earliest)
        change, less = weighed.mean - found.mean, found.variance - weighed.variance
        cov = self._filter.get_covariance
        by = [cov(i, k) / found.variance for k in self._corrected]
        by[_YAW] = cov(i, self._corrected[_YAW]) / (found.variance + _OF_TYRES * _OF_TYRES)
        by[_LEFT] *= _find_share_of_tyres(change, found.variance, self._sigma)
        before = [max(cov(k, k), _TINY) for k in self._corrected]
        moves, gone = [b * change for b in by], [b * b * less for b in by]
        self._effect = _Effect(moves, before, gone, by[0] * by[1] * less)

    def correct(self, values: np.ndarray, correlation: float, point: Vector) -> float:
        """Move an estimate (len(ESTIMATE_COLUMNS),) to the place, heading and velocity under both hypotheses.

        `point`: which it is of, m in vehicle axes. Returns the correlation of x and y, given that of before.
        """
        effect = self._effect
        if effect is None:
            return correlation
        moves, before, gone, shared = effect
        read = values.item
        # A point is less certain than the origin, by what the latency says nothing of. An update since the look may
        # have made both more certain: then it is the share that holds.
        of = [max(v, read(sigma) ** 2) for v, (_, sigma) in zip(before, _COLUMNS, strict=True)]
        left = [math.sqrt(max(1.0 - less / v, _LEAST)) for less, v in zip(gone, of, strict=True)]
        for (column, sigma), move, share in zip(_COLUMNS, moves, left, strict=True):
            values[column], values[sigma] = read(column) + move, share * read(sigma)
        vx, vy = read(_VX), read(_VY)
        if math.hypot(vx, vy) > _SLOWEST:
            values[_SIDESLIP] = math.atan2(vy, vx)
            values[_SIGMA_SIDESLIP] = left[_LEFT] * read(_SIGMA_SIDESLIP)
        if any(point):  # turned about the origin
            _turn(values, point, moves[_YAW])
        correlation -= shared / math.sqrt(of[0] * of[1])
        return max(-1.0, min(correlation / (left[0] * left[1]), 1.0))


def _turn(values: np.ndarray, point: Vector, angle: float) -> None:
    """Turn an estimate's point (m, vehicle axes) about the vehicle origin by an angle that its yaw has in it, rad."""
    roll, pitch, yaw = values[_ANGLES].tolist()
    x, y, z = point
    across, up = y * math.cos(roll) - z * math.sin(roll), y * math.sin(roll) + z * math.cos(roll)
    arm = cmath.rect(1.0, yaw) * complex(x * math.cos(pitch) + up * math.sin(pitch), across)
    moved = arm - arm * cmath.rect(1.0, -angle)
    values[_PLACE] += moved.real, moved.imag
