"""Selects the error states and observations compiled into a car's program, and holds the resulting kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from vehicled.filter.history_kernels import HistoryKernels
from vehicled.filter.late_kernels import LateKernels
from vehicled.filter.settings import Kind
from vehicled.filter.states import Group
from vehicled.symbolic.program import KernelHandle, RoutineHandle
from vehicled.vehicle.arrays import CHART
from vehicled.vehicle.extension import Extension, get_global_name
from vehicled.vehicle.interface import SensorKernels

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.program import Program
    from vehicled.vehicle.outputs import Parts

CHART_PAIRS = len(CHART)
SIGMAS = ("x", "y", "z", "yaw", "vx", "vy", "sideslip")
"""Elements of the array `sigmas`: standard deviations of these columns of an estimate."""
PROCESS = "process."
"""Prefix of the array of a Gauss–Markov group (time, σ of each element), before the name of the group."""


class AddObservation(Protocol):
    """A source's measurement models, added to the program (see `ErrorModel.observe`)."""

    def __call__(self, model: ErrorModel, /) -> None:
        """Add the observations to a model that is being built."""


@dataclass(frozen=True)
class Structure:
    """Selects what is compiled: error states, how they propagate, and observations."""

    kind: Kind
    groups: tuple[Group, ...]
    observations: tuple[AddObservation, ...]

    @property
    def code_key(self) -> str | None:
        """See `Extension`. Only these data of a group count, as code does not depend on its numbers."""
        groups = [(g.name, g.elements, g.process is not None, g.limit) for g in self.groups]
        observations = [get_global_name(add) for add in self.observations]
        return None if None in observations else repr((self.kind, groups, observations))


class ChassisReading(NamedTuple):
    """The sensor model of the chassis that predicts an observation."""

    sensor: str
    """Field of `SensorKernels`."""
    is_angle: bool
    """Whether it is an angle, for which whole turns do not count."""


@dataclass(frozen=True)
class FilterKernels:
    """The kernels that the error states add to a car."""

    read_state: KernelHandle
    """Writes the present pose and the wheels' angles and rates to `now`."""
    whole_step: RoutineHandle
    """`adjust`, a step of the car, and `propagate`; called like the step."""
    history: HistoryKernels
    propagate: KernelHandle
    """`read_state`, and propagation of covariance and slow states; for sigma points, of the states that
    propagate linearly."""
    late: LateKernels
    apply: KernelHandle
    """Applies the correction to the car and to the slow states, writes it to `moved`, and adds it to the
    history's sums."""
    sum_up: KernelHandle
    """Writes the sum of covariance and pose to `soundness`."""
    output: KernelHandle
    """The car's outputs, and `sigmas`."""
    sigmas: KernelHandle
    """Standard deviations of the estimate."""
    adjust: KernelHandle
    """Effects of the slow states on the car: torques, tyres, steering, and unmodelled forces."""
    drift: KernelHandle | None
    """For sigma points: drift of the chart by errors at `pose`, and slope of the ground there."""
    densities: KernelHandle | None
    """For sigma points: plant noise per second at the present pose."""
    euler: KernelHandle | None
    """A step of the car by forward Euler."""
    updates: tuple[KernelHandle, ...]
    evaluations: tuple[KernelHandle, ...]
    observations: dict[str, KernelHandle]
    """By kind: evaluate an observation."""
    gated_updates: dict[str, KernelHandle]
    """By kind: evaluate, and update with it if `nis` is less than `limit`."""
    take_back: dict[str, KernelHandle]
    """By kind, if an observation does not correct all states that it depends on: kernel to be run after any
    other update."""
    readings: dict[str, ChassisReading]
    """By kind, if a sensor model of the chassis predicts the observation: that model."""
    sensors: SensorKernels
    """Kernels of the chassis' sensor models."""


def make_extension(structure: Structure) -> Extension[FilterKernels]:
    """Extension of `Car` with the error model of that structure."""
    return Extension(add_error_model, FilterKernels, (structure,))


def add_error_model(program: Program, parts: Parts, structure: Structure) -> FilterKernels:
    """Add the error model (`make_extension`)."""
    # Imported here, as these modules are not needed if compiled code is on disk.
    from vehicled.filter.error_model import ErrorModel
    from vehicled.filter.output_columns import add_estimate
    from vehicled.filter.road_and_springs import add_road, add_springs

    model = ErrorModel(program, parts, structure)
    for add in (*structure.observations, add_road, add_springs):
        add(model)
    kernels = model.finish()
    add_estimate(program)
    return kernels
