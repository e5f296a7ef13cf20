"""Adaptation to car and road: noise of roads and of model errors, and priors that measurements contradict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from vehicled.filter.boundary import InitialPose
from vehicled.filter.settings import WITH_TYRES
from vehicled.filter.slides import goes_sideways
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    CROSSFALL,
    UNMODELLED,
    Group,
    InitialConditions,
)
from vehicled.filter.vehicle_state import VehicleState
from vehicled.vehicle.arrays import AHEAD, V1Z, V2Z, YAW_RATE

_WITHOUT_TYRES = 2.0
"""Factor on the number of standard deviations that contradict a parameter, for filters whose error model has
no response of the tyre forces. They leave errors in every curve, whatever the parameters."""
_MOVING = 5.0
"""m/s"""
_ADAPTING_TIME = 10.0
"""s: time constant with which the noise of the model is adapted."""
_ADAPTING_RANGE = 0.3, 10.0
"""Range of that noise, as a ratio to the configured one."""
_ROTATION = 0.0125
"""rad/s, 1 σ: difference of roll and pitch rate from the model's."""
_OF_TILT = 0.001
"""rad: variance per radian of a rotation of the road, as the IMU and springs show it."""
_SPRINGS = "springs.pitch", "springs.roll"
_ROLLING = 0.5
"""m/s: a slower car is assumed to stand."""
_LEVEL = 4.0
"""Standard deviations of slope and bank up to which turning does not add uncertainty to them."""
_HILLY = 4.0
"""Ratio of the variance of slope and bank to the configured one above which a road is hilly."""
_STEEP = 6.0
"""Standard deviations of slope and bank that contradict the configured value."""


class AdaptiveState(VehicleState):
    """State of a filter on the vehicle, and the prior knowledge about car and road that corrects it.

    Its methods are to be called about ten times a second.
    """

    def initialise(self, t_ns: int, pose: InitialPose, initial: InitialConditions) -> None:
        """Begin anew; see `VehicleState`."""
        super().initialise(t_ns, pose, initial)
        self._slopes = self.settings.ground_slope**2
        """Present variance of slope and bank, rad²."""

    def add_variance(self, group: Group, element: str, variance: float) -> None:
        """Add an independent error to a state, unless the state is left out or waits for a sensor.

        A parameter's prior grows by as much. Otherwise the variance would be hardly below the prior, so that
        the unchanged estimate would seem to come from very little information. This would look like a
        contradiction, and the σ from measurements alone would be far too large (`Contradictions`).
        """
        if group in self.slow.waiting or group not in self.states:
            return
        place = self.states.index(group, element)
        self.errors.add_variances(variance, place)
        self.slow.add_to_prior(place, variance)

    def add_common_error(self, falsified: Iterable[tuple[Group, str, float]]) -> None:
        """Add an error that has falsified several states: (state, 1 σ with its sign, in its unit) each.

        States that are left out, or that wait for a sensor, are ignored.
        """
        present = [x for x in falsified if x[0] in self.states and x[0] not in self.slow.waiting]
        places = [self.states.index(group, element) for group, element, _ in present]
        sigma = np.array([by for _, _, by in present])
        self.errors.packed[self.errors.find_block(places)] += np.outer(sigma, sigma)
        for place, by in zip(places, sigma.tolist(), strict=True):
            self.slow.add_to_prior(place, by * by)

    def update_road(self, interval: float) -> None:
        """Observe that slope and bank of roads are small. Call every `interval` seconds.

        A random walk of density Q that is observed as zero with noise of density r settles at the variance
        √(Q r); with r = σ²τ/2 and Q = 2σ²/τ this is the variance σ² of slopes. As this is no measurement, it
        has no gate and no record. While the road contradicts the configured σ, σ follows the road.
        """
        p, time, given = self.errors, self.settings.ground_slope_time, self.settings.ground_slope**2
        variance, tilt = self._slopes, 0.0
        p.value[0], p.noise[0] = 0.0, 0.5 * variance * time / interval
        for kind in ("road.slope", "road.bank"):
            self._evaluations[kind]()
            tilt += p.innovation.item(0) ** 2
            p.update(1)
        self._keep_crossfall(interval)
        if not self.settings.unmodelled.adaptive:
            return
        # The road below a standing car stays the same, so σ must not decrease meanwhile.
        is_rolling = abs(self.pose.item(AHEAD)) > _ROLLING
        # When the car turns on an inclined plane, slope becomes bank and vice versa: both have one variance.
        found = 0.5 * tilt if tilt > _STEEP**2 * given else given
        if is_rolling or found > variance:
            self._slopes = variance + interval / _ADAPTING_TIME * (found - variance)
        self._density[self.states.places(ATTITUDE)[1:]] = 2.0 * (self._slopes if is_rolling else given) / time
        # In a turn, a climb becomes a bank on a plane, but stays a climb on a ramp or in a hairpin: this is
        # uncertain. A car that goes sideways turns otherwise than its way.
        if goes_sideways(self.pose):
            return
        turned = abs(self.pose.item(YAW_RATE)) * interval * max(tilt - _LEVEL**2 * given, 0.0)
        for element in ("v1z", "v2z") if turned > 0.0 else ():
            self.add_variance(ATTITUDE, element, turned)

    def _keep_crossfall(self, interval: float) -> None:
        """In a turn, let the road fall to the same side as before: on a plane it would become a slope."""
        if CROSSFALL in self.states:
            fall = self.slow.view(CROSSFALL).item(0)
            place = self.states.index(ATTITUDE, "v1z")
            self.errors.x[place] -= fall * self.pose.item(YAW_RATE) * interval

    def expect_slopes(self, sigma: float) -> None:
        """Allow slope and bank up to σ (rad) at first, until the road shows otherwise."""
        if self.settings.unmodelled.adaptive:
            self._slopes = max(self._slopes, sigma**2)

    def tilt_road(self, slope: float, bank: float) -> None:
        """Rotate road and car by these angles (rad): upwards ahead by `slope`, upwards to the left by `bank`."""
        places = self.states.places(ATTITUDE)[1:]
        self.errors.x[places] += slope, bank
        for element, angle in (("v1z", slope), ("v2z", bank)):
            self.add_variance(ATTITUDE, element, _OF_TILT * abs(angle))
        self.expect_slopes(math.hypot(self.pose.item(V1Z), self.pose.item(V2Z)))

    def level(self, lean: complex, sigma: tuple[float, float]) -> None:
        """On hills: observe that forward and left axis, and the road, rise by `lean` (rad) more, with σ (rad)."""
        if self._slopes <= _HILLY * self.settings.ground_slope**2:
            return
        p = self.errors
        for kind, more, s in zip(("lean.ahead", "lean.left"), (lean.real, lean.imag), sigma, strict=True):
            p.value[0], p.noise[0] = more, s * s
            self._evaluations[kind]()
            p.update(1)

    def turn_heading(self, angle: float) -> None:
        """Correct the estimated heading by an angle (rad) that the car has turned more than the estimate."""
        self.errors.x[self.states.index(ATTITUDE, "yaw")] += angle

    def limit_rotation(self, interval: float) -> None:
        """Observe that roll and pitch rate are near the model's. Call every `interval` seconds.

        Springs and dampers keep them near the model's. The error model has no springs: without this
        observation its errors would grow freely, and accelerometers, which cannot tell them from lateral
        velocity, would make the simulated car swing. As in `update_road`, with density Q and the known
        variance σ², zero is observed with noise of density σ⁴/Q.
        """
        p, square = self.errors, _ROTATION**4
        for kind, place in zip(_SPRINGS, self.states.places(ANGULAR_RATE)[1:], strict=True):
            p.value[0], p.noise[0] = 0.0, square / max(self._density.item(place), 1e-12) / interval
            self._evaluations[kind]()
            p.update(1)

    def adapt_noise(self, interval: float) -> None:
        """Adapt the standard deviation of unmodelled accelerations to the drive. Call every `interval` seconds.

        For a process e ~ N(0, σ²), estimates x with variances P have mean(x² + P) = σ² only if σ is right;
        replacing σ² by that mean is a step of expectation–maximisation (Shumway and Stoffer, 1982).
        """
        if not self.settings.unmodelled.adaptive or self.pose.item(AHEAD) < _MOVING:
            return
        errors, process, given = self.errors, self._processes[UNMODELLED.name], self.settings.unmodelled
        # Only the accelerations due to tyres: those ahead and upwards are measured almost directly.
        for element, usual in (("left", given.lateral), ("yaw", given.yaw)):
            k, place = 1 + UNMODELLED.elements.index(element), self.states.index(UNMODELLED, element)
            estimate, before = self._extra.item(place - self._slow) + errors.x.item(place), process.item(k)
            found, square = estimate * estimate + errors.get_covariance(place, place), before * before
            sigma = math.sqrt(square + interval / _ADAPTING_TIME * (found - square))
            process[k] = min(max(sigma, _ADAPTING_RANGE[0] * usual), _ADAPTING_RANGE[1] * usual)

    def widen_parameters(self, explained: Mapping[Group, float], interval: float) -> None:
        """Widen the prior of a parameter that measurements contradict. Call every `interval` seconds.

        `explained`: by group, size of the error up to which another cause explains it better at present, in
        its unit.
        """
        factor = 1.0 if self.settings.kind in WITH_TYRES else _WITHOUT_TYRES
        # At walking pace, counters and tyres have lasting errors, so that parameters are not tested.
        self.slow.widen(explained, interval, factor, testable=self.pose.item(AHEAD) > _MOVING)
