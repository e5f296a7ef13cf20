"""The inertial measurement unit: gyroscopes and accelerometers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import numpy as np

from vehicled.filter.covariance import MISSING
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    DRIVE_FORCE,
    SUSPENSION,
    TYRE_FORCE,
    UNMODELLED,
    VELOCITY,
    ErrorStates,
    NoiseSetting,
)
from vehicled.messages import WHEELS, Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.lateral import OLD, LateralKinematics
from vehicled.sources.noise_floor import NoiseFloor
from vehicled.sources.source import Context, Source, SourceSettings
from vehicled.units import (
    MetresPerSecondSquared,
    MetresVector,
    NonNegative,
    Positive,
    Radians,
    RadiansPerSecond,
    RadiansPerSecondVector,
    RadiansVector,
    Seconds,
    Unit,
    Vector,
)
from vehicled.vehicle.arrays import AHEAD

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom

GYROSCOPES = ("imu.wx", "imu.wy", "imu.wz")
ACCELEROMETERS = ("imu.ax", "imu.ay", "imu.az")


@dataclass(frozen=True, kw_only=True)
class Gyroscopes:
    """Noise, bias and gate of the gyroscopes; the same for all axes where there is one number."""

    noise: Annotated[RadiansPerSecond, Positive] = 0.003
    """Of one sample."""
    model_error: RadiansPerSecondVector = (0.05, 0.05, 0.0)
    """What the model's rates of roll, pitch and yaw differ by, as suspensions differ: noise beside a sample's."""
    bias: Annotated[RadiansPerSecond, NonNegative] = 0.01
    """At the start."""
    bias_drift: Annotated[float, Unit("rad/s/√s"), NonNegative] = 2e-5
    """Random walk of the bias."""
    scale: Annotated[float, NonNegative] = 0.005
    """Scale error of the three together, which the filter estimates: 1 σ."""
    offset: RadiansPerSecondVector = (0.0, 0.0, 0.0)
    """The part of the bias that is known, per axis: it is subtracted."""
    gate: Gate = field(default_factory=Gate)


@dataclass(frozen=True, kw_only=True)
class Accelerometers:
    """Noise, bias and gate of the accelerometers; the same for all axes where there is one number."""

    noise: Annotated[MetresPerSecondSquared, Positive] = 0.06
    """Of one sample: sensor, vibration, uneven road."""
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
GYRO_SCALE = ErrorStates["Imu | None"](
    "gyro_scale",
    ("",),
    "–",
    "relative error of the gyroscopes",
    needs=("gnss.course",),
    is_known=lambda imu: (g := _gyroscopes(imu)) is not None and g.scale == 0.0,
    initial=lambda imu, i: 0.0 if (g := _gyroscopes(imu)) is None else g.scale**2,
)
ALIGNMENT = ErrorStates["Imu | None"](
    "imu_alignment",
    ("x", "y", "z"),
    "rad",
    "rotation of the IMU against its place, about its own axes",
    needs=("imu.accel",),
    contradiction=10.0,
    is_known=lambda imu: imu is not None and imu.rotation_sigma == 0.0,
    initial=lambda imu, i: 0.0 if imu is None else imu.rotation_sigma**2,
)
IMU_LATENCY = ErrorStates["Imu | None"](
    "imu_latency",
    ("",),
    "s",
    "by how much samples are older than their time",
    needs=("gnss.course",),
    contradiction=10.0,
    is_known=lambda imu: imu is None or imu.latency_sigma == 0.0,
    initial=lambda imu, i: 0.0 if imu is None else imu.latency_sigma**2,
)


def _misalign(model: ErrorModel, values: Sequence[Atom], k: int) -> tuple[Atom, dict[int, Atom]]:
    """What component k of a vector reads beside it, as the axes of the sensor are turned by small angles; its row."""
    angles = model.estimates(ALIGNMENT)
    i, j = (k + 1) % 3, (k + 2) % 3
    # −ε × v
    row = model.states.entries(ALIGNMENT, {j: values[i], i: -values[j]})
    return angles[j] * values[i] - angles[i] * values[j], row


_SMALL_RATE = 0.1
"""rad/s"""
_SMALL_CHANGE = 0.5
"""rad/s²"""


def add_gyroscopes(model: ErrorModel) -> None:
    """Observation `imu.gyro`."""
    bias, (scale,) = model.estimates(GYRO_BIAS), model.estimates(GYRO_SCALE)
    (latency,) = model.estimates(IMU_LATENCY)
    measured = model.program.arrays["value"]
    s, jacobians = model.states, model.models.jacobians["imu_gyro"]

    def error(k: int, values: Sequence[Atom]) -> tuple[Atom, dict[int, Atom]]:
        # Other axes as measured: the model's rates of roll and pitch are those of another suspension.
        turned, _ = _misalign(model, measured, k)
        change = model.calc_change(jacobians[k])
        # Small rates are mostly the filter's own corrections, which are correlated with the next innovations.
        counted = [model.discount(v, _SMALL_RATE) for v in values]
        _, row = _misalign(model, [model.discount(v, _SMALL_RATE) for v in measured], k)
        row |= s.entries(GYRO_BIAS, {k: model.g.one}) | s.entries(GYRO_SCALE, {0: counted[k]})
        row |= s.entries(IMU_LATENCY, {0: -model.discount(change, _SMALL_CHANGE)})
        return bias[k] + scale * values[k] + turned - latency * change, row

    model.observe_chassis("imu.gyro", "imu_gyro", error)


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
    arm, tyres = models.imu, models.tyres
    bias = model.estimates(ACCELEROMETER_BIAS)
    ahead, left, up, yaw = model.estimates(UNMODELLED)
    later_ahead, later_left, _, later_yaw = model.get_later(UNMODELLED)
    later_drive = model.get_later(DRIVE_FORCE)[0]
    later_front, later_rear = model.get_later(TYRE_FORCE)
    rates = (*s.places(VELOCITY)[:2], s.index(ANGULAR_RATE, "yaw"))
    share = model.calc_free_share(models.pose[AHEAD])
    jacobians = models.jacobians["imu_accelerometer"]
    # What a device that subtracts gravity leaves is turned with its axes, and nothing else.
    values = [
        reading + model.calc_corrected(jacobian) - removed * r.dot(models.up) * gravity
        for reading, jacobian, r in zip(
            models.readings["imu_accelerometer"], jacobians, models.rotation, strict=True
        )
    ]
    predicted, rows, noise = [], [], []
    for k, (jacobian, r) in enumerate(zip(jacobians, models.rotation, strict=True)):
        row, late = model.to_present(jacobian)
        for slope in ("v1z", "v2z"):
            place = s.index(ATTITUDE, slope)
            row[place] = (1.0 - removed) * row[place]
        by_yaw = r.y * arm.x - r.x * arm.y
        front, rear = (
            r.x * ax + r.y * ay + by_yaw * alpha for ax, ay, alpha in zip(*tyres.acceleration, strict=True)
        )
        row |= s.entries(TYRE_FORCE, {0: front, 1: rear})
        if TYRE_FORCE not in s:  # tyres are taken to have followed errors already
            for i, cause in enumerate(rates):
                by_cause = front * tyres.steady[0][i] + rear * tyres.steady[1][i]
                row[cause] = row.get(cause, g.zero) + by_cause
        row |= s.entries(ACCELEROMETER_BIAS, {k: g.one})
        row |= s.entries(UNMODELLED, {0: r.x, 1: share * r.y, 2: r.z, 3: share * by_yaw})
        row[s.index(DRIVE_FORCE)] = r.x
        if has_travel:
            row |= {s[SUSPENSION[0]].start + i: r.z * force for i, force in enumerate(heave)}
        turned, by_alignment = _misalign(model, values, k)
        row |= by_alignment
        rows.append(row)
        noise.append(late)
        value = values[k] + bias[k] + turned + r.z * up
        # What acts on the car as a force is in the reading already, as it was then.
        ex, ey, e_yaw = (later_ahead, later_left, later_yaw) if model.forces else (ahead, left, yaw)
        value = value + r.x * (ex + later_drive) + share * (r.y * ey + by_yaw * e_yaw)
        value = value + front * later_front + rear * later_rear
        predicted.append(value)
    model.observe("imu.accel", predicted, rows, noise=noise, tyres=True, sensor="imu_accelerometer")


@dataclass(frozen=True, kw_only=True)
class Imu(SourceSettings):
    """Settings of the inertial measurement unit: where it is mounted in vehicle axes, and its sensors."""

    LIMITS = dict.fromkeys(ACCELEROMETERS, 500.0) | dict.fromkeys(GYROSCOPES, 50.0)
    STATES = (GYRO_BIAS, ACCELEROMETER_BIAS, GYRO_SCALE, ALIGNMENT, IMU_LATENCY)
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
    rotation_sigma: Annotated[Radians, NonNegative] = 0.01
    """How well that is known, 1 σ."""
    latency_sigma: Annotated[Seconds, NonNegative] = 0.0
    """How well the time of a sample is known, 1 σ; 0: not estimated. A car whose tyres respond otherwise than the
    model's looks much like late gyroscopes, so that it costs accuracy where there is no latency."""
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


@dataclass(frozen=True, slots=True)
class _Sensors:
    """Gyroscopes or accelerometers: what an observation is made with, by axis."""

    kind: str
    channels: tuple[str, ...]
    offsets: tuple[float, ...]
    """Known biases."""
    variances: list[float]
    """Of a sample with the error of the model, by the settings."""
    model_variances: list[float]
    """The part of them that is the error of the model."""
    floor: NoiseFloor
    """Of the samples."""


@dataclass(frozen=True, slots=True)
class _MotionAxis:
    """How a yaw rate or specific force in vehicle axes follows from the samples of three axes."""

    nearest: str
    """Channel without which it is not measured."""
    channels: tuple[str, ...]
    offsets: tuple[float, ...]
    """Known biases."""
    biases: np.ndarray
    """(3,) estimated biases, a view."""
    shares: list[float]
    """Of each channel."""


class ImuSource(Source[Imu]):
    """Angular rates and specific forces, with whatever axes a measurement has."""

    def __init__(self, settings: Imu, context: Context) -> None:
        self._given_noise = context.given_noise
        self._floors: dict[str, NoiseFloor] = {}
        super().__init__(settings, context)
        self.lateral = LateralKinematics()
        self._ahead, self._ahead_at = 0.0, -math.inf

    def reset(self) -> None:
        """The filter begins anew: what was found of the samples' noise is forgotten as well."""
        self.lateral.reset()
        self._ahead_at = -math.inf
        for floor in self._floors.values():
            floor.reset()

    def register(self) -> None:
        """Register gyroscopes and accelerometers, as far as the settings have them."""
        s, offsets = self.settings, self.settings.get_offsets()
        self._kinds: list[_Sensors] = []
        self._motion_axes: list[_MotionAxis | None] = [None, None, None]
        """Of yaw rate, lateral and longitudinal force; None for what is not measured."""
        floors, self._floors = self._floors, {}
        for kind, channels, settings, group, axes, serves in (
            ("imu.gyro", GYROSCOPES, s.gyroscopes, GYRO_BIAS, ((0, 2),), ("yaw", "sideslip")),
            (
                "imu.accel",
                ACCELEROMETERS,
                s.accelerometers,
                ACCELEROMETER_BIAS,
                ((1, 1), (2, 0)),
                ("sideslip", "suspension"),
            ),
        ):
            if settings is not None:
                biases = self.filter.view_slow_states(group)
                for n, axis in axes:
                    shares = s.R_imu_vehicle[:, axis].tolist()
                    self._motion_axes[n] = _MotionAxis(
                        channels[axis], channels, offsets[kind], biases, shares
                    )
                self.updates.register(kind, settings.gate, channels=channels, serves=serves)
                more = settings.model_error if isinstance(settings, Gyroscopes) else (0.0, 0.0, 0.0)
                model = [e * e for e in more]
                variances = [self._variances[kind] + e for e in model]
                of_samples = [self._variances[kind]] * len(channels)
                floor = self._floors[kind] = floors.get(kind) or NoiseFloor(of_samples)
                floor.reconfigure(of_samples)
                self._kinds.append(_Sensors(kind, channels, offsets[kind], variances, model, floor))

    def measure_ahead(self, t: float) -> float | None:
        """Specific force along the car that was measured shortly before t (s), without known bias, m/s²."""
        return self._ahead if t - self._ahead_at < OLD else None

    def _read_motion(self, v: Mapping[str, float]) -> list[float | None]:
        """Yaw rate, lateral and longitudinal specific force, as far as measured, in vehicle axes, without biases."""
        found: list[float | None] = [None, None, None]
        for n, axis in enumerate(self._motion_axes):
            if axis is not None and axis.nearest in v:
                total, biases = 0.0, axis.biases.tolist()
                for c, offset, bias, share in zip(
                    axis.channels, axis.offsets, biases, axis.shares, strict=True
                ):
                    if c in v:
                        total += share * (v[c] - offset - bias)
                found[n] = total
        return found

    def observe(self, m: Measurement) -> None:
        """Update with the axes present, less their known offsets; an absent axis has no information."""
        v = m.values
        yaw_rate, left, ahead = self._read_motion(v)
        self.lateral.take(yaw_rate, left)
        if ahead is not None:
            self._ahead, self._ahead_at = ahead, m.t * 1e-9
        for of in self._kinds:
            kind, channels, offsets = of.kind, of.channels, of.offsets
            present = [k for k, c in enumerate(channels) if c in v]
            if len(present) == len(channels):
                value = [v[c] - offset for c, offset in zip(channels, offsets, strict=True)]
                of_samples = of.floor.take(value)
                noise = of.variances
                if not self._given_noise:
                    noise = [s + e for s, e in zip(of_samples, of.model_variances, strict=True)]
                self.updates.update(m, kind, value, noise)
            elif present:
                of.floor.interrupt()
                value = [
                    v[c] - offset if c in v else 0.0 for c, offset in zip(channels, offsets, strict=True)
                ]
                noise = [w if c in v else MISSING for c, w in zip(channels, of.variances, strict=True)]
                self.updates.update(m, kind, value, noise, present)
