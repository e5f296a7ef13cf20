"""GNSS receivers: fixes, velocity over ground, heading; and from them, the place of the car in the world."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from vehicled.filter.boundary import Observation, Update
from vehicled.filter.covariance import MISSING
from vehicled.filter.states import (
    ATTITUDE,
    POSITION,
    STEERING_OFFSET,
    STEERING_RATIO,
    TYRE_ERROR,
    VELOCITY,
    Group,
    Process,
)
from vehicled.messages import CHANNELS, Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.gnss import fixes
from vehicled.sources.gnss.first_direction import go_ahead
from vehicled.sources.gnss.fix_jumps import FixJumps, PlacedFix, is_within
from vehicled.sources.gnss.ground_velocity import LEAST_SPEED, GroundVectors
from vehicled.sources.gnss.heading_check import HeadingCheck
from vehicled.sources.gnss.heading_shifts import HeadingShifts
from vehicled.sources.gnss.model import GNSS, GNSS2, ReceiverErrors, add_gnss
from vehicled.sources.gnss.model_noise import limit_fix, limit_velocity
from vehicled.sources.gnss.placement import SIDESLIP, CarPlacement
from vehicled.sources.gnss.receiver_motion import ReceiverMotion, find_antenna_velocity
from vehicled.sources.gnss.shown_noise import ShownNoise
from vehicled.sources.gnss.steady_speed import SteadySpeeds
from vehicled.sources.gnss.velocity_jumps import (
    FOLLOWED_FOR,
    VelocityJumps,
    does_agree,
    find_deviation,
    read_velocity,
)
from vehicled.sources.imu.model import ALIGNMENT, GYRO_SCALE
from vehicled.sources.limits import FASTEST
from vehicled.sources.source import Context, Place, Source, SourceSettings
from vehicled.sources.speeds.smoothed_velocity import SmoothedVelocity
from vehicled.sources.world import Fix
from vehicled.units import Metres, MetresPerSecond, NonNegative, Positive, Radians, Seconds
from vehicled.vehicle.arrays import AHEAD, YAW_RATE

_LEAST_ACCURACY, _LEAST_VELOCITY_ACCURACY, _LEAST_HEADING_ACCURACY = 2e-3, 5e-3, 1e-3
"""m, m/s and rad: lower bounds, whatever a receiver reports."""
_HEAVE = 0.03
"""m/s: vertical speed of the antenna on a rough road in addition to the model's."""
_VAGUE_HEADING = 0.1
"""rad: a heading with a larger σ cannot start the filter, as errors are linearised."""
_OPENED = 3.0
"""Factor on σ of a yaw that is set to a heading: later headings share the error of the baseline with it."""
_HEIGHT_RATIO = 2.0
"""Ratio of the wander of heights to that of horizontal positions: all satellites are above."""
_LEAST_WHITE = 0.25
"""Least share of the variance of heights that is white, whatever the receiver reports of horizontal positions."""
_ANOTHER_KIND = 0.5
"""Relative change in the size of the slow error above which it belongs to another kind of fix. Accuracies
that receivers report vary by less, while the error stays the same."""
_FALSIFIED = (GYRO_SCALE, ALIGNMENT, TYRE_ERROR, STEERING_OFFSET, STEERING_RATIO)
"""States that a wrong heading has falsified, in addition to the receiver's own."""


@dataclass(frozen=True, kw_only=True)
class Gnss(SourceSettings):
    """Settings of a GNSS receiver: its antenna in vehicle axes (m), noise by kind of fix, use of its course."""

    LIMITS: ClassVar[Mapping[str, float]] = fixes.limit_channels("gnss")
    PLACE: ClassVar[tuple[str, str]] = ("gnss.lat", "gnss.lon")
    STATES = GNSS.groups
    LATENCY = GNSS.latency
    OBSERVATIONS = (add_gnss,)
    SPEED_PRECEDENCE = 1
    RECEIVER: ClassVar[ReceiverErrors] = GNSS

    antenna: Place = (0.0, 0.0, 0.0)
    antenna_sigma: Annotated[Metres, NonNegative] = 0.003
    """How well its place is known, 1 σ per axis."""
    latency_sigma: Annotated[Seconds, NonNegative] = 0.02
    """How well the time of a fix is known, 1 σ. Velocities may be older than their fix by half of it, 1 σ."""
    rtk_fixed: fixes.FixNoise = fixes.RTK_FIXED
    rtk_float: fixes.FixNoise = fixes.RTK_FLOAT
    dgnss: fixes.FixNoise = fixes.DGNSS
    single: fixes.FixNoise = fixes.SINGLE
    trust_reported_accuracy: bool = True
    """Take the receiver's own 1-σ accuracies of position, velocity and heading instead of the noise above."""
    sideslip_error: Annotated[Radians, NonNegative] = 0.001
    """Error of the course in addition to the receiver's own noise: the model's sideslip is slowly wrong in
    corners."""
    least_speed: Annotated[MetresPerSecond, Positive] = 2.0
    """Below this speed the course over ground is used only together with the speed, as a velocity vector."""
    heading: fixes.Baseline | None = None
    """Baseline of a receiver with two antennas; None: its heading is not used."""
    gate: Gate = field(default_factory=lambda: Gate(policy="reset"))

    def find_noise(self, quality: float, hdop: float = 1.0) -> fixes.FixNoise:
        """Noise of a fix of NMEA quality 2, 4 or 5; for any other quality that of a `single` fix. See `dilute`."""
        kinds = {2: self.dgnss, 4: self.rtk_fixed, 5: self.rtk_float}
        return kinds.get(int(quality), self.single).dilute(hdop)

    def make_source(self, context: Context) -> GnssSource:
        """The source that uses this section."""
        return GnssSource(self, context)

    def get_given(self) -> dict[Group, object]:
        """Configured values: place of the antenna, latency, and angle of the baseline."""
        r = self.RECEIVER
        angle = None if self.heading is None else self.heading.angle
        return super().get_given() | {r.antenna: self.antenna, r.baseline: angle}

    def get_arrays(self) -> dict[str, tuple[float, ...]]:
        """Angle of the baseline; and the antenna's place, if the car's sensor models do not contain it."""
        receiver = self.RECEIVER
        angle = 0.0 if self.heading is None else self.heading.angle
        arrays: dict[str, tuple[float, ...]] = {receiver.baseline_array: (angle,)}
        if receiver is not GNSS:
            arrays[receiver.antenna_array] = self.antenna
        return arrays


class GnssSource(Source[Gnss]):
    """Position, velocity and heading of one receiver."""

    def __init__(self, settings: Gnss, context: Context) -> None:
        self._given_noise, self._rates = context.given_noise, context.rates
        self._world, self._timing = context.world, context.timing
        self._jumps, self._heading_check, self._shifts = FixJumps(), HeadingCheck(), HeadingShifts()
        self._velocity_jumps, self.motion, self._shown_noise = VelocityJumps(), ReceiverMotion(), ShownNoise()
        self._receiver = settings.RECEIVER
        self._prefix = prefix = f"{self._receiver.name}."
        self._own = {c: c.removeprefix(prefix) for c in CHANNELS if c.startswith(prefix)}
        """Its channels, with their names without the receiver's prefix."""
        self._placement = CarPlacement(context.filter, context.updates, context.world, context.counters)
        self._vectors = GroundVectors()
        self._origin_error = 0.0
        """m, 1 σ per axis: offset of its fixes from another receiver's, as base stations may differ."""
        super().__init__(settings, context)
        view, own = self.filter.slow.view, self._receiver
        self._latency, self._heading_latency = view(own.latency), view(own.heading_latency)
        self._steady = SteadySpeeds(self.filter, self._receiver.steady_array)
        self._smoothed = SmoothedVelocity(self.filter, self._receiver.velocity_latency)

    def reset(self) -> None:
        """Restart with the filter."""
        for each in (self._jumps, self._velocity_jumps, self._shifts, self.motion, self._placement):
            each.reset()
        self._origin_error = 0.0

    def register(self) -> None:
        """Register position, velocity in both forms, and heading."""
        s, name = self.settings, self._prefix
        self._arm, self._placement.antenna = math.hypot(*s.antenna), s.antenna
        if self._receiver is GNSS:
            self._timing.antenna, self._timing.fix_sigma = s.antenna, s.latency_sigma
        register = self.updates.register
        register(f"{name}position", s.gate, self._reset_position, (f"{name}lat", f"{name}lon"), ("position",))
        register(f"{name}speed", s.gate, self._reset_motion, serves=("vx",), over_ground=True)
        register(f"{name}course", s.gate, self._reset_motion, serves=("yaw",))
        velocity = f"{name}vn", f"{name}ve", f"{name}vd"
        register(f"{name}velocity", s.gate, self._reset_motion, velocity, ("vx", "yaw"), over_ground=True)
        if s.heading is not None:
            register(f"{name}heading", s.heading.gate, serves=("yaw",))
        self._heading_check.forget()

    # -- before the filter runs ------------------------------------------------------------------------

    def find_fix(self, values: Mapping[str, float]) -> Fix | None:
        """The fix in a measurement, if it has a valid position."""
        v, name = values, self._prefix
        if f"{name}lat" not in v or f"{name}lon" not in v or v.get(f"{name}quality", 1.0) < 1.0:
            return None
        return v[f"{name}lat"], v[f"{name}lon"], v.get(f"{name}alt", math.nan)

    def find_sigma(self, values: Mapping[str, float]) -> float:
        """Horizontal σ of the fix in a measurement, m."""
        name, own = self._prefix, self._own
        kind = self._kind({own[c]: value for c, value in values.items() if c in own})
        return self._find_accuracy(values.get(f"{name}h_acc"), kind.horizontal, _LEAST_ACCURACY)

    def find_course(self, values: Mapping[str, float]) -> float | None:
        """Course over ground in a measurement, rad clockwise from north."""
        return values.get(f"{self._prefix}course")

    def find_yaw(self, values: Mapping[str, float]) -> tuple[float, float] | None:
        """Initial yaw of the car and its σ, rad, from the baseline; None without a usable heading."""
        baseline, heading = self.settings.heading, values.get(f"{self._prefix}heading")
        if baseline is None or heading is None or self._heading_check.is_wrong:
            return None
        reported = values.get(f"{self._prefix}heading_acc")
        noise = self._find_accuracy(reported, baseline.noise, _LEAST_HEADING_ACCURACY)
        sigma = math.hypot(noise, baseline.angle_sigma)
        return None if sigma > _VAGUE_HEADING else (0.5 * math.pi - heading - baseline.angle, _OPENED * sigma)

    def measure_speed(self, m: Measurement) -> float | None:
        """Speed over ground, m/s, if the measurement has it."""
        return m.values.get(f"{self._prefix}speed")

    @property
    def place_doubt(self) -> float:
        """σ of the place, m, while its fixes are in doubt after a jump."""
        return self._jumps.calc_doubt(self.updates.step_ns)

    # -- while it runs ---------------------------------------------------------------------------------

    def observe(self, m: Measurement) -> None:
        """Find or align the world if still to be done, then update with all values of the measurement."""
        name, own = self._prefix, self._own
        v = {own[c]: value for c, value in m.values.items() if c in own}
        fix = self.find_fix(m.values)
        if fix is None and ("lat" in v or v.get("quality", 1.0) < 1.0):
            self.updates.reject(m, f"{name}position", [], "no fix")
        moving = v.get("speed", 0.0) > self.settings.least_speed
        self._rates.write(m.t * 1e-9 - self._velocity_late, self.filter.measured_rates)
        self._steady.update()
        if fix is not None and not self._world.known:
            self._placement.join_world(fix)
        self._check_heading(m.t, v)
        if moving and self._is_heading_lost(m.t * 1e-9, v, fix):
            return  # the filter restarts
        if not self._world.aligned and self._align(m, v, fix, moving) and m.t < self.updates.step_ns:
            self._leave_out(m, v, fix)
            return
        if fix is not None and not self._world.aligned and self._has_preferred:
            # While the heading is unknown, so are the relative positions of the antennas.
            self.updates.reject(m, f"{name}position", [], "not aligned")
        elif fix is not None:
            self._observe_position(m, v, fix)
        self._observe_velocity(m, v, moving)
        if "heading" in v:
            self._observe_heading(m, v)

    @property
    def _has_preferred(self) -> bool:
        """Whether the first receiver measures positions, and this is another one."""
        return self._receiver is not GNSS and self.updates.is_active(f"{GNSS.name}.position")

    @property
    def _late(self) -> float:
        """Estimated age of fixes in addition to the configured latency, s."""
        return float(self._latency.item(0))

    @property
    def _velocity_late(self) -> float:
        """The same for velocities, which receivers smooth more, s."""
        return self._late + self._smoothed.lag

    def _kind(self, v: Mapping[str, float]) -> fixes.FixNoise:
        return self.settings.find_noise(v.get("quality", 1.0), v.get("hdop", 1.0))

    def _find_accuracy(self, reported: float | None, otherwise: float, least: float) -> float:
        """1 σ as reported by the receiver, if it is reported and trusted; at least `least`."""
        if reported is None or not self.settings.trust_reported_accuracy:
            return otherwise
        return max(reported, least)

    def _find_velocity_noise(self, v: Mapping[str, float]) -> float:
        claimed = self._find_accuracy(v.get("s_acc"), self._kind(v).velocity, _LEAST_VELOCITY_ACCURACY)
        shown = claimed * self._shown_noise.factor
        return claimed if self._given_noise else limit_velocity(shown, self.updates)

    def _observe_position(self, m: Measurement, v: Mapping[str, float], fix: Fix) -> None:
        kind, name = self._kind(v), f"{self._prefix}position"
        horizontal = self._find_accuracy(v.get("h_acc"), kind.horizontal, _LEAST_ACCURACY)
        vertical = self._find_accuracy(v.get("v_acc"), kind.vertical, _LEAST_ACCURACY)
        wander = kind.wander * horizontal / kind.horizontal
        self._set_wander(wander, kind.wander_time)
        # Identification of noise differentiates all operations of the filter; these have no derivative.
        if not self._given_noise:
            self._placement.widen_place(m.t)
            horizontal, vertical = limit_fix(horizontal, vertical, self.updates)
        place, level = self._world.to_world(fix).tolist(), horizontal**2 - wander**2
        is_used = not (self._jumps.is_contradicting(m.t) or self._velocity_jumps.are_positions_false)
        if is_used and self._world.aligned and self._receiver is GNSS:
            self._timing.take_fix(m.t * 1e-9, complex(*place[:2]), horizontal, self._late)
        if math.isnan(fix[2]):
            upright, present = MISSING, (0, 1)
        else:
            rises = _HEIGHT_RATIO * wander
            upright, present = max(vertical**2 - rises**2, _LEAST_WHITE * vertical**2), None
        self.updates.update(m, name, place, [level, level, upright], present, self._late, is_used)
        self._note_distance(horizontal, v)

    def _observe_velocity(self, m: Measurement, v: Mapping[str, float], moving: bool) -> None:
        """Update with the velocity vector if there is one, else with speed and course."""
        swing = self._rates.find_change(m.t * 1e-9 - self._velocity_late)
        of_rates = self.filter.measured_rates.item(0) * self._arm * math.hypot(self._rates.sigma, swing)
        sigma = math.hypot(self._find_velocity_noise(v), of_rates, self._smoothed.calc_noise(m.t))
        velocity = None
        if self._world.aligned:
            velocity, sigma = self._vectors.find(m.t, v, sigma, moving)
        # A position alone does not show that velocities are missing: they may come in messages of their own.
        if "speed" in v or "course" in v:
            health, name = self.updates.health, self._prefix
            health[f"{name}velocity"].is_expected = self._world.aligned and self._vectors.are_given
            health[f"{name}speed"].is_expected = velocity is None
            health[f"{name}course"].is_expected = moving and velocity is None
        if velocity is None:
            self._observe_speed_and_course(m, v, sigma, moving)
        else:
            self._observe_vector(m, v, sigma, velocity)
        # A velocity of zero is held by the receiver, or stands for noise: it shows nothing.
        if velocity != 0.0:
            self._find_velocity_jump(m.t, sigma)

    def _observe_vector(
        self, m: Measurement, v: Mapping[str, float], sigma: float, velocity: complex
    ) -> None:
        # The speed of the same measurement is not used, as it may have been removed.
        kind, horizontal, speed = f"{self._prefix}velocity", [velocity.real, velocity.imag], abs(velocity)
        if speed > FASTEST:  # each component is possible, but not both together
            self.updates.reject(m, kind, horizontal, "absurd")
            return
        level = sigma**2 + (self.settings.sideslip_error * speed) ** 2
        upright = (_HEIGHT_RATIO * sigma) ** 2 + _HEAVE**2 if "vd" in v else MISSING
        value, present = [*horizontal, -v.get("vd", 0.0)], None if "vd" in v else (0, 1)
        is_used = not self._velocity_jumps.lasts
        variance = [level, level, upright]
        self.updates.update(m, kind, value, variance, present, self._velocity_late, is_used)

    def _observe_speed_and_course(
        self, m: Measurement, v: Mapping[str, float], sigma: float, moving: bool
    ) -> None:
        updates, late, is_used = self.updates, self._velocity_late, not self._velocity_jumps.lasts
        if "speed" in v:
            kind, value = f"{self._prefix}speed", [v["speed"]]
            if v["speed"] < LEAST_SPEED:
                updates.reject(m, kind, value, "not moving")
            else:
                updates.update(m, kind, value, [sigma**2], None, late, is_used)
        if "course" in v:
            kind, value = f"{self._prefix}course", [v["course"]]
            if not moving:  # also if there is no speed, on which its noise depends
                updates.reject(m, kind, value, "not moving")
            else:
                noise = (sigma / v["speed"]) ** 2 + self.settings.sideslip_error**2
                updates.update(m, kind, value, [noise], None, late, is_used)

    def _find_velocity_jump(self, t_ns: int, sigma: float) -> None:
        """Look for a jump of the velocity; the estimate has then followed it for a while."""
        deviation = find_deviation(self.updates.records, self._receiver.name)
        if deviation is None:
            return
        self._shown_noise.take(t_ns * 1e-9, deviation, sigma)
        if jump := self._velocity_jumps.take(t_ns, deviation, sigma, self.updates):
            self._widen_followed(jump * FOLLOWED_FOR)
            self.filter.add_variance(VELOCITY, "left", (0.5 * abs(jump)) ** 2)

    def _observe_heading(self, m: Measurement, v: Mapping[str, float]) -> None:
        baseline, kind = self.settings.heading, f"{self._prefix}heading"
        if baseline is None:
            if kind not in self.updates.health:  # not registered before, as most cars have no heading
                self.updates.register(kind, fixes.Baseline().gate)
            self.updates.health[kind].is_expected = False
            self.updates.reject(m, kind, [v["heading"]], "no baseline")
            return
        self.updates.health[kind].is_expected = True
        if self._heading_check.is_wrong:
            self.updates.reject(m, kind, [v["heading"]], "mounting")
        else:
            sigma = self._find_accuracy(v.get("heading_acc"), baseline.noise, _LEAST_HEADING_ACCURACY)
            late = self._late + self._heading_latency.item(0)
            self.updates.update(m, kind, [v["heading"]], [sigma**2], latency=late)
            if self._world.aligned:
                self._shifts.look(self.filter, self.updates, self._receiver)

    def _check_heading(self, t_ns: int, v: Mapping[str, float]) -> None:
        """Cause the car to be aligned anew if the baseline that aligned it is mounted otherwise."""
        baseline, check = self.settings.heading, self._heading_check
        if baseline is not None:
            before, read = check.is_wrong, self.filter.pose.item
            check.take(t_ns, v, (read(AHEAD), read(YAW_RATE)), (baseline.angle, baseline.angle_sigma))
            if check.is_wrong and not before:
                self._world.aligned = False
                self.filter.slow.forget((*self._receiver.groups, *_FALSIFIED))

    def _is_heading_lost(self, t: float, v: Mapping[str, float], fix: Fix | None) -> bool:
        """Whether a moving car's measurement shows that the heading is lost; always false without a fix."""
        f, velocity = self.filter, read_velocity(v)
        if velocity is not None and self._world.aligned:
            self.motion.take(t - self._velocity_late, velocity, self._find_velocity_then(t))
        if fix is None:
            return False
        is_turned = self.motion.is_turned and not (self._has_agreeing_other() or self._jumps.denies_velocity)
        return self._world.is_heading_lost(f.get_variance(ATTITUDE, "yaw"), is_turned)

    def _find_velocity_then(self, t: float) -> complex:
        """Estimated velocity of the antenna, east + i north, m/s, at the time of a velocity stamped t (s)."""
        age = self.updates.step_ns * 1e-9 - t + self._velocity_late
        return find_antenna_velocity(self.filter, self.settings.antenna, age)

    def _note_distance(self, sigma: float, v: Mapping[str, float]) -> None:
        """Compare the latest fix's difference from the estimate with those of earlier fixes."""
        record = self.updates.records[-1]
        if record.innovation and record.reason != "reset":
            velocity, speed = read_velocity(v), v.get("speed", FASTEST)
            then, agrees = self._find_velocity_then(record.t * 1e-9), not self._velocity_jumps.lasts
            if velocity is not None:
                speed = abs(velocity)
                agrees &= does_agree(velocity, then, self._find_velocity_noise(v))
            lag = max(self._smoothed.lag, 0.0)  # no velocity is younger than its fix: a negative lag is noise
            fix = PlacedFix.of(record, sigma, speed, velocity, agrees, lag, then)
            self._velocity_jumps.compare_position(record.t, fix.apart, sigma)
            accepted = is_within(record, self.settings.gate.reject_beyond)
            self._widen_followed(self._jumps.take(record.t, fix, accepted))

    def _widen_followed(self, drift: complex) -> None:
        """Make the place less certain: the estimate has followed false fixes by `drift`, m, until now."""
        speed = abs(self.filter.pose.item(AHEAD))
        for axis, way in (("x", drift.real), ("y", drift.imag)):
            if way > 0.0:
                self.filter.add_variance(POSITION, axis, way**2)
        if drift and speed > self.settings.least_speed:  # the filter may have taken the drift for a latency
            latency = min(abs(drift) / speed, self.settings.latency_sigma)
            self.filter.add_variance(self._receiver.latency, "", latency**2)

    def _set_wander(self, sigma: float, time: float) -> None:
        """Set the slow part of a fix's error to that of its kind; it restarts when its size changes."""
        present = self.filter.get_process(self._receiver.wander).item(1)
        self.filter.set_process_time(self._receiver.wander, time)
        sigma = math.hypot(sigma, self._origin_error)
        if abs(sigma - present) > _ANOTHER_KIND * max(sigma, present):
            process = Process(time, (sigma, sigma, _HEIGHT_RATIO * sigma))
            self.filter.restart_process(self._receiver.wander, process)

    def _align(self, m: Measurement, v: Mapping[str, float], fix: Fix | None, moving: bool) -> bool:
        """Turn a car of unknown heading by the first heading or course over ground, else by fixes.

        Returns whether all earlier measurements are too old from then on.
        """
        name, yaw = self._prefix, self.find_yaw(m.values)
        by_fixes = None
        if fix is not None:
            by_fixes = self._placement.find_turn_by_fixes(m.t, fix, self.find_sigma(m.values))
        place = None if self._has_preferred else fix
        if yaw is not None:
            t_ns, variance = m.t - round(self._late * 1e9), yaw[1] ** 2
            observed = Observation(f"{name}heading", t_ns, [v["heading"]], [variance], self._late)
        elif "course" in v and moving:
            noise, late = self._find_velocity_noise(v), self._velocity_late
            if go_ahead(self.filter, self.updates, v["speed"], noise):
                return True  # the next course turns the car
            t_ns, variance = m.t - round(late * 1e9), (noise / v["speed"]) ** 2 + SIDESLIP**2
            observed = Observation(f"{name}course", t_ns, [v["course"]], [variance], late)
        else:
            if by_fixes is not None:
                self._placement.turn_by(*by_fixes, place)
                self._velocity_jumps.reset()
            return by_fixes is not None
        is_turned = self._placement.turn_to(observed, place)
        if is_turned:
            self._velocity_jumps.reset()
        return is_turned

    def _leave_out(self, m: Measurement, v: Mapping[str, float], fix: Fix | None) -> None:
        """Record the values of a message as left out: it has already turned the car, or set its speed."""
        left_out = {kind: [v[kind]] for kind in ("speed", "course") if kind in v}
        if "vn" in v and "ve" in v:
            left_out = {"velocity": [v["ve"], v["vn"]]}
        if fix is not None:
            left_out["position"] = []
        if "heading" in v and self.settings.heading is None:
            self._observe_heading(m, v)  # rejects it, as no heading is used
        elif "heading" in v:
            left_out["heading"] = [v["heading"]]
        for kind, value in left_out.items():
            self.updates.reject(m, f"{self._prefix}{kind}", value, "not aligned")

    def _reset_position(self, observation: Observation, update: Update) -> bool:
        """Set those components of the position to the fix that the gate has rejected persistently."""
        if self._jumps.is_in_doubt(observation.t_ns) or self._velocity_jumps.are_positions_false:
            return False
        if self._has_agreeing_other():
            # The other receiver determines the place; the motion by this one is still as good as before.
            self._origin_error = math.hypot(*update.innovation[:2])
            return True
        self.filter.reset_position(observation, update, self.updates.health[observation.kind].persistent)
        self._jumps.reset()
        return True

    def _reset_motion(self, observation: Observation, update: Update) -> bool:
        """Inflate the variances behind velocity and course, unless the positions contradict these."""
        jumps = self._jumps.is_in_doubt(observation.t_ns) or self._velocity_jumps.lasts
        if jumps or self._has_agreeing_other():
            return False
        self.filter.inflate(observation, update)
        return True

    def _has_agreeing_other(self) -> bool:
        """Whether another receiver agrees with the estimate: then this one is wrong."""
        others = (r.name for r in (GNSS, GNSS2) if r is not self._receiver)
        return any(self.updates.is_agreeing(f"{other}.position") for other in others)
