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
    """What the model's rates of roll, pitch and yaw differ by, as suspensions differ: noise beside a sample's.

    That error lasts over many samples. With less noise than here, what they show of it would be taken for errors of
    alignment, tyres and latencies."""
    bias: Annotated[RadiansPerSecond, NonNegative] = 0.01
    """At the start."""
    bias_drift: Annotated[float, Unit("rad/s/√s"), NonNegative] = 2e-5
    """Random walk of the bias."""
    scale: Annotated[float, NonNegative] = 0.0025
    """Scale error of the three together, which the filter estimates: 1 σ."""
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
    """Scale error across the car, 1 σ: of the sensor, and as the body rolls with accelerations by more or less than
    the model's. The filter estimates it. Along the car, slip and mass have the same effect."""
    offset: Annotated[Vector, Unit("m/s²")] = (0.0, 0.0, 0.0)
    """The part of the bias that is known, per axis: it is subtracted."""
    gravity_removed: bool = False
    """Whether the device has already subtracted gravity."""
    gate: Gate = field(default_factory=Gate)
