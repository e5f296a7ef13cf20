"""Settings of the gyroscopes and of the accelerometers of an IMU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from vehicled.sources.gate import Gate
from vehicled.units import (
    MetresPerSecondSquared,
    NonNegative,
    Positive,
    RadiansPerSecond,
    RadiansPerSecondVector,
    Unit,
    Vector,
)


@dataclass(frozen=True, kw_only=True)
class Gyroscopes:
    """Noise, bias and gate of the gyroscopes; the same for all axes where there is one number."""

    noise: Annotated[RadiansPerSecond, Positive] = 0.003
    """Of one sample, at rates up to 400 Hz."""
    model_error: RadiansPerSecondVector = (0.1, 0.1, 0.0)
    """Errors of the model's roll, pitch and yaw rate, as suspensions differ: noise in addition to that of a
    sample.

    These errors last over many samples. With less noise than here, they would be taken for errors of
    alignment, tyres and latencies."""
    bias: Annotated[RadiansPerSecond, NonNegative] = 0.01
    """1 σ at the start."""
    bias_drift: Annotated[float, Unit("rad/s/√s"), NonNegative] = 2e-5
    """Random walk of the bias."""
    scale: Annotated[float, NonNegative] = 0.0025
    """Common scale error of all three, which the filter estimates: 1 σ."""
    offset: RadiansPerSecondVector = (0.0, 0.0, 0.0)
    """The part of the bias that is known, per axis: it is subtracted."""
    gate: Gate = field(default_factory=Gate)


@dataclass(frozen=True, kw_only=True)
class Accelerometers:
    """Noise, bias and gate of the accelerometers; the same for all axes where there is one number."""

    noise: Annotated[MetresPerSecondSquared, Positive] = 0.06
    """Of one sample, at rates up to 400 Hz: sensor, vibration, uneven road."""
    bias: Annotated[MetresPerSecondSquared, NonNegative] = 0.1
    bias_drift: Annotated[float, Unit("m/s²/√s"), NonNegative] = 2e-4
    scale: Annotated[float, NonNegative] = 0.02
    """Lateral scale error, 1 σ: of the sensor, and as the body rolls more or less than the model's. The
    filter estimates it. Along the car, slip and mass have the same effect as a scale error."""
    offset: Annotated[Vector, Unit("m/s²")] = (0.0, 0.0, 0.0)
    """The part of the bias that is known, per axis: it is subtracted."""
    gravity_removed: bool = False
    """Whether the device has already subtracted gravity."""
    gate: Gate = field(default_factory=Gate)
