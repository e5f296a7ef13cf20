"""Sensors that are not mounted or wired as configured: axes of the IMU; left and right wheels exchanged.

Gravity gives the upward direction of the IMU; changes of speed, and speed times yaw rate, give ahead and
left. If the wheels of an axle show a turn opposite to gyroscope and steering, they are exchanged. All
comparisons use averages over half a second.

An IMU that is turned by 180° measures the same as a correct one in a car that moves opposite to the estimate,
which may have started from a speed without sign. In the second case, the car also turns opposite to the
steering. If both are wrong, all agree but the steering, and the car seems to reverse faster than any car does.
"""

from __future__ import annotations

import math
from collections import deque
from statistics import median

from vehicled.messages import Measurement
from vehicled.sources.checks.averages import Averages
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.limits import FASTEST_BACKWARDS
from vehicled.sources.sensors import Sensors
from vehicled.vehicle.parameters import Vehicle

_KEPT = 5
"""Intervals over which the direction of gravity is found."""
_UPRIGHT = 0.5
"""Least share of gravity along the z axis: on banks and crests and under braking it is larger."""
_FADING = 0.97
"""Factor by which sums decay per interval."""
_ENOUGH_ACCELERATION, _ENOUGH_TURNING = 20.0, 0.08
"""m²/s⁴ and rad²/s²: sums of squares over intervals above which a direction is known."""
_ENOUGH_BESIDE_STEERING = 4.0
"""m²/s⁴: the same, if the steering confirms the direction."""
_LEAST_COHERENCE = 0.5
LARGEST_ANGLE = math.radians(50.0)
"""rad, about the vertical axis: beyond this angle the IMU is not mounted as configured."""
_OPPOSITE = math.radians(130.0)
"""rad: beyond this angle, the car may instead be moving opposite to the estimate."""
_COHERENT = 0.8
"""Least correlation of yaw rates that are the same except for sign, scale and noise."""
_LARGEST_RATIO = 2.0
"""Largest ratio of the yaw rates by exchanged wheels and by the gyroscope, or its inverse. A wheel that is
stuck, or counts too little, gives a ratio many times larger, whose sign depends on the wheel's side."""
_LONGEST_SPIN = 4
"""Intervals: a spinning car goes backwards for a shorter time."""
_SLOWEST = 4.0
"""m/s"""
_IMU = (*ACCELEROMETERS, *GYROSCOPES)
_SPEEDS = ("vehicle.speed", "gnss.speed")


class MountingCheck:
    """Finds channels that measure along another axis, or on the other side of the car."""

    def __init__(self, sensors: Sensors, vehicle: Vehicle) -> None:
        self._gravity = vehicle.gravity
        self._track = {
            a: vehicle.axle(f"{a}l").tyre.radius / (2.0 * vehicle.axle(f"{a}l").hard_points.wheel_center[1])
            for a in "fr"
        }
        self.wrong: frozenset[str] = frozenset()
        """Channels that are not to be used."""
        self.configure(sensors)

    def configure(self, sensors: Sensors) -> None:
        """Take settings, also while running. Earlier results are dropped, as they are of other axes."""
        self.reset()
        imu = sensors.imu
        self._axes = None if imu is None else imu.R_imu_vehicle.T.tolist()
        accelerometers = None if imu is None else imu.accelerometers
        self._has_gravity = accelerometers is not None and not accelerometers.gravity_removed

    def reset(self) -> None:
        """Forget all comparisons."""
        self.is_reversed = False
        """Whether the car moves opposite to the estimate."""
        self._angle, self._is_turned = 0.0, False
        """Latest known angle about the vertical axis, rad, and whether the IMU is turned by it."""
        self._upward: deque[float] = deque(maxlen=_KEPT)
        self.begin()
        self._speed: float | None = None
        self._expected, self._along, self._across = 0.0, 0.0, 0.0
        self._turned = 0.0
        self._products = dict.fromkeys(("f", "r", "steering", "course"), 0.0)
        self._squares = dict(self._products)
        """Decaying sums over intervals: squares of the yaw rate; its products with those by wheels, steering
        and course; and squares of the latter."""

    def begin(self) -> None:
        """The estimate starts, and its direction may be wrong."""
        self._backwards, self._has_gone_ahead = 0, False
        """Consecutive intervals in which the car seemed to reverse faster than any car does; and whether it has gone
        ahead as fast before: then it spins, or slides on ice."""

    def turn_round(self) -> None:
        """The estimate starts anew in the other direction: what speeds have shown counts the other way round."""
        self.is_reversed, self._backwards, self._speed = False, 0, None
        self._along, self._across = -self._along, -self._across
        self._angle = math.remainder(self._angle + math.pi, 2.0 * math.pi)
        self._is_turned = self._is_turned and abs(self._angle) > LARGEST_ANGLE
        for name in set(self._products) - {"course"}:
            self._products[name] = -self._products[name]

    def take(self, now: Averages, steering: float | None, ahead: float = 0.0) -> None:
        """Take an interval's averages; `steering`: yaw rate by the steering now, rad/s; `ahead`: speed, m/s."""
        self._has_gone_ahead |= ahead > FASTEST_BACKWARDS
        seems_wrong = ahead < -FASTEST_BACKWARDS and not self._has_gone_ahead
        self._backwards = self._backwards + 1 if seems_wrong else 0
        self.is_reversed = self._backwards >= _LONGEST_SPIN
        if self._axes is None or any(c not in now.means for c in _IMU):
            self._speed = None  # the next change of speed will be over more than one interval
            return
        force, rate = (
            [sum(r * now.means[c] for r, c in zip(row, channels, strict=True)) for row in self._axes]
            for channels in (ACCELEROMETERS, GYROSCOPES)
        )
        if self._has_gravity:
            self._upward.append(force[2] / self._gravity)
        self._compare_forces(now, force, rate[2], ahead)
        self._compare_wheels(now, rate[2], steering, ahead)
        self.is_reversed = self.is_reversed or self._is_reversed(ahead)
        if self.is_reversed:
            return
        self.wrong = frozenset(_IMU) if self._is_imu_wrong(ahead) else frozenset(self._find_exchanged())

    @property
    def is_confirmed(self) -> bool:
        """Whether motion has shown that the IMU's axes are as configured."""
        angle = self.turned_by
        return angle is not None and abs(angle) < LARGEST_ANGLE

    @property
    def turned_by(self) -> float | None:
        """Angle about the vertical axis from expected to measured accelerations, rad; None if unknown."""
        return self._find_turn(_ENOUGH_ACCELERATION)

    def _find_turn(self, enough: float) -> float | None:
        if self._expected < enough:
            return None
        coherence = math.hypot(self._along, self._across) / self._expected
        return math.atan2(self._across, self._along) if coherence > _LEAST_COHERENCE else None

    def find(self, m: Measurement) -> list[str]:
        """The channels of a measurement that are not to be used."""
        return [c for c in m.values if c in self.wrong] if self.wrong else []

    def _compare_forces(self, now: Averages, force: list[float], yaw_rate: float, estimate: float) -> None:
        speed = next((now.means[c] for c in _SPEEDS if c in now.means), None)
        if speed is not None:  # receivers and the buses of most cars give no sign
            speed = math.copysign(speed, estimate)
        before, self._speed = self._speed, speed
        if speed is None or before is None or abs(speed) < _SLOWEST or speed * before < 0.0:
            return
        ahead, left = 2.0 * (speed - before), speed * yaw_rate  # of half a second
        self._expected = _FADING * self._expected + ahead * ahead + left * left
        self._along = _FADING * self._along + ahead * force[0] + left * force[1]
        self._across = _FADING * self._across + ahead * force[1] - left * force[0]

    def _compare_wheels(self, now: Averages, yaw_rate: float, steering: float | None, ahead: float) -> None:
        self._turned = _FADING * self._turned + yaw_rate * yaw_rate
        by = {"steering": steering or 0.0, "course": now.course_rate or 0.0}
        for axle, per_turn in self._track.items():
            sides = [
                now.rates.get(f"wheel.{axle}{s}.angle", now.means.get(f"wheel.{axle}{s}.speed")) for s in "lr"
            ]
            left, right = sides
            by[axle] = 0.0 if left is None or right is None else per_turn * (right - left)
            if left is not None and right is not None and (left + right) * ahead < 0.0:
                by[axle] *= -1.0  # they give magnitudes, and the car reverses
        for name, rate in by.items():
            self._products[name] = _FADING * self._products[name] + rate * yaw_rate
            self._squares[name] = _FADING * self._squares[name] + rate * rate

    def _is_reversed(self, ahead: float) -> bool:
        angle = self._find_turn(_ENOUGH_BESIDE_STEERING)
        if angle is None or abs(angle) < _OPPOSITE or ahead > FASTEST_BACKWARDS:
            return False
        if ahead < -FASTEST_BACKWARDS:
            return True
        # A gyroscope with the wrong sign also contradicts the course, which turns in the same sense in
        # reverse.
        is_sound = self._find_coherence("course") > _COHERENT
        return is_sound and self._find_coherence("steering") < -_COHERENT

    def _is_imu_wrong(self, ahead: float) -> bool:
        if self._upward:
            up = median(self._upward)
            if up < -_UPRIGHT or (len(self._upward) == _KEPT and up < _UPRIGHT):
                return True
        angle = self.turned_by
        if angle is None:
            return self._is_turned
        self._angle = angle
        # The next bend will show whether it is the car that moves opposite to the estimate.
        is_open = self._turned < _ENOUGH_TURNING and abs(ahead) < FASTEST_BACKWARDS
        self._is_turned = abs(angle) > LARGEST_ANGLE and not (is_open and abs(angle) > _OPPOSITE)
        return self._is_turned

    def _find_coherence(self, by: str) -> float:
        """Correlation of a yaw rate with the gyroscope's (`f`, `r`: by wheels); 0 until there has been a bend."""
        if self._turned < _ENOUGH_TURNING:
            return 0.0
        return self._products[by] / math.sqrt(max(self._turned * self._squares[by], 1e-12))

    def _is_opposite(self, axle: str) -> bool:
        """Whether the wheels of an axle show a turn opposite to the gyroscope's, of similar rate."""
        ratio = -self._products[axle] / max(self._turned, 1e-12)
        return self._find_coherence(axle) < -_COHERENT and 1.0 / _LARGEST_RATIO < ratio < _LARGEST_RATIO

    def _find_exchanged(self) -> list[str]:
        opposite = [a for a in "fr" if self._is_opposite(a)]
        # If the steering contradicts the gyroscope, the gyroscope's sign is wrong.
        agrees = self._find_coherence("steering") > _COHERENT
        return (
            [f"wheel.{a}{s}.{of}" for a in opposite for s in "lr" for of in ("angle", "speed")]
            if agrees
            else []
        )
