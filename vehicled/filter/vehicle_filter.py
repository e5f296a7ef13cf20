"""Error-state Kalman filter on the vehicle: the multibody simulation is the prediction, its errors are the states.

A step is `predict`, any number of `update`s, and `apply_corrections`; states that are not in the simulation (biases
and other slow errors) are in `slow`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from vehicled.filter.adaptation import AdaptiveState
from vehicled.filter.boundary import TOO_OLD, Observation, SensorSetup, Update, UpdateLink
from vehicled.filter.covariance import MISSING
from vehicled.filter.output_columns import ESTIMATE, GATHER, PER_BOUND, SHARE
from vehicled.filter.output_point import OutputPoint
from vehicled.filter.settings import Filter
from vehicled.filter.states import (
    ATTITUDE,
    POSITION,
    SUSPENSION,
    VELOCITY,
    WHEEL_ANGLE,
    WHEEL_SLIP,
)
from vehicled.filter.structure import CHART_PAIRS
from vehicled.filter.tangents import Companion
from vehicled.messages import ESTIMATE_COLUMNS, WHEELS
from vehicled.points import ORIGIN
from vehicled.symbolic.past_moments import Chain
from vehicled.symbolic.plain_numbers import PlainNumbers
from vehicled.symbolic.program import KernelHandle
from vehicled.symbolic.record_code import LAST_MOMENT, NO_MOMENT
from vehicled.units import Vector
from vehicled.vehicle.arrays import (
    AHEAD,
    ANTENNA,
    CHART_SIZE,
    COMPONENTS,
    UP,
    V1Z,
    V1Z_RATE,
    V2Z,
    V2Z_RATE,
    YAW_RATE,
    Z,
)
from vehicled.vehicle.car import Instances
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.travel import TravelMotion

_SIGMAS = [k for k, column in enumerate(ESTIMATE_COLUMNS) if column.startswith("sigma.")]
_UNKNOWN_PLACE = 1e6
"""m²: variance of a position before its reset."""


class VehicleFilter(AdaptiveState):
    """The errorEKF; its forms differ in what is compiled."""

    def __init__(
        self,
        vehicle: Vehicle,
        settings: Filter,
        sensors: SensorSetup,
        companions: Sequence[Companion] = (),
    ) -> None:
        """`companions`: filters with changed parameters, which give derivatives of all results."""
        super().__init__(vehicle, settings, sensors, companions)
        kernels, bind = self._kernels, self.car.bind
        self._whole_step = self.car.find_routine(kernels.whole_step)
        self._yaw_error = self.states.index(ATTITUDE, "yaw")
        self._propagate = bind(kernels.propagate)
        self._apply, self._output, self._calc_sigmas = map(
            bind, (kernels.apply, kernels.output, kernels.sigmas)
        )
        self._gated_updates = {
            kind: self.car.address(kernel) for kind, kernel in kernels.gated_updates.items()
        }
        self._observations = {kind: self.car.address(kernel) for kind, kernel in kernels.observations.items()}
        """By kind: addresses of kernels."""
        self._single_updates: dict[str, Chain] = {}
        """By kind: chains of one update."""
        self._take_back = {kind: bind(kernel) for kind, kernel in kernels.take_back.items()}
        layout, workspace, sizes = self.car.layout, self.car.workspace, range(1, COMPONENTS + 1)
        self._given = [PlainNumbers(layout, workspace, value=m, noise=m, limit=1) for m in sizes]
        self._found = [PlainNumbers(layout, workspace, innovation=m, variance=m, nis=1) for m in sizes]
        """By number of components less one: inputs of an observation's kernel, and its results."""
        self._evaluated = 0
        """Components of the observation evaluated last."""
        self._before_weights: tuple[np.ndarray, ...] | None = None
        """Results for the last observation before some of its components were weighted or rejected: see
        `decorrelated`."""
        self._gather, view = bind(GATHER), self.car.view
        self._estimate, self._per_bound, self._share = view(ESTIMATE), view(PER_BOUND), view(SHARE)
        self.is_within_bounds = False
        """Whether each column of the last output is known to be less than its bound (`set_bounds`)."""
        self._point: OutputPoint | None = None
        self._correlation = self.car.view("correlation")
        self.correlation = 0.0
        """Correlation of the errors of x and y in the last output."""
        self._chart_block = self.errors.find_block(
            [*range(CHART_PAIRS), *range(self._pairs, self._pairs + CHART_PAIRS)]
        )
        self._transition_places = np.array(kernels.late.places, dtype=np.intp).reshape(-1, 2).T

    # -- prediction ----------------------------------------------------------------------------------------

    def predict(self, t_ns: int, h: float) -> None:
        """Simulate h seconds, up to t_ns, and propagate the covariance of the errors."""
        self._h[0] = h
        self._advance(h)
        if self.errors.tape is not None:
            self.errors.tape.propagate(self.calc_transition())
        self._begin_step(t_ns)

    def _advance(self, h: float) -> None:
        """Advance the car and the covariance by one step, and write the new state to `pose`."""
        if self.car.step(h, self._whole_step) < 0:
            self.unconverged += 1

    def calc_transition(self) -> np.ndarray:
        """(n, n) F of the last prediction."""
        f = np.zeros((len(self.states), len(self.states)))
        rows, columns = self._transition_places
        f[rows, columns] = self.car.view("transition")
        return f

    # -- observations --------------------------------------------------------------------------------------

    def evaluate(self, observation: Observation) -> float | None:
        """Normalised innovation squared of an observation; None if it is too old.

        The filter does not change. The innovation is the same as in `update`.
        """
        # No NIS is below a limit of zero, so no update is made.
        if not VehicleFilter._update_below(self, observation, 0.0):
            return None
        nis: float = self.errors.nis.item()
        return nis

    def _go_back(self, t_ns: int, latency: float) -> bool:
        """Write the pose of that time and the corrections since for the kernels; returns False if it is too old."""
        step = self.history.find(t_ns, latency)
        if step == NO_MOMENT:
            return False
        self._past, self._past_latency, self._late_step = t_ns, latency, None if step == LAST_MOMENT else step
        if step != LAST_MOMENT:
            self._since[:] = 0.0  # the observation is propagated past the corrections since that step
            self._d_since[:] = 0.0
        return True

    def _update_below(self, observation: Observation, limit: float) -> bool:
        """Evaluate an observation; update with it if its NIS is below a limit. Returns False if it is too old."""
        t_ns, latency, value = observation.t_ns, observation.latency, observation.value
        is_at_hand = t_ns == self._past and latency == self._past_latency
        if not is_at_hand and not self._go_back(t_ns, latency):
            return False
        self._evaluated = m = len(value)
        taped = self.errors.tape is not None and self._late_step is None
        # A tape records the update before considered states are taken back, so here the chain only evaluates.
        self._given[m - 1].write(*value, *observation.variance, 0.0 if taped else limit)
        if self.directions:
            self._tangents.take_observation(observation.kind)
        if self._late_step is None:
            chain = self._single_updates.get(observation.kind)
            if chain is None:
                chain = self.make_chain([UpdateLink(observation.kind, m)])
                self._single_updates[observation.kind] = chain
            chain.run()
            if taped and self.errors.nis.item() < limit:
                self._correct(observation.kind)
            return True
        if self._late.observe(self._late_step, self._observations[observation.kind], m):
            self._reconsider(observation.kind)
        return True

    def make_chain(self, links: Sequence[KernelHandle | UpdateLink]) -> Chain:
        """Chain for `run_chain`: kernels, and updates with observations whose arrays earlier kernels have written."""
        return self.history.make_chain(
            [
                (self._gated_updates[link.kind], link.components)
                if isinstance(link, UpdateLink)
                else (self.car.address(link), 0)
                for link in links
            ]
        )

    def run_chain(self, t_ns: int, chain: Chain) -> int:
        """Run a chain whose observations are all of t_ns, up to the first one that is not within its limit.

        Returns the number of links done: zero if observations of that time cannot be chained.
        """
        is_at_hand = t_ns == self._past and not self._past_latency
        if not self.can_chain or not (is_at_hand or self._go_back(t_ns, 0.0)) or self._late_step is not None:
            return 0
        self._before_weights = None
        return chain.run()

    @property
    def can_chain(self) -> bool:
        """Whether observations can be chained: neither a tape nor derivatives need them one by one."""
        return self.errors.tape is None and not self.directions

    def _correct(self, kind: str) -> None:
        """Update with the last evaluated observation, of that kind."""
        if self._late_step is None:
            self.errors.update(self._evaluated, self._take_back.get(kind))
            return
        self._late.update(self._evaluated)
        self._reconsider(kind)

    def _reconsider(self, kind: str) -> None:
        """Undo the part of an update with a late observation of that kind that must not correct."""
        if kind in self._take_back:
            self._take_back[kind]()

    def update(self, observation: Observation, limits: tuple[float, float]) -> Update:
        """Correct the estimate with an observation.

        `limits`: normalised innovation squared of a component beyond which it is limited to that value, by more
        noise, and beyond which it is rejected.
        """
        if not self._update_below(observation, limits[0]):
            return TOO_OLD
        self._before_weights = None
        m = self._evaluated
        found = self._found[m - 1].read()
        innovation, variance, nis = list(found[:m]), list(found[m:-1]), found[-1]
        if nis < limits[0]:  # so is each component's
            return Update(innovation, variance, nis, (), "fused")
        return self._update_weighted(observation, innovation, variance, nis, limits)

    def _update_weighted(
        self,
        observation: Observation,
        innovation: list[float],
        variance: list[float],
        nis: float,
        limits: tuple[float, float],
    ) -> Update:
        """The second part of `update`, if a component may be beyond a limit."""
        weigh, reject = limits
        noise, rejected, measured = list(observation.variance), [], 0
        for k, (nu, s) in enumerate(zip(innovation, variance, strict=True)):
            is_measured = noise[k] < MISSING
            measured += is_measured
            rejected.append(is_measured and not nu * nu <= reject * s)
            if rejected[k]:
                noise[k] = MISSING
            elif nu * nu > weigh * s:
                noise[k] += nu * nu / weigh - s
        if sum(rejected) == measured:
            return Update(innovation, variance, nis, rejected, "gate")
        reason = "fused"
        if noise != list(observation.variance):
            reason = "partly" if any(rejected) else "weighted"
            self._before_weights = (*self.decorrelated(), *self.d_decorrelated())
            self.evaluate(msgspec.structs.replace(observation, variance=noise))
        self._correct(observation.kind)
        return Update(innovation, variance, nis, rejected if any(rejected) else (), reason)

    def inflate(self, observation: Observation, update: Update) -> None:
        """Widen the states that a rejected observation depends on.

        After that, each component's innovation is about one standard deviation.

        The variance added to a component, ν², is distributed among the states in proportion to the contributions of
        their initial variances, H² P₀, which does not depend on units or on how the sensitivity changes with speed.
        States that wait for another sensor stay as they are.
        """
        prior = self._table.initial(replace(self._initial, speed=abs(float(self._now[AHEAD]))))
        for group in self.slow.waiting:
            prior[self.states[group]] = 0.0
        added = np.zeros(len(prior))
        for row, innovation, variance in zip(
            self.errors.rows, update.innovation, observation.variance, strict=False
        ):
            total = float(row * row @ prior)
            if variance < MISSING and total > 0.0:
                added = np.maximum(added, prior * (innovation**2 / total) * (row != 0.0))
        self.errors.add_variances(added)

    def decorrelated(self) -> tuple[np.ndarray, np.ndarray]:
        """Innovations of the last observation in decorrelated directions, and inverse variances.

        (m,) each, copies; for the whole observation, before any of its components was weighted.
        """
        if self._before_weights is not None:
            return self._before_weights[0], self._before_weights[1]
        p, m = self.errors, self._evaluated
        return p.decorrelated[:m].copy(), p.precision[:m].copy()

    def d_decorrelated(self) -> tuple[np.ndarray, np.ndarray]:
        """(m, directions) each: derivatives of `decorrelated`."""
        if self._before_weights is not None:
            return self._before_weights[2], self._before_weights[3]
        left, precision = self.car.tangent("left"), self.car.tangent("precision")
        return left[: self._evaluated].copy(), precision[: self._evaluated].copy()

    def seed_tangents(self, d_values: dict[str, np.ndarray], d_variances: dict[str, np.ndarray]) -> None:
        """Find the derivatives of all settings with the companions.

        By kind of observation: derivatives of its value (3, directions) and of its variance (directions,).
        """
        self._tangents.seed(d_values, d_variances)

    def apply_corrections(self) -> None:
        """Apply the corrections of this step's updates to the car and to the slow states."""
        # `any` and `count_nonzero` would run Python code of NumPy around the loop in C in each step.
        if not len(self.errors.x.nonzero()[0]):
            return
        self.turned += self.errors.x.item(self._yaw_error)
        self._apply()
        if self._has_travel:
            travel, rate = self._travel.reshape(2, len(WHEELS))
            self._correct_suspension(self.car, travel, rate, self.car.calc_travel_motion())
            self._extra[self.states[SUSPENSION[0]].start - self._slow :] = 0.0
            self._travel[:] = 0.0
            self.read_state()
        self.history.correct()
        self._past = None

    def _correct_suspension(
        self, cars: Instances, travel: np.ndarray, rate: np.ndarray, motion: TravelMotion
    ) -> None:
        """As tyres are stiff, a correction of a wheel's travel moves the body, not the wheel."""
        cars.correct_suspension(travel, rate, motion)
        change = np.zeros_like(cars.correction)
        change[[Z, V1Z, V2Z]] = -self._body_fit @ travel
        change[[UP, V1Z_RATE, V2Z_RATE]] = -self._body_fit @ rate
        cars.correct(change)

    # -- output --------------------------------------------------------------------------------------------

    def output(self, add: Callable[[], None] | None = None) -> np.ndarray:
        """(len(ESTIMATE_COLUMNS),) the estimate; latitude, longitude and height are left zero here.

        `add`: called before, to change the car's outputs in the workspace.
        """
        self._pose[:] = self.pose
        self._past = None
        self._output()
        if add is not None:
            add()
        values = self._gather_output()
        if not self.is_within_bounds and np.isnan(values[_SIGMAS]).any() and self.is_sound:
            # The history no longer belongs to the repaired covariance, and would make it indefinite again.
            self.repair()
            self.restart_history(self._step_ns)
            self._calc_sigmas()
            values = self._gather_output()
        return values

    def _gather_output(self) -> np.ndarray:
        self._gather()
        values = self._estimate.copy()
        self.is_within_bounds = self._share.item() < 1.0
        self.correlation = self._correlation.item(0)
        if self._point is not None:
            self.correlation = self._point.move(values, self._pose, self.errors.packed[self._chart_block])
            self.is_within_bounds = False
        return values

    def set_bounds(self, per_bound: np.ndarray) -> None:
        """Set (len(ESTIMATE_COLUMNS),) by column, the inverse of a magnitude that no car reaches."""
        self._per_bound[:] = per_bound

    def set_output_point(self, place: Vector) -> None:
        """Set the point of the chassis that estimates are of from now on, m in vehicle axes."""
        observe = self._observe_place, self._observe_velocity
        self._point = None if place == ORIGIN else OutputPoint(place, *observe)

    def _observe_place(self, place: Vector) -> tuple[np.ndarray, np.ndarray]:
        """Position (3,) of a place at `_pose`, m in the world, and derivatives (3, 12), like a receiver's there."""
        self._observe_antenna(place)
        derivatives = self.car.view("sensitivity").reshape(-1, CHART_SIZE)
        return self.car.view("predicted").copy(), derivatives.copy()

    def _observe_antenna(self, place: Vector | None) -> None:
        """Evaluate position and derivatives at `_pose` of an antenna at `place` instead of the model's."""
        antenna = self.car.view("mounting")[ANTENNA]
        before = antenna.copy()
        if place is not None:
            antenna[:] = place
        self.car.call(self._kernels.sensors.gnss_position)
        antenna[:] = before

    def _observe_velocity(self) -> np.ndarray:
        """(2, 12) derivatives of the vehicle origin's velocity, vehicle axes, at `_pose`."""
        self.car.call(self._kernels.sensors.body_velocity)
        return self.car.view("sensitivity").reshape(-1, CHART_SIZE)[:2]

    # -- resets from measurements ---------------------------------------------------------------------------

    def shift_antenna_to(
        self, place: np.ndarray, further: np.ndarray | None = None, antenna: Vector | None = None
    ) -> None:
        """Move the car so that its antenna is at a place (3,), m, NaN: any height; then by `further` (3,), m.

        `antenna`: place of another antenna than that of `gnss`, m in vehicle axes.
        """
        self._pose[:] = self.read_state()
        self.car.tangent("pose")[:] = self.car.tangent("now")
        self._past = None
        self._observe_antenna(antenna)
        offset = place - self.car.view("predicted")
        d_offset = -self.car.tangent("predicted")[:3]
        unknown = np.isnan(offset)
        offset[unknown] = 0.0
        self.shift(offset if further is None else offset + further, d_offset)

    def set_speed(self, ahead: float, sigma: float) -> None:
        """Set the forward speed, m/s, with its σ."""
        change, wheels = np.zeros(CHART_SIZE), np.zeros((2, len(WHEELS)))
        change[AHEAD] = ahead - self.pose[AHEAD]
        wheels[1] = change[AHEAD] / self.car.rolling_radius
        self.car.correct(change, wheels, carry=True)
        self.read_state()
        self.set_variance(VELOCITY, "ahead", sigma**2)

    def turn_to_course(self, observation: Observation) -> bool:
        """Turn the car to move along an observed course over ground; returns False if that is too old."""
        if self.evaluate(observation) is None:
            return False
        self.turn(-float(self.errors.innovation[0]), -self._d_innovation[0])
        return True

    def reset_position(self, observation: Observation, update: Update, failing: Sequence[bool]) -> None:
        """Move the car to the receiver's position, by the innovation of the last update.

        The position then has the uncertainty of the fix, including its slow errors and those of antenna and latency,
        with which it is now correlated: an update of an unknown position with the fix results in this.

        `failing`: (3,) which components to move; the others have corrected the estimate, and stay: their recent
        observations have also corrected other states, so that they cannot become unknown for all that time.
        """
        self.apply_corrections()
        self._before_weights = (*self.decorrelated(), *self.d_decorrelated())  # of the rejected update
        given = [v if lost else MISSING for v, lost in zip(observation.variance, failing, strict=True)]
        seen = [k for k, v in enumerate(given) if v < MISSING]
        offset = np.zeros(3)
        d_offset = np.zeros((3, self._tangents.directions))
        for k in seen:
            offset[k] = update.innovation[k]
            d_offset[k] = self._d_innovation[k]
        self.shift(offset, d_offset)
        for k in seen:
            place = self.states.index(POSITION, POSITION.elements[k])
            self._enter_change("now", k, float(offset[k]), d_offset[k])
            self.errors.set_variance(place, _UNKNOWN_PLACE)
        self._update_below(msgspec.structs.replace(observation, variance=given), math.inf)
        # If a parameter has been widened since the fix, past and present do not quite match.
        self.repair()

    def set_wheel_angle(self, wheel: int, observation: Observation, variance: float) -> None:
        """Set a wheel's angle to its counter's reading, unless that is too old."""
        if self.evaluate(observation) is not None:
            self.reset_wheel_angle(wheel, float(self.errors.innovation[0]), variance)

    def reset_wheel_angle(self, wheel: int, innovation: float, variance: float) -> None:
        """Set a wheel's angle to its counter's reading, by the innovation of the last update."""
        self.apply_corrections()
        wheels = np.zeros((2, len(WHEELS)))
        wheels[0, wheel] = innovation
        d_wheels = np.zeros((2, len(WHEELS), self._tangents.directions))
        d_wheels[0, wheel] = self._d_innovation[0]
        self.car.correct(np.zeros(CHART_SIZE), wheels, d_wheels=d_wheels)
        place = self.states[WHEEL_ANGLE].start + wheel
        self.errors.set_variance(place, variance)
        self._enter_change("now_wheels", wheel, innovation, self._d_innovation[0])

    def calc_rolling_rate(self, wheel: int) -> float:
        """Rate at which a wheel rolls with the car's speed and yaw rate, rad/s."""
        by_speed, by_yaw_rate = self.rolling[wheel].tolist()
        return float(by_speed * self.pose.item(AHEAD) + by_yaw_rate * self.pose.item(YAW_RATE))

    def set_wheel_rate(self, wheel: int, observation: Observation, variance: float) -> float | None:
        """Set a wheel's rate to its measurement; returns by how much it has changed, rad/s, None if too old.

        Earlier corrections are applied first; no other motion changes.
        """
        self.apply_corrections()
        if self.evaluate(observation) is None:
            return None
        innovation, d_innovation = float(self.errors.innovation[0]), self._d_innovation[0].copy()
        wheels = np.zeros((2, len(WHEELS)))
        wheels[1, wheel] = innovation
        d_wheels = np.zeros((2, len(WHEELS), self._tangents.directions))
        d_wheels[1, wheel] = d_innovation
        self.car.correct(np.zeros(CHART_SIZE), wheels, d_wheels=d_wheels)
        self.errors.set_variance(self.states[WHEEL_SLIP].start + wheel, variance)
        self._enter_change("now_wheels", len(WHEELS) + wheel, innovation, d_innovation)
        return innovation
