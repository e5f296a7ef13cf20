"""Which error states and observations are compiled into the program of a car, and what the result is called by."""

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
"""Before the name of a group that fades: its array (time, σ of each element)."""


class AddObservation(Protocol):
    """A source's measurement models, added to the program (see `ErrorModel.observe`)."""

    def __call__(self, model: ErrorModel, /) -> None:
        """Add the observations to a model that is being built."""


@dataclass(frozen=True)
class Structure:
    """What is compiled: which error states there are, how they propagate, and what is observed of them."""

    kind: Kind
    groups: tuple[Group, ...]
    observations: tuple[AddObservation, ...]

    @property
    def code_key(self) -> str | None:
        """See `Extension`. Of a group only these count: code does not depend on its numbers."""
        groups = [(g.name, g.elements, g.process is not None, g.limit) for g in self.groups]
        observations = [get_global_name(add) for add in self.observations]
        return None if None in observations else repr((self.kind, groups, observations))


class ChassisReading(NamedTuple):
    """The sensor model of the chassis that predicts an observation."""

    sensor: str
    """Field of `SensorKernels`."""
    is_angle: bool
    """Whether a whole turn more or less makes no difference."""


@dataclass(frozen=True)
class FilterKernels:
    """The kernels that the error states add to a car."""

    read_state: KernelHandle
    """The present pose and the wheels' angles and rates into `now`."""
    whole_step: RoutineHandle
    """`adjust`, a step of the car, and `propagate`; called as the step is."""
    history: HistoryKernels
    propagate: KernelHandle
    """That, and covariance and slow states one step on; for sigma points, the states that propagate linearly."""
    late: LateKernels
    apply: KernelHandle
    """The gathered correction to the car and to the slow states, and into `moved` and the history's sums."""
    sum_up: KernelHandle
    """The sum of covariance and pose into `soundness`."""
    output: KernelHandle
    """The car's outputs, and `sigmas`."""
    sigmas: KernelHandle
    """Standard deviations of the estimate."""
    adjust: KernelHandle
    """What the slow states change of the car: torques, tyres, steering, and the force that the model lacks."""
    drift: KernelHandle | None
    """For sigma points: how errors move the chart at `pose`, and how steep the ground is there."""
    densities: KernelHandle | None
    """For sigma points: plant noise per second at the present pose."""
    euler: KernelHandle | None
    """A step of the car by forward Euler."""
    updates: tuple[KernelHandle, ...]
    evaluations: tuple[KernelHandle, ...]
    observations: dict[str, KernelHandle]
    """By kind: evaluate an observation."""
    gated_updates: dict[str, KernelHandle]
    """By kind: that, and an update with it if `nis` is less than `limit`."""
    take_back: dict[str, KernelHandle]
    """By kind of those that do not correct all states that they depend on: what follows any other update."""
    readings: dict[str, ChassisReading]
    """By kind of the observations that a sensor model of the chassis predicts: that model."""
    sensors: SensorKernels
    """Of the chassis' sensor models."""


def make_extension(structure: Structure) -> Extension[FilterKernels]:
    """For `Car`: the error model of that structure."""
    return Extension(add_error_model, FilterKernels, (structure,))


def add_error_model(program: Program, parts: Parts, structure: Structure) -> FilterKernels:
    """What `make_extension` adds."""
    # Code that has been kept on disk needs none of what it was made with.
    from vehicled.filter.error_model import ErrorModel
    from vehicled.filter.output_columns import add_estimate
    from vehicled.filter.road_and_springs import add_road, add_springs

    model = ErrorModel(program, parts, structure)
    for add in (*structure.observations, add_road, add_springs):
        add(model)
    kernels = model.finish()
    add_estimate(program)
    return kernels
