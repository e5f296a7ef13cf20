"""The health of a source: what becomes of its measurements, from the first one over gate failures to time-out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vehicled.sources.gate import Gate
from vehicled.vehicle.arrays import COMPONENTS

_SILENT = 2.5
"""Intervals: one measurement may be missing, and the next one late."""
_LONGEST_NS = 5_000_000_000
"""Of the intervals of a sensor; what is longer was a pause."""

_CONTRADICTED_NS = 900_000_000
"""Outliers of a receiver are over by then."""


class Health:
    """Counts what becomes of the observations of one kind.

    `waiting` until the first one is accepted, `active`, `distrusted` after persistent failures under that policy,
    `lost` after silence. Published as `unused` while it is `active` and yet no measurement is accepted.
    """

    def __init__(
        self,
        gate: Gate,
        channels: Sequence[str] = (),
        serves: tuple[str, ...] = (),
        over_ground: bool = False,
    ) -> None:
        """`channels`: that it is measured by; `serves`: what is less certain without it.

        `over_ground`: whether it is a speed that no slip of wheels makes wrong.
        """
        self._interval_ns = 0
        """Usual interval between measurements; 0: unknown."""
        self.set_gate(gate)
        self.channels, self.serves, self.over_ground = channels, serves, over_ground
        self._contradicted_ns: float = math.inf
        """Time of the first of its last measurements that were all out of what the filter expects."""
        self.state = "waiting"
        self.last_ns: int | None = None
        """Time of the last measurement."""
        self._failures = [0] * COMPONENTS
        """Rejections in a row, by component."""
        self.failures = 0
        """The largest of them."""
        self.fused = self.rejected = self.resets = 0
        self.reasons: dict[str, int] = {}
        """Of those not accepted, how many for which reason."""
        self.last_reason = ""
        """Why the last of those was not accepted."""
        self.is_expected = True
        """Whether its silence would be a fault: a receiver has no course while the car stands."""
        self.bias_changed_ns = -math.inf
        """Step at which its bias was last found to have changed fast."""
        self.is_used = True
        """Whether measurements of it correct the filter at present, as `SourceWatch` has found."""

    def set_gate(self, gate: Gate) -> None:
        """Other limits from now on."""
        self.gate = gate
        self.limits = gate.weigh_beyond**2, gate.reject_beyond**2
        """Normalised innovation squared of a component beyond which it is weighted, and rejected."""
        self.timeout_ns = round(gate.timeout * 1e9)
        """After a measurement, for so long the source is in no case silent."""

    def note_arrival(self, t_ns: int) -> None:
        """A measurement of that time has come."""
        if self.last_ns is not None and (interval := t_ns - self.last_ns) > 0:
            # A pause at most doubles it, a slower sensor soon shows its own.
            self._interval_ns = min(interval, 2 * self._interval_ns or interval, _LONGEST_NS)
        self.last_ns = t_ns

    def note_agreement(self, t_ns: int, agrees: bool) -> None:
        """Whether a measurement of that time was what the filter expects."""
        self._contradicted_ns = math.inf if agrees else min(self._contradicted_ns, t_ns)

    def is_contradicted(self, t_ns: int) -> bool:
        """Whether the filter has contradicted it for longer than outliers last, by a measurement of that time."""
        return t_ns - self._contradicted_ns > _CONTRADICTED_NS

    def clear_failures(self) -> None:
        """Forget rejections."""
        if self.failures:
            self._failures, self.failures = [0] * COMPONENTS, 0

    def restart(self) -> None:
        """Wait for a first measurement again; counters stay."""
        self.state, self.last_ns = "waiting", None
        self.forget_contradictions()

    def forget_contradictions(self) -> None:
        """Rejections, and how long the filter has contradicted it, are over."""
        self._contradicted_ns = math.inf
        self.clear_failures()

    def accept(self) -> None:
        """An observation has corrected the filter with all its components."""
        self.state = "active"
        if self.failures:
            self.clear_failures()
        self.fused += 1

    def reject(self, reason: str) -> None:
        """An observation was not used, for `reason`."""
        self.rejected += 1
        self.last_reason = reason
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def fail(self, rejected: Sequence[bool], accepted: bool) -> bool:
        """Some components were rejected, by component; `accepted`: not all that were measured.

        True while the policy demands a reset to this source.
        """
        if accepted:
            self.fused += 1
        else:
            self.reject("gate")
        for k, failed in enumerate(rejected):
            self._failures[k] = self._failures[k] + 1 if failed else 0
        self.failures = max(self._failures)
        if self.failures < self.gate.persistent:
            if accepted and self.state == "waiting":
                self.state = "active"
            return False
        if self.gate.policy == "distrust":
            self.state = "distrusted"
            return False
        return True

    @property
    def persistent(self) -> tuple[bool, ...]:
        """By component (3,): whether it has been rejected for so long that the policy applies."""
        return tuple(n >= self.gate.persistent for n in self._failures)

    def count_reset(self) -> None:
        """The filter has been reset to this source, in the components that had been failing."""
        self._failures = [0 if n >= self.gate.persistent else n for n in self._failures]
        self.failures = max(self._failures)
        self.resets += 1

    def check_timeout(self, now_ns: int) -> float:
        """Count the source as lost when it has been silent for too long.

        Returns the time, ns, until which that need not be checked again.
        """
        if self.last_ns is None or self.state == "lost":
            return math.inf
        due = self.last_ns + max(self.timeout_ns, round(_SILENT * self._interval_ns))
        if now_ns <= due:
            return due
        self.state = "lost"
        self.forget_contradictions()
        return math.inf

    def status(self) -> dict[str, Any]:
        """What `status` publishes of a source."""
        return {
            "state": "unused" if self.state == "active" and not self.is_used else self.state,
            "fused": self.fused,
            "rejected": self.rejected,
            "resets": self.resets,
            "reasons": dict(self.reasons),
        }
