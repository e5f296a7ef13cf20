"""The error-state Kalman filter on the vehicle: the multibody simulation as prediction, its errors as states.

A step is `predict`, any number of `update`s, and `apply_corrections`; the states that no simulation keeps (biases and
other slow errors) are `slow_states`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from vehicled.filter.covariance import MISSING, Covariance
from vehicled.filter.error_model import (
    CHART_PAIRS,
    PROCESS,
    AddObservation,
    Structure,
    make_extension,
)
from vehicled.filter.history import History
from vehicled.filter.settings import Filter
from vehicled.filter.states import (
    RATES,
    SUSPENSION,
    WHEEL_ANGLE,
    Group,
    Initial,
    Process,
    StateVector,
    make_table,
)
from vehicled.filter.tangents import Companion, Tangents
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, WHEELS
from vehicled.symbolic.program import Layout
from vehicled.vehicle.car import Car, Instances
from vehicled.vehicle.chart import CHART
from vehicled.vehicle.kinematics import Corner, calc_rates
from vehicled.vehicle.outputs import CORNER_OUTPUTS, ROOT_OUTPUTS
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.sensor_models import MOUNTING, POSE

_YAW, _V1Z, _V2Z = (CHART.index(n) for n in ("yaw", "v1z", "v2z"))
_AHEAD = CHART_PAIRS
"""In a pose."""
_SIGMAS = ("x", "y", "z", "yaw", "vx", "vy", "sideslip")


@dataclass(frozen=True)
class Mounting:
    """Where the sensors sit in the car; vehicle axes, m."""

    antenna: tuple[float, float, float] = (0.0, 0.0, 0.0)
    imu: tuple[float, float, float] = (0.0, 0.0, 0.0)
    R_imu_vehicle: np.ndarray = field(default_factory=lambda: np.eye(3), hash=False)
    """(3, 3) takes vehicle axes to the IMU's."""
    gravity_removed: bool = False
    """Whether the accelerometers' device has already subtracted gravity."""


@dataclass(frozen=True)
class SensorSetup:
    """What the filter has to know of the sensors."""

    states: tuple[tuple[Group, Any], ...]
    """Their slow errors, with the settings that give the numbers."""
    observations: tuple[AddObservation, ...]
    """Their measurement models."""
    model_error: Process | None = None
    """Acceleration that the model leaves unexplained, where accelerometers observe it."""
    mounting: Mounting = Mounting()


@dataclass(frozen=True)
class Pose:
    """What the filter is initialised with."""

    position: np.ndarray
    """(3,) of the vehicle origin, m, world axes."""
    yaw: float
    """rad"""
    speed: float
    """m/s, straight ahead on rolling wheels."""


class Observation(NamedTuple):
    """One measurement of one kind. (A tuple, because one is made for every measurement.)"""

    kind: str
    """Name of a measurement model, such as `imu.gyro`."""
    t_ns: int
    """When it was measured."""
    value: Sequence[float]
    variance: Sequence[float]
    """Of each component; MISSING for one that was not measured."""


class Update(NamedTuple):
    """What an observation did to the filter."""

    innovation: list[float]
    """Value less prediction; empty when the observation is too old to be predicted."""
    variance: list[float]
    """Diagonal of the innovation covariance S."""
    nis: float
    """Normalised innovation squared νᵀ S⁻¹ ν."""
    accepted: bool
    reason: str
    """`fused`, `gate` or `too old`."""


TOO_OLD = Update([], [], math.nan, False, "too old")


class VehicleFilter:
    """A car that is simulated beside the real one, and the covariance of its errors. All arrays are views into one
    workspace, the car's."""

    def __init__(
        self,
        vehicle: Vehicle,
        settings: Filter,
        sensors: SensorSetup,
        companions: Sequence[Companion] = (),
    ):
        """`companions`: filters of changed parameters, by which everything is differentiated."""
        table = make_table(settings, sensors.states, sensors.model_error)
        structure = Structure(settings.kind, table.groups, sensors.observations)
        extension = make_extension(structure)
        self.car = car = Car(vehicle, (extension,), Tangents.differentiation(companions))
        self._kernels = car.result(extension)
        self.states = StateVector(table.groups)
        self._mass = vehicle.mass
        view = car.view
        kernels, bind = self._kernels, car.bind
        self._read_state, self._propagate_all = bind(kernels.read_state), bind(kernels.propagate)
        self._apply, self._output, self._drive = (
            bind(kernels.apply),
            bind(kernels.output),
            bind(kernels.drive),
        )
        self._apply_force = None if kernels.apply_force is None else bind(kernels.apply_force)
        self._evaluations = {kind: bind(kernel) for kind, kernel in kernels.observations.items()}
        self.errors = Covariance(len(self.states), car, kernels.updates, kernels.evaluations)
        self._slow = self.states[RATES[-1]].stop
        self._pairs = self.states[RATES[0]].start
        self._extra = view("extra")
        """Estimates of the slow states. Those of the suspensions are not kept: they are applied to the car."""
        self._density, self._per_speed = view("density"), view("lateral_per_speed")
        self._processes = {g.name: view(f"{PROCESS}{g.name}") for g in self.states.fading}
        self._pose, self._since, self._age = view("pose"), view("since"), view("age")
        self._past_wheels, self._moved, self._h = view("past_wheels"), view("moved"), view("h")
        self._sigmas = view("sigmas")
        # `now` and `now_wheels` lie one after the other: one array for the history.
        begin, end = (car.layout.places[name].offset for name in ("now", "now_wheels"))
        self._wheels = end - begin
        self._now = car.workspace[begin : end + 2 * len(WHEELS)]
        """The present pose (POSE, its yaw without jumps), then, from `_wheels` on, the wheels' angles and rates."""
        self.pose = self._now[: len(POSE)]
        """Present pose (elements of POSE), its yaw without jumps; not to be changed."""
        self._columns = _find_columns(car.layout)
        self._has_travel = SUSPENSION[0] in self.states
        self._travel = view("x")[self.states[SUSPENSION[0]].start :] if self._has_travel else np.zeros(0)
        radius = car.rolling_radius
        left = car.get_corner_parameter("wheel.centre.y")
        self.rolling = view("rolling").reshape(len(WHEELS), 2)
        """(4, 2) wheel rates by speed ahead (rad/m) and by yaw rate, when the wheels roll."""
        self.rolling[:] = np.stack([1.0 / radius, -left / radius], axis=1)
        view("rolling_radius")[:] = radius
        view("mass")[0] = vehicle.mass
        places = np.stack([car.get_corner_parameter(f"wheel.centre.{a}") for a in "xy"], axis=1)
        self._body_fit = np.linalg.pinv(np.column_stack([np.ones(len(WHEELS)), places]))
        """(3, 4) heave and slopes of a body from heights at its wheels."""
        if self._has_travel:
            view("heave")[:] = _heave_stiffness(vehicle) / vehicle.mass
        self._past: int | None = None
        """Time that `_pose` is of, where it is not the present."""
        self.unconverged = 0
        """Steps whose Newton iteration reached its limit."""
        self.repairs = 0
        """How often the covariance had lost its definiteness."""
        self._evaluated = 0
        """Components of the observation evaluated last."""
        self._tangents = Tangents(self, companions, len(self._now))
        self.directions = self._tangents.directions
        """Derivatives that are carried along; 0 without companions."""
        self._d_innovation = car.tangent("innovation")
        self.history = History(settings.memory, len(self._now), self._pairs, self._tangents.directions)
        self.configure(settings, sensors)
        self._t_ns = 0
        self.initialise(0, Pose(np.array([0.0, 0.0, car.design_height]), 0.0, 0.0), _AT_REST)

    def configure(self, settings: Filter, sensors: SensorSetup) -> None:
        """Take other noise and places of sensors, also while running; which states there are stays."""
        self.settings = settings
        table, mounting = make_table(settings, sensors.states, sensors.model_error), sensors.mounting
        self._density[:] = table.densities()
        self._per_speed[0] = settings.rate_noise.lateral_per_speed
        self._table = table
        for group, process in table.processes():
            if process is not None:
                self._set_process(group, process)
        if settings.drive_force is not None:
            self.car.view("front_brake_share")[0] = settings.drive_force.front_brake_share
        places = dict(zip(("antenna.x", "antenna.y", "antenna.z"), mounting.antenna, strict=True))
        places |= zip(("imu.x", "imu.y", "imu.z"), mounting.imu, strict=True)
        places |= {f"imu.r{i + 1}{j + 1}": mounting.R_imu_vehicle[i, j] for i in range(3) for j in range(3)}
        self.car.view("mounting")[:] = [places[n] for n in MOUNTING]
        self.car.view("gravity_removed")[0] = mounting.gravity_removed

    def _set_process(self, group: Group, process: Process) -> None:
        array = self._processes[group.name]
        array[0] = process.time
        array[1:] = process.sigma

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def covariance(self) -> np.ndarray:
        """(n, n) of the error states, a copy."""
        return self.errors.matrix

    @property
    def variances(self) -> np.ndarray:
        """(n,) its diagonal, a copy."""
        return self.errors.variances

    @property
    def is_sound(self) -> bool:
        """Whether state and covariance are finite."""
        # What is not finite makes its sum so.
        return math.isfinite(self.pose.sum() + self.errors.packed.sum())

    def slow_states(self, group: Group) -> np.ndarray:
        """Present estimates of a group of slow states, a copy."""
        place = self.states[group]
        return self._extra[place.start - self._slow : place.stop - self._slow].copy()

    def get_process(self, group: Group) -> np.ndarray:
        """(1 + elements,) time and σ of a group that fades; not to be changed."""
        return self._processes[group.name]

    def save(self) -> np.ndarray:
        """A copy of the whole state, for `restore`."""
        return self.car.workspace.copy()

    def restore(self, saved: np.ndarray) -> None:
        """Back to a saved state; settings too are those of then (see `configure`)."""
        self.car.workspace[:] = saved
        self._past = None

    def read_state(self) -> np.ndarray:
        """Bring `pose` up to date with the car, and return it."""
        self._read_state()
        return self.pose

    @property
    def rear_radius(self) -> float:
        """Rolling radius of the rear wheels, m."""
        return float(self.car.rolling_radius[2:].mean())

    def repair(self) -> None:
        """Make the covariance definite; what rounding took from it is counted."""
        self.repairs += self.errors.repair()

    # -- initialisation and resets -------------------------------------------------------------------------

    def initialise(self, t_ns: int, pose: Pose, initial: Initial) -> None:
        """Begin anew on level ground, with the variances of the table of states, not correlated. Slow states are
        zero."""
        self._initial = initial
        self.place(pose)
        self._tangents.place(pose)
        self.errors.matrix = np.diag(self._table.initial(initial))
        self.errors.x[:] = 0.0
        self._extra[:] = 0.0
        self.car.tangent("extra")[...] = 0.0
        for group, process in self._table.processes():
            if process is None:
                self._set_process(group, _NOT_YET)
        self.restart_history(t_ns)

    def place(self, pose: Pose) -> None:
        """Put the car there, at rest on level ground but for its speed; the filter's other states stay."""
        car = self.car
        car.rest()
        car.ground[:] = (0.0, 0.0, 1.0, 0.0)
        car.call(self._kernels.observe_pose)
        change = np.zeros(2 * CHART_PAIRS)
        change[:3] = pose.position - self._pose[:3]
        change[_YAW] = pose.yaw - self._pose[_YAW]
        change[_AHEAD] = pose.speed
        wheels = np.zeros((2, len(WHEELS)))
        wheels[1] = pose.speed / car.rolling_radius
        car.correct(change, wheels, carry=True)
        self._now[_YAW] = pose.yaw  # from which `read_state` goes on
        self._past = None

    def restart_history(self, t_ns: int) -> None:
        """Forget the past: measurements from before `t_ns` are too old from now on."""
        self.history.clear()
        self.read_state()
        self.history.step(t_ns, self._with_tangents(self._now))
        self._t_ns, self._past = t_ns, None

    def set_variance(self, group: Group, element: str, variance: float) -> None:
        """Give one state a variance, without correlation with any other."""
        self.errors.set_variance(self.states.index(group, element), variance)

    def set_slow_states(self, values: np.ndarray) -> None:
        """All of them, as `all_slow_states` gave them."""
        self._extra[:] = values

    def all_slow_states(self) -> np.ndarray:
        """(n − 20,) a copy."""
        return self._extra.copy()

    def restart_process(self, group: Group, process: Process) -> None:
        """A slow error of another kind: zero, with the variance of the new process."""
        self._set_process(group, process)
        place = self.states[group]
        self._extra[place.start - self._slow : place.stop - self._slow] = 0.0
        for i, sigma in zip(self.states.places(group), self.get_process(group)[1:].tolist(), strict=True):
            self.errors.set_variance(i, sigma**2 + 1e-12)
        self.car.tangent(f"{PROCESS}{group.name}")[...] = 0.0
        self.car.tangent("extra")[place.start - self._slow : place.stop - self._slow] = 0.0

    def shift(self, offset: np.ndarray, d_offset: np.ndarray | None = None) -> None:
        """Move the car (3,), and the ground under it. `d_offset`: (3, directions) derivatives of that."""
        change = np.zeros(2 * CHART_PAIRS)
        change[:3] = offset
        self.car.correct(change, carry=True, d_change=_below(d_offset, 0))
        self._past = None

    def turn(self, angle: float, d_angle: np.ndarray | None = None) -> None:
        """Turn the whole car, its velocity with it, about the vertical through its origin. `d_angle`:
        (directions,)."""
        change = np.zeros(2 * CHART_PAIRS)
        change[_YAW] = angle
        self.car.correct(
            change, carry=True, d_change=_below(None if d_angle is None else d_angle[None], _YAW)
        )
        self._past = None

    def shift_antenna_to(self, place: np.ndarray, further: np.ndarray | None = None) -> None:
        """Move the car so that its antenna is there (3,), NaN for a height that stays; and `further` (3,) on."""
        self._pose[:] = self.read_state()
        self.car.tangent("pose")[:] = self.car.tangent("now")
        self._past = None
        self.car.call(self._kernels.gnss_position)
        offset = place - self.car.view("predicted")
        d_offset = -self.car.tangent("predicted")[:3]
        unknown = np.isnan(offset)
        offset[unknown] = 0.0
        self.shift(offset if further is None else offset + further, d_offset)

    def turn_to_course(self, observation: Observation) -> bool:
        """Turn the car so that it moved along a course over ground then; False when that is too long ago."""
        if self.evaluate(observation) is None:
            return False
        self.turn(-float(self.errors.innovation[0]), -self._d_innovation[0])
        return True

    def reset_position(self, update: Update, variance: Sequence[float]) -> None:
        """Move the car to where the receiver says that it is, by the innovation of the update just made."""
        self.apply_corrections()
        seen = [k for k, v in enumerate(variance) if v < MISSING]
        offset = np.zeros(3)
        d_offset = np.zeros((3, self._tangents.directions))
        for k in seen:
            offset[k] = update.innovation[k]
            d_offset[k] = self._d_innovation[k]
        self.shift(offset, d_offset)
        for k in seen:
            self._enter_change(k, float(offset[k]), d_offset[k])
            self.errors.set_variance(k, float(variance[k]))

    def set_wheel_angle(self, wheel: int, observation: Observation, variance: float) -> None:
        """Turn a wheel to what its counter says, unless that is too long ago."""
        if self.evaluate(observation) is not None:
            self.reset_wheel_angle(wheel, float(self.errors.innovation[0]), variance)

    def reset_wheel_angle(self, wheel: int, innovation: float, variance: float) -> None:
        """Turn a wheel to what its counter says, by the innovation of the update just made."""
        self.apply_corrections()
        wheels = np.zeros((2, len(WHEELS)))
        wheels[0, wheel] = innovation
        d_wheels = np.zeros((2, len(WHEELS), self._tangents.directions))
        d_wheels[0, wheel] = self._d_innovation[0]
        self.car.correct(np.zeros(2 * CHART_PAIRS), wheels, d_wheels=d_wheels)
        place = self.states[WHEEL_ANGLE].start + wheel
        self.errors.set_variance(place, variance)
        self._enter_change(place, innovation, self._d_innovation[0])

    def _enter_change(self, place: int, change: float, d_change: np.ndarray) -> None:
        """Enter a change of one coordinate that was made beside `apply_corrections` into the history."""
        moved = np.zeros((3 * self._pairs, 1 + self._tangents.directions))
        moved[place, 0] = change
        moved[place, 1:] = d_change
        self.read_state()
        self.history.correct(
            moved if self._tangents.directions else moved[:, 0], self._with_tangents(self._now)
        )
        self._past = None

    def _with_tangents(self, pose: np.ndarray) -> np.ndarray:
        """For the history: (size,), or (size, 1 + directions)."""
        return self._tangents.join_pose(pose) if self._tangents.directions else pose

    # -- prediction ----------------------------------------------------------------------------------------

    def predict(self, t_ns: int, h: float) -> None:
        """Simulate h seconds, up to t_ns, and propagate the covariance of the errors."""
        if self.settings.drive_force is not None:
            self._drive()
        if self._apply_force is not None:
            self._apply_force()
        self._h[0] = h
        self._simulate(h)
        self._propagate(h)
        self.history.step(t_ns, self._with_tangents(self._now) if self.directions else self._now)
        self._t_ns, self._past = t_ns, None

    def _simulate(self, h: float) -> None:
        """The car one step on."""
        if self.car.step(h) < 0:
            self.unconverged += 1

    def _propagate(self, h: float) -> None:
        """The new state into `pose`; the covariance one step on."""
        self._propagate_all()

    # -- observations --------------------------------------------------------------------------------------

    def evaluate(self, observation: Observation) -> float | None:
        """Normalised innovation squared of an observation, which changes nothing in the filter; None when it is too
        old. The innovation is then that of `update`."""
        t_ns = observation.t_ns
        if t_ns != self._past:
            past = self.history.at(t_ns)
            if past is None:
                return None
            pose, since = self._tangents.split_past(past) if self.directions else past
            self._pose[:] = pose[: len(POSE)]
            self._past_wheels[:] = pose[self._wheels :]
            self._since[:] = since
            self._age[0] = max(self._t_ns - t_ns, 0) * 1e-9
            self._past = t_ns
        p, m = self.errors, len(observation.value)
        self._evaluated = m
        p.value[:m] = observation.value
        p.noise[:m] = observation.variance
        if self.directions:
            self._tangents.take_observation(observation.kind)
        self._evaluations[observation.kind]()
        return p.nis.item()

    def update(self, observation: Observation, threshold: float) -> Update:
        """Correct the estimate with an observation, unless its normalised innovation squared is above the
        threshold."""
        nis = self.evaluate(observation)
        if nis is None:
            return TOO_OLD
        p, m = self.errors, len(observation.value)
        accepted = nis <= threshold
        if accepted:
            p.update(m)
        return Update(
            p.innovation[:m].tolist(), p.variance[:m].tolist(), nis, accepted, "fused" if accepted else "gate"
        )

    def inflate(self, observation: Observation, update: Update) -> None:
        """Open the states that a rejected observation depends on, so that each component's innovation is one standard
        deviation.

        What is added to the variance of a component, ν², is shared among the states in proportion to what their
        variances after an initialisation would contribute, H² P₀: whatever a state's unit, and whichever way the
        sensitivity changes with speed.
        """
        prior = self._table.initial(replace(self._initial, speed=abs(float(self._now[_AHEAD]))))
        added = np.zeros(len(prior))
        for row, innovation, variance in zip(
            self.errors.rows, update.innovation, observation.variance, strict=False
        ):
            total = float(row * row @ prior)
            if variance < MISSING and total > 0.0:
                added = np.maximum(added, prior * (innovation**2 / total) * (row != 0.0))
        self.errors.add_variances(added)

    def decorrelated(self) -> tuple[np.ndarray, np.ndarray]:
        """(m,) each: the innovations of the observation evaluated last in directions that are not correlated, and the
        inverses of their variances, copies."""
        p, m = self.errors, self._evaluated
        return p.decorrelated[:m].copy(), p.precision[:m].copy()

    def d_decorrelated(self) -> tuple[np.ndarray, np.ndarray]:
        """(m, directions) each: derivatives of `decorrelated`."""
        left, precision = self.car.tangent("left"), self.car.tangent("precision")
        return left[: self._evaluated].copy(), precision[: self._evaluated].copy()

    def seed_tangents(self, d_values: dict[str, np.ndarray], d_variances: dict[str, np.ndarray]) -> None:
        """Take the derivatives of all settings from the companions; by kind of observation, those of its value
        (3, directions) and of its variance (directions,)."""
        self._tangents.seed(d_values, d_variances)

    def update_road(self, interval: float) -> None:
        """What is known of roads: slope and bank are small. Call every `interval` seconds.

        A random walk of density Q, seen as zero through noise of density r, settles at the variance √(Q r);
        with r = σ²τ/2 beside Q = 2σ²/τ that is the variance σ² of slopes. No measurement: no gate, no record.
        """
        settings, p = self.settings, self.errors
        noise = 0.5 * settings.ground_slope**2 * settings.ground_slope_time / interval
        for kind in ("road.slope", "road.bank"):
            p.value[0] = 0.0
            p.noise[0] = noise
            self._evaluations[kind]()
            p.update(1)

    def apply_corrections(self) -> None:
        """Apply what the updates of this step have found to the car and to the slow states."""
        if not self.errors.x.any():
            return
        self._apply()
        if self._has_travel:
            self._correct_suspension(self.car, *self._travel.reshape(2, len(WHEELS)))
            self._extra[self.states[SUSPENSION[0]].start - self._slow :] = 0.0
            self._travel[:] = 0.0
            self.read_state()
        moved = self._moved
        if self._tangents.directions:
            moved = self._tangents.join_moved(moved)
        self.history.correct(moved, self._with_tangents(self._now))
        self._past = None

    def _correct_suspension(
        self, cars: Instances, travel: np.ndarray, rate: np.ndarray, motion: np.ndarray | None = None
    ) -> None:
        """Tyres are stiff: where a wheel travels up in the body, it is the body that comes down."""
        cars.correct_suspension(travel, rate, motion)
        change = np.zeros_like(cars.correction)
        change[[2, _V1Z, _V2Z]] = -self._body_fit @ travel
        change[[CHART_PAIRS + 2, CHART_PAIRS + _V1Z, CHART_PAIRS + _V2Z]] = -self._body_fit @ rate
        cars.correct(change)

    # -- output --------------------------------------------------------------------------------------------

    def output(self) -> np.ndarray:
        """(len(ESTIMATE_COLUMNS),) the estimate; latitude to height are not known here."""
        self._pose[:] = self.pose
        self._past = None
        self._output()
        values: np.ndarray = self.car.workspace[self._columns]
        return values


class ForwardEulerFilter(VehicleFilter):
    """DEKF: the model goes on by forward Euler, with its position, velocity and acceleration problems solved each
    step; no memory of accelerations is left that a correction would not know of (Sanjurjo)."""

    def _simulate(self, h: float) -> None:
        assert self._kernels.euler is not None
        self.car.step_euler(h, self._kernels.euler)


_NOT_YET = Process(1.0, 0.0)
"""Of a group whose process is set while running."""
_AT_REST = Initial(speed=0.0, position_known=False, yaw_variance=1e-6)


def _below(d: np.ndarray | None, place: int) -> np.ndarray | None:
    """(12, directions) derivatives of a change of the chart, from those of some of its elements."""
    if d is None:
        return None
    change = np.zeros((2 * CHART_PAIRS, d.shape[-1]))
    change[place : place + len(d)] = d
    return change


def _find_columns(layout: Layout) -> np.ndarray:
    """(len(ESTIMATE_COLUMNS),) where in a workspace each column stands; 0 for those that are not there."""
    places = np.zeros(len(ESTIMATE_COLUMNS), dtype=np.intp)
    every = np.arange(layout.size)
    for names, array in ((ROOT_OUTPUTS, "outputs"), ([f"sigma.{n}" for n in _SIGMAS], "sigmas")):
        places[[ESTIMATE_INDEX[n] for n in names]] = layout.view(every, array)
    for output, row in zip(CORNER_OUTPUTS, layout.view(every, "corner_outputs"), strict=True):
        group, quantity = output.split(".")
        places[[ESTIMATE_INDEX[f"{group}.{w}.{quantity}"] for w in WHEELS]] = row
    return places


def _heave_stiffness(vehicle: Vehicle) -> np.ndarray:
    """(8,) vertical force on the body by travel (N/m) and by rate of travel (N·s/m) of each wheel, about design."""
    stiffness, damping = [], []
    for wheel in WHEELS:
        axle = vehicle.axle(wheel)
        ratio = calc_rates(Corner.of(axle.hard_points)).strut
        stiffness.append(ratio**2 * axle.spring.stiffness)
        damping.append(ratio**2 * 0.5 * (axle.damper.bump + axle.damper.rebound))
    return np.array([*stiffness, *damping])
