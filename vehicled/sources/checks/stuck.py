"""Sensors that repeat their last sample, as devices or gateways do that have nothing new to send."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import eq, itemgetter

from vehicled.messages import Measurement
from vehicled.sources.checks.speed_run import SpeedRun
from vehicled.sources.checks.turning import LEAST, TurnChange
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.sample_run import ROUNDING, SampleRun
from vehicled.sources.sensors import find_kinds
from vehicled.sources.yaw_rate import CHANNEL as YAW_RATE

_MOVING = 2.0
"""m/s: a slower car may really give the same measurement again."""
_REPETITIONS, _TIME = 10, 0.1
"""An axis of the IMU is stuck after at least this many consecutive repetitions, and this long after its last
change, s.

Noise changes the last digit of nearly every sample."""
_OF_USUAL, _ONE_DIGIT = 3, 1.5
"""Factor on the longest run of repetitions that ended with a change of one digit; and changes below this many
digits count as one digit. A coarse and quiet sensor repeats itself for as long as the car turns and
accelerates evenly."""
_FINE = 0.003
"""rad/s: a gyroscope with a smaller change has fine digits. One with coarser ones may repeat itself while the car
goes straight, from the start on, before its digits are known."""
_TURNING, _TURN_TIME = 0.05, 0.3
"""rad/s, and s: the car's own yaw rate is stuck if it is larger than this, and repeats itself for longer than that:
straight ahead, a control unit gives the same number for long."""
_WHOLE, _WHOLE_TIME = 4, 0.015
"""The whole IMU is stuck after at least this many consecutive repetitions of all axes, and after this time,
s. If each axis of a coarse sensor repeats itself in half of the samples, all six do so in a sixtieth of them.
A gateway that sends more often than it receives repeats itself regularly, which is known when the first such
run has ended."""
_FIXES, _WAY = 2, 2.0
"""A receiver is stuck after this many consecutive repetitions of a fix, while the car has moved by more than
the last digit of a position; or after this way, m, since the position last changed: a receiver without
reception may repeat itself."""
_DIGIT, _DIGITS = 0.3, 3.0
"""The least such way: m, and multiple of the last digit of a position as far as known. The last digit is 0.11
m with six decimals of a degree, 0.19 m with four of a minute, and 0.1 mm with nine of a degree, where each
repetition counts."""
_SURELY = 10.0
"""Multiple of that way after which a single repetition is enough. If a gateway sends each fix twice, half of
the fixes are late."""
_DEGREE = 111e3
"""m on the ground per degree."""
_SPEEDS = "vehicle.speed", "gnss.speed", "gnss2.speed"
_OTHERS = {"vehicle.speed": "gnss.speed", "gnss.speed": "vehicle.speed"}
_AXES = (*GYROSCOPES, *ACCELEROMETERS)
_IMU = frozenset(_AXES)
_get_axes = itemgetter(*_AXES)
_NOTHING: list[str] = []
_NO_AVERAGES: Mapping[str, float] = {}


class _Coarseness:
    """Longest run of equal samples of a working sensor. Shared by axes of one kind, which have the same digits."""

    __slots__ = ("repetitions",)

    def __init__(self) -> None:
        self.repetitions = 0


class _Axis(SampleRun):
    """Samples of one axis of the IMU."""

    __slots__ = ("_digit", "_turning", "_turning_ns", "_usual", "is_fine")
    value: float

    def __init__(self, usual: _Coarseness) -> None:
        super().__init__()
        self._digit, self._usual = math.inf, usual
        """Least change of a sample so far, in its unit; and the usual run length."""
        self.is_fine = False
        """Whether it has changed with every sample for a while, as noise below a digit does not."""
        self._turning: TurnChange | None = None
        self._turning_ns = -1
        """What other sensors show since the run that began at that time has become long."""

    @property
    def is_stuck(self) -> bool:
        """Whether the samples have repeated more often than those of a working sensor do."""
        return self.repetitions >= max(_REPETITIONS, _OF_USUAL * self._usual.repetitions)

    def note_change(self, change: float) -> bool:
        """Take the change of a sample that ends a run; returns whether it is one digit."""
        self._digit = min(self._digit, change)
        is_one = change < _ONE_DIGIT * self._digit
        if is_one:
            self._usual.repetitions = max(self._usual.repetitions, self.repetitions)
        return is_one

    def is_excused(
        self, t: int, speed: float, steering: float | None, means: Mapping[str, float], track: float
    ) -> bool:
        """Whether a gyroscope may repeat itself as it is coarse, and the car goes straight (see `TurnChange`)."""
        if self.is_fine or self._digit < _FINE or abs(self.value) > LEAST:
            return False
        if self._turning is None or self._turning_ns != self.begun_ns:
            self._turning, self._turning_ns = TurnChange(track), self.begun_ns
        return not self._turning.take(t, speed, steering, means)


class _Place(SampleRun):
    """A run of equal fixes, and the last digit of the positions."""

    __slots__ = ("_digits", "_last")

    def __init__(self) -> None:
        super().__init__()
        self._last = math.nan, math.nan
        """Change of latitude and longitude at the last change of the fix, m."""
        self._digits = [_DIGIT / _DIGITS] * 2
        """Upper bounds of the last digit of latitude and longitude, m."""

    @property
    def least_way(self) -> float:
        """Least way, m, after which the position of a moving car must have changed."""
        return _DIGITS * max(self._digits)

    def note_change(self, fix: tuple[float, float]) -> None:
        """Find the last digit from a fix (degrees) that differs from `value`."""
        if not isinstance(self.value, tuple):
            return
        east = _DEGREE * math.cos(math.radians(fix[0]))
        change = (fix[0] - self.value[0]) * _DEGREE, (fix[1] - self.value[1]) * east
        for k in range(2):
            # If changes are whole numbers of digits, so are their differences, also at a steady speed.
            for number in (abs(change[k]), abs(change[k] - self._last[k])):
                if ROUNDING < number < self._digits[k]:
                    self._digits[k] = number
        self._last = change


class StuckChannels:
    """Finds samples that only repeat the previous ones while the car moves."""

    def __init__(self, track: float) -> None:
        """`track`: distance of the car's wheels of an axle, m."""
        self._track = track
        self._receivers = [kind for kind in find_kinds().values() if issubclass(kind, Gnss)]
        self.watched = frozenset(
            (*_AXES, *_SPEEDS, YAW_RATE, *(channel for kind in self._receivers for channel in kind.PLACE))
        )
        """Channels that can be stuck."""
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        usual = {kind: _Coarseness() for kind in (GYROSCOPES, ACCELEROMETERS)}
        self._axes = {channel: _Axis(usual[kind]) for kind in usual for channel in kind}
        self._fixes = [(kind.PLACE, kind.LIMITS, _Place()) for kind in self._receivers]
        self._speeds = {channel: SpeedRun() for channel in _SPEEDS}
        self._yaw_rate = _Axis(_Coarseness())
        self._sample: tuple[float, ...] | None = None
        """Last sample of the whole IMU, as long as none of its axes has repeated itself: it is not in the
        runs yet."""
        self._whole, self._whole_ns = 0, 0
        """Consecutive repetitions of the whole IMU's sample; and time of its last change, ns."""
        self._usual = _WHOLE - 1
        """Number of such repetitions that is usual."""

    def begin(self) -> None:
        """The estimate starts: runs of speeds begin again, as there was no estimate, or a wrong one, until now.

        Runs of stuck speeds go on, so that these are not taken for new ones.
        """
        self._speeds = {c: run if run.is_stuck else SpeedRun() for c, run in self._speeds.items()}

    def find(
        self,
        m: Measurement,
        speed: float,
        averages: Mapping[str, float] = _NO_AVERAGES,
        steering: float | None = None,
    ) -> list[str]:
        """Find the channels of a measurement that are stuck.

        `speed` of the car, m/s; `averages` by channel, of the last half second; `steering`: yaw rate by the
        steering angle, rad/s.
        """
        values, before = m.values, self._sample
        is_imu = values.keys() == _IMU
        if is_imu and before is not None:
            # The usual case, without a look at each axis.
            sample = _get_axes(values)
            if True not in map(eq, sample, before):
                self._sample, self._whole_ns = sample, m.t
                return _NOTHING
        if before is not None and not _IMU.isdisjoint(values):
            self._enter(before)
        stuck = self._find(m, speed, averages)
        if 0 < len(stuck) < len(_AXES):
            given = m.t, abs(speed), steering, averages, self._track
            stuck = [c for c in stuck if c not in GYROSCOPES or not self._axes[c].is_excused(*given)]
        if is_imu and not self._whole and all(run.begun_ns == m.t for run in self._axes.values()):
            self._sample = _get_axes(values)
        return stuck

    def _enter(self, sample: tuple[float, ...]) -> None:
        """Begin the runs with the last sample of the IMU."""
        for run, value in zip(self._axes.values(), sample, strict=True):
            run.is_fine |= value != run.value and self._whole_ns - run.begun_ns >= _TIME * 1e9
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
        if YAW_RATE in values and self._is_turn_stuck(values[YAW_RATE], t, moving):
            stuck.append(YAW_RATE)
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
                # Speed and course are as old as the position.
                stuck += [c for c in values if c in channels]
        return stuck

    def _is_turn_stuck(self, value: float, t: int, moving: bool) -> bool:
        """Whether the car's own yaw rate, rad/s, only repeats itself."""
        run = self._yaw_rate
        if value != run.value or not moving:
            if value != run.value:
                run.note_change(abs(value - run.value))
            run.value, run.begun_ns, run.repetitions = value, t, 0
            return False
        run.repetitions += 1
        return run.is_stuck and abs(value) > _TURNING and t - run.begun_ns >= _TURN_TIME * 1e9
