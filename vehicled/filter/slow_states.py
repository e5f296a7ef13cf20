"""Slow states: parameters of the car, errors of its sensors, and accelerations that the model lacks."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, KeysView, Mapping

import numpy as np

from vehicled.filter.contradictions import Contradictions
from vehicled.filter.covariance import Covariance
from vehicled.filter.kept import IMU_LATENCY, calc_kept
from vehicled.filter.kept_starts import KeptStarts, RecentStart
from vehicled.filter.state_table import StateVector
from vehicled.filter.states import STEERED, STEERING_OFFSET, Group
from vehicled.messages import SlowState

_log = logging.getLogger(__name__)

_STILL_INFORMED = 0.5
"""Share of what measurements have told of a parameter that must remain once another one has been widened."""
_KNOWN = 0.5
"""Share of its prior σ below which a parameter is known well enough to notice a step."""


class SlowStates:
    """Estimates of the slow states, and their priors.

    Groups that wait for a sensor are zero until it measures (`Group.needs`): their variances are kept here,
    and are zero in the covariance.
    """

    is_steered = True
    """Whether the steering is measured."""

    def __init__(
        self,
        states: StateVector,
        errors: Covariance,
        values: np.ndarray,
        density: np.ndarray,
        calc_initial: Callable[[], np.ndarray],
    ) -> None:
        """`values`: a view of the estimates, (k,) for the states that follow those of the car.

        The values of the suspensions are always zero. `density`: a view, (n,), of the noise densities of all states;
        `calc_initial` gives their variances (n,) before any measurement.
        """
        self._states, self._errors, self._values, self._calc_initial = states, errors, values, calc_initial
        self._density, self._starts = density, KeptStarts()
        self._recent_steering = RecentStart()
        self._begin = states.count_of_car
        self._waiting: dict[Group, np.ndarray] = {}
        """Variances of waiting groups."""
        self._before_loss: dict[int, tuple[float, float]] = {}
        """By index: states that are estimated only with measured steering, with their variances, as when it
        was last measured."""

    def initialise(self) -> np.ndarray:
        """Start anew: all estimates are zero. Returns variances (n,) of all states, zero for waiting groups."""
        states, variances = self._states, self._calc_initial()
        self._values[:] = 0.0
        self._starts.clear()
        self._recent_steering.clear()
        self._prior = np.sqrt(variances[states.parameters]).tolist()
        """(k,) σ of the parameters before any measurement."""
        self._contradictions = Contradictions(states.largest)
        self._waiting = {g: variances[states[g]].copy() for g in states.groups if g.needs}
        for group in self._waiting:
            variances[states[group]] = 0.0
        self.is_steered, self._before_loss = True, {}
        return variances

    def restore(self) -> None:
        """Find again which groups wait, after covariance and estimates have been restored."""
        now, initial, states = self._errors.variances, self._calc_initial(), self._states
        self._recent_steering.clear()
        self._waiting = {g: initial[states[g]] for g in states.groups if g.needs and not now[states[g]].any()}

    def clear(self) -> None:
        """Set all estimates to zero; for a filter that has to be initialised again."""
        self._values[:] = 0.0

    # -- estimates -----------------------------------------------------------------------------------------

    def view(self, group: Group) -> np.ndarray:
        """(elements,) view of a group's estimates, in its unit, not to be changed; zeros if it is left out."""
        if group not in self._states:
            return np.zeros(len(group.elements))
        place = self._states[group]
        return self._values[place.start - self._begin : place.stop - self._begin]

    def get(self, group: Group) -> np.ndarray:
        """(elements,) present estimates of a group, a copy; see `view`."""
        return self.view(group).copy()

    def parameters(self) -> dict[str, SlowState]:
        """Slow states by name, with their standard deviations, except for those that change within seconds.

        States that wait for a sensor have the σ that they will have when it comes, not zero.
        """
        sigma = np.sqrt(np.maximum(self._calc_open_variances(), 0.0)).tolist()
        values = self._values.tolist()
        for place, (value, variance) in self._before_loss.items():
            values[place - self._begin], sigma[place] = value, max(variance, 0.0) ** 0.5
        return {
            self._states.names[i]: SlowState(values[i - self._begin], sigma[i], group.unit)
            for group in self._states.groups
            if group.process is None or group.needs
            for i in self._states.places(group)
            if i >= self._begin
        }

    def set_parameters(self, given: Mapping[str, SlowState], age: float, switched_on: bool = False) -> None:
        """Start with slow states as `parameters` gave them `age` seconds ago; unknown names are ignored.

        `switched_on`: whether the sensors have been switched on since (see `calc_kept`).
        """
        states, errors = self._states, self._errors
        variances = self._calc_open_variances().tolist()
        late = given[IMU_LATENCY].sigma if switched_on and IMU_LATENCY in given else 0.0
        for group in states.groups:
            waiting = self._waiting.get(group)
            for k, i in enumerate(states.places(group)):
                found = given.get(states.names[i])
                if switched_on and group.elements[k] in group.of_road:
                    continue
                if found is None or i < self._begin or variances[i] <= 0.0:
                    continue
                shared, is_widened = late * group.by_imu_time * (k == 0), i in states.parameters
                kept = calc_kept(group, found, age, variances[i], is_widened, switched_on, shared)
                self._values[i - self._begin] = kept.value
                if i in states.parameters:
                    self._prior[states.parameters.index(i)] = kept.prior
                if group.process is None:  # others return to their priors by themselves
                    self._starts.note(i, kept.value, kept.variance)
                if waiting is None:
                    errors.set_variance(i, kept.variance)
                else:
                    waiting[k] = kept.variance
        errors.matrix = states.correlate(errors.matrix, states.groups)

    def forget(self, groups: Iterable[Group]) -> None:
        """Reset parameters of car and sensors: zero, with the σ from before any measurement."""
        self._renew(groups, keep=False)

    def doubt(self, groups: Iterable[Group]) -> None:
        """Give parameters of car and sensors the σ from before any measurement; their values stay."""
        self._renew(groups, keep=True)

    def _renew(self, groups: Iterable[Group], keep: bool) -> None:
        states, errors, groups = self._states, self._errors, tuple(groups)
        prior = np.sqrt(self._calc_initial()).tolist()
        for group in groups:
            if group in self._waiting or group not in states:
                continue
            for k in states.find_parameters(group):
                self._prior[k] = prior[states.parameters[k]]
            for i in states.places(group):
                self._starts.drop(i)
                if i in self._before_loss:
                    value, _ = self._before_loss[i]
                    self._before_loss[i] = value if keep else 0.0, prior[i] ** 2
                    if group is STEERING_OFFSET:
                        continue  # without a sensor this is the wheels' angle, not a parameter
                if not keep:
                    self._values[i - self._begin] = errors.x[i] = 0.0
                errors.replace(i, prior[i] ** 2)  # the past of other states depends on the old one
        errors.matrix = states.correlate(errors.matrix, groups)

    def move(self, group: Group, by: float | np.ndarray) -> None:
        """Add to a group's estimates when their reference value has changed; variances stay.

        `by`: one number for all elements, or (elements,).
        """
        values = self.view(group)
        values += by
        if group is STEERING_OFFSET:
            self._recent_steering.clear()
        for i, change in zip(self._states.places(group), np.broadcast_to(by, len(values)), strict=True):
            self._starts.move(i, float(change))

    def replace(self, group: Group, value: float, variance: float) -> None:
        """Replace the estimate of a group of one state; the past of other states depends on the old one."""
        self.move(group, value - self.view(group).item())
        (i,) = self._states.places(group)
        self._errors.x[i] = 0.0
        self._errors.replace(i, variance)

    # -- those that only some sensors show -----------------------------------------------------------------

    @property
    def waiting(self) -> KeysView[Group]:
        """The groups that wait for another sensor."""
        return self._waiting.keys()

    def open(self, is_active: Callable[[str], bool]) -> list[Group]:
        """Start to estimate the waiting groups whose sensor is active by now, and return them.

        `is_active`: whether a kind of observation is.
        """
        opened = [g for g in self._waiting if any(map(is_active, g.needs))]
        for group in opened:
            variances = self._waiting.pop(group).tolist()
            for place, variance in zip(self._states.places(group), variances, strict=True):
                self._errors.set_variance(place, variance)
        return opened

    def set_steered(self, steered: bool) -> None:
        """Set whether the steering is measured.

        If not, it is replaced by the angle of rolling without slip, which has no understeer. The filter would
        estimate softer tyres from this: so the present estimates are kept until the steering is measured
        again.
        """
        if steered == self.is_steered:
            return
        self.is_steered = steered
        if not steered:
            places = [i for group in STEERED for i in self._states.places(group)]
            variances = self._calc_open_variances().tolist()
            self._before_loss = {i: (self._values.item(i - self._begin), variances[i]) for i in places}
            return
        waiting = {i for group in self._waiting for i in self._states.places(group)}
        for i, (value, variance) in self._before_loss.items():
            if i not in waiting:  # a waiting state has not changed meanwhile
                self._values[i - self._begin] = value
                # The car has moved with the error that the steering had meanwhile.
                self._errors.replace(i, variance)
        self._before_loss = {}

    def _calc_open_variances(self) -> np.ndarray:
        """(n,) variances of all states; for waiting groups those that they will have when their sensor comes."""
        variances = self._errors.variances
        for group, waiting in self._waiting.items():
            variances[self._states[group]] = waiting
        return variances

    # -- priors --------------------------------------------------------------------------------------------

    def add_to_prior(self, place: int, variance: float) -> None:
        """Increase a parameter's prior by an independent error; other states have no prior."""
        if place in self._states.parameters:
            k = self._states.parameters.index(place)
            self._prior[k] = math.sqrt(self._prior[k] * self._prior[k] + variance)

    def widen(self, explained: Mapping[Group, float], interval: float, factor: float, testable: bool) -> None:
        """Widen the prior of a parameter that measurements contradict. Call every `interval` seconds.

        A value from an earlier drive that they contradict is forgotten first, and a zero of the steering that has
        stepped, as of a car that has hit a kerb, is made uncertain.

        `explained`: by group, size of the error up to which another cause explains it better at present, in
        its unit. `factor`: on the number of standard deviations that contradict a parameter; `testable`:
        whether parameters can be tested at present.
        """
        self._forget_contradicted(explained, interval, factor, testable)
        self._widen_stepped(interval, factor, testable)
        states, places = self._states, self._states.parameters
        is_open = [testable] * len(places)
        if not self.is_steered:
            # The offset is now the error of the replacement, not of the sensor.
            for k in states.find_parameters(STEERING_OFFSET):
                is_open[k] = False
        least = [0.0] * len(places)
        for group, error in explained.items():
            for k in states.find_parameters(group):
                least[k] = error
        estimate = [self._values.item(i - self._begin) for i in places]
        variance = [self._errors.get_covariance(i, i) for i in places]
        limits = [factor * limit for limit in states.contradictions]
        given = estimate, variance, self._prior, limits, least, is_open
        for k, sigma in self._contradictions.find(*given).items():
            # Once another is wide, measurements may tell hardly anything of this one.
            now, square = self._errors.get_covariance(places[k], places[k]), self._prior[k] ** 2
            if square - now > _STILL_INFORMED * (square - variance[k]):
                self._set_prior(k, sigma)

    def _forget_contradicted(
        self, explained: Mapping[Group, float], interval: float, factor: float, testable: bool
    ) -> None:
        """Forget starts that measurements contradict, as if these states had started with their priors."""
        if not self._starts:
            return
        states, errors = self._states, self._errors
        silent = {*self._waiting} if self.is_steered else {*self._waiting, *STEERED}
        closed = {i for group in silent for i in states.places(group)}
        least = {i: error for group, error in explained.items() for i in states.places(group)}
        estimates = errors.x.copy()
        estimates[self._begin :] += self._values

        def is_open(i: int, change: float) -> bool:
            return testable and i not in closed and abs(change) >= least.get(i, 0.0)

        lists = estimates.tolist(), errors.variances.tolist(), self._density.tolist()
        if not (found := self._starts.find(*lists, interval, is_open, factor)):
            return
        priors = np.sqrt(self._calc_initial())
        priors[states.parameters] = self._prior
        # Starts that are alike have an error in common. Removed one by one, they would take it out several times.
        together = [
            group for group in states.groups if group.alike and found.keys() & {*states.places(group)}
        ]
        self.doubt(together)
        alone = found.keys() - {i for group in together for i in states.places(group)}
        for i, (value, variance) in found.items():
            # The start is the prior and an observation; that observation goes.
            less = 1.0 / variance - 1.0 / priors.item(i) ** 2
            # Another that has just been forgotten may have made this one less certain.
            if i in alone and less > 0.0 and errors.get_covariance(i, i) < variance:
                estimate = self._values.item(i - self._begin) + errors.x.item(i)
                errors.remove_information(i, less, value / (variance * less) - estimate)
            _log.warning(
                "%s: measurements contradict the value from before; it is found anew", states.names[i]
            )
        self._recent_steering.clear()  # it would seem to have stepped

    def _widen_stepped(self, interval: float, factor: float, testable: bool) -> None:
        """Make the zero of the steering as uncertain as at first, once it has changed within seconds.

        What has changed it also makes model and noise wrong for a while. So how far it has gone is not extrapolated
        from how far the estimate has followed.
        """
        if STEERING_OFFSET not in self._states:
            return
        errors, i = self._errors, self._states.index(STEERING_OFFSET)
        variance, prior = errors.get_covariance(i, i), self._prior[self._states.parameters.index(i)]
        if not (testable and self.is_steered) or variance > (_KNOWN * prior) ** 2:
            self._recent_steering.clear()
            return
        estimate = self._values.item(i - self._begin) + errors.x.item(i)
        if self._recent_steering.is_contradicted(estimate, variance, self._density.item(i), interval, factor):
            self._starts.drop(i)
            added = self._calc_initial().item(i)
            errors.add_variances(added, i)
            self.add_to_prior(i, added)
            _log.warning("%s: it has changed within seconds; it is found anew", STEERING_OFFSET.name)

    def _set_prior(self, k: int, sigma: float) -> None:
        """Set the prior of parameter k to σ, as if it had been that from the start.

        The old prior, centred at zero, has pulled the estimate towards zero: the excess of its information is
        removed.
        """
        place = self._states.parameters[k]
        less = 1.0 / self._prior[k] ** 2 - 1.0 / sigma**2
        estimate = self._values.item(place - self._begin) + self._errors.x.item(place)
        self._errors.remove_information(place, less, -estimate)
        self._prior[k] = sigma
