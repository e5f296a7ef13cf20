"""Whether the car's own speed goes wrong: wheels, a receiver and accelerometers contradict it alike.

The speeds are compared with each other, and not with the estimate, which a wrong speed leads away. Each of the others
shows by how much the car's own speed has changed beside it, over some tenths of a second up to a second, and how
certain that is: wheels slip, a receiver is noisy, the integral of accelerometers drifts. The car's own speed is wrong
if the others agree on its change, and if they would still show it without any one of them: a wheel that locks, a
reflection or a slope alone does not make a healthy speed wrong.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import NamedTuple

from vehicled.sources.checks.gained_speed import GainedSpeed
from vehicled.sources.sensors import Sensors
from vehicled.sources.speeds.wheels import ANGLES, SPEEDS

OWN, RECEIVER = "vehicle.speed", "gnss.speed"
WATCHED = frozenset((OWN, RECEIVER, *ANGLES, *SPEEDS))
_BLOCK_NS, _LONGEST_NS = 100_000_000, 400_000_000
"""Time over which speeds are averaged, and longest time between samples."""
_COMPARED = (1, 1), (3, 2), (8, 12)
"""Numbers of latest blocks that are compared with earlier ones, and of blocks between: a step shows in one block, a
drift in more."""
_BEFORE, _FEWEST = 12, 5
"""Most and fewest earlier blocks of such a comparison."""
_RIGHT = 3
"""Number of latest blocks that show whether the speed is right again."""
_SLOWEST, _ROLLS = 3.0, 1.0
"""m/s: slower speeds, and slower wheels, are not compared."""
_SURE, _DOUBT, _ALIKE, _BACK = 3.5, 2.0, 3.0, 2.0
"""In standard deviations: change that shows a wrong speed, and from which on it is in doubt; by how much the others
may differ about it; and change within which the speed is right again."""
_HALF = 0.5
"""Share of its largest error within which the speed is right again, too."""
_LEAST = 0.1
"""m/s: smaller changes are left to the filter."""
_LATE, _TIMED, _SMOOTHED = 0.5, 0.01, 15
"""s: by how much a speed may be late, as control units smooth it; and if its time is known. And number of blocks
before the compared ones whose acceleration may still show in a smoothed speed."""
_FOUND, _FOUND_SIGMAS, _AS_SMOOTHED = 0.6, 3.0, 2.0
"""Share of the given σ of its latency up to which the latency counts as found; number of standard deviations by which
it then may be wrong; and factor, as a smoothed speed is later at first than in the mean."""
_COUNTING, _ROLLING = 0.08, 0.0015
"""1 σ of the speed by wheels: of counting teeth in a block, m/s; and share of the speed, as in bends."""
_SLIP, _SLIP_SIGMA = 0.0025, 0.0015
"""Slip of the wheels per m/s², and how well that is known."""
_NOISE, _COUNTS = 0.1, 3
"""m/s: noise of a receiver's speeds to begin with, and the number of samples that this counts for."""
_SHARE, _APART = 0.002, 0.01
"""1 σ of its other errors: share of the speed, as by sideslip, and error of time, s."""
_SAMPLED, _BIAS, _PITCH = 0.03, 0.12, 0.05
"""1 σ of the integral of accelerations: m/s; m/s per second, by slopes and biases; and share, by pitch."""
_ONSET = 2.0
"""s: what has been found within this time before a slide is the beginning of the slide."""
_FAR_NS = 60_000_000
"""Longest time between compared samples."""


class _Block(NamedTuple):
    """Averages of some samples."""

    t: float
    """s"""
    speed: float
    """The car's own, m/s;"""
    acceleration: float
    """and the car's acceleration, m/s²."""
    wheels: float
    """m/s; NaN without them."""
    gained: float
    """By how much the own speed is above the integral of the acceleration, m/s; NaN without that."""
    above: list[float]
    """By how much the own speed is above each of the receiver's, m/s."""


_get_acceleration = itemgetter(_Block._fields.index("acceleration"))


class _Change(NamedTuple):
    """By how much the own speed has changed beside another one, and 1 σ of that, m/s."""

    by: float
    sigma: float


class SpeedJudge:
    """Compares `vehicle.speed` with other speeds."""

    def __init__(self, sensors: Sensors, radius: float) -> None:
        """`radius`: of the wheels, m."""
        self._radius = radius
        self.gained = GainedSpeed(sensors.imu)
        """Change of the speed by the accelerometers; the caller passes on their samples."""
        self.configure(sensors)
        self.reset()

    def configure(self, sensors: Sensors) -> None:
        """Take settings, also while running."""
        self.gained.configure(sensors.imu)
        own, receiver = sensors.vehicle_speed, sensors.gnss
        self._latency_sigma = 0.0 if own is None else own.latency_sigma
        self._late = _LATE if self._latency_sigma else _TIMED
        self._late_ns = 0 if receiver is None else round(receiver.latency * 1e9)

    def reset(self) -> None:
        """Forget all samples."""
        self.gained.reset()
        self._blocks: deque[_Block] = deque(maxlen=_SMOOTHED + _BEFORE + sum(_COMPARED[-1]))
        self._before: list[_Block] = []
        """The blocks before the speed went wrong; empty while it is right."""
        self._wrong = 0.0, 0.0
        """By how much it has been wrong: m/s, and share of the speed."""
        self.found = 0.0, 0.0
        """By how much the speed has just been found to be wrong, m/s, and for how long, s; the caller clears it."""
        self.doubt = 0.0
        """m/s: 1 σ of a sample of a speed that may be going wrong: all of a second together count like one."""
        self._rate = 1.0
        """Samples per second."""
        self._samples: deque[tuple[int, float]] = deque(maxlen=64)
        self._angles: dict[str, tuple[int, float]] = {}
        """Time, ns, and last angle of each wheel."""
        self._begin(0, math.nan)

    def _begin(self, t: int, gained: float) -> None:
        """Begin a block."""
        self._begun_ns, self._gained = t, gained
        self._speeds: list[float] = []
        self._excesses: list[float] = []
        self._above: list[float] = []
        self._rates: list[float] = []
        self._turned = dict(self._angles)

    def note_latency(self, latency: float, sigma: float) -> None:
        """Note the latency of the car's own speed as estimated, and its σ, s."""
        is_found = sigma <= _FOUND * self._latency_sigma
        late = _AS_SMOOTHED * (abs(latency) + _FOUND_SIGMAS * sigma)
        self._late = min(max(late, _TIMED), _LATE) if is_found else _LATE

    @property
    def is_wrong(self) -> bool:
        """Whether the car's own speed is not to be used."""
        return bool(self._before)

    def take(self, t: int, values: Mapping[str, float], ahead: float, slides: bool) -> None:
        """Take a measurement at t, ns. `ahead`: speed of which only the direction counts.

        `slides`: whether the car goes sideways, so that nothing is compared.
        """
        if OWN in values:
            gained = self.gained.get(t)
            self._take_own(t, abs(values[OWN]), gained if ahead >= 0.0 else -gained, slides)
        if RECEIVER in values:
            self._compare(t - self._late_ns, abs(values[RECEIVER]))
        for channel in ANGLES:
            if channel in values:
                self._angles[channel] = t, values[channel]
        if rates := [abs(values[c]) for c in SPEEDS if c in values]:
            self._rates.append(_find_middle(rates))

    def _compare(self, t: int, speed: float) -> None:
        """Compare a receiver's speed with the own one of that time."""
        least, nearest = _FAR_NS, math.nan
        for at, own in reversed(self._samples):
            if abs(at - t) <= least:
                least, nearest = abs(at - t), own
            elif at < t:
                break
        if not math.isnan(nearest):
            self._above.append(nearest - speed)

    def _take_own(self, t: int, speed: float, gained: float, slides: bool) -> None:
        if not 0 <= t - self._begun_ns < _LONGEST_NS:
            self._blocks.clear()
            self._begin(t, gained)
        elif t - self._begun_ns >= _BLOCK_NS:
            self._end(t, gained, slides)
            self._begin(t, gained)
        self._samples.append((t, speed))
        self._speeds.append(speed)
        self._excesses.append(speed - gained)

    def _end(self, t: int, gained: float, slides: bool) -> None:
        speed, dt = _average(self._speeds), (t - self._begun_ns) * 1e-9
        if slides or speed < _SLOWEST:
            self._blocks.clear()
            if slides and self._before and t * 1e-9 - self._before[-1].t < _ONSET:
                self._before = []
            return
        acceleration = (gained - self._gained) / dt
        if math.isnan(acceleration):
            acceleration = (self._speeds[-1] - self._speeds[0]) / dt
        self._rate = len(self._speeds) / dt
        wheels, middle = self._find_wheels(), self._begun_ns * 1e-9 + 0.5 * dt
        self._blocks.append(
            _Block(middle, speed, acceleration, wheels, _average(self._excesses), self._above)
        )
        self._judge()

    def _find_wheels(self) -> float:
        """Speed by wheels, m/s; NaN without them."""
        rates = [
            abs(angle - self._turned[c][1]) / ((t - self._turned[c][0]) * 1e-9)
            for c, (t, angle) in self._angles.items()
            if c in self._turned and t > self._turned[c][0]
        ]
        if not rates:
            return self._radius * _average(self._rates) if self._rates else math.nan
        return self._radius * _find_middle(rates)

    def _judge(self) -> None:
        blocks = list(self._blocks)
        if self._before:
            # What a late speed may be off by does not make a wrong one right again.
            if self._is_back(self._find_changes(self._before, blocks[-_RIGHT:], _TIMED), blocks[-1].speed):
                self._before = []
                self._blocks.clear()
            return
        self.doubt = 0.0
        for number, between in _COMPARED:
            before = blocks[: -number - between][-_BEFORE:]
            if len(before) < _FEWEST:
                return
            by, certainty = _find_wrong(self._find_changes(before, blocks[-number:], self._late))
            if certainty == -math.inf:
                return  # also for longer times, in which that averages out
            if certainty > _SURE:
                self._before, self.found = before, (by, blocks[-1].t - before[-1].t)
                self._wrong = abs(by), abs(by) / blocks[-1].speed
                self.doubt = 0.0
                return
            if certainty > _DOUBT:
                self.doubt = max(self.doubt, abs(by) * math.sqrt(self._rate))

    def _is_back(self, changes: Sequence[_Change], speed: float) -> bool:
        """Whether the speed is right again, by what the others say of its change since it was right.

        The blocks from then may contain the beginning of a drift, so that it need not be quite as before.
        """
        if not changes:
            return True
        (most, share), by = self._wrong, abs(_weigh(changes).by)
        least = max(_LEAST, _HALF * min(most, share * speed))
        self._wrong = max(most, by), max(share, by / speed)
        return by < least and all(abs(by) < max(least, _BACK * sigma) for by, sigma in changes)

    def _find_changes(self, before: Sequence[_Block], latest: Sequence[_Block], late: float) -> list[_Change]:
        """What each of the others says, less what a lateness of `late`, s, can explain."""
        now, then = _join(latest), _join(before)
        still_shown = round(self._late / (_BLOCK_NS * 1e-9)) if self._late < _LATE else len(self._blocks)
        recent = list(self._blocks)[-len(latest) - still_shown :]
        accelerations = [*map(_get_acceleration, before), *map(_get_acceleration, recent)]
        elapsed, changed = now.t - then.t, now.acceleration - then.acceleration
        unsteady = max(accelerations) - min(accelerations)
        found = []
        if not math.isnan(now.wheels) and then.wheels > _ROLLS:
            by = now.speed - now.wheels / then.wheels * then.speed + _SLIP * changed * now.speed
            sigma = math.hypot(
                _COUNTING / math.sqrt(len(latest)), _ROLLING * now.speed, _SLIP_SIGMA * changed * now.speed
            )
            found.append(_Change(by, sigma))
        by = now.gained - then.gained
        if not math.isnan(by) and self.gained.begun_ns * 1e-9 < before[0].t:
            found.append(_Change(by, math.hypot(_SAMPLED, (_BIAS + _PITCH * abs(changed)) * elapsed)))
        above, usual = now.above, then.above
        if above and usual:
            mean = _average(usual)
            scatter = sum([(x - mean) ** 2 for x in usual]) + _COUNTS * _NOISE**2
            noise = scatter / (len(usual) + _COUNTS - 1) * (1 / len(above) + 1 / len(usual))
            apart = _APART * unsteady
            found.append(
                _Change(_average(above) - mean, math.hypot(math.sqrt(noise), _SHARE * now.speed, apart))
            )
        explained = late * unsteady
        return [_Change(math.copysign(max(abs(by) - explained, 0.0), by), sigma) for by, sigma in found]


def _find_wrong(changes: Sequence[_Change]) -> tuple[float, float]:
    """By how much the own speed has gone wrong, m/s; and how certain that is without any one of the others, in σ.

    −∞ σ if the others contradict each other.
    """
    if len(changes) < 2:
        return 0.0, 0.0
    common = _weigh(changes)
    if any(abs(by - common.by) > _ALIKE * sigma for by, sigma in changes):
        return 0.0, -math.inf
    if abs(common.by) < _LEAST:
        return 0.0, 0.0
    rests = [_weigh([*changes[:k], *changes[k + 1 :]]) for k in range(len(changes))]
    return common.by, min(math.copysign(rest.by / rest.sigma, rest.by * common.by) for rest in rests)


def _weigh(changes: Sequence[_Change]) -> _Change:
    """Their mean, weighted by how certain they are."""
    weights = [sigma**-2 for _, sigma in changes]
    total = sum(weights)
    by = sum(w * change.by for w, change in zip(weights, changes, strict=True)) / total
    return _Change(by, total**-0.5)


def _find_middle(numbers: Sequence[float]) -> float:
    """Mean without the largest and the smallest, if there are as many: one wheel may lock or spin."""
    return _average(sorted(numbers)[1:-1] if len(numbers) > 2 else numbers)


def _average(numbers: Sequence[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def _join(blocks: Sequence[_Block]) -> _Block:
    """Their means, and all that they have of the receiver's speeds."""
    *columns, above = zip(*blocks, strict=True)
    return _Block._make([*map(_average, columns), list(chain.from_iterable(above))])
