"""Finds the sources that do not serve the filter at present, and why, in words.

All of this follows from counts of `health` and `screening`, a few times per second instead of per
measurement. A source that has never measured is no fault: any subset of sensors works.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from vehicled.messages import SourceFault
from vehicled.sources.checks.screening import Screening
from vehicled.sources.health import Health
from vehicled.sources.inputs.inputs import Inputs
from vehicled.sources.inputs.model_input import InputSettings, ModelInput
from vehicled.sources.updates import MeasurementUpdates

_EVERY_NS, _FIRST_NS = 40_000_000, 4_000_000
"""Time between checks, and from a start to the first one. The filter starts with a fix, and most receivers measure
at multiples of 20 ms: so a step with a fix, which takes longest, has no check."""
_UNITS_EVERY_NS = 1_000_000_000
_SILENT, _MISSED = 0.2, 1.8
"""Time, s, and number of usual intervals without a sample after which a source is silent."""
_LONGEST = 1.2
"""s: usual interval of the slowest sensors; assumed for a sensor that has measured only once."""
_UNUSED, _UNUSED_SAMPLES = 0.3, 1.6
"""Time, s, and number of usual intervals in which samples arrived but none was used."""
_TOO_OLD_SAMPLES = 3.2
"""The same number for late samples: after a restart of the filter, one of them may be older than the
restart."""
_FORGETTING = 0.02
"""Share of the difference by which the usual interval shrinks when a sample comes sooner."""
_HELD_NS = 200_000_000
"""A fault is over if it has not been seen for this time."""

_REASONS = {
    "future": "its samples have times in the future",
    "absurd": "beyond what any sensor of a car can measure",
    "stuck": "repeats its last sample while the car moves",
    "implausible": "other sensors contradict it, or it jumps",
    "mounting": "mounted or wired otherwise than configured: axes turned, or left and right exchanged",
    "unit": "in another unit than that of the channel",
    "bias": "its bias has changed, and is estimated anew",
    "step": "its bias has stepped, and what it stepped by is subtracted",
    "lost": "an axis measures nothing, and is not used",
    "gate": "rejected: contradicts the other sensors",
    "no fix": "no fix",
    "too old": "arrives too late to be used",
}
"""By the reason in innovation records. Other reasons, such as `not moving`, are no faults."""
_USED = (None, _REASONS["bias"], _REASONS["step"], _REASONS["lost"])
"""Reasons with which a source, or what is left of it, is still used."""


class _Arrivals:
    """Time of a source's last sample, and the usual interval between samples."""

    __slots__ = ("age", "arrived_ns", "interval", "last")

    def __init__(self) -> None:
        self.last = -math.inf
        """Time of the last sample that `read` has seen."""
        self.arrived_ns = 0
        self.interval = 0.0
        """Usual time between samples, s."""
        self.age = 0.0
        """For an input: age of its last sample when it came, s."""

    def read(self, now_ns: int, last: float) -> bool:
        """Whether a new sample has come. `last`: the time of the last one, in any unit that increases."""
        if last == self.last:
            return False
        gap, interval = (now_ns - self.arrived_ns) * 1e-9, self.interval
        if self.last > -math.inf and (gap < _LONGEST or gap < 2.0 * interval):
            less = interval - _FORGETTING * (interval - gap)
            self.interval = gap if gap > less else less
        self.last, self.arrived_ns = last, now_ns
        return True

    def is_silent(self, now_ns: int) -> bool:
        """Whether expected samples have not come."""
        return (now_ns - self.arrived_ns) * 1e-9 > max(_SILENT, _MISSED * (self.interval or _LONGEST))

    @property
    def recent_ns(self) -> float:
        """Time, ns, for which removed samples count as a fault."""
        missed = _MISSED * self.interval
        return (missed if missed > _SILENT else _SILENT) * 1e9


_NEVER = _Arrivals()
"""For a source of which no sample has reached the filter."""


class _Use:
    """Whether the samples of a kind of observation correct the filter."""

    __slots__ = ("_fused", "_health", "_rejected", "_resets", "failing_since_ns", "used_ns")

    def __init__(self, health: Health, now_ns: int) -> None:
        self._health = health
        self._fused, self._rejected, self._resets = health.fused, health.rejected, health.resets
        self.used_ns = now_ns
        """Time at which samples were last used, or left out for a reason that is no fault."""
        self.failing_since_ns = math.inf

    def read(self, now_ns: int) -> bool:
        """Compare the counts with those of the previous call.

        Returns whether samples have been used, or left out without a fault, and none fails its gate.
        """
        health = self._health
        fused, rejected, resets = health.fused, health.rejected, health.resets
        if fused != self._fused or (rejected != self._rejected and health.last_reason not in _REASONS):
            self.used_ns = now_ns
        if health.failures == 0 and resets == self._resets:
            self.failing_since_ns = math.inf
        elif self.failing_since_ns == math.inf:
            self.failing_since_ns = now_ns
        self._fused, self._rejected, self._resets = fused, rejected, resets
        return self.used_ns == now_ns and self.failing_since_ns == math.inf


class SourceWatch:
    """Finds the faults of sources and inputs."""

    def __init__(self, updates: MeasurementUpdates, screening: Screening, inputs: Inputs) -> None:
        self._updates, self._screening, self._inputs = updates, screening, inputs
        self._arrivals: dict[str, _Arrivals] = {}
        self._uses: dict[str, _Use] = {}
        self._seen: dict[str, tuple[SourceFault, int]] = {}
        """By source: the fault, and the time when it was last seen, ns."""
        self._due = self._units_due = 0
        self._removed_ns = -math.inf
        """Time of the last removal that has been seen."""
        self._units: dict[str, SourceFault] = {}
        """Faults of channels that seem to be in another unit, by their names."""
        self.faults: tuple[SourceFault, ...] = ()
        """Present faults; the same object until something changes."""

    def reset(self, now_ns: int) -> None:
        """Restart with the filter: samples of all sensors that have ever measured are expected from now on."""
        for arrivals in self._arrivals.values():
            arrivals.arrived_ns = now_ns
        self._uses.clear()
        self._due = now_ns + _FIRST_NS

    def check(self, now_ns: int) -> None:
        """Update the faults if it is time to. Call in every step."""
        if now_ns < self._due:
            return
        self._due = now_ns + _EVERY_NS
        for fault in self._find(now_ns):
            self._seen[fault.source] = fault, now_ns
        if self._seen:
            self._seen = {s: (f, at) for s, (f, at) in self._seen.items() if now_ns - at < _HELD_NS}
        if now_ns >= self._units_due:
            self._units_due = now_ns + _UNITS_EVERY_NS
            self._units = {
                channels: SourceFault(channels, text, self._find_served(channels))
                for channels, text in self._screening.find_wrong_units().items()
            }
        seen = [fault for source, (fault, _) in self._seen.items() if source not in self._units]
        faults = (*seen, *self._units.values(), *self._screening.unknown)
        if faults != self.faults:
            self.faults = faults

    def _find(self, now_ns: int) -> list[SourceFault]:
        latest, found = self._screening.latest, []
        self._removed_ns = max(at for at, _ in latest.values()) if latest else -math.inf
        for kind, health in self._updates.health.items():
            reason = self._find_reason(now_ns, kind, health)
            health.is_used = reason in _USED
            if reason is not None:
                found.append(SourceFault(kind, reason, health.serves))
        for each in self._inputs:
            silence = self._find_silence(now_ns, each)
            arrivals = self._arrivals.get(each.NAME, _NEVER)
            if silence is not None or arrivals is _NEVER:
                silence = self._find_removal(now_ns, each.settings.LIMITS, arrivals) or silence
            reason = self._inputs.find_fault(each) or silence
            if reason is not None:
                found.append(SourceFault(each.NAME, reason, each.SERVES))
        return found

    def _find_reason(self, now_ns: int, kind: str, health: Health) -> str | None:
        arrivals, use = self._arrivals.get(kind), self._uses.get(kind)
        if arrivals is None:
            if health.last_ns is None:
                return self._find_removal(now_ns, health.channels, _NEVER)
            arrivals = self._arrivals[kind] = _Arrivals()
        if use is None:
            use = self._uses[kind] = _Use(health, now_ns)
        last_ns = health.last_ns
        has_come = last_ns is not None and arrivals.read(now_ns, last_ns)
        is_used = use.read(now_ns)
        if (removed := self._find_removal(now_ns, health.channels, arrivals)) is not None:
            return removed
        if now_ns - health.bias_changed_ns < arrivals.recent_ns:
            return _REASONS["bias"]
        if has_come and is_used:  # the usual case
            return None
        if arrivals.is_silent(now_ns):
            return "silent" if health.is_expected else None
        samples = _TOO_OLD_SAMPLES if health.last_reason == "too old" else _UNUSED_SAMPLES
        unused = max(_UNUSED, samples * arrivals.interval) * 1e9
        if now_ns - use.used_ns > unused:
            return _REASONS.get(health.last_reason)
        if now_ns - use.failing_since_ns > unused:
            return _REASONS["gate"]
        return None

    def _find_served(self, channel: str) -> tuple[str, ...]:
        health = self._updates.health.get(channel)
        return () if health is None else health.serves

    def _find_removal(self, now_ns: int, channels: Iterable[str], arrivals: _Arrivals) -> str | None:
        """Why recent samples of these channels have not reached the filter; None if they have."""
        if now_ns - self._removed_ns >= arrivals.recent_ns:
            return None
        for channel in channels:
            removed = self._screening.latest.get(channel)
            if removed is not None and now_ns - removed[0] < arrivals.recent_ns:
                return _REASONS[removed[1]]
        return None

    def _find_silence(self, now_ns: int, each: ModelInput[InputSettings]) -> str | None:
        """Why an input that has been measured is not used; None if it is used."""
        name, last = each.NAME, each.measured_at
        if last == -math.inf and name not in self._arrivals:
            return None
        arrivals = self._arrivals.setdefault(name, _Arrivals())
        if last > -math.inf:
            if last != arrivals.last:
                arrivals.age = now_ns * 1e-9 - last
            arrivals.read(now_ns, last)
        if arrivals.is_silent(now_ns):
            return "silent"
        return _REASONS["too old"] if arrivals.age > each.HOLDS else None
