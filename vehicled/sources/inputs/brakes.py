"""Brake pressure, as an input of the model."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from vehicled.messages import WHEELS
from vehicled.sources.inputs.model_input import InputSettings, ModelInput
from vehicled.sources.inputs.tracker import EXTRAPOLATED_OVER, Tracker
from vehicled.units import Pascals
from vehicled.vehicle.arrays import BRAKE_PRESSURE

if TYPE_CHECKING:  # commands that only read a configuration load no machine code
    from vehicled.vehicle.car import Car

TIMEOUT = 0.5
"""s: a pressure that has not been measured for this long is unknown, and taken as zero."""
_FASTEST = 1e8
"""Pa/s: no foot and no pump builds up pressure faster. A failing sensor jumps. The effect on the model, until
the accelerometer corrects it, is not in the filter's variances."""
_CHANNEL = "brake.pressure"
_PRESSURES = slice(BRAKE_PRESSURE * len(WHEELS), (BRAKE_PRESSURE + 1) * len(WHEELS))
"""Places of this row in the flat inputs of corners."""


@dataclass(frozen=True, kw_only=True)
class BrakePressure(InputSettings):
    """How the brake pressure that the model follows is read."""

    LIMITS: ClassVar[Mapping[str, float]] = {_CHANNEL: 1e8}

    offset: Pascals = 0.0
    """Reading of the sensor while the brakes are released."""

    def make_input(self, car: Car) -> Brakes:
        """The input that uses this section."""
        return Brakes(self, car)


class Brakes(ModelInput[BrakePressure]):
    """Keeps the latest line pressure."""

    NAME = "brakes"
    SERVES = ("slip",)
    HOLDS = TIMEOUT

    def __init__(self, settings: BrakePressure, car: Car) -> None:
        super().__init__(settings, car)
        self._inputs = car.flat_corner_inputs
        self._pressure, self._tracker = 0.0, Tracker(EXTRAPOLATED_OVER)
        """As measured last, Pa."""
        self._measured_at = self._applied_at = -math.inf

    @property
    def measured_at(self) -> float:
        """When it was measured last, s; −∞ if never."""
        return self._measured_at

    def take(self, t: float, values: Mapping[str, float]) -> None:
        """Keep the line pressure (Pa, less `offset`) if it is among the channels; below zero counts as zero."""
        if _CHANNEL in values:
            self._pressure = max(values[_CHANNEL] - self.settings.offset, 0.0)
            self._tracker.update(t - self.settings.latency, self._pressure)
            self._measured_at = t

    def is_measured(self, t: float) -> bool:
        """Whether it was measured shortly before t, s."""
        return t - self._measured_at < TIMEOUT

    def find(self, t: float) -> float:
        """Line pressure at t (s), Pa; 0 where it is not measured. Late samples are extrapolated."""
        if not self.is_measured(t):
            return 0.0
        return max(self._tracker.at(t)[0], 0.0) if self.settings.latency else self._pressure

    def apply(self, t: float) -> None:
        """Write it into the car, limited to its fastest rise; zero if it is not measured at t, s."""
        pressure, before = self.find(t), self._inputs[_PRESSURES.start]
        if pressure != before:
            pressure = min(pressure, before + _FASTEST * (t - self._applied_at))
            self._inputs[_PRESSURES] = array("d", [pressure] * len(WHEELS))
        self._applied_at = t
