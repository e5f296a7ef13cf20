"""The estimator as it runs in the car, with the innovation of each observation and its derivatives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vehicled.configuration import Configuration
from vehicled.estimator import Estimator, EstimatorParts
from vehicled.filter.covariance import MISSING
from vehicled.filter.kinds import make_filter
from vehicled.filter.tangents import Companion
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import Innovation, Step
from vehicled.sources.inputs.inputs import Inputs
from vehicled.sources.sensors import Sensors
from vehicled.stepping import run_steps
from vehicled.vehicle.arrays import YAW_RATE
from vehicled.vehicle.car import Car

_INPUT_ARRAYS = ("inputs", "corner_inputs")
"""Arrays of a car that `Inputs` writes."""


def _nothing() -> np.ndarray:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class Decorrelated:
    """The measured components of an observation, decorrelated."""

    innovation: np.ndarray
    """(m,)"""
    precision: np.ndarray
    """(m,) inverse of the variance that the filter expects."""
    d_innovation: np.ndarray = field(default_factory=_nothing)
    """(m, directions)"""
    d_precision: np.ndarray = field(default_factory=_nothing)
    """(m, directions)"""


@dataclass(frozen=True)
class Change:
    """A configuration with one parameter changed by a small step."""

    configuration: Configuration
    step: float
    """Size of the step, in the unit of the parameter's estimate."""


class ObservedEstimator:
    """An estimator that keeps the observations of its last step.

    With `changes`, also their derivatives by each of these.
    """

    def __init__(self, configuration: Configuration, changes: Sequence[Change] = ()) -> None:
        c = configuration
        companions = [Companion(_make_filter(change.configuration), change.step) for change in changes]
        self._filter = _make_filter(c, companions)
        inputs = Inputs(self._filter.car, c.sensors)
        if companions:
            self._filter.seed_tangents(*_differentiate_settings(c.sensors, changes, self._filter.directions))
            inputs = _DifferentiatedInputs(self._filter.car, c.sensors, changes, companions)
        self._estimator = Estimator(c, EstimatorParts(self._filter, inputs, self._on_update))
        self.observations: list[tuple[Innovation, Decorrelated]] = []
        """Observations of the last step, accepted or rejected."""

    def run(self, steps: Iterable[Step]) -> Iterator[int]:
        """Run through a drive; yields the time of each step, ns, after the step. Raises what the estimator raises."""
        for result in run_steps(self._estimator, steps, raises=True):
            yield result.t
            self.observations = []

    @property
    def speed(self) -> float:
        """Speed along the car, m/s."""
        return self._estimator.speed

    @property
    def yaw_rate(self) -> float:
        """Yaw rate, rad/s."""
        return float(self._filter.pose.item(YAW_RATE))

    @property
    def loss(self) -> str | None:
        """Why the filter was lost within the last second; None if it was not."""
        condition = self._estimator.condition
        return condition.reason if condition.state in ("recovering", "failed") else None

    def _on_update(self, record: Innovation) -> None:
        if math.isnan(record.nis):  # a simulated wheel was set to its reading: nothing was predicted
            return
        f = self._filter
        # The filter holds all components, including those that were not measured.
        innovation, precision = f.decorrelated()
        parts = [innovation, precision, *(f.d_decorrelated() if f.directions else ())]
        if len(record.value) < len(innovation):
            measured = precision > 1e3 / MISSING
            parts = [part[measured] for part in parts]
        self.observations.append((record, Decorrelated(*parts)))


def _make_filter(c: Configuration, companions: Sequence[Companion] = ()) -> VehicleFilter:
    return make_filter(c.vehicle, c.filter, c.sensors.make_setup(), companions)


def _differentiate_settings(
    sensors: Sensors, changes: Sequence[Change], directions: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Derivatives by kind of observation: of its value (3, directions) and of its variance (directions,)."""
    variances, offsets = sensors.calc_variances(), sensors.get_offsets()
    d_variances = {kind: np.zeros(directions) for kind in variances}
    d_values = {kind: np.zeros((3, directions)) for kind in offsets}
    for k, change in enumerate(changes):
        its = change.configuration.sensors
        for kind, variance in variances.items():
            d_variances[kind][k] = (its.calc_variances()[kind] - variance) / change.step
        for kind, offset in offsets.items():
            d_values[kind][:, k] = np.subtract(offset, its.get_offsets()[kind]) / change.step
    return d_values, d_variances


class _DifferentiatedInputs(Inputs):
    """Inputs, and different inputs of changed configurations, for the tangents of the car's inputs."""

    def __init__(
        self, car: Car, sensors: Sensors, changes: Sequence[Change], companions: Sequence[Companion]
    ) -> None:
        self._others: list[tuple[int, Inputs, Car, float]] = []
        super().__init__(car, sensors)
        for k, (change, companion) in enumerate(zip(changes, companions, strict=True)):
            its = change.configuration.sensors
            inputs = Inputs(companion.filter.car, its)
            same = dict(its.inputs()) == dict(sensors.inputs())
            if not (same and inputs.steering.geometry.is_same(self.steering.geometry)):
                self._others.append((k, inputs, companion.filter.car, companion.step))
        self.reset()

    def reset(self) -> None:
        super().reset()
        for _, inputs, _, _ in self._others:
            inputs.reset()
        if self._others:
            self._car.clear_tangents(*_INPUT_ARRAYS)

    def take(self, t_ns: int, values: Mapping[str, float]) -> None:
        super().take(t_ns, values)
        for _, inputs, _, _ in self._others:
            inputs.take(t_ns, values)

    def apply(self, t: float) -> None:
        super().apply(t)
        for k, inputs, car, step in self._others:
            inputs.apply(t)
            for array in _INPUT_ARRAYS:
                self._car.differentiate(array, k, car, step)
