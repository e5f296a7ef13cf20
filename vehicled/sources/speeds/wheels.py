"""Wheel encoders: angles from counted teeth, or rotation rates if a car gives these instead."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

from vehicled.filter.boundary import Observation, Update
from vehicled.filter.states import VELOCITY, ErrorStates, NoiseSetting
from vehicled.messages import WHEELS, Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.joint import JointUpdates, add_joint_updates
from vehicled.sources.source import Context, Source, SourceSettings
from vehicled.sources.speeds.dead_band import DeadBand
from vehicled.sources.speeds.direction import Direction
from vehicled.sources.speeds.late_speeds import calc_lateness, find_considered_by_wheels, make_latency
from vehicled.sources.speeds.smoothed_velocity import SmoothedVelocity
from vehicled.sources.speeds.stamp_jitter import StampJitter
from vehicled.units import NonNegative, Positive, Radians, RadiansPerSecond, Seconds
from vehicled.vehicle.arrays import AHEAD

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel

ANGLES = tuple(f"wheel.{w}.angle" for w in WHEELS)
SPEEDS = tuple(f"wheel.{w}.speed" for w in WHEELS)
_JOINT_ANGLES, _JOINT_SPEEDS = "wheel.angles", "wheel.speeds"
"""Names of the updates with all wheels."""
_KNOWN_ANGLE = 1e-4
"""rad²: variance of a wheel angle that has been set to its counter's reading."""
_TURNING_NS = 100_000_000
"""Time over which the wheels' rotation gives the speed."""
_SPUN, _NEARER = 3, 0.5
"""Consecutive readings that the filter rejects, and their distance from rolling relative to that of the
filter's wheel: if they are this much nearer, it is the simulated wheel that spins or locks, as it has more
torque or less grip than the car's."""
_HELD_NS = 250_000_000
"""Time, ns, for which readings then set the wheel, and correct nothing else: the simulated slip is not the
car's. A reading that is farther from rolling ends this."""
_READ_RATE = 1.0
"""rad/s, 1 σ: rate of a wheel that has been set to its reading."""
_STOPPED = 1.5
"""Estimated rate of a wheel that reads zero, over the least rate that it reads: above this ratio it has
locked."""


def add_wheel_angles(model: ErrorModel) -> None:
    """Observations `wheel.W.angle`: relative to the knuckle."""
    considered = find_considered_by_wheels(model)
    for k, channel in enumerate(ANGLES):
        angle, row = model.wheel_angle(k)
        model.observe(channel, [angle], [row], considered=considered)
    add_joint_updates(model, _JOINT_ANGLES, len(ANGLES))


WHEEL_LATENCY: ErrorStates[WheelSpeeds | None] = make_latency(
    "wheel_latency",
    "by how much rotation rates of wheels are older than their time",
    lambda speeds: None if speeds is None else speeds.latency_sigma,
)


def add_wheel_speeds(model: ErrorModel) -> None:
    """Observations `wheel.W.speed`, with a latency that they have in common."""
    ahead = model.states.index(VELOCITY, "ahead")
    considered = find_considered_by_wheels(model, WHEEL_LATENCY)
    for k, channel in enumerate(SPEEDS):
        rate, row = model.wheel_rate(k)
        less, by_latency = calc_lateness(model, WHEEL_LATENCY, row[ahead])
        model.observe(channel, [rate - less], [row | by_latency], considered=considered)
    add_joint_updates(model, _JOINT_SPEEDS, len(SPEEDS))


@dataclass(frozen=True, kw_only=True)
class WheelAngles(SourceSettings):
    """Hall sensors that count the teeth of a ring."""

    LIMITS = dict.fromkeys(ANGLES, 1e9)
    OBSERVATIONS = (add_wheel_angles,)
    NOISE = (
        NoiseSetting(
            "wheel_angles.noise",
            "wheel angles beside their resolution",
            "rad",
            ("sensors", "wheel_angles", "noise"),
        ),
    )
    SPEED_PRECEDENCE = 3

    resolution: Annotated[Radians, NonNegative] = 0.0654
    """Angle of one count."""
    noise: Annotated[Radians, Positive] = 0.002
    """Beside quantisation: pitch error of the ring, timing."""
    gate: Gate = field(default_factory=lambda: Gate(policy="reset"))

    def make_source(self, context: Context) -> WheelAngleSource:
        """The source that uses this section."""
        return WheelAngleSource(self, context)

    def calc_variances(self) -> dict[str, float]:
        """Variance by wheel, rad²: that of rounding to a tooth, and the noise."""
        return dict.fromkeys(ANGLES, self.resolution**2 / 12 + self.noise**2)


@dataclass(frozen=True, kw_only=True)
class WheelSpeeds(SourceSettings):
    """Settings of rotation rates, as control units of the car report them."""

    LIMITS = dict.fromkeys(SPEEDS, 1000.0)
    OBSERVATIONS = (add_wheel_speeds,)
    STATES = (WHEEL_LATENCY,)
    LATENCY = WHEEL_LATENCY
    NOISE = (
        NoiseSetting(
            "wheel_speeds.noise",
            "wheel speeds, one sample",
            "rad/s",
            ("sensors", "wheel_speeds", "noise"),
            channels=SPEEDS,
        ),
    )
    SPEED_PRECEDENCE = 2

    noise: Annotated[RadiansPerSecond, Positive] = 0.2
    latency_sigma: Annotated[Seconds, NonNegative] = 0.02
    """How well `latency` is known, which the filter estimates: 1 σ."""
    gate: Gate = field(default_factory=Gate)

    def make_source(self, context: Context) -> WheelSpeedSource:
        """The source that uses this section."""
        return WheelSpeedSource(self, context)

    def calc_variances(self) -> dict[str, float]:
        """Variance by wheel, (rad/s)²."""
        return dict.fromkeys(SPEEDS, self.noise**2)


class WheelAngleSource(Source[WheelAngles]):
    """Angles of the four wheels. Counters start anywhere: the first reading sets the angle."""

    def __init__(self, settings: WheelAngles, context: Context) -> None:
        super().__init__(settings, context)
        self._jitters: dict[int, StampJitter] = {}
        """By the number of angles in a measurement."""
        self._direction = Direction(self.filter, self.updates)
        self._joint = JointUpdates(self.filter, _JOINT_ANGLES, len(ANGLES))
        self._before: dict[str, float] = {}
        """Previous reading of each wheel's counter."""
        self._backwards = dict.fromkeys(ANGLES, 0.0)
        """rad: excess of a counter that only counts upwards over the wheel's angle."""
        self.reset()

    def register(self) -> None:
        """Register the four angles; a reset sets the wheel's angle in the model."""
        for n, channel in enumerate(ANGLES):
            self.updates.register(
                channel, self.settings.gate, partial(self._set_angle, n), serves=("vx", "slip")
            )

    def reset(self) -> None:
        """The filter begins anew: the next reading of each wheel sets its angle again."""
        self._set: set[str] = set()
        """Channels whose wheels in the model have been set to their readings."""
        self._turned: tuple[int, float] | None = None
        """Time, ns, and mean angle of the rear wheels at the beginning of the speed measurement."""

    def observe(self, m: Measurement) -> None:
        """Update with the angles of the measurement; the first angle of a wheel, or after a time-out, sets it."""
        readings = {channel: m.values[channel] for channel in ANGLES if channel in m.values}
        if not readings:
            return
        count = len(readings)
        jitter = self._jitters.get(count)
        if jitter is None:
            jitter = self._jitters[count] = StampJitter(self._variances[ANGLES[0]] / count)
        jitter.take(m.t * 1e-9, sum(readings.values()) / count)
        # All angles have the same error of time. It counts once, although it is in each of them.
        variance = self._variances[ANGLES[0]] + count * jitter.variance
        if self._direction.is_forwards and self._follow(readings):
            angles = self._follow_forwards(readings)
            self.updates.update_jointly(m, self._joint, angles, [variance] * count)
            return
        for channel, reading in readings.items():
            self._observe_angle(m, channel, reading, variance)

    def _follow(self, channels: Iterable[str]) -> bool:
        """Whether the angles continue those before, and do not set their wheels."""
        health = self.updates.health
        return all(channel in self._set and health[channel].state != "lost" for channel in channels)

    def _observe_angle(self, m: Measurement, channel: str, reading: float, variance: float) -> None:
        value = [self._find_angle(channel, reading)]
        if not self._follow([channel]):
            self._set.add(channel)
            self.filter.apply_corrections()
            observation = Observation(channel, m.t, value, [variance])
            self.filter.set_wheel_angle(ANGLES.index(channel), observation, _KNOWN_ANGLE)
        self.updates.update(m, channel, value, [variance])

    def _follow_forwards(self, readings: dict[str, float]) -> dict[str, float]:
        """Wheel angles that belong to the readings while the car goes forwards."""
        for channel, reading in readings.items():
            if reading < self._before.get(channel, reading):
                return {c: self._find_angle(c, r) for c, r in readings.items()}
        self._before |= readings
        backwards = self._backwards
        return {channel: reading - backwards[channel] for channel, reading in readings.items()}

    def _find_angle(self, channel: str, reading: float) -> float:
        """Wheel angle that belongs to a counter's reading: many counters count upwards in reverse, too."""
        before, self._before[channel] = self._before.get(channel, reading), reading
        turned = reading - before
        if turned and abs(turned) < math.pi:
            # The teeth counted between two samples do not measure the speed, so only the sign is resolved.
            truly, variance = self._direction.resolve(channel, turned, 0.0, per_reading=0.0)
            if variance > 0.0:
                self._set.discard(channel)
            else:
                self._backwards[channel] += turned - truly
        return reading - self._backwards[channel]

    def _set_angle(self, wheel: int, observation: Observation, update: Update) -> bool:
        self.filter.reset_wheel_angle(wheel, update.innovation[0], _KNOWN_ANGLE)
        return True

    def measure_speed(self, m: Measurement) -> float | None:
        """Speed from the rotation of the rear wheels over a while, m/s; None if not known yet."""
        left, right = m.values.get("wheel.rl.angle"), m.values.get("wheel.rr.angle")
        if left is None or right is None:
            return None
        angle, before = 0.5 * (left + right), self._turned
        if before is not None and 0 <= m.t - before[0] < _TURNING_NS:
            return None
        self._turned = (m.t, angle)
        if before is None or m.t < before[0]:
            return None
        return float(self.filter.rear_radius * (angle - before[1]) / ((m.t - before[0]) * 1e-9))


class WheelSpeedSource(Source[WheelSpeeds]):
    """Rotation rates of the four wheels."""

    def __init__(self, settings: WheelSpeeds, context: Context) -> None:
        super().__init__(settings, context)
        self._direction = Direction(self.filter, self.updates)
        self._joint = JointUpdates(self.filter, _JOINT_SPEEDS, len(SPEEDS))
        self._bands, self._departure = {channel: DeadBand() for channel in SPEEDS}, context.departure
        self._smoothed = SmoothedVelocity(self.filter, WHEEL_LATENCY, has_direction=False)
        self._departure.is_asked = True
        self.reset()

    def reset(self) -> None:
        """Restart with the filter, whose wheels roll."""
        self._held: dict[str, tuple[int, float]] = {}
        """By channel of a wheel that has been set to its reading: until when, ns, and distance from rolling,
        rad/s."""

    def register(self) -> None:
        """Register the four rates."""
        for channel in SPEEDS:
            self.updates.register(channel, self.settings.gate, serves=("vx", "slip"))

    def observe(self, m: Measurement) -> None:
        """Update with the rates that the measurement has."""
        present = [channel for channel in SPEEDS if channel in m.values]
        if not present:
            return
        # All wheels have the same error of smoothing. It counts once, although it is in each of them.
        of_lag = len(present) * (self._smoothed.calc_noise(m.t) / self.filter.rear_radius) ** 2
        variances = [self._variances[channel] + of_lag for channel in present]
        if self._direction.is_forwards:
            rates = {c: self._direction.resolve(c, m.values[c], 0.0)[0] for c in present}
            if self._held:
                given = zip(present, variances, strict=True)
                variances = [v for c, v in given if not self._hold(m, c, rates[c], v)]
                rates = {c: rate for c, rate in rates.items() if c not in self._held}
            self.updates.update_jointly(m, self._joint, rates, variances)
            self._take_spinning(m, rates, variances)
            return
        slow = abs(self.filter.pose.item(AHEAD)) / self.filter.rear_radius
        for channel, variance in zip(present, variances, strict=True):
            band, reading = self._bands[channel], m.values[channel]
            rate, variance = self._direction.resolve(channel, reading, variance, self.filter.rear_radius)
            unread = band.take(reading)
            if math.isinf(variance):
                self.updates.reject(m, channel, [reading], "either way")
                continue
            if self._hold(m, channel, rate, variance):
                continue
            # A wheel that reads zero at a higher speed has locked; and a car that has not pulled off stands.
            is_open = slow < _STOPPED * band.least and self._departure.is_possible(m.t * 1e-9)
            self.updates.update(m, channel, [rate], [variance + unread if is_open else variance])
            self._take_spinning(m, {channel: rate}, [variance])

    def _hold(self, m: Measurement, channel: str, rate: float, variance: float) -> bool:
        """Whether the wheel is held at its readings; if so, this reading has set it again."""
        if channel not in self._held:
            return False
        until, farthest = self._held[channel]
        if m.t > until or abs(rate - self.filter.calc_rolling_rate(SPEEDS.index(channel))) > farthest:
            del self._held[channel]
            return False
        self.updates.note_reset(m, channel, rate, self._set_rate(m, channel, rate, variance))
        return True

    def _set_rate(self, m: Measurement, channel: str, rate: float, variance: float) -> float | None:
        """Set the simulated wheel to a reading; returns by how much, rad/s, None if it is too old."""
        observation = Observation(channel, m.t, [rate], [variance])
        return self.filter.set_wheel_rate(SPEEDS.index(channel), observation, _READ_RATE**2)

    def _take_spinning(self, m: Measurement, rates: Mapping[str, float], variances: Sequence[float]) -> None:
        """Set simulated wheels that spin or lock to readings which show that the car's wheels do not."""
        for (channel, rate), variance in zip(rates.items(), variances, strict=True):
            health = self.updates.health[channel]
            if health.failures < _SPUN:
                continue
            last = next(r for r in reversed(self.updates.records) if r.sensor == channel)
            rolling = self.filter.calc_rolling_rate(SPEEDS.index(channel))
            # An observation that was too old has no innovation.
            simulated = rate - last.innovation[0] if last.innovation else rolling
            farthest = _NEARER * abs(simulated - rolling)
            if abs(rate - rolling) < farthest and self._set_rate(m, channel, rate, variance) is not None:
                health.count_reset()
                health.clear_failures()
                self._held[channel] = m.t + _HELD_NS, farthest

    def measure_speed(self, m: Measurement) -> float | None:
        """Mean of the rear wheels' rates times their radius, m/s; None unless both are present."""
        left, right = m.values.get("wheel.rl.speed"), m.values.get("wheel.rr.speed")
        return None if left is None or right is None else 0.5 * (left + right) * self.filter.rear_radius
