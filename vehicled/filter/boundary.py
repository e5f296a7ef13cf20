"""What goes into a filter and what comes out of it, and what estimator and sources use of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
    """Of each component; MISSING for one that was not measured."""
    latency: float = 0.0
    """By how much `t_ns` is before the time that was given, by the estimate of a latency now, s."""


class Update(msgspec.Struct, frozen=True, gc=False):
    """What an observation did to the filter."""

    innovation: list[float]
    """Value less prediction; empty when the observation is too old to be predicted."""
    variance: list[float]
    """Diagonal of the innovation covariance S."""
    nis: float
    """Normalised innovation squared νᵀ S⁻¹ ν."""
    rejected: Sequence[bool]
    """By component, False where it was not measured; empty where none was rejected."""
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
    """What the sources use of a filter; `VehicleState` and `VehicleFilter` describe each method."""

    is_drive_known: bool

    @property
    def settings(self) -> Filter:
        """Section `filter` of the configuration."""

    @property
    def car(self) -> Car:
        """The simulated car."""

    @property
    def states(self) -> StateVector:
        """Where each error state is."""

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
        """Present pose (elements of POSE), its yaw without jumps; not to be changed."""

    @property
    def turned(self) -> float:
        """By how much corrections and `turn` have turned the car in all, rad."""

    @property
    def measured_rates(self) -> np.ndarray:
        """(4,) 1 where gyroscopes have measured at the time of an observation, else 0; rad/s in IMU axes.

        To be written before a velocity of an antenna.
        """

    @property
    def road_lift(self) -> np.ndarray:
        """(1,) by which a road that curves upwards accelerates the car, m/s²; to be written."""

    @property
    def rear_radius(self) -> float:
        """Rolling radius of the rear wheels, m."""

    def get_process(self, group: Group) -> np.ndarray:
        """(1 + elements,) time and σ of a group that fades; not to be changed."""

    def set_process(self, group: Group, process: Process) -> None:
        """The errors of a group go on as another process; their estimates and variances stay."""

    def set_process_time(self, group: Group, time: float) -> None:
        """Set the time (s) in which a group of states fades."""

    def set_speed(self, ahead: float, sigma: float) -> None:
        """Go ahead at another speed, m/s; `sigma`: of it."""

    def restart_process(self, group: Group, process: Process) -> None:
        """A slow error of another kind: zero, with the variance of the new process."""

    def update(self, observation: Observation, limits: tuple[float, float]) -> Update:
        """Correct the estimate with an observation."""

    def make_chain(self, links: Sequence[KernelHandle | UpdateLink]) -> Chain:
        """Kernels and updates for `run_chain`."""

    def run_chain(self, t_ns: int, chain: Chain) -> int:
        """Run them at once, as far as observations are within limits; returns how many are done."""

    def apply_corrections(self) -> None:
        """Apply what the updates of this step have found to the car and to the slow states."""

    def inflate(self, observation: Observation, update: Update) -> None:
        """Open the states that a rejected observation depends on."""

    def set_variance(self, group: Group, element: str, variance: float) -> None:
        """Give one state a variance, without correlation with any other."""

    def add_variance(self, group: Group, element: str, variance: float) -> None:
        """Add an error that is independent of all others to a state."""

    def tilt_road(self, slope: float, bank: float) -> None:
        """The road has turned by these angles (rad), and the car with it: it rises more ahead, and to the left."""

    def level(self, lean: complex, sigma: tuple[float, float]) -> None:
        """On hills: the axes ahead and to the left, and the road, rise by `lean` (rad) more, within σ (rad)."""

    def turn_heading(self, angle: float) -> None:
        """Turn the estimated heading by an angle (rad) that the car has turned more than the estimate."""

    def restart_history(self, t_ns: int) -> None:
        """Forget the past: measurements from before `t_ns` are too old from now on."""

    def shift_antenna_to(
        self, place: np.ndarray, further: np.ndarray | None = None, antenna: Vector | None = None
    ) -> None:
        """Move the car so that an antenna is at a place (3,), m, or NaN for its height; then by `further` (3,)."""

    def turn(self, angle: float, d_angle: np.ndarray | None = None) -> None:
        """Turn the whole car, its velocity with it, about the vertical through its origin."""

    def turn_to_course(self, observation: Observation) -> bool:
        """Turn the car so that it moved along an observed course over ground; False when that is too old."""

    def reset_position(self, observation: Observation, update: Update, failing: Sequence[bool]) -> None:
        """Move the car to the receiver's position, by the innovation of the update just made.

        `failing`: in which components (3,).
        """

    def set_wheel_angle(self, wheel: int, observation: Observation, variance: float) -> None:
        """Turn a wheel to its counter's reading, unless that is too old."""

    def reset_wheel_angle(self, wheel: int, innovation: float, variance: float) -> None:
        """Turn a wheel to its counter's reading, by the innovation of the update just made."""

    def set_wheel_rate(self, wheel: int, observation: Observation, variance: float) -> float | None:
        """Turn a wheel as fast as it is measured to, and by how much faster, rad/s; None where that is too old."""

    def calc_rolling_rate(self, wheel: int) -> float:
        """Rate at which a wheel rolls with the car's speed and yaw rate, rad/s."""


class EstimatedFilter(ObservedFilter, Protocol):
    """What the estimator uses of a filter beside that."""

    unconverged: int
    repairs: int

    @property
    def is_sound(self) -> bool:
        """Whether state and covariance are finite."""

    def configure(self, settings: Filter, sensors: SensorSetup) -> None:
        """Take other noise and places of sensors, also while running; which states there are stays."""

    def set_output_point(self, place: Vector) -> None:
        """Give the estimate of this point of the chassis from now on, m in vehicle axes."""

    def initialise(self, t_ns: int, pose: InitialPose, initial: InitialConditions) -> None:
        """Begin anew on level ground, with the variances and correlations of the table of states."""

    def predict(self, t_ns: int, h: float) -> None:
        """Simulate h seconds, up to t_ns, and propagate the covariance of the errors."""

    def update_road(self, interval: float) -> None:
        """What is known of roads: slope and bank are small. Call every `interval` seconds."""

    def expect_slopes(self, sigma: float) -> None:
        """Slope and bank of the road may be as large as σ (rad) at first, until the road shows otherwise."""

    def limit_rotation(self, interval: float) -> None:
        """What is known of roll and pitch rate without gyroscopes. Call every `interval` seconds."""

    def adapt_noise(self, interval: float) -> None:
        """Let the standard deviation of what the model lacks follow the drive. Call every `interval` seconds."""

    def open_states(self, is_active: Callable[[str], bool]) -> None:
        """Begin to estimate the states that need another sensor, where that is active by now."""

    def widen_parameters(self, explained: Mapping[Group, float]) -> None:
        """Widen the prior of a parameter that measurements contradict."""

    def set_drive_known(self, known: bool) -> None:
        """Whether drive torque and brake pressure are measured; if not, their force is a state."""

    def set_steering_known(self, known: bool, noise: float) -> None:
        """Whether the steering is measured; if not, the error of what replaces it changes by `noise`, rad/√s."""

    def read_state(self) -> np.ndarray:
        """Bring `pose` up to date with the car, and return it: a view of length len(POSE)."""

    correlation: float
    """Of the errors of x and y in the last output."""
    is_within_bounds: bool
    """Whether each column of that is known to be less than its bound."""

    def set_bounds(self, per_bound: np.ndarray) -> None:
        """(len(ESTIMATE_COLUMNS),) by column, the inverse of the magnitude that no car reaches."""

    def output(self, add: Callable[[], None] | None = None) -> np.ndarray:
        """(len(ESTIMATE_COLUMNS),) the estimate; `add` is called before that, to change the car's outputs."""

    def save(self) -> np.ndarray:
        """A copy of the whole workspace (float64), for `restore`."""

    def restore(self, saved: np.ndarray) -> None:
        """Return to a saved state; settings too are those of then (see `configure`)."""

    def repair(self) -> None:
        """Make the covariance definite; what rounding took from it is counted."""

    def shift(self, offset: np.ndarray, d_offset: np.ndarray | None = None) -> None:
        """Move the car (3,), and the ground under it. `d_offset`: (3, directions) derivatives of that."""

    def set_lateral_motion(self, yaw_rate: float, lateral: tuple[float, float], attitude: float) -> None:
        """Turn at a yaw rate (rad/s) at the present lateral velocity, of which little is known."""
