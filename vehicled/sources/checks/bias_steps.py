"""Steps of the bias of an IMU axis: lasting, and larger from sample to sample than any motion of a car.

A shock, in contrast, ends or changes within the following samples, and shows in several axes. After a step,
the axis otherwise measures as before: the step is subtracted, and the axis stays in use. An axis that steps
to zero may be lost instead, as with a broken contact: then it is not used until it measures more than noise.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from operator import itemgetter, mul, sub
from typing import NamedTuple

from vehicled.messages import Measurement
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES, Imu

_AXES = (*ACCELEROMETERS, *GYROSCOPES)
_get_axes = itemgetter(*_AXES)
WATCHED = frozenset(_AXES)
"""Channels that it reads."""
_FASTEST_FORCE, _FASTEST_RATE = 150.0, 10.0
"""Fastest changes of a car's motion. m/s³: brakes take at least 0.09 s to build up 1.3 g. rad/s²: the tyres
of both axles turn a car with a wheelbase of 2.5 m by 1.3 g each."""
_AT_ONCE, _RARELY = 0.004, 0.015
"""s: time within which motion may change as fast as that and then go on as before, so that no line shows it; and
interval of samples from which on this may take the whole of it."""
_LARGEST_FORCE, _LARGEST_RATE, _LARGEST_YAW_RATE = 20.0, 5.0, 0.35
"""Ranges of usual sensors, m/s² and rad/s. Wheels and steering show a larger step of the yaw rate, also if it is a
wrong sign."""
_ABOUT_VERTICAL = 0.5
"""Share of the yaw rate, or of gravity, in an axis from which on it counts as one that measures this."""
_SIGMAS = 6.0
_KEPT, _FEWEST, _SPAN = 10, 5, 0.0375
"""Most and fewest samples before a step, and after it, to each of which a straight line is fitted; and time that
fewer than the most have to span, s: for longer, a car's motion is not straight."""
_DIFFERENCE = math.sqrt(2.0)
"""Standard deviation of the difference of two samples, over that of a sample."""
_SHARE = 0.3
"""Share of a step: by how much it may differ between the lines and between two samples, and how much may
remain when another step takes it back."""
_TAKEN_BACK = 0.5
"""Share of a step: a step takes back a drifted bias if it differs from it by less."""
_BENT = 0.15
"""Share of a step by which the line after it may deviate in slope from the line before: motion goes on as
before."""
_STEERED = 0.5
"""Share of a step that the steering may explain."""
_DOUBT = 0.05
"""Share of a step, 1 σ: how well its size is known, as motion bends what the lines describe as straight."""
_LONGEST = 0.05
"""s: a gap after which samples are no longer compared with those before."""
_NO_FORCE, _NO_RATE = 1.0, 0.03
"""m/s², rad/s: a lost axis shows at most that, and at most 6 standard deviations of the difference of two samples."""
_SLOWEST = 2.0
"""m/s: a slower car may jerk as it stops."""


class BiasStep(NamedTuple):
    """A step that has been found."""

    channel: str
    by: float
    """Total that is subtracted from the channel since this step, in its unit; 0 if nothing is any more."""
    sigma: float
    """Standard deviation that it adds to the bias."""
    is_zero: bool
    """Whether the axis shows nothing since, and the step does not take back another one."""

    def takes_back(self, bias: float) -> bool:
        """Whether it takes back a bias that grew before, of which the filter may have estimated only a part."""
        return self.by != 0.0 and abs(bias + self.by) < _TAKEN_BACK * abs(self.by)


class _Axis:
    """The last samples of an axis, with its steps subtracted."""

    __slots__ = (
        *("after", "before", "fastest", "jump", "largest", "last", "margin", "nothing", "offset", "steering"),
        "t",
    )

    def __init__(self, fastest: float, largest: float, nothing: float) -> None:
        self.fastest, self.largest, self.nothing = fastest, largest, nothing
        """Largest change of its samples per second, step of its bias, and value that may be nothing but noise."""
        self.margin = math.inf
        """Largest difference of two samples due to noise."""
        self.offset = 0.0
        """Sum of the steps."""
        self.forget()

    def is_nothing(self, value: float) -> bool:
        """Whether a value, without subtraction, may be noise of an axis that measures nothing."""
        return abs(value) < min(self.margin, self.nothing)

    def forget(self) -> None:
        """Forget all samples: the next ones do not continue them."""
        self.t, self.last = -math.inf, math.nan
        self.before: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        """Time, s, and value."""
        self.jump = 0.0
        """From the last sample of `before` to the first one of `after`."""
        self.after: list[tuple[float, float]] = []
        """Samples since a jump that may be a step: time, s, and value."""
        self.steering = 0.0
        """Yaw rate by the steering angle at that jump, rad/s."""

    def take(self, t: float, value: float) -> bool:
        """Whether a sample continues those before; if not, it may be one after a step."""
        dt, change = t - self.t, value - self.last
        moved = self.fastest * (dt if dt > _RARELY else min(dt, _AT_ONCE))
        is_usual = not self.after and dt < _LONGEST and abs(change) <= self.margin + moved
        if not is_usual and self._is_doubtful(t, value, dt, change):
            self.after.append((t, value))
            self.t = t
            return False
        self.add(t, value)
        return True

    def add(self, t: float, value: float) -> None:
        """Add a sample that continues those before."""
        before = self.before
        before.append((t, value))
        while len(before) > _FEWEST and t - before[1][0] >= _SPAN:
            before.popleft()
        self.last, self.t = value, t

    def _is_doubtful(self, t: float, value: float, dt: float, change: float) -> bool:
        """Whether a sample that does not continue those before may be one after a step."""
        if not dt < _LONGEST or abs(change) > self.largest:
            self.forget()
            return False
        if not self.after:
            self.jump = change
            return _is_enough(self.before) and _stands_out(change, self.before)
        expected, _ = _extrapolate(self.before, t)
        if abs(value - expected - self.jump) < _SHARE * abs(self.jump) + self.margin:
            return True
        self.forget()
        return False

    def finish(self) -> float | None:
        """Step that `after` shows; None if it shows none: its samples then count as after a gap."""
        t = self.after[0][0]
        (before, slope), (after, later) = _extrapolate(self.before, t), _extrapolate(self.after, t)
        step, jump = after - before, abs(self.jump)
        turns = abs(later - slope) * (self.t - t) > _BENT * jump
        differs = abs(step - self.jump) > _SHARE * jump + self.margin
        if turns or differs or not _stands_out(self.jump, self.after):
            self._follow(0.0)
            return None
        total = self.offset + step
        if abs(total) < _SHARE * abs(step):
            step, total = -self.offset, 0.0
        self.offset = total
        self._follow(step)
        return step

    def _follow(self, step: float) -> None:
        """Go on from `after`, less a step."""
        self._begin([(t, value - step) for t, value in self.after])

    def _begin(self, samples: list[tuple[float, float]]) -> None:
        self.forget()
        for t, value in samples:
            self.add(t, value)

    def hand_over(self) -> None:
        """Stop subtracting steps, and go on."""
        self._begin([(t, value + self.offset) for t, value in self.before])
        self.offset = 0.0


def _is_enough(samples: Sequence[tuple[float, float]]) -> bool:
    """Whether a line can be fitted to samples."""
    number = len(samples)
    return number == _KEPT or (number >= _FEWEST and samples[-1][0] - samples[0][0] >= _SPAN)


def _extrapolate(samples: Iterable[tuple[float, float]], t: float) -> tuple[float, float]:
    """Value at t (s) of the line fitted to samples, and its slope per second."""
    points = list(samples)
    t0 = sum(at for at, _ in points) / len(points)
    mean = sum(value for _, value in points) / len(points)
    square = sum((at - t0) ** 2 for at, _ in points)
    slope = sum((at - t0) * value for at, value in points) / square if square else 0.0
    return mean + slope * (t - t0), slope


def _stands_out(change: float, samples: Sequence[tuple[float, float]]) -> bool:
    """Whether a change stands out from the scatter of the samples before or after it, also on a rough road."""
    square = sum((value - _extrapolate(samples, t)[0]) ** 2 for t, value in samples)
    number = len(samples)  # the fewer, the less certain the scatter
    return abs(change) > _SIGMAS * _KEPT / number * _DIFFERENCE * math.sqrt(square / (number - 2))


class BiasSteps:
    """Finds steps of biases in the samples of an IMU, and subtracts them."""

    def __init__(self, imu: Imu | None) -> None:
        self._axes = {c: _Axis(_FASTEST_FORCE, _LARGEST_FORCE, _NO_FORCE) for c in ACCELEROMETERS}
        self._axes |= {c: _Axis(_FASTEST_RATE, _LARGEST_RATE, _NO_RATE) for c in GYROSCOPES}
        self.found: list[BiasStep] = []
        """Steps found since the caller cleared the list."""
        self.present: list[str] = []
        """Channels from which a step is subtracted."""
        self.lost: dict[str, float] = {}
        """Channels that measure nothing but noise, and the step to zero that they have made, in their unit."""
        self._usual: deque[tuple[float, tuple[float, ...]]] = deque(maxlen=_KEPT)
        """Time, s, and values of the latest samples that contain all axes and differ by no more than noise.
        They have not been passed to the axes yet."""
        self._last: tuple[float, tuple[float, ...]] | None = None
        """Time and values of the last sample with all axes, if none of them may have stepped."""
        self.configure(imu)

    def configure(self, imu: Imu | None) -> None:
        """Other settings, also while running."""
        for channels, sensors in (
            (GYROSCOPES, None if imu is None else imu.gyroscopes),
            (ACCELEROMETERS, None if imu is None else imu.accelerometers),
        ):
            for channel in channels:
                if imu is not None and channel in GYROSCOPES:
                    upward = abs(imu.R_imu_vehicle[GYROSCOPES.index(channel), 2])
                    self._axes[channel].largest = (
                        _LARGEST_YAW_RATE if upward > _ABOUT_VERTICAL else _LARGEST_RATE
                    )
                elif imu is not None:
                    upward = abs(imu.R_imu_vehicle[ACCELEROMETERS.index(channel), 2])
                    # Without gravity an IMU would seem to be mounted otherwise: its step is subtracted.
                    self._axes[channel].nothing = 0.0 if upward > _ABOUT_VERTICAL else _NO_FORCE
                noise = math.inf if sensors is None else sensors.noise
                self._axes[channel].margin = _SIGMAS * _DIFFERENCE * noise
        self._per_margin = [1.0 / axis.margin for axis in self._axes.values()]

    def forget(self, channels: Iterable[str]) -> None:
        """The last samples of these channels were wrong: the next ones do not continue them."""
        self._enter_usual()
        for channel in channels:
            if channel in self._axes:
                self._axes[channel].forget()

    def subtract(self, m: Measurement) -> Measurement:
        """A measurement less the steps of its channels."""
        axes = self._axes
        values = {c: v - axes[c].offset if c in axes else v for c, v in m.values.items()}
        return Measurement(m.source, m.t, m.arrival, values)

    def find(self, m: Measurement, ahead: float, steering: float | None, has_slid: bool = False) -> list[str]:
        """Channels of a measurement, less its steps, that may have stepped: not to be used yet.

        `ahead`: speed, m/s; `steering`: yaw rate by the steering angle, rad/s, None where that is not
        measured; `has_slid`: whether wheels lock or spin, or have done so shortly before.
        """
        doubtful: list[str] = []
        t, find = m.t * 1e-9, self._axes.get
        if abs(ahead) < _SLOWEST and not self.present:
            return doubtful
        sample = _get_axes(m.values) if m.values.keys() >= WATCHED else None
        if sample is None:
            self._enter_usual()
        elif self._is_usual(t, sample):
            return doubtful
        for channel, value in m.values.items():
            axis = find(channel)
            if axis is None or t <= axis.t:
                continue
            if axis.offset and t - axis.t > _LONGEST:
                self._end(channel, axis)
            elif not axis.take(t, value):
                doubtful.append(channel)
        if sample is not None and all(axis.t == t and not axis.after for axis in self._axes.values()):
            self._last = t, sample
        return self._decide(doubtful, ahead, steering or 0.0, has_slid) if doubtful else doubtful

    @property
    def has_lost_yaw_rate(self) -> bool:
        """Whether a gyroscope about the vertical axis measures nothing."""
        return any(self._axes[c].largest == _LARGEST_YAW_RATE for c in self.lost)

    def lose(self, channel: str, by: float = 0.0) -> None:
        """Refuse a channel for as long as it measures nothing but noise; `by`: its step to zero, in its unit."""
        self.drop(channel)
        self.lost[channel] = by

    def find_lost(self, m: Measurement) -> list[str]:
        """Channels of a measurement that are lost; those that measure something are not any more.

        Such a step may have been one of the bias all the same, which is uncertain by as much then.
        """
        values = m.values
        for c in [c for c in self.lost if not self._axes[c].is_nothing(values.get(c, 0.0))]:
            if by := self.lost.pop(c):
                self._note(c, abs(by))
        return [c for c in values if c in self.lost]

    def _is_usual(self, t: float, sample: tuple[float, ...]) -> bool:
        """Whether a sample of all axes differs from the one before by noise only, as nearly all do.

        If so, it is passed to the axes later. If not, the axes have all earlier samples, and must check it.
        """
        if self._last is not None and not self.present:
            before, last = self._last
            shares = map(mul, map(sub, sample, last), self._per_margin)
            if 0.0 < t - before < _LONGEST and max(map(abs, shares)) <= 1.0:
                self._last = t, sample
                self._usual.append(self._last)
                return True
        self._enter_usual()
        return False

    def _enter_usual(self) -> None:
        for t, sample in self._usual:
            for axis, value in zip(self._axes.values(), sample, strict=True):
                axis.add(t, value)
        self._usual.clear()
        self._last = None

    def _end(self, channel: str, axis: _Axis) -> None:
        """End a step after a gap: the bias may or may not have returned to its value before the step."""
        sigma, axis.offset = abs(axis.offset), 0.0
        axis.forget()
        self._note(channel, sigma)

    def _note(self, channel: str, sigma: float, is_zero: bool = False) -> None:
        self.found.append(BiasStep(channel, self._axes[channel].offset, sigma, is_zero))
        self._find_present()

    def _find_present(self) -> None:
        self.present = [c for c, a in self._axes.items() if a.offset]

    def drop(self, channel: str) -> None:
        """Stop subtracting from a channel that does not measure any more: what seemed a step was none."""
        self._axes[channel].offset = 0.0
        self._axes[channel].forget()
        self.found = [step for step in self.found if step.channel != channel]
        self._find_present()

    def hand_over(self, channel: str) -> None:
        """Stop subtracting from a channel: the filter's bias has been set to its value since the step."""
        self._axes[channel].hand_over()
        self._find_present()

    def take_back(self, channel: str, excess: float) -> None:
        """Stop subtracting from a channel that others contradict by what is subtracted.

        Then the step was the end of an error that nothing had noticed. `excess`: of its samples, less the step, over
        what others show, in its unit.
        """
        step = BiasStep(channel, self._axes[channel].offset, _DOUBT * abs(excess), False)
        if step.takes_back(excess):
            self.hand_over(channel)
            self.found.append(step._replace(by=0.0))

    def _decide(self, doubtful: list[str], ahead: float, steering: float, has_slid: bool) -> list[str]:
        """Doubtful channels that are not to be used; decides on a step once enough samples follow it."""
        if len(doubtful) > 1:  # a shock
            self.forget(doubtful)
            return []
        (channel,) = doubtful
        axis = self._axes[channel]
        if len(axis.after) == 1:
            axis.steering = steering
        if not _is_enough(axis.after):
            return doubtful
        # Steering quickly changes the tyre forces as fast as that.
        turned = abs(steering - axis.steering) * (1.0 if channel in GYROSCOPES else abs(ahead))
        # A sliding tyre uses all available friction: from ice to snow its force changes at once.
        may_grip = has_slid and channel in ACCELEROMETERS
        if may_grip or turned > _STEERED * abs(axis.jump):
            axis.forget()
        elif (step := axis.finish()) is not None:
            is_zero = axis.offset != 0.0 and axis.is_nothing(axis.last + axis.offset)
            self._note(channel, _DOUBT * abs(step), is_zero)
        return doubtful
