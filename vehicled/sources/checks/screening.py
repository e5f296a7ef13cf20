"""Removes values before the filter uses them: impossible, of the future, stuck, in a wrong unit, contradicted."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vehicled.filter.boundary import EstimatedFilter
from vehicled.filter.slides import goes_sideways
from vehicled.messages import CHANNELS, Measurement, SourceFault
from vehicled.sources.by_channels import ByChannels
from vehicled.sources.checks import bias_steps
from vehicled.sources.checks.bias_jump import BiasJump
from vehicled.sources.checks.bias_steps import BiasStep, BiasSteps
from vehicled.sources.checks.course_consistency import WATCHED, CourseConsistency
from vehicled.sources.checks.course_latency import find_course_latency
from vehicled.sources.checks.gyroscope_jumps import GyroscopeJumps
from vehicled.sources.checks.lateral_vote import LateralVote, SilentChannel
from vehicled.sources.checks.mounting_check import MountingCheck
from vehicled.sources.checks.speed_judge import OWN, SpeedJudge
from vehicled.sources.checks.speed_judge import WATCHED as SPEEDS_WATCHED
from vehicled.sources.checks.speed_vote import SpeedVote
from vehicled.sources.checks.stuck import StuckChannels
from vehicled.sources.checks.unit_check import UnitCheck
from vehicled.sources.checks.yaw_consistency import YawConsistency
from vehicled.sources.checks.yaw_refusal import YawRefusal, widen
from vehicled.sources.checks.yaw_vote import YawVote
from vehicled.sources.gnss.ground_velocity import VECTORS, add_speed_and_course, find_channels
from vehicled.sources.imu.imu import GYROSCOPES
from vehicled.sources.imu.model import ACCELEROMETER_BIAS, GYRO_BIAS
from vehicled.sources.limits import find_absurd
from vehicled.sources.sensors import Sensors, find_limits
from vehicled.sources.speeds.vehicle_speed import SPEED_LATENCY
from vehicled.sources.speeds.wheels import ANGLES, SPEEDS
from vehicled.sources.updates import MeasurementUpdates
from vehicled.sources.yaw_rate import CHANNEL as YAW_RATE_CHANNEL
from vehicled.vehicle.arrays import V1Z
from vehicled.vehicle.parameters import Vehicle
from vehicled.vehicle.sideslip import calc_steady_sideslip

_AHEAD_NS = 200_000_000
"""For so long after the step motion is extrapolated. A time stamp further ahead is wrong; kept as the time of
the latest sample, it would make all later samples seem old."""

_NO_CHANNELS = frozenset[str]()
_NO_BIAS = (0.0, 0.0, 0.0)
_ALONE_NS = 500_000_000
"""Time without a gyroscope after which wheels and steering judge the car's own yaw rate."""
_LOOK_NS = 100_000_000
"""Time between readings of the filter's states."""
_SLIDING_NS = 600_000_000
"""Time for which tyres may slide after a wheel was rejected, or after the car went sideways."""
_MOST_UNKNOWN = 8
"""Most unknown channels that are named: a program may send any number of them."""


class _Checks(NamedTuple):
    """Which checks apply to a measurement with certain channels."""

    limits: list[float]
    """Limits, by channel."""
    has_vector: bool
    """Whether speed and course have to be calculated from a velocity vector."""
    may_be_stuck: bool
    may_step: bool
    has_yaw: bool
    """Whether any channel is used in the comparison of yaw rates."""
    has_course: bool
    """Whether any channel is used in the comparison of gyroscope and course."""
    has_vote: bool
    """Whether any channel is used in the comparison of gyroscope and the car's own yaw rate."""
    has_own_yaw: bool
    """Whether any is used in that of the car's own yaw rate with wheels and steering."""
    has_speed: bool
    """Whether any is used in the comparison of speeds."""
    is_compared: bool
    """Whether any of the checks from `may_be_stuck` on applies."""


class Screening:
    """Removes unusable values from measurements, and records each with the reason."""

    def __init__(self, sensors: Sensors, vehicle: Vehicle, updates: MeasurementUpdates) -> None:
        """`updates`: receives the records."""
        self._gravity, track = vehicle.gravity, 2.0 * vehicle.front.hard_points.wheel_center[1]
        self._limits, self._stuck, self._updates = find_limits(), StuckChannels(track), updates
        self._yaw = YawConsistency(sensors.imu, vehicle)
        self._yaw_vote, self._refusal = YawVote(sensors, vehicle), YawRefusal()
        has_own = sensors.yaw_rate is not None
        self._own_yaw = YawConsistency(sensors.imu, vehicle, YAW_RATE_CHANNEL) if has_own else None
        """The same of the car's own yaw rate, for while no gyroscope measures; None without that sensor."""
        self._gyro_ns = -_ALONE_NS
        """Time of the step with the last sample of a gyroscope."""
        self._course = CourseConsistency(sensors.imu, sensors.gnss, calc_steady_sideslip(vehicle))
        self._jumps = GyroscopeJumps(self._course, self._yaw, vehicle, sensors)
        self._steps = BiasSteps(sensors.imu)
        self._lateral = LateralVote(sensors.imu, sensors.gnss, vehicle.gravity)
        self._looked_ns = 0
        """Time of the step at which the filter's states were last read."""
        self._wheels_rejected, self._slides_until_ns = 0, 0
        """Number of rejections of wheels at the last reading; and time, ns, until which tyres may slide."""
        self._sideways_until_ns = 0
        """Time, ns, until which the car may be going sideways."""
        self._units, self._mounting = UnitCheck(sensors, vehicle), MountingCheck(sensors, vehicle)
        self._vote, self._judge = SpeedVote(), SpeedJudge(sensors, vehicle.rear.tyre.radius)
        self._averages = self._units.averages
        self.has_misled = False
        """Whether the IMU has been found not to be mounted as configured, since the start."""
        self._in_wrong_scale = self._units.wrong
        """Channels that are in another unit, or are outvoted."""
        self.has_used_wrong_scale = False
        """Whether such channels have been used; to be cleared when the filter starts anew."""
        self._checks = ByChannels(self._find_checks)
        """By the channels of a measurement."""
        self.removed = {"future": 0, "absurd": 0, "stuck": 0, "implausible": 0, "mounting": 0, "unit": 0}
        """Number of removed values, by reason."""
        self.unknown: tuple[SourceFault, ...] = ()
        """One fault for each channel that does not exist; the same object until another such channel
        comes."""
        self.latest: dict[str, tuple[int, str]] = {}
        """By channel: time, ns, of the step that last removed a value of it, and the reason."""

    def configure(self, sensors: Sensors) -> None:
        """Other settings, also while running."""
        self._yaw.configure(sensors.imu)
        if self._own_yaw is not None:
            self._own_yaw.configure(sensors.imu)
        self._course.configure(sensors.imu, sensors.gnss)
        self._jumps.configure(sensors)
        self._steps.configure(sensors.imu)
        self._lateral.configure(sensors.imu, sensors.gnss)
        self._units.configure(sensors)
        self._judge.configure(sensors)
        self._mounting.configure(sensors)
        self._yaw_vote.configure(sensors)

    def reset(self) -> None:
        """Restart with the filter. What is known about units and bias steps is kept."""
        self._stuck.reset()
        self._yaw.reset()
        if self._own_yaw is not None:
            self._own_yaw.reset()
        self._yaw_vote.reset()
        self._refusal.reset()
        self._course.reset()
        self._jumps.reset()
        self._lateral.reset()
        self._judge.reset()
        self._looked_ns = self._slides_until_ns = self._sideways_until_ns = 0

    def begin(self) -> None:
        """The filter has started: what a misaligned IMU has falsified is gone."""
        self.has_misled = False
        self._mounting.begin()
        self._stuck.begin()

    @property
    def is_reversed(self) -> bool:
        """Whether the car moves opposite to the estimate; until `begin_anew`."""
        return self._mounting.is_reversed

    def begin_anew(self) -> None:
        """The filter starts anew without channels in a wrong scale, and in the other direction if it was wrong."""
        self.has_used_wrong_scale = False
        if self.is_reversed:
            self._mounting.turn_round()

    @property
    def is_gyroscope_doubtful(self) -> bool:
        """Whether other sensors contradict the gyroscope."""
        health = self._updates.health.get("imu.gyro")
        is_used = health is None or health.is_used
        is_contradicted = self._yaw.is_doubtful or not self._yaw.is_plausible or self._steps.has_lost_yaw_rate
        return (is_contradicted and not self._yaw_vote.confirms) or not is_used

    def widen_biases(self, f: EstimatedFilter) -> None:
        """Widen biases by what has been found since the previous step; a jump also widens what it has falsified."""
        if self._steps.found:
            found, self._steps.found = self._steps.found, []
            for step in found:
                self._take_step(f, step)
        now_ns = self._updates.step_ns
        self._judge.gained.note_slope(self._gravity * f.pose.item(V1Z))
        if now_ns - self._looked_ns >= _LOOK_NS:
            self._look_at_states(f, now_ns)
        if self._yaw_vote.watched:
            self._take_votes(f, now_ns)
        if self._judge.found[0]:
            self._updates.widen_speed(*self._judge.found)
            self._judge.found = 0.0, 0.0
        if ACCELEROMETER_BIAS in f.states and self._lateral.widen(f):
            self._updates.note_imu_change(now_ns)
            self._updates.accelerometer_outvoted_ns = now_ns
        if (until_ns := self._jumps.widen(f, now_ns)) is not None:
            self._updates.note_imu_change(until_ns)

    def _take_votes(self, f: EstimatedFilter, now_ns: int) -> None:
        """Undo what a refused sensor of the yaw rate has falsified."""
        vote = self._yaw_vote
        for verdict in vote.found:
            self._refusal.return_to_before(f, verdict, now_ns)
            if verdict.culprit == "gyroscope":
                self._course.begin_anew()
                self._jumps.note(BiasJump(verdict.angle, verdict.since, verdict.angle, verdict.apart))
        for culprit, by in vote.rebased:
            widen(f, culprit, by)
            channel = YAW_RATE_CHANNEL if culprit == "own" else GYROSCOPES[2]
            self.latest[channel] = now_ns, "bias"
        vote.found.clear()
        vote.rebased.clear()
        if vote.culprit is None:
            self._refusal.keep(f, now_ns)

    def _take_step(self, f: EstimatedFilter, step: BiasStep) -> None:
        """Widen the bias; set it if the step takes back a bias that has drifted. A step to zero loses the axis."""
        group = GYRO_BIAS if step.channel in GYROSCOPES else ACCELEROMETER_BIAS
        element = step.channel[-1]
        place = group.elements.index(element)
        bias = f.slow.view(group).item(place)
        takes_back = step.takes_back(bias)
        if step.is_zero and not takes_back:
            self._steps.lose(step.channel, step.by)
            return
        f.add_variance(group, element, step.sigma**2)
        if takes_back:
            f.add_variance(group, element, (bias + step.by) ** 2)
            by = np.zeros(len(group.elements))
            by[place] = step.by
            f.slow.move(group, by)
            self._steps.hand_over(step.channel)
            self._course.begin_anew()
            self._updates.note_imu_change(self._updates.step_ns)

    def _look_at_states(self, f: EstimatedFilter, now_ns: int) -> None:
        """Pass on to the checks what the filter has found about sensors."""
        if SPEED_LATENCY in f.states:
            sigma = math.sqrt(max(f.get_variance(SPEED_LATENCY), 0.0))
            self._judge.note_latency(f.slow.view(SPEED_LATENCY).item(0), sigma)
        self._course.latency = self._lateral.latency = find_course_latency(f)
        self._look_at_bias(f, now_ns)
        self._looked_ns = now_ns

    def _look_at_bias(self, f: EstimatedFilter, now_ns: int) -> None:
        """Pass the filter's gyroscope bias on to the comparison with courses; widen a bias that drifts."""
        if GYRO_BIAS not in f.states:
            self._course.set_bias(_NO_BIAS, 0.0)
            return
        self._jumps.widen_drift(f, now_ns, (now_ns - self._looked_ns) * 1e-9)
        sigma = math.sqrt(max(f.get_variance(GYRO_BIAS, "z"), 0.0))
        self._course.set_bias(f.slow.view(GYRO_BIAS).tolist(), sigma)
        if self._jumps.has_confirmed(sigma):
            self.latest[GYROSCOPES[2]] = now_ns, "bias"
        self._look_for_slides(f, now_ns)
        self._updates.is_imu_sound = self._mounting.is_confirmed and not (
            self._jumps.drifts(now_ns) or self.is_gyroscope_doubtful
        )

    def _look_for_slides(self, f: EstimatedFilter, now_ns: int) -> None:
        """Find whether tyres slide: if the car goes sideways, or if the filter rejects wheels."""
        health = self._updates.health
        rejected = sum(health[c].reasons.get("gate", 0) for c in (*ANGLES, *SPEEDS) if c in health)
        if goes_sideways(f.pose):
            self._sideways_until_ns = self._slides_until_ns = now_ns + _SLIDING_NS
        if rejected > self._wheels_rejected:
            self._slides_until_ns = now_ns + _SLIDING_NS
        self._wheels_rejected = rejected
        self._updates.is_sliding = now_ns < self._slides_until_ns

    def find_wrong_units(self) -> dict[str, str]:
        """Channels that seem to be in another unit or scale than expected, with a description."""
        return self._vote.find() | self._units.find()

    def remove(self, m: Measurement, ahead: float, steering: float | None) -> Measurement:
        """Remove unusable values; returns the rest, with speed and course if these follow from a velocity vector.

        `ahead`: speed, m/s; `steering`: yaw rate by the steering angle, rad/s.
        """
        checks = self._checks[tuple(m.values)]
        if checks.has_vector:
            m = add_speed_and_course(m)
            checks = self._checks[tuple(m.values)]
        if checks.may_step and self._steps.present:
            m = self._steps.subtract(m)  # before the averages: an axis that has stepped is no turned axis
        given = m
        step_ns = self._updates.step_ns
        if m.t - step_ns > _AHEAD_NS:
            return self._without(m, list(m.values), "future")
        sideways = step_ns < self._sideways_until_ns
        self._units.take(m)
        if self._units.averages is not self._averages:
            self._take_averages(steering, ahead, sideways)
        if self._units.wrong and (other := find_channels(m, self._units.wrong)):
            m = self._without(m, other, "unit")
        if self._vote.wrong and (outvoted := find_channels(m, self._vote.wrong)):
            m = self._without(m, outvoted, "implausible")
        if checks.may_step and self._steps.lost and (lost := self._steps.find_lost(m)):
            m = self._without(m, lost, "implausible")
            self.latest.update(dict.fromkeys(lost, (step_ns, "lost")))
        if self._mounting.wrong and (exchanged := self._mounting.find(m)):
            m = self._without(m, exchanged, "mounting")
        if m is not given:
            checks = self._checks[tuple(m.values)]
        if absurd := find_absurd(m, checks.limits):
            m = self._without(m, absurd, "absurd")
        if not checks.is_compared:
            return m
        if checks.may_step:
            self._judge.gained.take(m.t, m.values)
        if checks.has_speed:
            self._judge.take(m.t, m.values, ahead, sideways)
            self._updates.speed_doubt = self._judge.doubt
            if self._judge.is_wrong and OWN in m.values:
                m = self._without(m, [OWN], "implausible")
        if checks.may_be_stuck and (repeated := self._stuck.find(m, ahead, self._averages.means, steering)):
            m = self._without(m, repeated, "stuck")
            self._steps.forget(repeated)
        slides = self._updates.is_sliding
        if checks.may_step:
            if doubtful := self._steps.find(m, ahead, steering, slides):  # no fault yet
                m = self._without(m, doubtful, "implausible", is_fault=False)
            self._judge.gained.is_sound = not self._steps.present
            for channel in self._steps.present:
                self.latest[channel] = step_ns, "step"
        # While the car slides, the offsets of wheels and steering cannot be found.
        shows_offsets = self._course.agrees and not slides
        vote = self._yaw_vote
        if checks.has_vote:
            vote.take(m, ahead, steering, slides)
            # The one that is left when the other has been refused counts in full.
            self._updates.yaw_rates_apart = vote.apart if vote.culprit is None else 0.0
        refused: list[str] = []
        was_plausible = self._yaw.is_plausible
        if checks.has_yaw and not self._yaw.take(m, ahead, steering, shows_offsets):
            # That the car's own sensor turns as the gyroscope does excuses it, but no single wild sample.
            refused += () if vote.confirms and not self._yaw.is_plausible else GYROSCOPES
        if refused and was_plausible and not self._yaw.is_plausible:
            self._jumps.note(self._yaw.jump)
        if refused and not self._yaw.is_plausible:
            self._steps.take_back(GYROSCOPES[2], self._yaw.excess)
        if self._own_yaw is not None:
            if GYROSCOPES[2] in m.values:
                self._gyro_ns = step_ns
            is_alone = checks.has_own_yaw and step_ns - self._gyro_ns > _ALONE_NS
            if is_alone and not self._own_yaw.take(m, ahead, steering, shows_offsets):
                refused.append(YAW_RATE_CHANNEL)
        if vote.culprit is not None:
            refused += GYROSCOPES if vote.culprit == "gyroscope" else (YAW_RATE_CHANNEL,)
            if vote.culprit == "gyroscope":
                self._steps.forget(GYROSCOPES)  # the end of a drift is no step of the bias
        if refused and (present := [c for c in m.values if c in refused]):
            m = self._without(m, present, "implausible")
        # Rejected wheels alone do not excuse the gyroscope: a wrong gyroscope makes the filter reject wheels.
        if checks.has_course:
            # In a spin, tyres have no force for their yaw rate.
            self._lateral.take(m, ahead, None if sideways else steering)
            if (silent := self._lateral.silent) is not None:
                self._take_silent(silent)
            if self._lateral.wrong:
                for channel in set(self._lateral.wrong).intersection(self._steps.present):
                    self._steps.drop(channel)
                refused = [c for c in m.values if c in self._lateral.wrong]
                m = self._without(m, refused, "implausible") if refused else m
            jump = self._course.take(m, ahead, self._yaw.excess, sideways)
            if jump is not None and self._yaw.is_plausible and self._jumps.judge(jump):  # so it is in use
                self.latest[GYROSCOPES[2]] = step_ns, "bias"
            self._updates.turned_apart = self._course.apart
        return m

    def _take_silent(self, silent: SilentChannel) -> None:
        """Refuse an axis that measures nothing in a bend; a gyroscope also has to agree with others again."""
        self._steps.lose(silent.channel)
        if silent.jump is not None and self._yaw.is_plausible:
            self._yaw.refuse()
            self._jumps.note(silent.jump)

    def _take_averages(self, steering: float | None, ahead: float, sideways: bool) -> None:
        """Check units, speeds and mounting with the averages of a complete interval."""
        self._averages = self._units.averages
        if not sideways:  # sideways, the car's own speed is less than that of positions
            speeds = dict(self._units.find_speeds(self._averages))
            if self._judge.is_wrong:
                speeds.pop(OWN, None)  # it is not used, so that the filter has not started with it
            self._vote.take(speeds)
        wrong = self._units.wrong | self._vote.wrong
        self.has_used_wrong_scale |= not wrong <= self._in_wrong_scale
        self._in_wrong_scale = wrong
        before = self._mounting.wrong
        self._mounting.take(self._averages, steering, ahead)
        self.has_misled |= GYROSCOPES[2] in self._mounting.wrong - before

    def _find_checks(self, channels: tuple[str, ...]) -> _Checks:
        named = {fault.source for fault in self.unknown}
        new = [channel for channel in channels if channel not in CHANNELS and channel not in named]
        if new := new[: _MOST_UNKNOWN - len(named)]:
            self.unknown = (*self.unknown, *map(_describe_unknown, new))
        limits = [self._limits.get(channel, math.inf) for channel in channels]
        watched = [
            not watched.isdisjoint(channels)
            for watched in (
                *(self._stuck.watched, bias_steps.WATCHED, self._yaw.watched, WATCHED | bias_steps.WATCHED),
                *(self._yaw_vote.watched, _NO_CHANNELS if self._own_yaw is None else self._own_yaw.watched),
                SPEEDS_WATCHED,
            )
        ]
        return _Checks(limits, not VECTORS.isdisjoint(channels), *(*watched, any(watched)))

    def _without(
        self, m: Measurement, channels: Sequence[str], reason: str, is_fault: bool = True
    ) -> Measurement:
        self.removed[reason] += len(channels)
        for channel in channels:
            self._updates.record(m, channel, [m.values[channel]], reason)
            if is_fault:
                self.latest[channel] = self._updates.step_ns, reason
        rest = {c: v for c, v in m.values.items() if c not in channels}
        return Measurement(m.source, m.t, m.arrival, rest)


def _describe_unknown(channel: str) -> SourceFault:
    near = difflib.get_close_matches(channel, CHANNELS, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return SourceFault(channel, f"there is no such channel, and it is not used{hint}", ())
