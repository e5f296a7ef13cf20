"""Two sensors of the yaw rate that differ: which one of them wheels, steering and lateral acceleration contradict.

Gyroscope and the car's own sensor usually differ by bias, scale and time. So do the witnesses from both: wheels,
steering, and lateral acceleration over speed. All of these differences are followed while the two agree. If the
two then differ otherwise than usual, one of them is wrong: the logarithm of the ratio of the likelihoods that the
witnesses have beside each is summed over time and witnesses, each with the scatter that it has shown, until one
of the two is beyond doubt. In contrast to a comparison of one gyroscope with the witnesses, a skid or a slip does
not look like a fault: the two agree in it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from vehicled.messages import Measurement
from vehicled.sources.checks.rate_blocks import BLOCK, RateBlocks, YawRates
from vehicled.sources.checks.usual_difference import DifferenceErrors, UsualDifference
from vehicled.sources.sensors import Sensors
from vehicled.vehicle.parameters import Vehicle

Culprit = Literal["gyroscope", "own"]

_WINDOW = 6
"""Number of intervals that are compared together: 0.3 s."""
_SIGMAS, _AGREEING = 4.0, 2.0
"""Standard deviations of the usual difference of the two beyond which they differ, and within which they agree."""
_SCALES, _TIMES = 0.03, 0.01
"""1 σ of the difference of the two in scale, and in time, s, beyond what is configured."""
_WALK = DifferenceErrors(1e-4, 1e-4, 1e-5)
_SCATTER = 0.0015
"""rad/s: the resolution of the own sensor is 0.1 °/s."""
_WITNESS = DifferenceErrors(0.05, 0.2, 0.2)
"""1 σ of the errors of a witness: offsets and banks; understeer, loads, radii; and the lag of tyres, s."""
_WITNESS_WALK = DifferenceErrors(0.002, 0.003, 0.002)
_WITNESSES = {"wheels": 0.03, "steering": 0.015, "course": 0.012}
"""Least scatter of each witness beside what is usual, rad/s."""
_UNKNOWN = 0.05
"""rad/s: scatter of a witness until it is known."""
_SLIDING = 3.0
"""Factor on the standard deviations of witnesses while tyres slide."""
_SURE, _MOST = 5.0, 10.0
"""Logarithm of the ratio of likelihoods that decides, and its largest value, so that it can be revised."""
_LASTING = 2
"""Intervals for which a difference has to last."""
_FADING = 0.8
"""Factor on that logarithm per interval in which the two do not differ."""
_RECOVERY, _LONGEST_RECOVERY = 8, 1200
"""Intervals of agreement after which a refused sensor is used again: the first time, doubling each time that it
is refused again, up to a minute."""
_STEADY, _STEADY_SPREAD, _STEADY_MOST = 400, 0.012, 0.15
"""Intervals, spread of the difference in them, and largest difference, rad/s, after which a refused sensor has
another bias only."""
_KNOWN = 0.03
"""rad/s: largest bound of differences with which agreement excuses the gyroscope."""
_SLOWEST = 4.0
"""m/s"""


class YawVerdict(NamedTuple):
    """A sensor that has been found to be wrong."""

    culprit: Culprit
    apart: float
    """rad/s: by how much the gyroscope turns faster than the own sensor, beyond the usual difference."""
    angle: float
    """rad: the integral of that since it began."""
    since: float
    """s: how long ago that was."""


class _Compared(NamedTuple):
    """Means over the window, rad/s, and changes, rad/s², of gyroscope and own sensor."""

    gyro: float
    own: float
    of_gyro: float
    of_own: float


class YawVote:
    """Compares the gyroscope with the car's own sensor of the yaw rate; without either it finds nothing."""

    def __init__(self, sensors: Sensors, vehicle: Vehicle) -> None:
        self._vehicle = vehicle
        self.configure(sensors)

    def configure(self, sensors: Sensors) -> None:
        """Take settings, also while running. What has been found is forgotten."""
        imu, own = sensors.imu, sensors.yaw_rate
        gyroscopes = None if imu is None else imu.gyroscopes
        self._blocks: RateBlocks | None = None
        known = DifferenceErrors(0.0, _SCALES, _TIMES)
        if imu is not None and gyroscopes is not None and own is not None:
            self._blocks = RateBlocks(imu, own, self._vehicle)
            known = known._replace(bias=math.hypot(gyroscopes.bias, own.bias))
        self._usual = UsualDifference(known, _WALK, _SCATTER, _SCATTER)
        self._witnesses = {
            name: UsualDifference(_WITNESS, _WITNESS_WALK, least, _UNKNOWN)
            for name, least in _WITNESSES.items()
        }
        self.watched = frozenset[str]() if self._blocks is None else self._blocks.watched
        """Channels that it reads."""
        self.culprit: Culprit | None = None
        """The sensor that is not to be used."""
        self.found: list[YawVerdict] = []
        """What has been found since the caller cleared the list."""
        self.rebased: list[tuple[Culprit, float]] = []
        """Refused sensors that are used again, with another bias, and the change of it, rad/s; likewise."""
        self._refusals = 0
        self.reset()

    def reset(self) -> None:
        """Restart with the filter; what is usual, and which sensor is wrong, is kept."""
        if self._blocks is not None:
            self._blocks.reset()
        self._window: deque[YawRates] = deque(maxlen=_WINDOW + 1)
        self._forget()
        self._agreeing = 0
        self._lately: deque[float] = deque(maxlen=_STEADY)
        self.confirms = False
        """Whether the two sensors agree now."""
        self.apart = 0.0
        """rad/s: by how much they differ, if more than usual; else 0."""

    def _forget(self) -> None:
        """Forget the present difference."""
        self._beyond = 0
        self._score = 0.0
        """Positive if the gyroscope is rather wrong."""
        self._angle, self._since = 0.0, 0

    def take(self, m: Measurement, ahead: float, steering: float | None, slides: bool) -> None:
        """Take a measurement. `ahead`: speed, m/s; `steering`: yaw rate by the steering angle, rad/s, or None.

        `slides`: whether tyres slide.
        """
        if self._blocks is None:
            return
        for rates in self._blocks.take(m, ahead, steering):
            self._take(rates, ahead, slides)

    def _take(self, rates: YawRates, ahead: float, slides: bool) -> None:
        self._usual.go_on()
        for witness in self._witnesses.values():
            witness.go_on()
        if rates.gyro is None or rates.own is None:
            self._window.clear()
            self._forget()
            self._agreeing, self.confirms, self.apart = 0, False, 0.0
            return
        self._window.append(rates)
        if len(self._window) <= _WINDOW:
            return
        compared = self._compare()
        # A wrong sensor turns faster than the car rather than slower.
        rate, change = (
            min(compared.gyro, compared.own, key=abs),
            min(compared.of_gyro, compared.of_own, key=abs),
        )
        expected, sigma = self._usual.expect(rate, change)
        excess, moves = compared.gyro - compared.own - expected, abs(ahead) > _SLOWEST
        agrees = abs(excess) < _AGREEING * sigma
        self.confirms = agrees and _SIGMAS * sigma < _KNOWN
        self.apart = 0.0 if agrees else abs(excess)
        if agrees:
            self._angle, self._since = 0.0, 0
        else:
            self._angle += excess * BLOCK
            self._since += 1
        if abs(excess) > _SIGMAS * sigma:
            self._beyond += 1
            if moves:
                self._weigh(compared, expected, slides)
            self._decide(excess)
        else:
            self._beyond = 0
            self._score *= _FADING
        if self.culprit is not None:
            self._look_for_recovery(agrees, excess)
        elif agrees:
            self._usual.take(compared.gyro - compared.own, rate, change)
            if moves and not slides:
                for name, value in self._find_witnesses():
                    self._witnesses[name].take(value - compared.gyro, compared.gyro, compared.of_gyro)

    def _compare(self) -> _Compared:
        _, *compared = self._window
        gyro = [r.gyro for r in compared if r.gyro is not None]
        own = [r.own for r in compared if r.own is not None]
        dt = (_WINDOW - 1) * BLOCK
        return _Compared(
            sum(gyro) / _WINDOW, sum(own) / _WINDOW, (gyro[-1] - gyro[0]) / dt, (own[-1] - own[0]) / dt
        )

    def _find_witnesses(self) -> Iterator[tuple[str, float]]:
        """Yield yaw rates by the witnesses that have measured all the time, rad/s."""
        before, *compared = self._window
        steering = _average([r.steering for r in compared])
        if steering is not None:
            yield "steering", steering
        course = _average([r.course for r in compared])
        if course is not None:
            yield "course", course
        end, begin = compared[-1].wheels, before.wheels
        if end is not None and begin is not None:
            yield "wheels", (end - begin) / (_WINDOW * BLOCK)

    def _weigh(self, compared: _Compared, expected: float, slides: bool) -> None:
        """Add to the logarithm of the ratio of likelihoods what the witnesses show of this interval.

        `expected`: usual difference of the two, rad/s.
        """
        gyro, own, of_gyro, of_own = compared
        own += expected
        for name, value in self._find_witnesses():
            usual = self._witnesses[name]
            beside_gyro, sigma_gyro = usual.expect(gyro, of_gyro)
            beside_own, sigma_own = usual.expect(own, of_own)
            one, other = value - gyro - beside_gyro, value - own - beside_own
            sigma = max(sigma_gyro, sigma_own) * (_SLIDING if slides else 1.0)
            apart = one - other
            # A witness that is beyond both is wrong itself: it counts no more than if it were at one of them.
            middle = min(max(0.5 * (one + other), -0.5 * abs(apart)), 0.5 * abs(apart))
            self._score += middle * apart / (sigma * sigma * _WINDOW)
        self._score = min(max(self._score, -_MOST), _MOST)

    def _decide(self, excess: float) -> None:
        if self._beyond < _LASTING or abs(self._score) < _SURE:
            return
        culprit: Culprit = "gyroscope" if self._score > 0.0 else "own"
        if culprit != self.culprit:
            self.culprit = culprit
            self._agreeing, self._refusals = 0, self._refusals + 1
            self._lately.clear()
            self.found.append(YawVerdict(culprit, excess, self._angle, self._since * BLOCK))

    def _look_for_recovery(self, agrees: bool, excess: float) -> None:
        """Use a refused sensor again if it agrees with the other one, or differs from it by a constant."""
        assert self.culprit is not None
        times = 1 << min(self._refusals - 1, 8)
        self._agreeing = self._agreeing + 1 if agrees else 0
        self._lately.append(excess)
        if self._agreeing >= min(_RECOVERY * times, _LONGEST_RECOVERY):
            self.culprit = None
        elif len(self._lately) == _STEADY and times == 1:
            least, most = min(self._lately), max(self._lately)
            if most - least < _STEADY_SPREAD and max(-least, most) < _STEADY_MOST:
                by = 0.5 * (most + least)
                self._usual.shift(by)
                self.rebased.append((self.culprit, by))
                self.culprit = None
        if self.culprit is None:
            self._forget()


def _average(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if len(known) == len(values) else None
