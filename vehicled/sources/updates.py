"""Measurement updates: each observation is gated, accepted or rejected, and always recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import sub

from vehicled.filter.boundary import Observation, ObservedFilter, Update
from vehicled.filter.states import POSITION, VELOCITY
from vehicled.messages import Innovation, Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.health import Health
from vehicled.sources.joint import JointUpdates
from vehicled.sources.speeds.outvoted import OutvotedSpeed
from vehicled.vehicle.arrays import AHEAD, YAW

Reset = Callable[[Observation, Update], bool]
"""Restarts the filter's states from a source that keeps failing its gate; returns False if the reset has to
wait."""
OnUpdate = Callable[[Innovation], None]
"""Called with the record of an observation that has been evaluated, while the filter still holds it."""

_OWN = "vehicle"
"""Device of the car's own speed, which mostly measures more often than receivers."""
_SPEEDS = {
    "vehicle.speed": _OWN,
    **{f"{device}.{what}": device for device in ("gnss", "gnss2") for what in ("speed", "velocity")},
}
"""Devices by the kinds of observations that show the speed whatever the wheels do."""
OUTVOTED_FOR = 0.2
"""s: time for which a speed has been wrong before two devices outvote it."""
_NONE = 1e-300, 1e-300
"""Limits of normalised innovations so small that every observation is rejected."""


class MeasurementUpdates:
    """Updates a filter with observations, through the gates of their sources."""

    def __init__(self, filter: ObservedFilter, on_update: OnUpdate | None = None) -> None:
        self._filter, self._on_update = filter, on_update
        self.health: dict[str, Health] = {}
        """By kind of observation, such as `imu.gyro`."""
        self._unregistered: dict[str, Health] = {}
        self._resets: dict[str, Reset] = {}
        self.records: list[Innovation] = []
        """Records of the present step."""
        self.step_ns = 0
        """Time of the present step."""
        self.is_imu_sound = False
        """Whether motion has shown the IMU's axes to be as configured, and nothing contradicts its gyroscope."""
        self.is_sliding = False
        """Whether tyres slide, so that the car does not move as the model does."""
        self.speed_doubt = 0.0
        """m/s: 1 σ of a sample of the car's own speed if it may be going wrong; else 0."""
        self.yaw_rates_apart = 0.0
        """rad/s: by how much gyroscope and the car's own yaw rate differ, if more than usual; else 0."""
        self.turned_apart = 0.0
        """rad: by how much the angles by gyroscope and course differ, if more than usual; else 0."""
        self.imu_changes_until_ns = 0
        """Time until which the IMU's biases may be changing fast."""
        self.accelerometer_outvoted_ns = 0
        """Time of the last step in which gyroscope and course have outvoted an accelerometer."""
        self._silent_ns: float = math.inf
        """No source can time out before this time, ns."""
        self._may_be_lost = False
        """Whether a sensor may have been failing its gate for long."""
        self._outvoted = OutvotedSpeed()
        self.outvoted_ns: float = -math.inf
        """Time of the last step in which two devices have outvoted the estimated speed;"""
        self.outvoted_by = 0.0
        """and by how much it has become wrong per second, m/s²; 0 once the cause has been doubted."""

    def begin_step(self, t_ns: int) -> None:
        """Begin a step at that time, without records yet."""
        self.records, self.step_ns = [], t_ns

    def note_imu_change(self, until_ns: int) -> None:
        """Note that biases of the IMU may be changing fast until that time, ns."""
        self.imu_changes_until_ns = max(self.imu_changes_until_ns, until_ns)

    def unregister_all(self) -> None:
        """Prepare for sources to register anew; known kinds keep their counters."""
        self._unregistered, self.health, self._resets = self.health, {}, {}
        self._silent_ns = -math.inf  # gates may have other time-outs
        self._outvoted = OutvotedSpeed()

    def register(
        self,
        kind: str,
        gate: Gate,
        reset: Reset | None = None,
        channels: Sequence[str] = (),
        serves: tuple[str, ...] = (),
        over_ground: bool = False,
    ) -> None:
        """Register a kind of observation. `channels`: by default that of its name; `serves`: what it improves.

        `over_ground`: whether it is a speed that is independent of slip. If the filter has contradicted it
        for long and no other device measures the speed, it is used with full weight: the filter then only has
        integrated accelerations.

        `reset` sets the filter's states from it when the gate's policy demands this; the default inflates the
        variances of the states that it depends on.
        """
        health = self._unregistered.get(kind)
        if health is None:
            health = Health(gate, channels or (kind,), serves, over_ground)
        else:
            health.set_gate(gate)
        self.health[kind] = health
        self._resets[kind] = self._inflate if reset is None else reset

    def update(
        self,
        m: Measurement,
        kind: str,
        value: list[float],
        variance: list[float],
        present: Sequence[int] | None = None,
        latency: float = 0.0,
        is_used: bool = True,
        may_reject: bool = True,
    ) -> None:
        """Update the filter with one observation; reset it if the source keeps failing under that policy.

        `present`: which of the components were measured, if not all; `latency`: age at its time stamp, s. If
        not `is_used`, the observation is recorded as rejected by the gate. Without `may_reject`, an
        observation that contradicts the filter only gets less weight.
        """
        health = self.health[kind]
        self._silent_ns = min(self._silent_ns, health.note_arrival(m.t))
        t_ns = m.t - round(latency * 1e9) if latency else m.t
        observation = Observation(kind, t_ns, value, variance, latency)
        weigh, reject = health.limits
        if not may_reject:
            reject = math.inf
        elif health.over_ground and health.is_contradicted(m.t) and not self._has_other_speed(kind):
            weigh = reject = math.inf
        device = _SPEEDS.get(kind) if self._on_update is None else None
        is_used = is_used and not (device == _OWN and self._outvoted.is_alone(device, m.t))
        update = self._filter.update(observation, (weigh, reject) if is_used else _NONE)
        innovation, expected, nis, reason = update.innovation, update.variance, update.nis, update.reason
        if not innovation:
            self.reject(m, kind, value if present is None else [value[k] for k in present], reason)
            return
        if present is not None:
            value, innovation, expected = ([x[k] for k in present] for x in (value, innovation, expected))
        if health.over_ground:
            health.note_agreement(m.t, nis <= health.limits[0] * len(value))
        if not update.rejected:
            health.accept()
        else:
            self._may_be_lost = True
            if health.fail(update.rejected, update.accepted) and self._resets[kind](observation, update):
                health.count_reset()
                reason = "reset"
        self._record(m, kind, health, value, innovation, expected, nis, reason)
        if device is not None:
            bound = math.sqrt(health.limits[0] * max(expected))
            self._outvoted.note(device, m.t, math.hypot(*innovation), bound)
            if update.rejected:
                self._doubt_speed(m.t, device, innovation)
            else:
                self._outvoted.accept(device)

    def _doubt_speed(self, t_ns: int, device: str, innovation: Sequence[float]) -> None:
        """Doubt the estimated speed if another device contradicts it by as much as this one."""
        pose = self._filter.pose
        if len(innovation) == 1:  # over ground it has no sign
            sign = 1.0 if device == _OWN else math.copysign(1.0, pose.item(AHEAD))
            deviation = sign * innovation[0]
        else:
            deviation = innovation[0] * math.cos(pose.item(YAW)) + innovation[1] * math.sin(pose.item(YAW))
        if wrong := self._outvoted.reject(device, t_ns, deviation):
            self.outvoted_ns, self.outvoted_by = self.step_ns, wrong / OUTVOTED_FOR
            self.widen_speed(wrong, OUTVOTED_FOR)

    def widen_speed(self, by: float, during: float) -> None:
        """Make the speed uncertain by so much, m/s, and the place by the way with it during so long, s."""
        f, way = self._filter, by * during
        yaw = f.pose.item(YAW)
        f.add_variance(VELOCITY, "ahead", by * by)
        f.add_variance(POSITION, "x", (way * math.cos(yaw)) ** 2)
        f.add_variance(POSITION, "y", (way * math.sin(yaw)) ** 2)

    def _has_other_speed(self, kind: str) -> bool:
        """Whether another device measures the speed, and agrees with the filter."""
        device = kind.partition(".")[0]
        return any(
            h.state == "active" and not h.failures and "vx" in h.serves
            for k, h in self.health.items()
            if k.partition(".")[0] != device
        )

    def update_jointly(
        self, m: Measurement, joint: JointUpdates, values: Mapping[str, float], variances: Sequence[float]
    ) -> None:
        """Update the filter with observations of one component each, by kind, in their order."""
        given = [
            number
            for (kind, value), variance in zip(values.items(), variances, strict=True)
            for number in (value, variance, self.health[kind].limits[0])
        ]
        # A listener that inspects the filter after each observation needs single updates.
        found = joint.run(m.t, tuple(values), given) if self._on_update is None else ()
        # Three numbers per observation: innovation, its variance and NIS.
        for n, (kind, value) in zip(range(0, len(found), 3), values.items(), strict=False):
            self.accept(m, kind, [value], [found[n]], [found[n + 1]], found[n + 2])
        for kind, variance in islice(zip(values, variances, strict=True), len(found) // 3, None):
            self.update(m, kind, [values[kind]], [variance])

    def accept(
        self,
        m: Measurement,
        kind: str,
        value: list[float],
        innovation: list[float],
        variance: list[float],
        nis: float,
    ) -> None:
        """Record an observation within all limits that has updated the filter (`ObservedFilter.run_chain`)."""
        health = self.health[kind]
        self._silent_ns = min(self._silent_ns, health.note_arrival(m.t))
        health.accept()
        self._record(m, kind, health, value, innovation, variance, nis, "fused")

    def _record(
        self,
        m: Measurement,
        kind: str,
        health: Health,
        value: list[float],
        innovation: list[float],
        variance: list[float],
        nis: float,
        reason: str,
    ) -> None:
        record = Innovation(
            m.t,
            self.step_ns,
            kind,
            m.source,
            value,
            list(map(sub, value, innovation)),
            innovation,
            variance,
            nis,
            nis / (len(value) * health.limits[1]),
            reason != "gate",
            reason,
        )
        self.records.append(record)
        if self._on_update is not None:
            self._on_update(record)

    def _inflate(self, observation: Observation, update: Update) -> bool:
        self._filter.inflate(observation, update)
        return True

    def reject(self, m: Measurement, kind: str, value: list[float], reason: str) -> None:
        """Record a measurement that cannot be predicted or used."""
        health = self.health[kind]
        self._silent_ns = min(self._silent_ns, health.note_arrival(m.t))
        health.reject(reason)
        self.record(m, kind, value, reason)

    def record(self, m: Measurement, kind: str, value: list[float], reason: str) -> None:
        """Keep the innovation record of an observation that was not evaluated, with the reason."""
        nan = math.nan
        self.records.append(
            Innovation(m.t, self.step_ns, kind, m.source, value, [], [], [], nan, nan, False, reason)
        )

    def note_reset(self, m: Measurement, kind: str, value: float, innovation: float | None) -> None:
        """Record a scalar observation that the filter was set to; without innovation it was too old for that."""
        if innovation is None:
            self.reject(m, kind, [value], "too old")
            return
        health, nan = self.health[kind], math.nan
        self._silent_ns = min(self._silent_ns, health.note_arrival(m.t))
        health.accept()
        self._record(m, kind, health, [value], [innovation], [nan], nan, "reset")

    def check_timeouts(self, now_ns: int) -> None:
        """Find the sources that have fallen silent."""
        if now_ns > self._silent_ns:
            checked = [health.check_timeout(now_ns) for health in self.health.values()]
            self._silent_ns = min(checked, default=math.inf)

    def is_active(self, kind: str) -> bool:
        """Whether observations of a kind correct the filter at present."""
        health = self.health.get(kind)
        return health is not None and health.state == "active"

    def is_agreeing(self, kind: str) -> bool:
        """Whether observations of a kind correct the filter, and have not been rejected lately."""
        return self.is_active(kind) and self.health[kind].failures == 0

    def is_filter_lost(self) -> bool:
        """Whether most of the measuring sensors have been failing their gates for long.

        If so, the filter is wrong, not the sensors.
        """
        if not self._may_be_lost:
            return False
        failing = [h for h in self.health.values() if h.failures and h.failures >= h.gate.persistent]
        self._may_be_lost = len(failing) > 0
        if len(failing) < 2:
            return False
        measuring = [h for h in self.health.values() if h.state in ("active", "distrusted")]
        lost = [h for h in failing if h in measuring]
        return len(lost) >= 2 and 2 * len(lost) > len(measuring)

    def restart(self) -> None:
        """All sources wait for their first measurement again; counters stay."""
        for health in self.health.values():
            health.restart()
        self.is_sliding, self.outvoted_ns, self.outvoted_by = False, -math.inf, 0.0
        self._outvoted = OutvotedSpeed()

    def clear_failures(self) -> None:
        """Forget failures from before a restart."""
        for health in self.health.values():
            health.forget_contradictions()
