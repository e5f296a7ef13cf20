"""What goes into a filter and what comes out of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

from vehicled.filter.states import Group
from vehicled.filter.structure import AddObservation


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
