"""Axes of the IMU whose bias steps: from one sample to the next by more than any motion of a car, and lastingly.

A shock is over, or has another course, within the samples that follow, and shows in several axes. A step of a bias
does not change what is measured otherwise: it is subtracted, and the axis goes on being used.
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
"""m/s³: brakes build up 1.3 g in no less than 0.09 s. rad/s²: tyres of both axles of a car with a wheelbase of 2.5 m
that turn it by 1.3 g each."""
_LARGEST_FORCE, _LARGEST_RATE = 5.0, 0.3
"""m/s² and rad/s: what steps by more has another fault, such as another sign, which other checks find."""
_SIGMAS = 6.0
_KEPT = 10
"""Samples before a step, and samples after it, through which a straight line is drawn."""
_DIFFERENCE = math.sqrt(2.0)
"""Standard deviation of the difference of two samples, over that of a sample."""
_SHARE = 0.3
"""Of a step: by how much it may differ between the lines and between two samples, and how much may be left when
another step takes it back."""
_TAKEN_BACK = 0.5
"""Share of a step: the bias that it takes back may differ by less."""
_BENT = 0.15
"""Share of a step by which the line after it may turn away from that before: motion goes on as it was."""
_STEERED = 0.5
"""Share of a step that the steering may explain."""
_DOUBT = 0.05
"""Share of a step: how well it is known. The lines miss what motion bends."""
_LONGEST = 0.05
"""s: after a longer gap nothing is known of what was before."""
_SLOWEST = 2.0
"""m/s: a slower car may be jerked to a stop."""


class BiasStep(NamedTuple):
    """A step that has been found."""

    channel: str
    by: float
    """What is subtracted because of it, in the channel's unit; 0 where nothing is any more."""
    sigma: float
    """By how much less the bias is known since."""

    def takes_back(self, bias: float) -> bool:
        """Whether it takes back a bias that has grown before, and of which the filter may not know all."""
        return self.by != 0.0 and abs(bias + self.by) < _TAKEN_BACK * abs(self.by)


class _Axis:
    """The last samples of an axis, less its steps."""

    __slots__ = ("after", "before", "fastest", "jump", "largest", "last", "margin", "offset", "steering", "t")

    def __init__(self, fastest: float, largest: float) -> None:
        self.fastest, self.largest = fastest, largest
        """By which its samples change per second at most; and a bias that may step."""
        self.margin = math.inf
        """By which noise makes two of them differ, at most."""
        self.offset = 0.0
        """Sum of the steps."""
        self.forget()

    def forget(self) -> None:
        """What comes does not follow what was before."""
        self.t, self.last = -math.inf, math.nan
        self.before: deque[tuple[float, float]] = deque(maxlen=_KEPT)
        """Time, s, and value."""
        self.jump = 0.0
        """From the last sample of `before` to the first one of `after`."""
        self.after: list[tuple[float, float]] = []
        """Since a jump that may be a step."""
        self.steering = 0.0
        """Yaw rate by the steering angle then, rad/s."""

    def take(self, t: float, value: float) -> bool:
        """Whether a sample follows those before; if not, it may be one after a step."""
        dt, change = t - self.t, value - self.last
        is_usual = not self.after and dt < _LONGEST and abs(change) <= self.margin + self.fastest * dt
        if not is_usual and self._is_doubtful(t, value, dt, change):
            self.after.append((t, value))
            self.t = t
            return False
        self.before.append((t, value))
        self.last, self.t = value, t
        return True

    def _is_doubtful(self, t: float, value: float, dt: float, change: float) -> bool:
        """Whether a sample that is not usual may be one after a step."""
        if not dt < _LONGEST or abs(change) > self.largest:
            self.forget()
            return False
        if not self.after:
            self.jump = change
            return len(self.before) == _KEPT and _stands_out(change, self.before)
        expected, _ = _extrapolate(self.before, t)
        if abs(value - expected - self.jump) < _SHARE * abs(self.jump) + self.margin:
            return True
        self.forget()
        return False

    def finish(self) -> float | None:
        """The step, if `after` shows one; if not, it is what comes after a gap."""
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
        self.before.extend(samples)
        self.t, self.last = samples[-1]

    def hand_over(self) -> None:
        """Subtract nothing any more, and go on."""
        self._begin([(t, value + self.offset) for t, value in self.before])
        self.offset = 0.0


def _extrapolate(samples: Iterable[tuple[float, float]], t: float) -> tuple[float, float]:
    """Value at t (s) of the line through samples, and its slope per second."""
    points = list(samples)
    t0 = sum(at for at, _ in points) / len(points)
    mean = sum(value for _, value in points) / len(points)
    square = sum((at - t0) ** 2 for at, _ in points)
    slope = sum((at - t0) * value for at, value in points) / square if square else 0.0
    return mean + slope * (t - t0), slope


def _stands_out(change: float, samples: Sequence[tuple[float, float]]) -> bool:
    """Whether a change is more than samples before or after it scatter by, on a rough road as well."""
    square = sum((value - _extrapolate(samples, t)[0]) ** 2 for t, value in samples)
    return abs(change) > _SIGMAS * _DIFFERENCE * math.sqrt(square / (_KEPT - 2))


class BiasSteps:
    """Finds steps of biases in the samples of an IMU, and subtracts them."""

    def __init__(self, imu: Imu | None) -> None:
        self._axes = {c: _Axis(_FASTEST_FORCE, _LARGEST_FORCE) for c in ACCELEROMETERS}
        self._axes |= {c: _Axis(_FASTEST_RATE, _LARGEST_RATE) for c in GYROSCOPES}
        self.found: list[BiasStep] = []
        """Since it was emptied."""
        self.present: list[str] = []
        """Channels from which a step is subtracted."""
        self._usual: deque[tuple[float, tuple[float, ...]]] = deque(maxlen=_KEPT)
        """Time, s, and values of the last samples of all axes that differ by no more than noise: the axes do not know
        them yet."""
        self._last: tuple[float, tuple[float, ...]] | None = None
        """Of the last sample of all axes, where none of them may have stepped."""
        self.configure(imu)

    def configure(self, imu: Imu | None) -> None:
        """Other settings, also while running."""
        for channels, sensors in (
            (GYROSCOPES, None if imu is None else imu.gyroscopes),
            (ACCELEROMETERS, None if imu is None else imu.accelerometers),
        ):
            for channel in channels:
                noise = math.inf if sensors is None else sensors.noise
                self._axes[channel].margin = _SIGMAS * _DIFFERENCE * noise
        self._per_margin = [1.0 / axis.margin for axis in self._axes.values()]

    def forget(self, channels: Iterable[str]) -> None:
        """What was measured last by these was wrong: what comes does not follow it."""
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
        """The channels of such a measurement that may have stepped: not to be used yet.

        `ahead`: speed, m/s; `steering`: yaw rate by the steering angle, rad/s, None where that is not measured;
        `has_slid`: whether wheels slide along or spin, or have shortly before.
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

    def _is_usual(self, t: float, sample: tuple[float, ...]) -> bool:
        """Whether a sample of all axes differs from the one before by no more than noise, as nearly always.

        The axes get to know it later. Otherwise they know those before, and have to look at it.
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
                axis.before.append((t, value))
                axis.last, axis.t = value, t
        self._usual.clear()
        self._last = None

    def _end(self, channel: str, axis: _Axis) -> None:
        """End a step after a gap: the bias may be as before it, or not."""
        sigma, axis.offset = abs(axis.offset), 0.0
        axis.forget()
        self._note(channel, sigma)

    def _note(self, channel: str, sigma: float) -> None:
        self.found.append(BiasStep(channel, self._axes[channel].offset, sigma))
        self._find_present()

    def _find_present(self) -> None:
        self.present = [c for c, a in self._axes.items() if a.offset]

    def hand_over(self, channel: str) -> None:
        """Subtract nothing from a channel any more: the bias has been set to what it is since its step."""
        self._axes[channel].hand_over()
        self._find_present()

    def _decide(self, doubtful: list[str], ahead: float, steering: float, has_slid: bool) -> list[str]:
        """Those of doubtful channels that are not to be used; ends what has been followed for long enough."""
        if len(doubtful) > 1:  # a shock
            self.forget(doubtful)
            return []
        (channel,) = doubtful
        axis = self._axes[channel]
        if len(axis.after) == 1:
            axis.steering = steering
        if len(axis.after) < _KEPT:
            return doubtful
        # Wheels that are turned at once change the forces of tyres as fast as that.
        turned = abs(steering - axis.steering) * (1.0 if channel in GYROSCOPES else abs(ahead))
        # A tyre that slides has all of the friction there is: from ice to snow its force is another one at once.
        may_grip = has_slid and channel in ACCELEROMETERS
        if may_grip or turned > _STEERED * abs(axis.jump):
            axis.forget()
        elif (step := axis.finish()) is not None:
            self._note(channel, _DOUBT * abs(step))
        return doubtful
