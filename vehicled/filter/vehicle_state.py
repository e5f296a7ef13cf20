"""The state of a filter on the vehicle: the simulated car, the covariance of its errors, and its past."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vehicled.filter.boundary import InitialPose, SensorSetup
from vehicled.filter.covariance import Covariance
from vehicled.filter.history import History
from vehicled.filter.settings import Filter
from vehicled.filter.states import (
    RATES,
    SUSPENSION,
    Group,
    InitialConditions,
    Process,
    StateVector,
    make_table,
)
from vehicled.filter.structure import CHART_PAIRS, PROCESS, Structure, make_extension
from vehicled.filter.tangents import Companion, FilterTangents
from vehicled.messages import WHEELS
from vehicled.vehicle.arrays import AHEAD, MOUNTING, POSE, YAW
from vehicled.vehicle.car import Car
from vehicled.vehicle.kinematics import calc_heave_stiffness
from vehicled.vehicle.parameters import Vehicle

_NOT_YET = Process(1.0, 0.0)
"""Of a group whose process is set while running."""
_AT_REST = InitialConditions(speed=0.0, position_known=False, yaw_variance=1e-6)


class VehicleState:
    """A car that is simulated beside the real one, and the covariance of its errors.

    All arrays are views into one workspace, the car's.
    """

    def __init__(
        self,
        vehicle: Vehicle,
        settings: Filter,
        sensors: SensorSetup,
        companions: Sequence[Companion] = (),
    ) -> None:
        """`companions`: filters of changed parameters, by which everything is differentiated."""
        table = make_table(settings, sensors.states, sensors.model_error)
        structure = Structure(settings.kind, table.groups, sensors.observations)
        extension = make_extension(structure)
        self.car = car = Car(vehicle, (extension,), FilterTangents.differentiation(companions))
        self._kernels = car.result(extension)
        self.states = StateVector(table.groups)
        view = car.view
        kernels = self._kernels
        self._read_state = car.bind(kernels.read_state)
        self.errors = Covariance(len(self.states), car, kernels.updates, kernels.evaluations)
        self._slow = self.states[RATES[-1]].stop
        self._pairs = self.states[RATES[0]].start
        self._extra = view("extra")
        """Estimates of the slow states. Those of the suspensions are not kept: they are applied to the car."""
        self._density, self._per_speed = view("density"), view("lateral_per_speed")
        self._processes = {g.name: view(f"{PROCESS}{g.name}") for g in self.states.fading}
        self._pose, self._since, self._age = view("pose"), view("since"), view("age")
        self._past_wheels, self._moved, self._h = view("past_wheels"), view("moved"), view("h")
        # `now` and `now_wheels` lie one after the other: one array for the history.
        begin, end = (car.layout.places[name].offset for name in ("now", "now_wheels"))
        self._wheels = end - begin
        self._now = car.workspace[begin : end + 2 * len(WHEELS)]
        """The present pose (POSE, its yaw without jumps), then, from `_wheels` on, the wheels' angles and rates."""
        self.pose = self._now[: len(POSE)]
        """Present pose (elements of POSE), its yaw without jumps; not to be changed."""
        self._has_travel = SUSPENSION[0] in self.states
        self._travel = view("x")[self.states[SUSPENSION[0]].start :] if self._has_travel else np.zeros(0)
        self._write_constants(vehicle)
        self._past: int | None = None
        """Time that `_pose` is of, where it is not the present."""
        self.unconverged = 0
        """Steps whose Newton iteration reached its limit."""
        self.repairs = 0
        """How often the covariance had lost its definiteness."""
        self._tangents = FilterTangents(self, companions, len(self._now))
        self.directions = self._tangents.directions
        """Derivatives that are carried along; 0 without companions."""
        self._d_innovation = car.tangent("innovation")
        self.history = History(settings.memory, len(self._now), self._pairs, self._tangents.directions)
        self.configure(settings, sensors)
        self._t_ns = 0
        self.initialise(0, InitialPose(np.array([0.0, 0.0, car.design_height]), 0.0, 0.0), _AT_REST)

    def _write_constants(self, vehicle: Vehicle) -> None:
        """What kernels need of the car beside its own parameters."""
        car, view = self.car, self.car.view
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
            view("heave")[:] = calc_heave_stiffness(vehicle) / vehicle.mass

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
        """(elements,) present estimates of a group of slow states, in its unit, a copy."""
        place = self.states[group]
        return self._extra[place.start - self._slow : place.stop - self._slow].copy()

    def get_process(self, group: Group) -> np.ndarray:
        """(1 + elements,) time and σ of a group that fades; not to be changed."""
        return self._processes[group.name]

    def set_process_time(self, group: Group, time: float) -> None:
        """Set the time (s) in which a group of states fades."""
        self._processes[group.name][0] = time

    def save(self) -> np.ndarray:
        """A copy of the whole workspace (float64), for `restore`."""
        return self.car.workspace.copy()

    def restore(self, saved: np.ndarray) -> None:
        """Return to a saved state; settings too are those of then (see `configure`)."""
        self.car.workspace[:] = saved
        self._past = None

    def read_state(self) -> np.ndarray:
        """Bring `pose` up to date with the car, and return it: a view of length len(POSE)."""
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

    def initialise(self, t_ns: int, pose: InitialPose, initial: InitialConditions) -> None:
        """Begin anew on level ground, with the variances of the table of states, not correlated.

        Slow states are zero.
        """
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

    def place(self, pose: InitialPose) -> None:
        """Put the car there, at rest on level ground but for its speed; the filter's other states stay."""
        car = self.car
        car.rest()
        car.ground[:] = (0.0, 0.0, 1.0, 0.0)
        car.call(self._kernels.sensors.observe_pose)
        change = np.zeros(2 * CHART_PAIRS)
        change[:3] = pose.position - self._pose[:3]
        change[YAW] = pose.yaw - self._pose[YAW]
        change[AHEAD] = pose.speed
        wheels = np.zeros((2, len(WHEELS)))
        wheels[1] = pose.speed / car.rolling_radius
        car.correct(change, wheels, carry=True)
        self._now[YAW] = pose.yaw  # from which `read_state` goes on
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
        """Turn the whole car, its velocity with it, about the vertical through its origin.

        `d_angle`: (directions,).
        """
        change = np.zeros(2 * CHART_PAIRS)
        change[YAW] = angle
        self.car.correct(change, carry=True, d_change=_below(None if d_angle is None else d_angle[None], YAW))
        self._past = None

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


def _below(d: np.ndarray | None, place: int) -> np.ndarray | None:
    """(12, directions) derivatives of a change of the chart, from those of some of its elements."""
    if d is None:
        return None
    change = np.zeros((2 * CHART_PAIRS, d.shape[-1]))
    change[place : place + len(d)] = d
    return change
