"""Roads that turn the car: hills, banks of a track, ramps, hairpins, kerbs under one side, by the IMU.

The model drives on a plane, and springs hold its body near that. Gyroscopes and accelerometers show the attitude of
the body without the model. Where the two differ, other springs than the model's make a few degrees of it, the more
the car accelerates; what is beyond, the road has turned.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vehicled.filter.boundary import ObservedFilter
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
"""rad, by which the body may lean on its springs beside the model."""
_LEVEL, _PITCHING, _ROLLING = 0.015, 0.008, 0.006
"""rad, by which it may at a steady speed, and in addition for each m/s² along and across the car: springs may be
otherwise than the model's. Cars pitch by 0.0045 rad per m/s² (CommonRoad's, MuJoCo)."""
_HELD = 1.0
"""s, within which such a lean goes back."""
_OFF_LEVEL = 0.02
"""rad: accelerations beyond this beside the attitude are those of the car, or of a fault."""
_BIAS_SIGMAS = 2.0
"""Standard deviations of a gyroscope's bias that accelerometers can make up for."""
_AVERAGED = 0.5
"""s, over which the attitude that accelerometers show is averaged."""
_SLIDES = 0.2
"""Of the speed ahead, lateral speed of a car that slides: how that changes is known too little to level by."""
_USUAL = 60.0
"""s, over which what the two attitudes always differ by is found: an error of accelerometers, or an IMU askew."""
_CURVED, _CURVING_TIME = 0.03, 1.0
"""rad/s, and s over which that is averaged: slower turns of the road's slope are none, those twice as fast are
wholly. A car that brakes dives for a shorter time."""
_BEGUN, _SETTLED = 3.0, 10.0
"""s, within which an attitude that has begun as level may become any other one, and within which what is usual is
known too little for small leans to show."""
_LEVELLED = 6.0
"""s, after which an attitude that has begun on a slope is that of the car."""
_SLOWEST = 2.0
"""m/s: a car that stands sways on its tyres, and no road turns it."""
_COMPARED, _OBSERVED_EVERY = 20.0, 0.1
"""s, after which what is usual is known well enough for the filter to observe the rest; and between observations."""
_INTERVAL, _LONGEST = 0.01, 0.2
"""s between samples that are used, and beyond which they are not continuous."""


class RoadRotation:
    """Compares the attitude by the IMU with the estimate, and turns the road by what springs cannot have done."""

    def __init__(self, filter: ObservedFilter) -> None:
        self._filter = filter
        self._gravity = filter.car.vehicle.gravity
        self._levelled = InertialAttitude()
        """By gyroscopes and accelerometers."""
        self.reset()

    def reset(self) -> None:
        """The filter begins anew."""
        self._t, self._running, self._curving = -math.inf, 0.0, 0.0
        self._observed = -math.inf
        """s, when the filter was last levelled."""
        self._filter.road_lift[0] = 0.0
        self._velocity = self._usual = self._difference = self._beside = 0j
        self._accelerated = 0.0, 0.0
        """Magnitudes of the accelerations along and across the car, the largest of late, m/s²."""
        self.is_rolling = False
        """Whether the car moves, so that its attitude is that of the gyroscopes."""

    @property
    def lean(self) -> complex | None:
        """rad, by how much more than in the estimate the axes ahead and to the left have risen.

        Without what they always differ by; None where the car has just begun to move, on any slope.
        """
        return self._difference - self._usual if self._running > _LEVELLED else None

    @property
    def levelled(self) -> complex:
        """rad, likewise by gyroscopes that accelerometers level."""
        return self._difference

    def is_used(self, t: float) -> bool:
        """Whether samples have been taken shortly before t (s)."""
        return t - self._t < _LONGEST

    def is_due(self, t: float) -> bool:
        """Whether a sample at t (s) is of use: those that follow the last one closely are not."""
        return not 0.0 <= t - self._t < _INTERVAL

    def take(self, t: float, rates: Sequence[float], force: complex | None, place: complex) -> None:
        """A sample at t (s), which is due, in vehicle axes and without known errors.

        `rates`: (3,) rad/s; `force`: specific force ahead and to the left, m/s², None where it is not measured or
        does not have gravity; `place`: of the IMU, m.
        """
        since, self._t = t - self._t, t
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
        if force is not None and abs(velocity.imag) < _SLIDES * abs(velocity.real):
            changing = (velocity - before) / since
            towards = find_rises(force, changing, velocity, rates[2], place, self._gravity)
        if self._running < _BEGUN:  # as a mean of all that accelerometers have shown
            self._levelled.advance(since, rates, towards, time=self._running)
            self._difference = self._levelled.rises - estimated
            return
        # Corrections of the velocity come at once: limited before they are averaged, they would not count.
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
        """rad, by which accelerometers may correct what gyroscopes add up to: more where biases are uncertain."""
        uncertain = math.sqrt(max(self._filter.get_variance(GYRO_BIAS, axis) for axis in "xy"))
        return _OFF_LEVEL + _BIAS_SIGMAS * LEVELLING_TIME * uncertain

    def _find_curve(self, since: float, rising: float, speed: float) -> None:
        """Find what lifts the car as the road curves, by the rate (rad/s) at which its front rises, and its speed."""
        self._curving += since / _CURVING_TIME * (rising - self._curving)
        share = min(max(abs(self._curving) / _CURVED - 1.0, 0.0), 1.0)
        self._filter.road_lift[0] = share * self._curving * speed

    def _find_most(self, since: float, along: float, across: float) -> tuple[float, float]:
        """rad, by which springs may pitch and roll the body beside the model, at accelerations, m/s²."""
        keep, (most_along, most_across) = 1.0 - since / _HELD, self._accelerated
        self._accelerated = along, across = max(along, keep * most_along), max(across, keep * most_across)
        if self._running < _SETTLED:
            return _MOST, _MOST
        return min(_LEVEL + _PITCHING * along, _MOST), min(_LEVEL + _ROLLING * across, _MOST)
