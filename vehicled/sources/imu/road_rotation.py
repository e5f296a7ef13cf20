"""Rotation of the car by the road, from the IMU: hills, banked track, ramps, hairpins, kerbs under one side.

The model drives on a plane, and its springs hold the body nearly parallel to that. Gyroscopes and
accelerometers give the attitude of the body without the model. Springs that differ from the model's explain a
few degrees of difference, more while the car accelerates; the rest is a rotation of the road.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vehicled.filter.boundary import ObservedFilter
from vehicled.filter.slides import goes_sideways
from vehicled.filter.states import VELOCITY
from vehicled.sources.imu.inertial_attitude import (
    CERTAIN,
    LEVELLING_TIME,
    InertialAttitude,
    find_rises,
    limit,
)
from vehicled.sources.imu.model import GYRO_BIAS
from vehicled.vehicle.arrays import AHEAD, AX, LEFT, V1Z, V2Z

_MOST = 0.06
"""rad: largest lean of the body on its springs relative to the model."""
_LEVEL, _PITCHING, _ROLLING = 0.015, 0.008, 0.006
"""rad: the same at a steady speed, and additional rad per m/s² of longitudinal and lateral acceleration, as
springs may differ from the model's. Cars pitch by 0.0045 rad per m/s² (CommonRoad's, MuJoCo)."""
_HELD = 1.0
"""s: time constant with which such a lean decays."""
_OFF_LEVEL = 0.02
"""rad: accelerometer attitudes that deviate by more are accelerations of the car, or a fault."""
_BIAS_SIGMAS = 2.0
"""Standard deviations of a gyroscope's bias that accelerometers can compensate."""
_AVERAGED = 0.5
"""s: time constant of the average of the attitude by accelerometers."""
_USUAL = 60.0
"""s: time constant of the constant difference of both attitudes: an error of accelerometers, or a misaligned
IMU."""
_CURVED, _CURVING_TIME = 0.03, 1.0
"""rad/s, and time constant of its average, s: slower changes of the road's slope are ignored, those twice as
fast count fully. The dive of a braking car is shorter."""
_BEGUN, _SETTLED = 3.0, 10.0
"""s: time within which an attitude that started as level may become any other; and time for which the
constant difference is known too little to detect small leans."""
_LEVELLED = 6.0
"""s: time after which an attitude that started on a slope is that of the car."""
_SLOWEST = 2.0
"""m/s: a slower car sways on its tyres, and no road rotates it."""
_COMPARED, _OBSERVED_EVERY = 20.0, 0.1
"""s: time after which the constant difference is known well enough for the filter to observe the rest; and
time between such observations."""
_FASTEST = 1.5
"""rad/s: faster samples do not turn the road: no road makes a car roll or pitch faster for long, and gyroscopes that
show it may be wrong. A kerb of 0.15 m under the wheels of one side rolls it by 0.1 rad within 0.1 s."""
_INTERVAL, _LONGEST = 0.01, 0.2
"""s: time between used samples; and longest time between continuous samples."""


class RoadRotation:
    """Compares the IMU's attitude with the estimate; rotates the road by the part that springs cannot explain."""

    def __init__(self, filter: ObservedFilter) -> None:
        self._filter = filter
        self._gravity = filter.car.vehicle.gravity
        self._levelled = InertialAttitude()
        """Attitude by gyroscopes and accelerometers."""
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self._t, self._running, self._curving = -math.inf, 0.0, 0.0
        self._observed = -math.inf
        """Time at which the filter was last levelled, s."""
        self._filter.road_lift[0] = 0.0
        self._velocity = self._usual = self._difference = self._beside = 0j
        self._accelerated = 0.0, 0.0
        """Recent largest magnitudes of longitudinal and lateral acceleration, m/s²."""
        self.is_rolling = False
        """Whether the car moves, so that its attitude is taken from the gyroscopes."""

    @property
    def lean(self) -> complex | None:
        """Rise of the forward and left axes relative to the estimate, rad.

        The constant difference is subtracted. None while the car has just begun to move, on an unknown slope.
        """
        return self._difference - self._usual if self._running > _LEVELLED else None

    @property
    def levelled(self) -> complex:
        """The same including the constant difference, by gyroscopes that accelerometers level, rad."""
        return self._difference

    def is_used(self, t: float) -> bool:
        """Whether a sample has been used shortly before t (s)."""
        return t - self._t < _LONGEST

    def is_due(self, t: float) -> bool:
        """Whether a sample at t (s) is to be used: those directly after the last one are not."""
        return not 0.0 <= t - self._t < _INTERVAL

    def take(self, t: float, rates: Sequence[float], force: complex | None, place: complex) -> None:
        """Take a sample at t (s) for which `is_due` holds, in vehicle axes and without known errors.

        `rates`: (3,) rad/s; `force`: specific force ahead and to the left, m/s², None if not measured or if
        it lacks gravity; `place`: of the IMU, m.
        """
        since, self._t = t - self._t, t
        rates = [*(rate if abs(rate) < _FASTEST else 0.0 for rate in rates[:2]), rates[2]]
        read = self._filter.pose.item
        estimated, velocity = complex(read(V1Z), read(V2Z)), complex(read(AHEAD), read(LEFT))
        before, self._velocity = self._velocity, velocity
        is_continuous = 0.0 < since < _LONGEST
        if is_continuous:
            self._running += since
            self._find_curve(since, -rates[1], velocity.real)
        was_rolling, self.is_rolling = self.is_rolling, is_continuous and abs(velocity.real) >= _SLOWEST
        if not (was_rolling and self.is_rolling):
            self._levelled.rises, self._accelerated = estimated + self._usual, (0.0, 0.0)
            self._difference, self._beside = self._usual, 0j
            return
        towards = estimated + self._usual
        # While a car slides, the change of its velocity is not known well enough to level by.
        if force is not None and not goes_sideways(self._filter.pose):
            changing = (velocity - before) / since
            towards = find_rises(force, changing, velocity, rates[2], place, self._gravity)
        if self._running < _BEGUN:  # plain mean of all accelerometer attitudes so far
            self._levelled.advance(since, rates, towards, time=self._running)
            self._difference = self._levelled.rises - estimated
            return
        # Corrections make the velocity jump. Limited before averaging, these peaks would be lost.
        rises = self._levelled.rises
        self._beside += since / _AVERAGED * (towards - rises - self._beside)
        self._levelled.advance(since, rates, rises + self._beside, self._find_off_level())
        self._difference = difference = self._levelled.rises - estimated
        usual = self._usual + since / min(self._running, _USUAL) * (difference - self._usual)
        self._usual = limit(usual, _MOST, _MOST)
        lean = difference - self._usual
        most = self._find_most(since, abs(read(AX)), abs(velocity.real * rates[2]))
        beyond = lean - limit(lean, *most)
        is_due = self._running > _COMPARED and t - self._observed > _OBSERVED_EVERY
        if not (beyond or is_due) or self._filter.get_variance(VELOCITY, "ahead") > CERTAIN * CERTAIN:
            return
        if beyond:
            self._filter.tilt_road(beyond.real, beyond.imag)
        if is_due:
            self._observed = t
            self._filter.level(lean - beyond, most)

    def _find_off_level(self) -> float:
        """rad: limit of the accelerometers' correction of integrated rates: larger while biases are uncertain."""
        uncertain = math.sqrt(max(self._filter.get_variance(GYRO_BIAS, axis) for axis in "xy"))
        return _OFF_LEVEL + _BIAS_SIGMAS * LEVELLING_TIME * uncertain

    def _find_curve(self, since: float, rising: float, speed: float) -> None:
        """Find the upward acceleration on a curved road. `rising`: rate at which the front rises, rad/s."""
        self._curving += since / _CURVING_TIME * (rising - self._curving)
        share = min(max(abs(self._curving) / _CURVED - 1.0, 0.0), 1.0)
        self._filter.road_lift[0] = share * self._curving * speed

    def _find_most(self, since: float, along: float, across: float) -> tuple[float, float]:
        """rad: pitch and roll that springs may add to the model's, at accelerations in m/s²."""
        keep, (most_along, most_across) = 1.0 - since / _HELD, self._accelerated
        self._accelerated = along, across = max(along, keep * most_along), max(across, keep * most_across)
        if self._running < _SETTLED:
            return _MOST, _MOST
        return min(_LEVEL + _PITCHING * along, _MOST), min(_LEVEL + _ROLLING * across, _MOST)
