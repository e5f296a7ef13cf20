"""The inertial measurement unit: gyroscopes and accelerometers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Annotated

import numpy as np

from vehicled.filter.covariance import MISSING
from vehicled.filter.states import UNMODELLED, NoiseSetting
from vehicled.messages import Innovation, Measurement, SlowState
from vehicled.sources.gate import Gate
from vehicled.sources.imu_model import (
    ACCELEROMETER_BIAS,
    ACCELEROMETER_SCALE,
    ALIGNMENT,
    GYRO_BIAS,
    GYRO_SCALE,
    add_accelerometers,
    add_gyroscopes,
)
from vehicled.sources.imu_timing import LARGE_CHANGE
from vehicled.sources.innovation_excess import ExcessDensity, ExcessVariance
from vehicled.sources.late_samples import forget_falsified
from vehicled.sources.lateral import OLD, LateralKinematics
from vehicled.sources.noise_floor import NoiseFloor
from vehicled.sources.shaking import Shaking
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
from vehicled.vehicle.arrays import AHEAD, ALPHA_X, ALPHA_Y, V1Z, V2Z, YAW, YAW_RATE

GYROSCOPES = ("imu.wx", "imu.wy", "imu.wz")
ACCELEROMETERS = ("imu.ax", "imu.ay", "imu.az")
_LATENCY = "imu_latency"
"""Name among the parameters."""
_WHOLE = "fused", "weighted"
"""Reasons of records of which nothing was rejected."""
_UPWARDS = UNMODELLED.elements.index("up")
_GRAVITY = 9.81
"""m/s²: of what roll and pitch take from it."""


@dataclass(frozen=True, kw_only=True)
class Gyroscopes:
    """Noise, bias and gate of the gyroscopes; the same for all axes where there is one number."""

    noise: Annotated[RadiansPerSecond, Positive] = 0.003
    """Of one sample."""
    model_error: RadiansPerSecondVector = (0.1, 0.1, 0.0)
    """What the model's rates of roll, pitch and yaw differ by, as suspensions differ: noise beside a sample's.

    That error lasts over many samples. With less noise than here, what they show of it would be taken for errors of
    alignment, tyres and latencies."""
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
    scale: Annotated[float, NonNegative] = 0.02
    """Scale error across the car, 1 σ: of the sensor, and as the body rolls with accelerations by more or less than
    the model's. The filter estimates it. Along the car, slip and mass have the same effect."""
    offset: Annotated[Vector, Unit("m/s²")] = (0.0, 0.0, 0.0)
    """The part of the bias that is known, per axis: it is subtracted."""
    gravity_removed: bool = False
    """Whether the device has already subtracted gravity."""
    gate: Gate = field(default_factory=Gate)


@dataclass(frozen=True, kw_only=True)
class Imu(SourceSettings):
    """Settings of the inertial measurement unit: where it is mounted in vehicle axes, and its sensors."""

    LIMITS = dict.fromkeys(ACCELEROMETERS, 500.0) | dict.fromkeys(GYROSCOPES, 50.0)
    STATES = (GYRO_BIAS, ACCELEROMETER_BIAS, GYRO_SCALE, ACCELEROMETER_SCALE, ALIGNMENT)
    OBSERVATIONS = (add_gyroscopes, add_accelerometers)
    NOISE = (
        NoiseSetting(
            "gyro.noise",
            "gyroscopes, one sample",
            "rad/s",
            ("sensors", "imu", "gyroscopes", "noise"),
            channels=GYROSCOPES,
        ),
        NoiseSetting(
            "accel.noise",
            "accelerometers, one sample",
            "m/s²",
            ("sensors", "imu", "accelerometers", "noise"),
            channels=ACCELEROMETERS,
        ),
    )

    position: MetresVector = (0.0, 0.0, 0.0)
    rotation: RadiansVector = (0.0, 0.0, 0.0)
    """Roll, pitch, yaw (z-y-x) that turn vehicle axes into the IMU's."""
    rotation_sigma: Annotated[Radians, NonNegative] = 0.01
    """How well that is known, 1 σ."""
    latency_sigma: Annotated[Seconds, NonNegative] = 0.02
    """How well the time of a sample is known, 1 σ. The rest is found where a receiver is precise to centimetres
    (`imu_timing`); 0: nothing is changed."""
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


_Sample = tuple[list[float], list[int] | None]
"""Of three axes, zero where not measured; and the axes that are measured, None: all."""


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
    biases: np.ndarray
    """(3,) estimated biases, a view."""
    axes: tuple[_MotionAxis, ...]
    """What the estimator uses of them beside the observation."""

    def read(self, v: Mapping[str, float]) -> _Sample:
        """By axis, less the known biases."""
        (cx, cy, cz), (ox, oy, oz) = self.channels, self.offsets
        if cx in v and cy in v and cz in v:
            return [v[cx] - ox, v[cy] - oy, v[cz] - oz], None
        value = [v[c] - o if c in v else 0.0 for c, o in zip(self.channels, self.offsets, strict=True)]
        return value, [k for k, c in enumerate(self.channels) if c in v]


@dataclass(frozen=True, slots=True)
class _MotionAxis:
    """How a yaw rate or specific force in vehicle axes follows from the samples of three axes."""

    place: int
    """0, 1, 2: yaw rate, lateral and longitudinal force."""
    nearest: int
    """Axis of the sensor without which it is not measured."""
    shares: list[float]
    """Of each axis."""


class ImuSource(Source[Imu]):
    """Angular rates and specific forces, with whatever axes a measurement has."""

    def __init__(self, settings: Imu, context: Context) -> None:
        self._given_noise, self._timing, self._rates = context.given_noise, context.timing, context.rates
        self._road_travel = context.road_travel
        self._floors: dict[str, NoiseFloor] = {}
        self._road = ExcessVariance()
        """Vertical acceleration by roads that are not as even as the model's."""
        self._shaking = Shaking()
        self._turning = ExcessDensity()
        """Of the yaw rate."""
        self._measured_at = -math.inf
        """When gyroscopes have been measured, and all of them used, s."""
        super().__init__(settings, context)
        self.lateral = LateralKinematics()
        self._ahead, self._ahead_at = 0.0, -math.inf

    def reset(self) -> None:
        """The filter begins anew: what was found of the samples' noise is forgotten as well."""
        self.lateral.reset()
        self._timing.forget()
        self._ahead_at = -math.inf
        for floor in self._floors.values():
            floor.reset()
        self._road.reset()
        self._shaking.reset()
        self._turning.reset()
        self._measured_at = -math.inf
        self._rates.reset()
        if self._road_travel is not None:
            self._road_travel.reset()

    def register(self) -> None:
        """Register gyroscopes and accelerometers, as far as the settings have them."""
        s, offsets = self.settings, self.settings.get_offsets()
        self._squares: list[list[float]] = (s.R_imu_vehicle**2).tolist()
        self._ahead_axis, self._left_axis, self._up = s.R_imu_vehicle.T.tolist()
        self._upright = int(np.argmax(np.abs(self._up)))
        self.filter.set_yaw_noise(self._turning.density)  # the filter has been configured without it
        self._unmodelled = self.filter.view_slow_states(UNMODELLED)
        self._scale = self.filter.view_slow_states(ACCELEROMETER_SCALE)
        self._timing.sigma, self._timing.place = s.latency_sigma, complex(*s.position[:2])
        self._gravity_removed = s.accelerometers is not None and s.accelerometers.gravity_removed
        self._kinds: list[_Sensors] = []
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
                self.updates.register(kind, settings.gate, channels=channels, serves=serves)
                more = settings.model_error if isinstance(settings, Gyroscopes) else (0.0, 0.0, 0.0)
                model = [e * e for e in more]
                variances = [self._variances[kind] + e for e in model]
                of_samples = [self._variances[kind]] * len(channels)
                floor = self._floors[kind] = floors.get(kind) or NoiseFloor(of_samples)
                floor.reconfigure(of_samples)
                biases = self.filter.view_slow_states(group)
                motion = tuple(_MotionAxis(n, axis, s.R_imu_vehicle[:, axis].tolist()) for n, axis in axes)
                self._kinds.append(
                    _Sensors(kind, channels, offsets[kind], variances, model, floor, biases, motion)
                )

    def parameters(self) -> dict[str, SlowState]:
        """The latency of its samples beside the configured one."""
        found = self._timing.state
        return {} if found is None else {_LATENCY: found}

    def set_parameters(self, given: Mapping[str, SlowState]) -> None:
        """Begin with that latency."""
        if _LATENCY in given:
            self._timing.set(given[_LATENCY])

    @property
    def measures_gravity(self) -> bool:
        """Whether its accelerometers measure gravity along a slope."""
        return not self._gravity_removed

    def measure_ahead(self, t: float) -> float | None:
        """Specific force along the car that was measured shortly before t (s), without known bias, m/s²."""
        return self._ahead if t - self._ahead_at < OLD else None

    def _observe_accelerations(
        self,
        m: Measurement,
        value: list[float],
        noise: list[float],
        of_samples: float,
        present: Sequence[int] | None,
    ) -> None:
        """Update with the axes present, None: all; with the error of the model that the road causes.

        `of_samples`: variance of their noise.
        """
        if self._given_noise:
            self.updates.update(m, "imu.accel", value, noise, present)
            return
        self._shaking.expire(m.t * 1e-9)
        self.filter.write_shaking(*self._shaking.value)
        x, y, z = self.settings.position
        roll, pitch = self._shaking.variance
        if roll or pitch or self._road.variance:
            # By vehicle axis, of what shaking and road do at the place of the IMU; and by axis of the IMU.
            ahead, left, up = z * z * pitch, z * z * roll, y * y * roll + x * x * pitch + self._road.variance
            squares = self._squares
            noise = [n + a * ahead + b * left + c * up for n, (a, b, c) in zip(noise, squares, strict=True)]
        self.updates.update(m, "imu.accel", value, noise, present)
        record = self.updates.records[-1]
        if record.innovation and present is None:
            (i, j, k), (a, b, c), (u, v, w) = record.innovation, record.variance, self._up
            heave = u * i + v * j + w * k
            self._road.take(heave, u * u * a + v * v * b + w * w * c)
            self._take_forces(record, heave, of_samples)

    def _take_forces(self, record: Innovation, heave: float, variance: float) -> None:
        """With an innovation of the accelerometers, upwards `heave` (m/s²), unless any of it was rejected.

        `variance`: of the noise of their samples.
        """
        if self._road_travel is not None and record.reason in _WHOLE:
            (i, j, k), (a, b, c) = record.innovation, self._left_axis
            # What the filter has found of what the model lacks is lacking in the model's travel all the same.
            up = self._unmodelled.item(_UPWARDS)
            self._road_travel.take(record.t * 1e-9, heave + up, a * i + b * j + c * k, variance)

    def _observe_rates(
        self,
        m: Measurement,
        value: list[float],
        noise: list[float],
        of_samples: float,
        present: Sequence[int] | None,
    ) -> None:
        """Update with the axes present, None: all, and keep what others use of them.

        `of_samples`: variance of their noise.
        """
        t = m.t * 1e-9
        if present is None:
            # Noise that is being identified is noise of the gyroscopes alone.
            self._rates.take(t, value, 0.0 if self._given_noise else math.sqrt(of_samples))
        self.updates.update(m, "imu.gyro", value, noise, present)
        record = self.updates.records[-1]
        if self._given_noise or not record.innovation:
            return
        before, self._measured_at = self._measured_at, t
        is_next = 0.0 < t - before < OLD
        if present is None:
            self._take_rates(record, of_samples)
            (i, j, k), (a, b, c), (u, v, w) = record.innovation, self._ahead_axis, self._left_axis
            by_pitch = u * i + v * j + w * k
            self._shaking.take(t, (a * i + b * j + c * k, by_pitch), of_samples)
            if is_next and record.reason in _WHOLE:
                # ψ̇ = (ω_y sin φ + ω_z cos φ)/cos θ. The model's ω_y is that of its own springs: in turns of other
                # cars it makes ψ̇ wrong by 0.4 %, which courses would find as a scale of the gyroscopes.
                self.filter.turn_heading(by_pitch * self._find_roll() * (t - before))
        if is_next:
            self._take_turning(record, noise, present, t - before)

    def _find_roll(self) -> float:
        """That of the model, rad, and what its accelerometers show beside it."""
        pose = self.filter.pose
        more = self._scale[0] * pose[AHEAD] * pose[YAW_RATE] / _GRAVITY
        return float(pose[V2Z] + more)

    def _take_turning(
        self, record: Innovation, noise: Sequence[float], present: Sequence[int] | None, interval: float
    ) -> None:
        """With gyroscopes' innovations `interval` s after the ones before, and their noise by axis of the sensor."""
        shares = self._up
        if present is not None:
            if self._upright not in present:
                return
            shares, noise = [shares[k] for k in present], [noise[k] for k in present]
        least = self.filter.settings.rate_noise.yaw**2
        innovation = expected = of_noise = 0.0
        for share, nu, s, r in zip(shares, record.innovation, record.variance, noise, strict=True):
            innovation += share * nu
            expected += share * share * s
            of_noise += share * share * r
        self._turning.take(innovation, expected, of_noise, interval, least)
        self.filter.set_yaw_noise(self._turning.density)

    def _take_rates(self, record: Innovation, variance: float) -> None:
        """With a sample of all gyroscopes and the variance of its noise, unless any of it was rejected."""
        if self._road_travel is None or record.reason not in _WHOLE:
            return
        (x, y, z), (a, b, c), (d, e, f) = record.value, self._ahead_axis, self._left_axis
        rates, read = (a * x + b * y + c * z, d * x + e * y + f * z), self.filter.pose.item
        self._road_travel.take_rates(record.t * 1e-9, rates, (read(ALPHA_X), read(ALPHA_Y)), variance)

    def _read_motion(self, samples: Sequence[_Sample]) -> tuple[list[float | None], list[float]]:
        """Yaw rate, lateral and longitudinal specific force, in vehicle axes, without biases.

        `samples` by kind. Returns what is measured of them, and what has been subtracted of each as
        estimated bias.
        """
        found: list[float | None] = [None, None, None]
        subtracted = [0.0, 0.0, 0.0]
        for of, ((x0, x1, x2), present) in zip(self._kinds, samples, strict=True):
            b0, b1, b2 = of.biases.tolist()
            if present is not None:  # neither a sample nor its bias has a share
                b0, b1, b2 = (b if k in present else 0.0 for k, b in enumerate((b0, b1, b2)))
            for axis in of.axes:
                if present is None or axis.nearest in present:
                    s0, s1, s2 = axis.shares
                    less = s0 * b0 + s1 * b1 + s2 * b2
                    found[axis.place] = s0 * x0 + s1 * x1 + s2 * x2 - less
                    subtracted[axis.place] = less
        return found, subtracted

    def note_motion(self, v: Mapping[str, float]) -> tuple[float | None, ...]:
        """Take the channels of a sample before the filter runs, for the yaw rate that it starts with.

        Returns yaw rate (rad/s), and specific forces ahead and to the left (m/s²), as far as they are measured.
        """
        (yaw_rate, left, ahead), _ = self._read_motion([of.read(v) for of in self._kinds])
        self.lateral.take(yaw_rate, left)
        return yaw_rate, ahead, left

    def _find_latency(self, t: float, yaw_rate: float, ahead: float, left: float, bias: float) -> None:
        pose = self.filter.pose
        if not self._gravity_removed:
            ahead -= _GRAVITY * pose.item(V1Z)
            left -= _GRAVITY * pose.item(V2Z)
        self._timing.is_drive_known = self.filter.is_drive_known
        change = self._timing.take_sample(t, yaw_rate, ahead, left, pose.item(YAW), bias)
        if abs(change) > LARGE_CHANGE:
            forget_falsified(self.filter, change)

    def observe(self, m: Measurement) -> None:
        """Update with the axes present, less their known offsets; an absent axis has no information."""
        v = m.values
        if self._timing.latency:
            m = Measurement(m.source, m.t - round(self._timing.latency * 1e9), m.arrival, m.values)
        samples = [of.read(v) for of in self._kinds]
        (yaw_rate, left, ahead), biases = self._read_motion(samples)
        self.lateral.take(yaw_rate, left)
        if yaw_rate is not None and left is not None and ahead is not None:
            self._find_latency(
                m.t * 1e-9, yaw_rate + biases[0], ahead + biases[2], left + biases[1], biases[0]
            )
        if ahead is not None:
            self._ahead, self._ahead_at = ahead, m.t * 1e-9
        for of, (value, present) in zip(self._kinds, samples, strict=True):
            if present is not None and not present:
                of.floor.interrupt()
                continue
            noise, of_samples = of.variances, of.floor.take(value, present)
            if not self._given_noise:
                noise = list(map(add, of_samples, of.model_variances))
            if present is not None:
                noise = [w if k in present else MISSING for k, w in enumerate(noise)]
            if of.kind == "imu.accel":
                self._observe_accelerations(m, value, noise, max(of_samples), present)
            else:
                self._observe_rates(m, value, noise, max(of_samples), present)
