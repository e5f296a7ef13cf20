"""State of a filter on the vehicle: the simulated car, the covariance of its errors, and its history."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from vehicled.filter.boundary import InitialPose, SensorSetup
from vehicled.filter.covariance import Covariance
from vehicled.filter.history import History
from vehicled.filter.late import LateObservations, keep_arrays, place_moment
from vehicled.filter.settings import Filter
from vehicled.filter.slow_states import SlowStates
from vehicled.filter.state_table import StateVector, make_table
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    DRIVE_FORCE,
    KNOWN_DRIVE,
    RATES,
    STEERING_OFFSET,
    SUSPENSION,
    VELOCITY,
    Group,
    InitialConditions,
    Process,
    calc_unknown_drive,
)
from vehicled.filter.structure import PROCESS, Structure, make_extension
from vehicled.filter.tangents import Companion, FilterTangents
from vehicled.messages import WHEELS
from vehicled.vehicle.arrays import ADJUSTMENTS, AHEAD, CHART_SIZE, MOUNTING, PLACE, YAW, YAW_RATE
from vehicled.vehicle.car import STATE, Car
from vehicled.vehicle.kinematics import calc_heave_stiffness
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.steering import SteeringGeometry

_MOTION = (
    *(*STATE, "ground", "inputs", "corner_inputs", "adjustments", "external_force"),
    *("tyre_deflection", "extra", "now", "now_wheels"),
)
"""Arrays that determine the output of a filter, without its covariance and constants."""
_ROLLING = ADJUSTMENTS.index("wheel")
"""Number of the first one of ADJUSTMENTS that is about the rotation of wheels."""
_POSE = "now", "now_wheels"
_READ = ("extra", "extra"), ("ground", "ground"), ("tyre_steady", "tyre_acceleration")
"""Arrays that observations read in addition to the pose and constants: first and last of adjacent ones."""
_NOT_YET = Process(1.0, 0.0)
"""Initial process of a group whose process is set while running."""
_HEADING_SIGMA = 1e-3
"""rad, 1 σ: heading of a car that is initialised along the world's x axis; zero would make the covariance
singular."""
_AT_REST = InitialConditions(speed=0.0, position_known=False, yaw_variance=_HEADING_SIGMA**2)
_LEAST_SIGMA = 1e-6
"""Least σ of a process without noise, in the unit of the state, so that the covariance stays positive
definite."""
_TYRE_TIME = 0.02
"""Time that tyres and wheels need to build up a force, s."""


class VehicleState:
    """Simulation of the real car, with the covariance of its errors.

    All arrays are views into one workspace, the car's.
    """

    def __init__(
        self,
        vehicle: Vehicle,
        settings: Filter,
        sensors: SensorSetup,
        companions: Sequence[Companion] = (),
    ) -> None:
        """`companions`: filters with changed parameters, which give derivatives of all results."""
        table = make_table(settings, sensors.states)
        structure = Structure(settings.kind, table.groups, sensors.observations)
        extension = make_extension(structure)
        self.car = car = Car(vehicle, (extension,), FilterTangents.differentiation(companions))
        self._kernels = car.result(extension)
        self.states = StateVector(table.groups)
        view = car.view
        kernels = self._kernels
        self._read_state, self._adjust = car.bind(kernels.read_state), car.bind(kernels.adjust)
        self._adjustments = view("adjustments")
        self.wheel_turns = self._adjustments[_ROLLING:]
        """(3, 4) what the slow states of the last step add to radii and slips of the wheels, a view."""
        self._evaluations = {kind: car.bind(kernel) for kind, kernel in kernels.observations.items()}
        self.errors = Covariance(len(self.states), car, kernels.updates, kernels.evaluations)
        self._sum_up, self._soundness = car.bind(kernels.sum_up), view("soundness")
        self._slow = self.states.count_of_car
        self._pairs = self.states[RATES[0]].start
        self._extra = view("extra")
        self.slow = SlowStates(self.states, self.errors, self._extra, view("density"), self._calc_initial)
        self._density, self._per_speed = view("density"), view("lateral_per_speed")
        self._processes = {g.name: view(f"{PROCESS}{g.name}") for g in self.states.fading}
        self._pose, self._since = view("pose"), view("since")
        self._age, self._d_since = view("age"), car.tangent("since")
        self._h, self._unsteered = view("h"), view("unsteered")
        # Arrays that `ErrorModel` describes under these names, for the next observations.
        self.measured_rates, self.road_lift = view("measured_rates"), view("road_lift")
        self._now = self.pose = view("now")
        """Present pose (elements of POSE), with continuous yaw; not to be changed."""
        every = np.arange(car.layout.size)
        self._motion = np.concatenate([car.layout.view(every, name).ravel() for name in _MOTION])
        self._has_travel = SUSPENSION[0] in self.states
        self._travel = view("x")[self.states[SUSPENSION[0]].start :] if self._has_travel else np.zeros(0)
        self._write_constants(vehicle)
        self._past: int | None = None
        """Time of `_pose`, if it is not the present."""
        self._step_ns = 0
        """Time of the present step."""
        self.turned = 0.0
        """Sum of all changes of the heading by corrections and `turn`, rad."""
        self._past_latency = 0.0
        """The latency that was subtracted to find the time of `_pose`, s."""
        self._late_step: int | None = None
        """Step of the history at the time of `_pose`; None for the last one."""
        self.unconverged = 0
        """Steps whose Newton iteration reached its limit."""
        self.repairs = 0
        """Number of times that the covariance was not positive definite."""
        self.is_drive_known = False
        """Whether drive torque and brake pressure are measured."""
        self._tangents = FilterTangents(self, companions)
        self.directions = self._tangents.directions
        """Number of derivatives that are calculated; 0 without companions."""
        self._d_innovation = car.tangent("innovation")
        before, after, events = keep_arrays(car, kernels.late, _POSE, _READ, ["forces"])
        gate = car.layout.places["nis"].offset, car.layout.places["limit"].offset
        moment = place_moment(car, kernels.history.past_pose)
        clear = car.address(kernels.history.clear)
        self.history = History(settings.memory, car.workspace, before, after, moment, events, gate, clear)
        self._late = LateObservations(car, kernels.late, self.errors, self.history, _POSE, "extra")
        self.errors.past = self._late
        self.configure(settings, sensors)
        self.initialise(0, InitialPose(np.array([0.0, 0.0, car.design_height]), 0.0, 0.0), _AT_REST)

    def _write_constants(self, vehicle: Vehicle) -> None:
        """Write the data of the car that kernels need in addition to its own parameters."""
        car, view = self.car, self.car.view
        view("drive_height")[0] = car.design_height
        radius = car.rolling_radius
        left = car.get_corner_parameter("wheel.centre.y")
        self.rolling = view("rolling").reshape(len(WHEELS), 2)
        """(4, 2) wheel rates by speed ahead (rad/m) and by yaw rate, when the wheels roll."""
        self.rolling[:] = np.stack([1.0 / radius, -left / radius], axis=1)
        stiffness = car.slip_stiffness
        front = vehicle.calc_front_share(stiffness)
        for axle, share in ((slice(2), front), (slice(2, 4), 1.0 - front)):
            view("force_per_drive")[axle] = vehicle.mass * share * stiffness[axle] / stiffness[axle].sum()
        view("force_per_braking")[:] = vehicle.mass * vehicle.calc_brake_shares(radius, stiffness)
        for kind in ("drive", "braking"):
            view(f"slip_per_{kind}")[:] = view(f"force_per_{kind}") / stiffness
        view("rod_per_angle")[0] = SteeringGeometry(vehicle).rack_per_angle
        places = np.stack([car.get_corner_parameter(f"wheel.centre.{a}") for a in "xy"], axis=1)
        self._body_fit = np.linalg.pinv(np.column_stack([np.ones(len(WHEELS)), places]))
        """(3, 4) matrix that gives heave and slopes of a body from heights at its wheels."""
        if self._has_travel:
            view("heave")[:] = calc_heave_stiffness(vehicle) / vehicle.mass

    def configure(self, settings: Filter, sensors: SensorSetup) -> None:
        """Take other noise and places of sensors, also while running; the set of states stays."""
        self.settings = settings
        table, mounting = make_table(settings, sensors.states), sensors.mounting
        self._table = table
        self._density[:] = self._table.densities()
        self._per_speed[0] = settings.rate_noise.lateral_per_speed
        for group, process in table.processes():
            if process is not None:
                self.set_process(group, process)
        self.set_process(DRIVE_FORCE, KNOWN_DRIVE if self.is_drive_known else calc_unknown_drive(settings))
        self._keep_waiting()
        places = dict(zip(("antenna.x", "antenna.y", "antenna.z"), mounting.antenna, strict=True))
        places |= zip(("imu.x", "imu.y", "imu.z"), mounting.imu, strict=True)
        places |= {f"imu.r{i + 1}{j + 1}": mounting.R_imu_vehicle[i, j] for i in range(3) for j in range(3)}
        self.car.view("mounting")[:] = [places[n] for n in MOUNTING]
        for name, values in sensors.arrays.items():
            self.car.view(name)[:] = values
        self.car.view("gravity_removed")[0] = mounting.gravity_removed

    def set_process(self, group: Group, process: Process) -> None:
        """Change the process of a group's errors; their estimates and variances stay."""
        array = self._processes[group.name]
        array[0] = process.time
        array[1:] = process.sigma

    # -- state ---------------------------------------------------------------------------------------------

    @property
    def covariance(self) -> np.ndarray:
        """(n, n) covariance of the error states, a copy."""
        return self.errors.matrix

    @property
    def variances(self) -> np.ndarray:
        """(n,) diagonal of the covariance, a copy."""
        return self.errors.variances

    def get_covariance(self, i: int, j: int) -> float:
        """Covariance of the error states i and j; variance if they are the same."""
        return self.errors.get_covariance(i, j)

    def get_variance(self, group: Group, element: str = "") -> float:
        """Variance of one error state."""
        i = self.states.index(group, element)
        return self.errors.get_covariance(i, i)

    @property
    def is_sound(self) -> bool:
        """Whether state and covariance are finite."""
        # A number that is not finite makes the sum not finite.
        self._sum_up()
        return math.isfinite(self._soundness.item())

    def get_process(self, group: Group) -> np.ndarray:
        """(1 + elements,) correlation time and σ of a Gauss–Markov group; not to be changed."""
        return self._processes[group.name]

    def set_drive_known(self, known: bool) -> None:
        """Set whether drive torque and brake pressure are measured; if not, their force is a state."""
        if known != self.is_drive_known:
            self.is_drive_known = known
            self.set_process(DRIVE_FORCE, KNOWN_DRIVE if known else calc_unknown_drive(self.settings))
            if known:
                i, ahead = self.states[DRIVE_FORCE].start, self.states.index(VELOCITY, "ahead")
                self.errors.add_variances((_TYRE_TIME * self._extra.item(i - self._slow)) ** 2, ahead)
                self._extra[i - self._slow] = self.car.tangent("extra")[i - self._slow] = 0.0
                # The state would add to the torques that replace it, so it becomes zero, whatever it has
                # explained. Right after a start it has explained nothing, and there is no past in which late
                # observations could correct the old state.
                is_used = np.count_nonzero(self.errors.packed[self.errors.find_touched(i)]) > 1
                (self.errors.replace if is_used else self.errors.set_variance)(i, _LEAST_SIGMA**2)

    def set_steering_known(self, known: bool, noise: float) -> None:
        """Set whether the steering is measured; if not, the error of its replacement changes by `noise`, rad/√s."""
        self._unsteered[0] = not known
        if STEERING_OFFSET not in self.states or (known and self.slow.is_steered):
            return
        self.slow.set_steered(known)
        place = self.states.index(STEERING_OFFSET)
        self._density[place] = self._table.densities()[place] if known else noise**2

    def set_process_time(self, group: Group, time: float) -> None:
        """Set the correlation time (s) of a Gauss–Markov group."""
        self._processes[group.name][0] = time

    def save(self) -> np.ndarray:
        """A copy of the whole workspace (float64), for `restore`."""
        return self.car.workspace.copy()

    def restore(self, saved: np.ndarray) -> None:
        """Return to a saved state, including the settings of that time (see `configure`)."""
        self.car.workspace[:] = saved
        self.slow.restore()
        self._past = None

    def save_motion(self) -> np.ndarray:
        """(k,) the numbers of the workspace that determine the estimate without its covariance, a copy."""
        values: np.ndarray = self.car.workspace[self._motion]
        return values

    def restore_motion(self, saved: np.ndarray) -> None:
        """Return to the estimate that `save_motion` gave (k,), with the present covariance."""
        self.car.workspace[self._motion] = saved
        self._past = None

    def calc_wheel_turns(self) -> np.ndarray:
        """(3, 4) `wheel_turns` by the present slow states, as the next step of the simulation will have it."""
        present = self._adjustments.copy()
        self._adjust()
        found = self.wheel_turns.copy()
        self._adjustments[:] = present
        return found

    def read_state(self) -> np.ndarray:
        """Bring `pose` up to date with the car, and return it: a view of length len(POSE)."""
        self._read_state()
        return self.pose

    @property
    def rear_radius(self) -> float:
        """Rolling radius of the rear wheels, m."""
        read: Callable[[int], float] = self.car.rolling_radius.item
        return 0.5 * (read(2) + read(3))

    def repair(self) -> None:
        """Make the covariance positive definite if rounding has made it indefinite; this is counted."""
        self.repairs += self.errors.repair()

    # -- initialisation and resets -------------------------------------------------------------------------

    def initialise(self, t_ns: int, pose: InitialPose, initial: InitialConditions) -> None:
        """Start anew on level ground, with the variances and correlations of the table of states.

        Slow states are zero.
        """
        self._initial = initial
        self.place(pose)
        self._tangents.place(pose)
        variances = self.slow.initialise()
        self.errors.initialise(self.states.correlate(np.diag(variances), self.states.groups))
        # Arrays whose values kernels keep from one step to the next.
        tyres = "tyre_steady", "tyre_relaxation", "tyre_acceleration", "tyre_deflection"
        for array in ("extra", *tyres, "adjustments", "external_force", "unsteered"):
            self.car.view(array)[...] = 0.0
            self.car.clear_tangents(array)
        for group, process in self._table.processes():
            self.set_process(group, process or _NOT_YET)
        self._keep_waiting()
        self.is_drive_known, self.turned = False, 0.0
        self._density[:] = self._table.densities()
        self.set_process(DRIVE_FORCE, calc_unknown_drive(self.settings))
        self.restart_history(t_ns)

    def _calc_initial(self) -> np.ndarray:
        """(n,) variances of all states before any measurement."""
        return self._table.initial(self._initial)

    def open_states(self, is_active: Callable[[str], bool]) -> None:
        """Start to estimate the states that wait for another sensor, if that is active by now.

        `is_active`: whether a kind of observation is.
        """
        opened = self.slow.open(is_active)
        for group, process in self._table.processes() if opened else ():
            if group in opened and process is not None:
                self.set_process(group, process)

    def _keep_waiting(self) -> None:
        """Remove the process noise of states that wait for another sensor, so that they do not change."""
        for group in self.slow.waiting:
            if group.name in self._processes:
                self._processes[group.name][1:] = 0.0

    def place(self, pose: InitialPose) -> None:
        """Place the car at a pose, at rest on level ground except for its speed; the filter's other states stay."""
        car = self.car
        car.rest()
        car.ground[:] = (0.0, 0.0, 1.0, 0.0)
        car.call(self._kernels.sensors.observe_pose)
        change = np.zeros(CHART_SIZE)
        change[PLACE] = pose.position - self._pose[PLACE]
        change[YAW] = pose.yaw - self._pose[YAW]
        change[AHEAD] = pose.speed
        wheels = np.zeros((2, len(WHEELS)))
        wheels[1] = pose.speed / car.rolling_radius
        car.correct(change, wheels, carry=True)
        self._now[YAW] = pose.yaw  # `read_state` continues this yaw
        self._past = None

    def restart_history(self, t_ns: int) -> None:
        """Forget the past: measurements from before `t_ns` are too old from now on."""
        self.history.clear()
        self.read_state()
        self._begin_step(t_ns)

    def _begin_step(self, t_ns: int) -> None:
        """Begin a new step, in which nothing has been corrected yet."""
        self.history.step(t_ns)
        self._past, self._step_ns = None, t_ns

    def set_variance(self, group: Group, element: str, variance: float) -> None:
        """Set the variance of one state, without correlation with any other."""
        self.errors.set_variance(self.states.index(group, element), variance)

    def set_lateral_motion(self, yaw_rate: float, lateral: tuple[float, float], attitude: float) -> None:
        """Set the yaw rate (rad/s), with the present and uncertain lateral velocity.

        Standard deviations: `lateral`: of the lateral velocity, m/s, and share of the speed; `attitude`: of
        roll and pitch, rad.
        """
        change = np.zeros(CHART_SIZE)
        change[YAW_RATE] = yaw_rate - self.pose[YAW_RATE]
        self.car.correct(change, carry=True)
        self.read_state()
        self.set_variance(VELOCITY, "left", (lateral[0] + lateral[1] * abs(float(self.pose[AHEAD]))) ** 2)
        for slope in ("v1z", "v2z"):
            self.set_variance(ATTITUDE, slope, attitude**2)
            self.set_variance(ANGULAR_RATE, slope, attitude**2)

    def restart_process(self, group: Group, process: Process) -> None:
        """Restart a slow error with another process: zero, with the variance of that process."""
        self.set_process(group, process)
        place = self.states[group]
        of_group = slice(place.start - self._slow, place.stop - self._slow)
        self._extra[of_group] = 0.0
        self.car.tangent("extra")[of_group] = 0.0
        self.car.clear_tangents(f"{PROCESS}{group.name}")
        for i, sigma in zip(self.states.places(group), self.get_process(group)[1:].tolist(), strict=True):
            self.errors.set_variance(i, sigma**2 + _LEAST_SIGMA**2)

    def shift(self, offset: np.ndarray, d_offset: np.ndarray | None = None) -> None:
        """Move car and ground by `offset` (3,), m. `d_offset`: (3, directions) its derivatives."""
        change = np.zeros(CHART_SIZE)
        change[PLACE] = offset
        self.car.correct(change, carry=True, d_change=_below(d_offset, 0))
        self._past = None

    def turn(self, angle: float, d_angle: np.ndarray | None = None) -> None:
        """Rotate car and velocity about the vertical through the origin, rad. `d_angle`: (directions,)."""
        change = np.zeros(CHART_SIZE)
        change[YAW] = angle
        self.turned += angle
        self.car.correct(change, carry=True, d_change=_below(None if d_angle is None else d_angle[None], YAW))
        self._past = None

    def _enter_change(self, array: str, i: int, change: float, d_change: np.ndarray) -> None:
        """Enter a change of one number of the pose, made outside `apply_corrections`, into the history."""
        self._late.move(array, i, change, d_change)
        self.read_state()
        self.history.correct()
        self._past = None


def _below(d: np.ndarray | None, place: int) -> np.ndarray | None:
    """(12, directions) derivatives of a change of the chart, from those of some of its elements."""
    if d is None:
        return None
    change = np.zeros((CHART_SIZE, d.shape[-1]))
    change[place : place + len(d)] = d
    return change
