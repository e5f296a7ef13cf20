"""The inertial measurement unit: gyroscopes and accelerometers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter, mul
from typing import Annotated

import numpy as np

from vehicled.filter.kept import IMU_LATENCY
from vehicled.filter.states import COURSES, DRIVE_FORCE, VELOCITY, Group, NoiseSetting
from vehicled.messages import Measurement, SlowState
from vehicled.sources.imu.acceleration_drift import AccelerationDrift, CarMotion, Spread
from vehicled.sources.imu.coarse_axes import CoarseAxes
from vehicled.sources.imu.late_samples import (
    correct_fixes,
    doubt_antenna,
    forget_falsified,
    move_ahead,
    move_to_present,
)
from vehicled.sources.imu.lateral import OLD, LateralKinematics
from vehicled.sources.imu.model import (
    ACCELEROMETER_BIAS,
    ACCELEROMETER_SCALE,
    ALIGNMENT,
    GYRO_BIAS,
    GYRO_SCALE,
    add_accelerometers,
    add_gyroscopes,
)
from vehicled.sources.imu.road_rotation import RoadRotation
from vehicled.sources.imu.settings import Accelerometers, Gyroscopes
from vehicled.sources.imu.standing_heading import StandingHeading
from vehicled.sources.imu.statistics import (
    ALL_DONE,
    RATES_DONE,
    SAMPLE_DONE,
    ImuStatistics,
    add_imu_statistics,
)
from vehicled.sources.imu.time_vote import find_earliness, find_lateness, has_known_time
from vehicled.sources.imu.timing import LARGE_CHANGE
from vehicled.sources.source import Context, Place, Source, SourceSettings
from vehicled.sources.updates import OUTVOTED_FOR
from vehicled.units import NonNegative, Radians, Rotation, Seconds
from vehicled.vehicle.arrays import AHEAD, LEFT, V1Z, V2Z, YAW, YAW_RATE

GYROSCOPES = ("imu.wx", "imu.wy", "imu.wz")
ACCELEROMETERS = ("imu.ax", "imu.ay", "imu.az")
_DRIFTS_NS = 200_000_000
"""Time for which a drift is assumed to go on, at least until the next comparison."""
_STRONGEST = 10.0
"""m/s²: largest step of drive or brake force, over mass, that is followed at once."""
_WHOLE = "fused", "weighted"
"""Reasons of records without rejected components."""


@dataclass(frozen=True, kw_only=True)
class Imu(SourceSettings):
    """Settings of the inertial measurement unit: where it is mounted in vehicle axes, and its sensors."""

    LIMITS = dict.fromkeys(ACCELEROMETERS, 500.0) | dict.fromkeys(GYROSCOPES, 50.0)
    STATES = (GYRO_BIAS, ACCELEROMETER_BIAS, GYRO_SCALE, ACCELEROMETER_SCALE, ALIGNMENT)
    OBSERVATIONS = (add_gyroscopes, add_accelerometers, add_imu_statistics)
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

    position: Place = (0.0, 0.0, 0.0)
    rotation: Rotation = (0.0, 0.0, 0.0)
    """Roll, pitch, yaw (z-y-x) that turn vehicle axes into the IMU's."""
    rotation_sigma: Annotated[Radians, NonNegative] = 0.01
    """How well that is known, 1 σ."""
    latency_sigma: Annotated[Seconds, NonNegative] = 0.02
    """How well the time of a sample is known, 1 σ. The error is found if a receiver is precise to centimetres
    (`timing.py`); 0: the time is not changed."""
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

    def get_given(self) -> dict[Group, object]:
        """Rotation, and known biases."""
        offsets = self.get_offsets()
        return {
            ALIGNMENT: self.rotation,
            GYRO_BIAS: offsets.get("imu.gyro"),
            ACCELEROMETER_BIAS: offsets.get("imu.accel"),
        }

    @property
    def R_imu_vehicle(self) -> np.ndarray:
        """(3, 3) rotation from vehicle axes to the IMU's."""
        (cr, cp, cy), (sr, sp, sy) = (map(f, self.rotation) for f in (math.cos, math.sin))
        return np.array(
            [
                [cy * cp, sy * cp, -sp],
                [cy * sp * sr - sy * cr, sy * sp * sr + cy * cr, cp * sr],
                [cy * sp * cr + sy * sr, sy * sp * cr - cy * sr, cp * cr],
            ]
        )


_AXES = 3
_OF_FORCES, _OF_VARIANCES = (slice(n * _AXES + 1, (n + 1) * _AXES + 1) for n in (2, 3))
"""Places in the results of both updates: innovations of accelerometers, and their variances."""
_CHANNELS = (*GYROSCOPES, *ACCELEROMETERS)
_ALL = (1.0,) * len(_CHANNELS)
_get_all = itemgetter(*_CHANNELS)
_get_nearest = itemgetter(2, _AXES + 1, _AXES)
"""From values in the order of `_CHANNELS`: those nearest to yaw rate, lateral and forward force."""


class ImuSource(Source[Imu]):
    """Angular rates and specific forces, of those axes that a measurement has."""

    def __init__(self, settings: Imu, context: Context) -> None:
        self._given_noise, self._timing, self._rates = context.given_noise, context.timing, context.rates
        self._departure = context.departure
        self._statistics, self._coarse = ImuStatistics(context.filter), CoarseAxes()
        self._road, self._standing = RoadRotation(context.filter), StandingHeading(context.filter)
        self._drift = AccelerationDrift(context.filter.car.vehicle.gravity)
        super().__init__(settings, context)
        self.lateral = LateralKinematics()
        self._ahead, self._ahead_at = 0.0, -math.inf
        self._before = -math.inf
        """Time of the sample before, s."""
        self._unsteered = self.filter.car.view("unsteered")

    def reset(self) -> None:
        """Restart with the filter: also forget the noise found from samples."""
        self.lateral.reset()
        self._timing.forget()
        self._ahead_at = self._before = -math.inf
        self._statistics.reset()
        self._configure_statistics()  # the restored statistics may be of older settings
        self._rates.reset()
        self._road.reset()
        self._standing.reset()
        self._drift.reset()

    def reconfigure(self, settings: SourceSettings) -> None:
        """Take other settings; with another configured latency, the estimated error of it is forgotten."""
        if settings.latency != self.settings.latency:
            self._timing.forget()
        super().reconfigure(settings)

    def register(self) -> None:
        """Register gyroscopes and accelerometers, as far as the settings have them."""
        s = self.settings
        self._gravity_removed = s.accelerometers is not None and s.accelerometers.gravity_removed
        timing, was_levelled = self._timing, self._timing.is_levelled
        timing.sigma, timing.configured = s.latency_sigma, s.latency
        timing.place, timing.is_levelled = s.position, self.measures_gravity
        if s.latency_sigma == 0.0 or timing.is_levelled != was_levelled:
            timing.forget()  # the estimated error of the time is no longer valid
        timing.has_reference = partial(has_known_time, self.filter, self.updates.is_active)
        self._axes = s.R_imu_vehicle.T.tolist()
        self._channels: set[str] = set()
        """Channels of the configured sensors."""
        for kind, channels, settings, serves in (
            ("imu.gyro", GYROSCOPES, s.gyroscopes, ("yaw", "sideslip")),
            ("imu.accel", ACCELEROMETERS, s.accelerometers, ("sideslip", "suspension")),
        ):
            if settings is not None:
                self.updates.register(kind, settings.gate, channels=channels, serves=serves)
                self._channels.update(channels)
        self._configure_statistics()

    def _configure_statistics(self) -> None:
        s, offsets = self.settings, self.settings.get_offsets()
        least, of_model, known = ([0.0] * len(_CHANNELS) for _ in range(3))
        limits = [0.0, 0.0]
        for n, (kind, settings) in enumerate((("imu.gyro", s.gyroscopes), ("imu.accel", s.accelerometers))):
            if settings is None:
                continue
            place = slice(n * _AXES, (n + 1) * _AXES)
            least[place] = [self._variances[kind]] * _AXES
            known[place] = offsets[kind]
            limits[n] = settings.gate.weigh_beyond**2
            if isinstance(settings, Gyroscopes):
                of_model[place] = [e * e for e in settings.model_error]
        self._coarse.configure(least)
        least = self._coarse.variances
        self._weigh = limits[1]
        self._statistics.configure(least, of_model, known, limits, self._given_noise)
        if not self._given_noise:
            # If the noise is given, the density stays as configured, with its derivatives if these are
            # computed.
            self._statistics.set_least_turning(self.filter.settings.rate_noise.yaw**2)

    def parameters(self) -> dict[str, SlowState]:
        """The estimated latency of its samples relative to the configured one."""
        found = self._timing.state
        return {} if found is None else {IMU_LATENCY: found}

    def set_parameters(self, given: Mapping[str, SlowState], age: float) -> None:
        """Start with that latency."""
        if IMU_LATENCY in given:
            self._timing.set(given[IMU_LATENCY], age)

    @property
    def has_gyroscopes(self) -> bool:
        """Whether gyroscopes are configured."""
        return self.settings.gyroscopes is not None

    @property
    def measures_gravity(self) -> bool:
        """Whether its accelerometers include gravity, so that they show a slope."""
        return not self._gravity_removed

    def denies_motion(self, dt: float, gravity: float) -> bool:
        """Whether the filter's lateral motion, after dt (s) more, is impossible. `gravity`: m/s²."""
        read = self.filter.pose.item
        banked = 0.0 if self._gravity_removed else gravity * read(V2Z)
        return self.lateral.advance(dt, read(AHEAD), read(LEFT), read(YAW_RATE), banked)

    def measure_ahead(self, t: float) -> float | None:
        """Specific force along the car, without known bias, m/s²; None if not measured shortly before t (s)."""
        return self._ahead if t - self._ahead_at < OLD else None

    def _read(self, v: Mapping[str, float]) -> tuple[Sequence[float], Sequence[float]]:
        """Values by channel, 0 if missing; and by channel 1 if measured, else 0."""
        if len(self._channels) == len(_CHANNELS) and self._channels <= v.keys():
            return _get_all(v), _ALL
        measured = [float(c in v and c in self._channels) for c in _CHANNELS]
        return [v[c] if there else 0.0 for c, there in zip(_CHANNELS, measured, strict=True)], measured

    def note_motion(self, m: Measurement) -> tuple[float | None, ...]:
        """Take a sample before the filter runs, for the yaw rate at the start.

        Returns yaw rate (rad/s), forward and lateral specific force (m/s²); None where not measured.
        """
        values, measured = self._read(m.values)
        self._statistics.take_sample(m.t * 1e-9, values, measured)
        motion = self._statistics.read_found()[8:11]
        yaw_rate, left, ahead = (
            m if there else None for m, there in zip(motion, _get_nearest(measured), strict=True)
        )
        self.lateral.take(yaw_rate, left)
        return yaw_rate, ahead, left

    def _find_latency(self, means: Sequence[float], bias: float) -> None:
        """Find the latency with means of time, yaw rate and accelerations, and the yaw rate's estimated bias."""
        read = self.filter.pose.item
        t, yaw_rate, ahead, left = means
        rises = complex(read(V1Z), read(V2Z))
        if self.measures_gravity:
            # Subtract gravity by the attitude from the same samples. The estimated attitude has errors of
            # half a milliradian that vary; integrated over a window they are several times the noise of
            # fixes.
            if not (self._road.is_used(t) and self._road.is_rolling):
                self._timing.interrupt()
                self._vote()
                return
            lifted = self.filter.car.vehicle.gravity * self._road.levelled
            ahead, left, rises = ahead - lifted.real, left - lifted.imag, rises + self._road.levelled
        change = self._timing.take_means((t, yaw_rate, ahead, left), rises, read(YAW), bias)
        timing = self._timing
        if timing.fixes is not None:
            if timing.restored:
                move_to_present(self.filter, self._latencies, timing.restored)
            correct_fixes(self.filter, timing.fixes)
        elif abs(change) > LARGE_CHANGE:
            forget_falsified(self.filter, change)
        elif not change:
            self._vote()
        if timing.moved is not None:
            doubt_antenna(self.filter, *timing.moved)

    def _vote(self) -> None:
        """Change the time of samples, or of the estimate, if all other sensors together contradict it."""
        timing = self._timing
        if lag := find_earliness(self.filter, self._latencies, timing.has_reference):
            move_ahead(self.filter, self._latencies, lag)
            return
        if not timing.sigma:
            return
        given = self.filter, self._latencies, self.settings.latency, timing.latency
        if change := find_lateness(*given, timing.has_reference, timing.denies):
            timing.set_by_others(change)
            move_to_present(self.filter, self._latencies, change)

    def observe(self, m: Measurement) -> None:
        """Update with the axes that are present, less their known offsets; a missing axis gives no information."""
        if self._timing.latency:
            m = Measurement(m.source, m.t - round(self._timing.latency * 1e9), m.arrival, m.values)
        t, (values, measured), statistics = m.t * 1e-9, self._read(m.values), self._statistics
        done = 0
        if not self._given_noise and self._coarse.take(values, measured):
            statistics.set_least(self._coarse.variances)
            self._widen_rounded()
        if measured is _ALL and not self._given_noise:
            done = statistics.run_chain(m.t, t, values, measured)
        if done < SAMPLE_DONE:
            statistics.take_sample(t, values, measured)
        found = statistics.read_found()
        rates, forces, of_rates = list(found[:_AXES]), list(found[_AXES : 2 * _AXES]), found[2 * _AXES]
        self._note_motion(t, found, measured)
        if not all(measured[:_AXES]):
            self._standing.miss()
        elif self._road.is_due(t) and not self._given_noise:
            self._turn_car_and_road(t, all(measured[_AXES:]) and not self._gravity_removed)
        if done < RATES_DONE:
            self._observe_rates(m, rates, of_rates, _find_present(measured[:_AXES]))
        else:
            results = statistics.read_results()
            self._rates.take(t, rates, math.sqrt(of_rates))
            innovation, variance = list(results[:_AXES]), list(results[_AXES : 2 * _AXES])
            self.updates.accept(m, "imu.gyro", rates, innovation, variance, results[2 * _AXES])
        if done < ALL_DONE:
            self._observe_forces(m, forces, _find_present(measured[_AXES:]))
        else:
            innovation, variance = list(results[_OF_FORCES]), list(results[_OF_VARIANCES])
            self.updates.accept(m, "imu.accel", forces, innovation, variance, results[-1])
        self._before = t

    def _widen_rounded(self) -> None:
        """Widen biases of axes that have been found to be coarse: they may have seemed known by equal readings."""
        for k, step in self._coarse.found:
            group = GYRO_BIAS if k < _AXES else ACCELEROMETER_BIAS
            if group in self.filter.states:
                self.filter.add_variance(group, "xyz"[k % _AXES], step * step / 12.0)
        self._coarse.found.clear()

    def _turn_car_and_road(self, t: float, has_forces: bool) -> None:
        """Correct heading and road with all gyroscopes; `has_forces`: also with all accelerometers and gravity."""
        *rates, ahead, left, _ = self._statistics.read_free()
        self._standing.take(t, rates[2])
        force = complex(ahead, left) if has_forces else None
        self._road.take(t, rates, force, complex(*self.settings.position[:2]))

    def _note_motion(self, t: float, found: Sequence[float], measured: Sequence[float]) -> None:
        """Keep those values of a sample at t (s) that others use, as the statistics have calculated them."""
        has_yaw, has_left, has_ahead = _get_nearest(measured)
        yaw_rate, left, ahead, bias = found[8:12]
        self.lateral.take(yaw_rate if has_yaw else None, left if has_left else None)
        if has_ahead:
            self._ahead, self._ahead_at = ahead, t
        if not found[14]:
            return
        if has_ahead and self._departure.is_asked:
            self._departure.take(found[15], found[17])
        if not self._given_noise:
            self._find_drift(found)
        if self.updates.step_ns <= self.updates.imu_changes_until_ns:
            self._timing.interrupt()  # timing assumes constant biases
        else:
            self._find_latency(found[15:], bias)

    def _doubt_axis(self, axis: int, by: float) -> None:
        """Make the bias of the accelerometers uncertain by so much more, m/s², along an axis of the car, 0: ahead."""
        for share, element in zip(self._axes[axis], "xyz", strict=True):
            if share:
                self.filter.add_variance(ACCELEROMETER_BIAS, element, (share * by) ** 2)

    def _find_drift(self, found: Sequence[float]) -> None:
        """Widen biases of accelerometers that drift, by the means that the statistics have found."""
        bias = complex(found[13], found[12])
        by, self.updates.outvoted_by = self.updates.outvoted_by, 0.0
        if by:  # the estimated speed has followed the accelerometer away from the measured ones
            self._doubt_axis(0, by)
            self._drift.note(0, by, OUTVOTED_FOR, bias)
        if not any(map(self.updates.is_active, COURSES)):
            return  # without courses, errors of slipping wheels would count as drifts
        lean = self._road.lean
        # While the car's tyres slide, the lateral motion of the model is no measure of accelerometers.
        if lean is None or self.updates.is_sliding:
            self._drift.interrupt()
            return
        f, turn_bias, (t, yaw_rate, ahead, left) = self.filter, found[11], found[15:]
        read, normal = f.pose.item, f.car.ground.item
        motion = CarMotion(
            complex(read(AHEAD), read(LEFT)),
            read(YAW),
            complex(normal(0), normal(1)),
            lean,
            bias,
        )
        if not self._drift.take((t, yaw_rate - turn_bias, ahead, left), motion):
            return
        axes = self._axes[:2]
        vx, vy = (f.get_variance(VELOCITY, x) for x in ("ahead", "left"))
        of_bias = [f.get_variance(ACCELEROMETER_BIAS, x) for x in "xyz"]
        sigma_x, sigma_y = (math.sqrt(sum(r * r * v for r, v in zip(a, of_bias, strict=True))) for a in axes)
        added = self._drift.compare(motion, Spread((vx, vy), (sigma_x, sigma_y)))
        for axis, variance in enumerate(added):
            if variance:
                self._doubt_axis(axis, math.sqrt(variance))
        now_ns = self.updates.step_ns
        if self._drift.is_changing:
            self.updates.note_imu_change(now_ns + _DRIFTS_NS)
        if self._drift.has_changed(bias):
            self.updates.health["imu.accel"].bias_changed_ns = now_ns

    def _observe_rates(
        self, m: Measurement, value: list[float], of_samples: float, present: Sequence[int] | None
    ) -> None:
        """Update with the gyroscopes present (None: all). `of_samples`: variance of their noise."""
        if present is not None and not present:
            return
        noise = list(self._statistics.read_noise()[:_AXES])
        # Without steering, and while tyres slide, the model's yaw rate is known from the gyroscopes alone.
        may_reject = not (self._unsteered[0] or self.updates.is_sliding)
        self.updates.update(m, "imu.gyro", value, noise, present, may_reject=may_reject)
        record = self.updates.records[-1]
        if present is None and record.reason in _WHOLE:  # a rejected roll rate must not move an antenna
            # When noise is identified, it is that of the gyroscopes alone.
            self._rates.take(m.t * 1e-9, value, 0.0 if self._given_noise else math.sqrt(of_samples))
        if self._given_noise or not record.innovation:
            return
        innovation, expected = record.innovation, record.variance
        if present is not None:
            innovation, expected = _fill(innovation, present, 0.0), _fill(expected, present, 1.0)
        self._statistics.take_rates(record.reason in _WHOLE, innovation, expected)

    def _observe_forces(self, m: Measurement, value: list[float], present: Sequence[int] | None) -> None:
        """Update with the accelerometers present, None: all."""
        if present is not None and not present:
            return
        self.updates.update(m, "imu.accel", value, list(self._statistics.read_noise()[_AXES:]), present)
        record = self.updates.records[-1]
        if self._given_noise or not record.innovation:
            return
        innovation, variance = record.innovation, record.variance
        if present is None:
            self._statistics.take_forces(record.reason in _WHOLE, innovation, variance)
        if self.filter.is_drive_known:
            return
        if present is not None:
            innovation, variance = _fill(innovation, present, 0.0), _fill(variance, present, 0.0)
        axis = self._axes[0]
        spread = sum(a * a * v for a, v in zip(axis, variance, strict=True))
        self._follow_force(sum(map(mul, axis, innovation)), spread, m.t * 1e-9 - self._before)

    def _follow_force(self, ahead: float, variance: float, interval: float) -> None:
        """Let the unknown force change at once where a sample along the car is beyond the gate, as at a launch.

        Otherwise the estimate follows such a step 10 ms late, and fixes and speeds seem to be early by as much.
        `interval`: s since the sample before, in which the force, and by it the speed, has become wrong.
        """
        beyond = ahead * ahead - self._weigh * variance
        if beyond > 0.0 and interval < OLD:
            wrong = min(math.sqrt(beyond), _STRONGEST)
            self.filter.add_common_error(((DRIVE_FORCE, "", wrong), (VELOCITY, "ahead", wrong * interval)))


def _find_present(measured: Sequence[float]) -> list[int] | None:
    """Places of the measured axes; None: all."""
    return None if all(measured) else [k for k, there in enumerate(measured) if there]


def _fill(components: Sequence[float], present: Sequence[int], other: float) -> list[float]:
    """Components by axis, with `other` for those that were not measured."""
    filled = [other] * _AXES
    for k, component in zip(present, components, strict=True):
        filled[k] = component
    return filled
