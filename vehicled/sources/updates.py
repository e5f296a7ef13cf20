"""Measurement updates: each observation is gated, accepted or rejected, and always recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from operator import sub

from vehicled.filter.boundary import Observation, ObservedFilter, Update
from vehicled.messages import Innovation, Measurement
from vehicled.sources.gate import Gate
from vehicled.sources.health import Health
from vehicled.sources.joint import JointUpdates

Reset = Callable[[Observation, Update], bool]
"""Makes the filter begin anew from a source that keeps failing its gate; False where the reset has to wait."""
OnUpdate = Callable[[Innovation], None]
"""Takes the record of an observation that has been evaluated, while the filter still holds it."""

_NONE = 1e-300, 1e-300
"""Limits of normalised innovations that let nothing pass."""


class MeasurementUpdates:
    """Updates a filter with observations, by the gates of their sources."""

    def __init__(self, filter: ObservedFilter, on_update: OnUpdate | None = None) -> None:
        self._filter, self._on_update = filter, on_update
        self.health: dict[str, Health] = {}
        """By kind of observation, such as `imu.gyro`."""
        self._unregistered: dict[str, Health] = {}
        self._resets: dict[str, Reset] = {}
        self.records: list[Innovation] = []
        """Of the present step."""
        self.step_ns = 0
        """Its time."""
        self.is_imu_sound = False
        """Whether motion has shown the IMU's axes to be as configured, and nothing contradicts its gyroscope."""
        self.is_sliding = False
        """Whether tyres slide: the car then moves otherwise than the model's."""
        self.imu_changes_until_ns = 0
        """Until that step biases of the IMU may be changing fast."""
        self._silent_ns: float = math.inf
        """Until that time, ns, no source has been silent for too long."""
        self._may_be_lost = False
        """Whether some sensor may have been failing its gate for long."""

    def begin_step(self, t_ns: int) -> None:
        """Begin a step at that time, without records yet."""
        self.records, self.step_ns = [], t_ns

    def note_imu_change(self, until_ns: int) -> None:
        """Biases of the IMU may be changing fast until that step, ns."""
        self.imu_changes_until_ns = max(self.imu_changes_until_ns, until_ns)

    def unregister_all(self) -> None:
        """Sources are about to register anew; those that were there keep their counters."""
        self._unregistered, self.health, self._resets = self.health, {}, {}
        self._silent_ns = -math.inf  # gates may have other time-outs

    def register(
        self,
        kind: str,
        gate: Gate,
        reset: Reset | None = None,
        channels: Sequence[str] = (),
        serves: tuple[str, ...] = (),
        over_ground: bool = False,
    ) -> None:
        """A kind of observation, measured by `channels` or the one of its name; `serves`: what gets better by it.

        `over_ground`: whether it is a speed that no slip makes wrong. Where no other sensor measures that, and the
        filter contradicts it for long, it counts fully: the filter has nothing but integrated accelerations.

        `reset` makes the filter begin anew from it where the gate's policy says so; by default the variances of the
        states that it depends on are inflated.
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
        """Update the filter with one observation; reset where its source keeps failing under that policy.

        `present`: which of the components were measured, if not all; `latency`: by how much it is older than its
        time, s. One that is not to be used is recorded as refused by the gate. Without `may_reject`, one that
        contradicts the filter only loses weight.
        """
        health = self.health[kind]
        self._note_arrival(m.t, health)
        t_ns = m.t - round(latency * 1e9) if latency else m.t
        observation = Observation(kind, t_ns, value, variance, latency)
        weigh, reject = health.limits
        if not may_reject:
            reject = math.inf
        elif health.over_ground and health.is_contradicted(m.t) and not self._has_other_speed(kind):
            weigh = reject = math.inf
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
        # Who looks at the filter after each observation needs them one by one.
        found = joint.run(m.t, tuple(values), given) if self._on_update is None else ()
        # Of each: innovation, its variance and NIS.
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
        """An observation within all limits has updated the filter (`ObservedFilter.run_chain`)."""
        health = self.health[kind]
        self._note_arrival(m.t, health)
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
        """A measurement that cannot be predicted or used."""
        health = self.health[kind]
        self._note_arrival(m.t, health)
        health.reject(reason)
        self.record(m, kind, value, reason)

    def _note_arrival(self, t_ns: int, health: Health) -> None:
        health.note_arrival(t_ns)
        due = t_ns + health.timeout_ns
        if due < self._silent_ns:
            self._silent_ns = due

    def record(self, m: Measurement, kind: str, value: list[float], reason: str) -> None:
        """Keep the innovation record of an observation that was not evaluated, with the reason."""
        nan = math.nan
        self.records.append(
            Innovation(m.t, self.step_ns, kind, m.source, value, [], [], [], nan, nan, False, reason)
        )

    def note_reset(self, m: Measurement, kind: str, value: float, innovation: float | None) -> None:
        """The filter has been set to an observation of one component; without innovation it was too old for that."""
        if innovation is None:
            self.reject(m, kind, [value], "too old")
            return
        health, nan = self.health[kind], math.nan
        self._note_arrival(m.t, health)
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
        """Whether most of the sensors that measure have long been failing their gates.

        Then the filter is wrong, and not they.
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

    def clear_failures(self) -> None:
        """Failures before a restart do not count any more."""
        for health in self.health.values():
            health.forget_contradictions()
