"""Inputs and outputs of a filter, and the interfaces through which estimator and sources use it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
import numpy as np

from vehicled.filter.settings import Filter
from vehicled.filter.slow_states import SlowStates
from vehicled.filter.state_table import StateVector
from vehicled.filter.states import Group, InitialConditions, Process
from vehicled.filter.structure import AddObservation
from vehicled.units import Vector

if TYPE_CHECKING:
    from vehicled.symbolic.past_moments import Chain
    from vehicled.symbolic.program import KernelHandle
    from vehicled.vehicle.car import Car


@dataclass(frozen=True)
class Mounting:
    """Places of the sensors in the car; vehicle axes, m."""

    antenna: tuple[float, float, float] = (0.0, 0.0, 0.0)
    imu: tuple[float, float, float] = (0.0, 0.0, 0.0)
    R_imu_vehicle: np.ndarray = field(default_factory=lambda: np.eye(3), hash=False)
    """(3, 3) rotation from vehicle axes to the IMU's."""
    gravity_removed: bool = False
    """Whether the device of the accelerometers has already subtracted gravity."""


@dataclass(frozen=True)
class SensorSetup:
    """What the filter has to know about the sensors."""

    states: tuple[tuple[Group, Any], ...]
    """Their slow errors, with the settings that give the numbers."""
    observations: tuple[AddObservation, ...]
    """Their measurement models."""
    mounting: Mounting = Mounting()
    arrays: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Numbers that their measurement models read, by name of the array in the program."""


@dataclass(frozen=True)
class InitialPose:
    """What the filter is initialised with."""

    position: np.ndarray
    """(3,) of the vehicle origin, m, world axes."""
    yaw: float
    """rad"""
    speed: float
    """m/s, straight ahead on rolling wheels."""


class Observation(msgspec.Struct, frozen=True, gc=False):
    """One measurement of one kind."""

    kind: str
    """Name of a measurement model, such as `imu.gyro`."""
    t_ns: int
    """When it was measured."""
    value: Sequence[float]
    variance: Sequence[float]
    """Variance of each component; MISSING for one that was not measured."""
    latency: float = 0.0
    """Latency, s, by its present estimate, that has been subtracted to give `t_ns`."""


class Update(msgspec.Struct, frozen=True, gc=False):
    """Effect of an observation on the filter."""

    innovation: list[float]
    """Value less prediction; empty when the observation is too old to be predicted."""
    variance: list[float]
    """Diagonal of the innovation covariance S."""
    nis: float
    """Normalised innovation squared νᵀ S⁻¹ ν."""
    rejected: Sequence[bool]
    """By component, False if it was not measured; empty if none was rejected."""
    reason: str
    """`fused`, `weighted`, `partly` (some components rejected), `gate` or `too old`."""

    @property
    def accepted(self) -> bool:
        """Whether any component has corrected the estimate."""
        return self.reason not in ("gate", "too old")


TOO_OLD = Update([], [], math.nan, (), "too old")


class UpdateLink(NamedTuple):
    """A link of a chain (`VehicleFilter.make_chain`): an update with an observation."""

    kind: str
    components: int


class ObservedFilter(Protocol):
    """The part of a filter that sources use; `VehicleState` and `VehicleFilter` describe each method."""

    is_drive_known: bool

    @property
    def settings(self) -> Filter:
        """Section `filter` of the configuration."""

    @property
    def car(self) -> Car:
        """The simulated car."""

    @property
    def states(self) -> StateVector:
        """Places of the error states in the vector."""

    @property
    def slow(self) -> SlowStates:
        """Estimates of the slow states."""

    @property
    def variances(self) -> np.ndarray:
        """(n,) diagonal of the covariance, a copy."""

    def get_covariance(self, i: int, j: int) -> float:
        """Covariance of two error states."""

    def get_variance(self, group: Group, element: str = "") -> float:
        """Variance of one error state."""

    @property
    def pose(self) -> np.ndarray:
        """Present pose (elements of POSE), with continuous yaw; not to be changed."""

    @property
    def turned(self) -> float:
        """Sum of all changes of the heading by corrections and `turn`, rad."""

    @property
    def measured_rates(self) -> np.ndarray:
        """(4,) 1 if gyroscopes have measured at an observation's time, else 0; and rates, rad/s, IMU axes.

        To be written before an update with the velocity of an antenna.
        """

    @property
    def road_lift(self) -> np.ndarray:
        """(1,) upward acceleration of the car by a curved road, m/s²; to be written."""

    @property
    def rear_radius(self) -> float:
        """Rolling radius of the rear wheels, m."""

    def get_process(self, group: Group) -> np.ndarray:
        """(1 + elements,) correlation time and σ of a Gauss–Markov group; not to be changed."""

    def set_process(self, group: Group, process: Process) -> None:
        """Change the process of a group's errors; their estimates and variances stay."""

    def set_process_time(self, group: Group, time: float) -> None:
        """Set the correlation time (s) of a Gauss–Markov group."""

    def set_speed(self, ahead: float, sigma: float) -> None:
        """Set the forward speed, m/s, with its σ."""

    def restart_process(self, group: Group, process: Process) -> None:
        """Restart a slow error with another process: zero, with the variance of that process."""

    def update(self, observation: Observation, limits: tuple[float, float]) -> Update:
        """Correct the estimate with an observation."""

    def make_chain(self, links: Sequence[KernelHandle | UpdateLink]) -> Chain:
        """Kernels and updates for `run_chain`."""

    def run_chain(self, t_ns: int, chain: Chain) -> int:
        """Run a chain while observations are within limits; returns the number of links done."""

    def apply_corrections(self) -> None:
        """Apply the corrections of this step's updates to the car and to the slow states."""

    def inflate(self, observation: Observation, update: Update) -> None:
        """Widen the states that a rejected observation depends on."""

    def set_variance(self, group: Group, element: str, variance: float) -> None:
        """Set the variance of one state, without correlation with any other."""

    def add_variance(self, group: Group, element: str, variance: float) -> None:
        """Add an independent error to a state."""

    def add_common_error(self, falsified: Iterable[tuple[Group, str, float]]) -> None:
        """Add an error that has falsified several states: state, and 1 σ with its sign."""

    def tilt_road(self, slope: float, bank: float) -> None:
        """Rotate road and car by these angles (rad): upwards ahead by `slope`, upwards to the left by `bank`."""

    def level(self, lean: complex, sigma: tuple[float, float]) -> None:
        """On hills: observe that forward and left axis, and the road, rise by `lean` (rad) more, with σ (rad)."""

    def turn_heading(self, angle: float) -> None:
        """Correct the estimated heading by an angle (rad) that the car has turned more than the estimate."""

    def restart_history(self, t_ns: int) -> None:
        """Forget the past: measurements from before `t_ns` are too old from now on."""

    def shift_antenna_to(
        self, place: np.ndarray, further: np.ndarray | None = None, antenna: Vector | None = None
    ) -> None:
        """Move the car so that an antenna is at a place (3,), m, NaN: any height; then by `further` (3,), m."""

    def turn(self, angle: float, d_angle: np.ndarray | None = None) -> None:
        """Rotate car and velocity about the vertical through the origin by an angle, rad."""

    def turn_to_course(self, observation: Observation) -> bool:
        """Turn the car to move along an observed course over ground; returns False if that is too old."""

    def reset_position(self, observation: Observation, update: Update, failing: Sequence[bool]) -> None:
        """Move the car to the receiver's position, by the innovation of the last update.

        `failing`: (3,) which components to move.
        """

    def set_wheel_angle(self, wheel: int, observation: Observation, variance: float) -> None:
        """Set a wheel's angle to its counter's reading, unless that is too old."""

    def reset_wheel_angle(self, wheel: int, innovation: float, variance: float) -> None:
        """Set a wheel's angle to its counter's reading, by the innovation of the last update."""

    def set_wheel_rate(self, wheel: int, observation: Observation, variance: float) -> float | None:
        """Set a wheel's rate to its measurement; returns by how much it has changed, rad/s, None if too old."""

    def calc_rolling_rate(self, wheel: int) -> float:
        """Rate at which a wheel rolls with the car's speed and yaw rate, rad/s."""


class EstimatedFilter(ObservedFilter, Protocol):
    """The part of a filter that the estimator uses in addition."""

    unconverged: int
    repairs: int

    @property
    def is_sound(self) -> bool:
        """Whether state and covariance are finite."""

    def configure(self, settings: Filter, sensors: SensorSetup) -> None:
        """Take other noise and places of sensors, also while running; the set of states stays."""

    def set_output_point(self, place: Vector) -> None:
        """Set the point of the chassis that estimates are of from now on, m in vehicle axes."""

    def initialise(self, t_ns: int, pose: InitialPose, initial: InitialConditions) -> None:
        """Start anew on level ground, with the variances and correlations of the table of states."""

    def predict(self, t_ns: int, h: float) -> None:
        """Simulate h seconds, up to t_ns, and propagate the covariance of the errors."""

    def update_road(self, interval: float) -> None:
        """Observe that slope and bank of roads are small. Call every `interval` seconds."""

    def expect_slopes(self, sigma: float) -> None:
        """Allow slope and bank up to σ (rad) at first, until the road shows otherwise."""

    def limit_rotation(self, interval: float) -> None:
        """Observe that roll and pitch rate are near the model's. Call every `interval` seconds."""

    def adapt_noise(self, interval: float) -> None:
        """Adapt the standard deviation of unmodelled accelerations to the drive. Call every `interval` seconds."""

    def open_states(self, is_active: Callable[[str], bool]) -> None:
        """Start to estimate the states that wait for another sensor, if that is active by now."""

    def widen_parameters(self, explained: Mapping[Group, float], interval: float) -> None:
        """Widen the prior of a parameter that measurements contradict."""

    def set_drive_known(self, known: bool) -> None:
        """Set whether drive torque and brake pressure are measured; if not, their force is a state."""

    def set_steering_known(self, known: bool, noise: float) -> None:
        """Set whether the steering is measured; if not, the error of its replacement changes by `noise`, rad/√s."""

    def read_state(self) -> np.ndarray:
        """Bring `pose` up to date with the car, and return it: a view of length len(POSE)."""

    correlation: float
    """Correlation of the errors of x and y in the last output."""
    is_within_bounds: bool
    """Whether each column of the last output is known to be below its bound."""

    def set_bounds(self, per_bound: np.ndarray) -> None:
        """Set (len(ESTIMATE_COLUMNS),) by column, the inverse of a magnitude that no car reaches."""

    def output(self, add: Callable[[], None] | None = None) -> np.ndarray:
        """(len(ESTIMATE_COLUMNS),) the estimate. `add` is called before, to change the car's outputs."""

    def save(self) -> np.ndarray:
        """A copy of the whole workspace (float64), for `restore`."""

    def restore(self, saved: np.ndarray) -> None:
        """Return to a saved state, including the settings of that time (see `configure`)."""

    def repair(self) -> None:
        """Make the covariance positive definite if rounding has made it indefinite; this is counted."""

    def shift(self, offset: np.ndarray, d_offset: np.ndarray | None = None) -> None:
        """Move car and ground by `offset` (3,), m. `d_offset`: (3, directions) its derivatives."""

    def set_lateral_motion(self, yaw_rate: float, lateral: tuple[float, float], attitude: float) -> None:
        """Set the yaw rate (rad/s), with the present and uncertain lateral velocity."""
