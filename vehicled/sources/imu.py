"""The inertial measurement unit: gyroscopes and accelerometers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np

from vehicled.filter.covariance import MISSING
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    DRIVE_FORCE,
    MODEL_ERROR,
    SUSPENSION,
    VELOCITY,
    ErrorStates,
    NoiseSetting,
    Process,
)
from vehicled.messages import WHEELS, Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.source import Context, Source, SourceSettings
from vehicled.units import (
    MetresPerSecondSquared,
    MetresVector,
    NonNegative,
    Positive,
    RadiansPerSecond,
    RadiansPerSecondVector,
    RadiansVector,
    Seconds,
    Unit,
    Vector,
)

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel

GYROSCOPES = ("imu.wx", "imu.wy", "imu.wz")
ACCELEROMETERS = ("imu.ax", "imu.ay", "imu.az")


@dataclass(frozen=True, kw_only=True)
class Gyroscopes:
    """Noise, bias and gate of the gyroscopes; the same for all axes where there is one number."""

    noise: Annotated[RadiansPerSecond, Positive] = 0.003
    """Of one sample, with what the model leaves unexplained."""
    bias: Annotated[RadiansPerSecond, NonNegative] = 0.01
    """At the start."""
    bias_drift: Annotated[float, Unit("rad/s/√s"), NonNegative] = 2e-5
    """Random walk of the bias."""
    offset: RadiansPerSecondVector = (0.0, 0.0, 0.0)
    """The part of the bias that is known, per axis: it is subtracted."""
    gate: Gate = field(default_factory=Gate)


@dataclass(frozen=True, kw_only=True)
class Accelerometers:
    """Noise, bias and gate of the accelerometers, and how far the model's accelerations are trusted."""

    noise: Annotated[MetresPerSecondSquared, Positive] = 0.06
    """Of one sample: sensor, vibration, uneven road."""
    model_error: Annotated[Vector, Unit("m/s²"), NonNegative] = (0.2, 0.2, 0.05)
    """What the model's accelerations leave unexplained for a while, per axis: errors of mass, torque, tyres."""
    model_error_time: Annotated[Seconds, Positive] = 1.0
    bias: Annotated[MetresPerSecondSquared, NonNegative] = 0.1
    bias_drift: Annotated[float, Unit("m/s²/√s"), NonNegative] = 2e-4
    offset: Annotated[Vector, Unit("m/s²")] = (0.0, 0.0, 0.0)
    """The part of the bias that is known, per axis: it is subtracted."""
    gravity_removed: bool = False
    """Whether the device has already subtracted gravity."""
    gate: Gate = field(default_factory=Gate)


def _gyroscopes(imu: Imu | None) -> Gyroscopes | None:
    return None if imu is None else imu.gyroscopes


def _accelerometers(imu: Imu | None) -> Accelerometers | None:
    return None if imu is None else imu.accelerometers


GYRO_BIAS = ErrorStates["Imu | None"](
    "gyro_bias",
    ("x", "y", "z"),
    "rad/s",
    "bias of the gyroscopes, IMU axes",
    initial=lambda imu, i: 0.0 if (g := _gyroscopes(imu)) is None else g.bias**2,
    density=lambda imu: 0.0 if (g := _gyroscopes(imu)) is None else g.bias_drift**2,
)
ACCELEROMETER_BIAS = ErrorStates["Imu | None"](
    "accelerometer_bias",
    ("x", "y", "z"),
    "m/s²",
    "bias of the accelerometers, IMU axes",
    initial=lambda imu, i: 0.0 if (a := _accelerometers(imu)) is None else a.bias**2,
    density=lambda imu: 0.0 if (a := _accelerometers(imu)) is None else a.bias_drift**2,
)


def add_gyroscopes(model: ErrorModel) -> None:
    """Observation `imu.gyro`."""
    model.observe_chassis("imu.gyro", "imu_gyro", own=GYRO_BIAS)


def add_accelerometers(model: ErrorModel) -> None:
    """Observation `imu.accel`, (3,) m/s² in the sensor's axes.

    Beside attitude and rotation it depends on what the tyres make of sideslip and yaw rate, the drive force of speed,
    and the springs of travel.

    `gravity_removed` = 1 for devices that subtract gravity: so does the model, with its own attitude, and what is
    left does not depend on that to first order.
    """
    g, program, models, s = model.g, model.program, model.models, model.states
    (removed,) = program.array("gravity_removed", 1)
    has_travel = SUSPENSION[0] in s
    heave = program.array("heave", 2 * len(WHEELS)) if has_travel else []
    gravity = model.parts.gravity.norm()
    arm, damping = models.imu, models.tyre_damping
    bias, unexplained = model.estimates(ACCELEROMETER_BIAS), model.estimates(MODEL_ERROR)
    # What acts on the car as a force is in the reading already, but for its vertical part, which does not.
    upward = g.zero
    for e, r in zip(unexplained, models.rotation, strict=True):
        upward = upward + r.z * e
    speeds = (*s.places(VELOCITY)[:2], s.index(ANGULAR_RATE, "yaw"))
    predicted, rows, noise = [], [], []
    for k, (reading, r) in enumerate(zip(models.readings["imu_accelerometer"], models.rotation, strict=True)):
        jacobian = models.jacobians["imu_accelerometer"][k]
        row, late = model.to_present(jacobian)
        for slope in ("v1z", "v2z"):
            place = s.index(ATTITUDE, slope)
            row[place] = (1.0 - removed) * row[place]
        for i, place in enumerate(speeds):
            ax, ay, alpha = damping[i], damping[3 + i], damping[6 + i]
            pushed = r.x * (ax - alpha * arm.y) + r.y * (ay + alpha * arm.x)
            row[place] = row[place] + pushed if place in row else pushed
        for group in (ACCELEROMETER_BIAS, MODEL_ERROR):
            row[s[group].start + k] = g.one
        row[s.index(DRIVE_FORCE)] = r.x
        if has_travel:
            row |= {s[SUSPENSION[0]].start + i: r.z * force for i, force in enumerate(heave)}
        rows.append(row)
        noise.append(late)
        value = reading + model.calc_corrected(jacobian) + bias[k]
        value = value + (r.z * upward if model.forces else unexplained[k])
        predicted.append(value - removed * r.dot(models.up) * gravity)
    model.observe("imu.accel", predicted, rows, noise=noise, tyres=True)


@dataclass(frozen=True, kw_only=True)
class Imu(SourceSettings):
    """Settings of the inertial measurement unit: where it is mounted in vehicle axes, and its sensors."""

    LIMITS = dict.fromkeys(ACCELEROMETERS, 500.0) | dict.fromkeys(GYROSCOPES, 50.0)
    STATES = (GYRO_BIAS, ACCELEROMETER_BIAS)
    OBSERVATIONS = (add_gyroscopes, add_accelerometers)
    NOISE = (
        NoiseSetting(
            "gyro.noise", "gyroscopes, one sample", "rad/s", ("sensors", "imu", "gyroscopes", "noise")
        ),
        NoiseSetting(
            "accel.noise", "accelerometers, one sample", "m/s²", ("sensors", "imu", "accelerometers", "noise")
        ),
    )

    position: MetresVector = (0.0, 0.0, 0.0)
    rotation: RadiansVector = (0.0, 0.0, 0.0)
    """Roll, pitch, yaw (z-y-x) that turn vehicle axes into the IMU's."""
    gyroscopes: Gyroscopes | None = field(default_factory=Gyroscopes)
    accelerometers: Accelerometers | None = field(default_factory=Accelerometers)

    def make_source(self, context: Context) -> ImuSource:
        """The source that uses this section."""
        return ImuSource(self, context)

    def calc_variances(self) -> dict[str, float]:
        """Variance of a sample of each axis: `imu.gyro` (rad/s)², `imu.accel` (m/s²)²."""
        found = {}
        if self.gyroscopes is not None:
            found["imu.gyro"] = self.gyroscopes.noise**2
        if self.accelerometers is not None:
            found["imu.accel"] = self.accelerometers.noise**2
        return found

    def get_offsets(self) -> dict[str, tuple[float, ...]]:
        """Known biases by axis: `imu.gyro` rad/s, `imu.accel` m/s²."""
        found: dict[str, tuple[float, ...]] = {}
        if self.gyroscopes is not None:
            found["imu.gyro"] = self.gyroscopes.offset
        if self.accelerometers is not None:
            found["imu.accel"] = self.accelerometers.offset
        return found

    @property
    def model_error(self) -> Process | None:
        """What the model's accelerations leave unexplained, where accelerometers observe it."""
        a = self.accelerometers
        return None if a is None else Process(a.model_error_time, a.model_error)

    @property
    def R_imu_vehicle(self) -> np.ndarray:
        """(3, 3) takes vehicle axes to the IMU's."""
        (cr, cp, cy), (sr, sp, sy) = (map(f, self.rotation) for f in (math.cos, math.sin))
        return np.array(
            [
                [cy * cp, sy * cp, -sp],
                [cy * sp * sr - sy * cr, sy * sp * sr + cy * cr, cp * sr],
                [cy * sp * cr + sy * sr, sy * sp * cr - cy * sr, cp * cr],
            ]
        )


class ImuSource(Source[Imu]):
    """Angular rates and specific forces, with whatever axes a measurement has."""

    def register(self) -> None:
        """Register gyroscopes and accelerometers, as far as the settings have them."""
        s, offsets = self.settings, self.settings.get_offsets()
        self._kinds = []
        for kind, channels, settings in (
            ("imu.gyro", GYROSCOPES, s.gyroscopes),
            ("imu.accel", ACCELEROMETERS, s.accelerometers),
        ):
            if settings is not None:
                self.updates.register(kind, settings.gate)
                self._kinds.append((kind, channels, self._variances[kind], offsets[kind]))

    def observe(self, m: Measurement) -> None:
        """Update with the axes present, less their known offsets; an absent axis has no information."""
        v = m.values
        for kind, channels, variance, offsets in self._kinds:
            present = [k for k, c in enumerate(channels) if c in v]
            if len(present) == len(channels):
                value = [v[c] - offset for c, offset in zip(channels, offsets, strict=True)]
                self.updates.update(m, kind, value, [variance] * len(channels))
            elif present:
                value = [
                    v[c] - offset if c in v else 0.0 for c, offset in zip(channels, offsets, strict=True)
                ]
                noise = [variance if c in v else MISSING for c in channels]
                self.updates.update(m, kind, value, noise, present)
