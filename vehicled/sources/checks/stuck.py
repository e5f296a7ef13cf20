"""Sensors that repeat their last sample: what a device or a gateway sends on when it has no more to measure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from operator import eq, itemgetter
from statistics import median

from vehicled.maths.white_noise import OF_SECOND_DIFFERENCES
from vehicled.messages import Measurement
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.sensors import find_kinds

_MOVING = 2.0
"""m/s: a car that is slower may really measure the same again."""
_REPETITIONS, _TIME = 10, 0.1
"""Samples of an axis of the IMU in a row that repeat the one before, and s since the last change, at least.

Noise changes the last digit of a sample nearly always."""
_OF_USUAL, _ONE_DIGIT = 3, 1.5
"""Times as many repetitions as in the longest run that ended with a change of one digit, and digits that are less
than two: a coarse and quiet sensor repeats itself for as long as the car turns and accelerates evenly."""
_WHOLE, _WHOLE_TIME = 4, 0.015
"""Samples of all axes of the IMU in a row that repeat the one before, and s, at least. Where each axis of a coarse
sensor repeats itself half of the time, all six do so in a sixtieth of the samples. A gateway that sends what it has
more often than it gets it repeats itself regularly, which is found when the first such run has ended."""
_FIXES, _WAY = 2, 2.0
"""Fixes in a row that repeat the one before, while the car goes on by more than the last digit of a place; or m
driven since the place last changed: a receiver without reception may repeat itself."""
_DIGIT, _DIGITS = 0.3, 3.0
"""m, and times the last digit of a place, as far as it is known: the least way that is more than that. It is 0.11 m
with six decimals of a degree, 0.19 m with four of a minute, and 0.1 mm with nine: there each repetition is one."""
_SURELY = 10.0
"""Times that way: then a single repetition is enough. Where a gateway sends each fix twice, half of them are late."""
_ROUNDING = 1e-5
"""m: smaller numbers are zero."""
_DEGREE = 111e3
"""m on the ground."""
_SPEEDS = "vehicle.speed", "gnss.speed", "gnss2.speed"
_CHANGED = 1.0
"""m/s: by which the estimated speed has changed since a speed began to repeat itself, at least. Those of a mile per
hour repeat themselves for less; near standstill speeds are zero."""
_SETTLED_NS = 1_000_000_000
"""Since a speed began to repeat itself, until averages of another one are of that time alone."""
_OTHER_CHANGED, _OTHER_SIGMAS, _DIGITS_OF_SPEED, _IN_A_ROW = 0.1, 4.0, 2.0, 2
"""m/s, times the noise of the averages of another sensor's speed, and times the last digit of the one that repeats
itself: by how much these averages have changed since, and how many of them in a row. So much has to show in it."""
_KEPT_AVERAGES = 8
"""Of that sensor, by which their noise is known."""
_KEPT_DIFFERENCES = 24
"""Of both averages while the speed changes. What a receiver errs by lasts for a second and more: it shows in these,
not in the bends of its own averages."""
_PER_BEND = 1.0 / (0.6745 * math.sqrt(OF_SECOND_DIFFERENCES))
"""Standard deviation of a number, over the median size of a − 2 b + c of three such."""
_PER_DISTANCE = math.sqrt(2.0) / 0.6745
"""Standard deviation of the difference of two numbers, over the median distance of such from their median."""
_OTHERS = {"vehicle.speed": "gnss.speed", "gnss.speed": "vehicle.speed"}
_AXES = (*GYROSCOPES, *ACCELEROMETERS)
_IMU = frozenset(_AXES)
_get_axes = itemgetter(*_AXES)
_NOTHING: list[str] = []
_NO_AVERAGES: Mapping[str, float] = {}


class _Run:
    """Samples that are the same, to the last bit."""

    __slots__ = ("begun_ns", "repetitions", "value")

    def __init__(self) -> None:
        self.value: float | tuple[float, ...] = math.nan
        self.begun_ns = self.repetitions = 0


class _Coarseness:
    """How long samples of a sensor that measures are the same: of axes of one kind, which have the same digits."""

    __slots__ = ("repetitions",)

    def __init__(self) -> None:
        self.repetitions = 0


class _Axis(_Run):
    """Samples of one axis of the IMU."""

    __slots__ = ("_digit", "_usual")
    value: float

    def __init__(self, usual: _Coarseness) -> None:
        super().__init__()
        self._digit, self._usual = math.inf, usual
        """The least change of a sample so far, in its unit."""

    @property
    def is_stuck(self) -> bool:
        """Whether there are more repetitions than of a sensor that measures."""
        return self.repetitions >= max(_REPETITIONS, _OF_USUAL * self._usual.repetitions)

    def note_change(self, change: float) -> bool:
        """Take by how much a sample ends a run; whether it is one digit."""
        self._digit = min(self._digit, change)
        is_one = change < _ONE_DIGIT * self._digit
        if is_one:
            self._usual.repetitions = max(self._usual.repetitions, self.repetitions)
        return is_one


class _Place(_Run):
    """Fixes that are the same, and how fine the digits are of those that are not."""

    __slots__ = ("_digits", "_last")

    def __init__(self) -> None:
        super().__init__()
        self._last = math.nan, math.nan
        """Change of latitude and longitude from the fix before the last, m."""
        self._digits = [_DIGIT / _DIGITS] * 2
        """At most: of latitude and longitude, m."""

    @property
    def least_way(self) -> float:
        """How far a car has gone at least, m, whose place has to have changed."""
        return _DIGITS * max(self._digits)

    def note_change(self, fix: tuple[float, float]) -> None:
        """Take the digits that a fix (degrees) has which is another one than `value`."""
        if not isinstance(self.value, tuple):
            return
        east = _DEGREE * math.cos(math.radians(fix[0]))
        change = (fix[0] - self.value[0]) * _DEGREE, (fix[1] - self.value[1]) * east
        for k in range(2):
            # Where changes are whole numbers of digits, so is what they differ by, also at a steady speed.
            for number in (abs(change[k]), abs(change[k] - self._last[k])):
                if _ROUNDING < number < self._digits[k]:
                    self._digits[k] = number
        self._last = change


class _Speed(_Run):
    """Speeds that are the same, and how fast the car was when they began to be."""

    __slots__ = ("_before", "_beyond", "_differences", "_digit", "_last", "_others", "estimated", "is_stuck")

    def __init__(self) -> None:
        super().__init__()
        self.estimated = 0.0
        self.is_stuck = False
        """Whether the last sample only repeated those before, while the car's speed had changed."""
        self._last, self._digit = math.nan, math.inf
        """Value as a number, and the least that it has changed by, m/s."""
        self._before: float | None = None
        """m/s: by another sensor, when the speed had settled."""
        self._others: deque[float] = deque(maxlen=_KEPT_AVERAGES)
        """By that sensor, the latest ones."""
        self._differences: deque[float] = deque(maxlen=_KEPT_DIFFERENCES)
        """m/s, by which that sensor has been faster."""
        self._beyond = 0
        """How many in a row have differed from that."""

    def take(
        self, value: float, t: int, estimated: float, other: float | None, own: float | None = None
    ) -> None:
        """Take a sample beside an estimate, and averages of another sensor and of this one, m/s."""
        self.is_stuck = self._is_stuck(value, t, estimated, other, own)

    def _is_stuck(
        self, value: float, t: int, estimated: float, other: float | None, own: float | None
    ) -> bool:
        is_new = other is not None and (not self._others or other != self._others[-1])
        if other is not None and is_new:
            self._others.append(other)
            if own is not None and t - self.begun_ns < _SETTLED_NS:
                self._differences.append(other - own)
        if value != self.value:
            if (change := abs(value - self._last)) > _ROUNDING:
                self._digit = min(self._digit, change)
            self._last = value
            self.value, self.begun_ns, self.repetitions, self.estimated = value, t, 0, estimated
            self._before, self._beyond = None, 0
            return False
        self.repetitions += 1
        if other is not None and is_new and t - self.begun_ns > _SETTLED_NS:
            if self._before is None:
                self._before = other
            least = max(_OTHER_CHANGED, _OTHER_SIGMAS * self._find_noise(), _DIGITS_OF_SPEED * self._digit)
            if not value:
                # Zero is also what a sensor reads of a car that creeps, and a receiver's speed errs beside one that
                # stands, for seconds between houses.
                least = max(least, _MOVING)
            self._beyond = self._beyond + 1 if abs(other - self._before) > least else 0
        if self._beyond >= _IN_A_ROW:
            return True
        least = _CHANGED if value else max(_CHANGED, _MOVING)
        return self.repetitions >= _FIXES and abs(estimated - self.estimated) > least

    def _find_noise(self) -> float:
        """1 σ of the other sensor's averages, m/s, beside steady acceleration."""
        a, d = list(self._others), list(self._differences)
        bends = [abs(x - 2.0 * y + z) for x, y, z in zip(a, a[1:], a[2:], strict=False)]
        middle = median(d) if d else 0.0
        lasting = _PER_DISTANCE * median([abs(x - middle) for x in d]) if d else 0.0
        return max(_PER_BEND * median(bends), lasting) if bends else math.inf


class StuckChannels:
    """Finds samples that only repeat those before, while the car moves."""

    def __init__(self) -> None:
        self._receivers = [kind for kind in find_kinds().values() if issubclass(kind, Gnss)]
        self.watched = frozenset(
            (*_AXES, *_SPEEDS, *(channel for kind in self._receivers for channel in kind.PLACE))
        )
        """Channels that can be stuck."""
        self.reset()

    def reset(self) -> None:
        """Nothing has been measured yet."""
        usual = {kind: _Coarseness() for kind in (GYROSCOPES, ACCELEROMETERS)}
        self._axes = {channel: _Axis(usual[kind]) for kind in usual for channel in kind}
        self._fixes = [(kind.PLACE, kind.LIMITS, _Place()) for kind in self._receivers]
        self._speeds = {channel: _Speed() for channel in _SPEEDS}
        self._sample: tuple[float, ...] | None = None
        """Of the whole IMU, as long as none of its axes has repeated itself: the runs do not know it yet."""
        self._whole, self._whole_ns = 0, 0
        """Samples of the whole IMU that have repeated the one before, and when it last changed."""
        self._usual = _WHOLE - 1
        """How many there have been in a run that was short."""

    def begin(self) -> None:
        """The estimate begins: speeds that have repeated themselves until now did so beside none, or a wrong one.

        Those that were stuck are not to be taken for new ones.
        """
        self._speeds = {c: run if run.is_stuck else _Speed() for c, run in self._speeds.items()}

    def find(self, m: Measurement, speed: float, averages: Mapping[str, float] = _NO_AVERAGES) -> list[str]:
        """The channels of a measurement that are stuck.

        `speed` of the car, m/s; `averages` by channel, of the last half second.
        """
        values, before = m.values, self._sample
        is_imu = values.keys() == _IMU
        if is_imu and before is not None:
            # As nearly always: without a look at each axis.
            sample = _get_axes(values)
            if True not in map(eq, sample, before):
                self._sample, self._whole_ns = sample, m.t
                return _NOTHING
        if before is not None and not _IMU.isdisjoint(values):
            self._enter(before)
        stuck = self._find(m, speed, averages)
        if is_imu and not self._whole and all(run.begun_ns == m.t for run in self._axes.values()):
            self._sample = _get_axes(values)
        return stuck

    def _enter(self, sample: tuple[float, ...]) -> None:
        """Begin runs with the last sample of the IMU."""
        for run, value in zip(self._axes.values(), sample, strict=True):
            run.value, run.begun_ns, run.repetitions = value, self._whole_ns, 0
        self._sample = None

    def _find(self, m: Measurement, speed: float, averages: Mapping[str, float]) -> list[str]:
        values, t, moving, find = m.values, m.t, abs(speed) > _MOVING, self._axes.get
        stuck: list[str] = []
        repeating, is_coarse = 0, moving
        for channel, value in values.items():
            axis = find(channel)
            if axis is None:
                continue
            if value != axis.value or not moving:
                if value != axis.value and not axis.note_change(abs(value - axis.value)):
                    is_coarse = False
                axis.value, axis.begun_ns, axis.repetitions = value, t, 0
                continue
            axis.repetitions += 1
            repeating += 1
            if axis.is_stuck and t - axis.begun_ns >= _TIME * 1e9:
                stuck.append(channel)
        if repeating == len(_AXES):
            self._whole += 1
            if self._whole > self._usual and t - self._whole_ns >= _WHOLE_TIME * 1e9:
                stuck = list(_AXES)
        elif _AXES[0] in values:
            if is_coarse:
                self._usual = max(self._usual, _OF_USUAL * self._whole)
            elif t - self._whole_ns < _TIME * 1e9:
                self._usual = max(self._usual, self._whole)
            self._whole, self._whole_ns = 0, t
        for channel, of_speed in self._speeds.items():
            if channel not in values:
                continue
            other = averages.get(_OTHERS.get(channel, ""))
            of_speed.take(values[channel], t, abs(speed), other, averages.get(channel))
            if of_speed.is_stuck:
                stuck.append(channel)
        for place, channels, run in self._fixes:
            if place[0] not in values or place[1] not in values:
                continue
            fix = values[place[0]], values[place[1]]
            if fix != run.value or not moving:
                run.note_change(fix)
                run.value, run.begun_ns, run.repetitions = fix, t, 0
                continue
            run.repetitions += 1
            way = abs(speed) * (t - run.begun_ns) * 1e-9
            least = run.least_way if run.repetitions >= _FIXES else _SURELY * run.least_way
            if way > min(least, _WAY):
                # Speed and course are as old as the place.
                stuck += [c for c in values if c in channels]
        return stuck
