"""Base classes of sensors whose measurements drive the model: inputs of the prediction, not observations.

A new kind of input is a module with these two classes, and a field of `Sensors` (see `sensors.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from vehicled.sources.source import SensorSettings

if TYPE_CHECKING:  # commands that only read a configuration load no machine code
    from vehicled.vehicle.car import Car


@dataclass(frozen=True, kw_only=True)
class InputSettings(SensorSettings):
    """The section of a kind of input in the configuration."""

    @abstractmethod
    def make_input(self, car: Car) -> ModelInput[InputSettings]:
        """The input that uses this section."""


T = TypeVar("T", bound=InputSettings, covariant=True)


class ModelInput(ABC, Generic[T]):
    """Keeps the latest measurement, and writes it into a car before each step."""

    NAME: ClassVar[str]
    """Name in faults and in `status`."""
    SERVES: ClassVar[tuple[str, ...]]
    """Estimated quantities that are less certain without it."""
    HOLDS: ClassVar[float]
    """Time, s, for which a measurement is used."""

    def __init__(self, settings: T, car: Car) -> None:
        self.settings = settings
        self._car = car

    def reconfigure(self, settings: InputSettings) -> None:
        """Take other settings of the same kind while running."""
        self.settings = settings  # type: ignore[assignment]

    @property
    @abstractmethod
    def measured_at(self) -> float:
        """When it was measured last, s; −∞ if never."""

    @property
    def fault(self) -> str | None:
        """Fault of its measurements other than silence, in words; None without one."""
        return None

    @abstractmethod
    def take(self, t: float, values: Mapping[str, float]) -> None:
        """Keep those of its channels that came with the time t, s."""

    @abstractmethod
    def apply(self, t: float) -> None:
        """Write its value at t (s) into the car."""
