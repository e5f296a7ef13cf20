"""Health of a source: what happens to its measurements, from the first one through gate failures to time-out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from vehicled.sources.gate import Gate
from vehicled.vehicle.arrays import COMPONENTS

_SILENT = 2.5
"""Usual intervals without a measurement until time-out: one may be missing, and the next one late."""
_LONGEST_NS = 5_000_000_000
"""Longest interval of a sensor; anything longer is a pause."""

_CONTRADICTED_NS = 900_000_000
"""Outliers of a receiver do not last longer."""


class Health:
    """Counts what becomes of the observations of one kind.

    States: `waiting` until the first measurement is accepted; `active`; `distrusted` after persistent
    failures under the policy of that name; `lost` after time-out. Published as `unused` while it is `active`
    but `SourceWatch` finds that its measurements do not correct the filter.
    """

    def __init__(
        self,
        gate: Gate,
        channels: Sequence[str] = (),
        serves: tuple[str, ...] = (),
        over_ground: bool = False,
    ) -> None:
        """`channels`: those that measure it; `serves`: estimated quantities that are less certain without it.

        `over_ground`: whether it is a speed that is independent of wheel slip.
        """
        self._interval_ns = 0
        """Usual interval between measurements; 0: unknown."""
        self.set_gate(gate)
        self.channels, self.serves, self.over_ground = channels, serves, over_ground
        self._contradicted_ns: float = math.inf
        """Time, ns, of the first of the latest unbroken series of measurements outside what the filter
        expects."""
        self.state = "waiting"
        self.last_ns: int | None = None
        """Time of the last measurement."""
        self._failures = [0] * COMPONENTS
        """Rejections in a row, by component."""
        self.failures = 0
        """Largest of these counts."""
        self.fused = self.rejected = self.resets = 0
        self.reasons: dict[str, int] = {}
        """Number of measurements that were not accepted, by reason."""
        self.last_reason = ""
        """Reason why the last of these was not accepted."""
        self.is_expected = True
        """Whether missing measurements are a fault: a receiver, for example, gives no course while the car
        stands."""
        self.bias_changed_ns = -math.inf
        """Time of the step at which its bias was last found to be changing fast."""
        self.is_used = True
        """Whether its measurements correct the filter at present, as `SourceWatch` has found."""

    def set_gate(self, gate: Gate) -> None:
        """Set the limits that hold from now on."""
        self.gate = gate
        self.limits = gate.weigh_beyond**2, gate.reject_beyond**2
        """Normalised innovation squared per component beyond which it is given less weight, and beyond which
        it is rejected."""
        self.timeout_ns = round(gate.timeout * 1e9)
        """The source times out no sooner than this after a measurement."""

    def note_arrival(self, t_ns: int) -> int:
        """Note that a measurement of that time has arrived.

        Returns the time, ns, before which the source does not time out.
        """
        if self.last_ns is not None and (interval := t_ns - self.last_ns) > 0:
            # A pause at most doubles the interval; a slower sensor soon shows its own interval.
            self._interval_ns = min(interval, 2 * self._interval_ns or interval, _LONGEST_NS)
        self.last_ns = t_ns
        return t_ns + self.timeout_ns

    def note_agreement(self, t_ns: int, agrees: bool) -> None:
        """Note whether a measurement of that time was as the filter expects."""
        self._contradicted_ns = math.inf if agrees else min(self._contradicted_ns, t_ns)

    def is_contradicted(self, t_ns: int) -> bool:
        """Whether, with a measurement of that time, the contradiction has lasted longer than outliers do."""
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
        """Forget rejections, and how long the filter has contradicted the source."""
        self._contradicted_ns = math.inf
        self.clear_failures()

    def accept(self) -> None:
        """Count an observation that has corrected the filter with all its components."""
        self.state = "active"
        if self.failures:
            self.clear_failures()
        self.fused += 1

    def reject(self, reason: str) -> None:
        """Count an observation that was not used, for `reason`."""
        self.rejected += 1
        self.last_reason = reason
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def fail(self, rejected: Sequence[bool], accepted: bool) -> bool:
        """Count an observation with `rejected` components; `accepted`: whether others were accepted.

        Returns whether the policy demands a reset to this source.
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
        """(3,) whether a component has been rejected so often in a row that the policy applies."""
        return tuple(n >= self.gate.persistent for n in self._failures)

    def count_reset(self) -> None:
        """Count a reset of the filter to this source, in the components that had been failing."""
        self._failures = [0 if n >= self.gate.persistent else n for n in self._failures]
        self.failures = max(self._failures)
        self.resets += 1

    def check_timeout(self, now_ns: int) -> float:
        """Count the source as lost when it has been silent for too long.

        Returns the time, ns, before which no new check is needed.
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
