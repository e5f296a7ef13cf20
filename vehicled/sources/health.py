"""The health of a source: what becomes of its measurements, from the first one over gate failures to time-out."""

from __future__ import annotations

from typing import Any

from vehicled.filter.chi_square import calc_quantile
from vehicled.sources.gate import Gate
from vehicled.vehicle.arrays import COMPONENTS


class Health:
    """Counts what becomes of the observations of one kind.

    `waiting` until the first one is accepted, `active`, `distrusted` after persistent failures under that policy,
    `lost` after silence.
    """

    def __init__(self, gate: Gate) -> None:
        self.set_gate(gate)
        self.state = "waiting"
        self.last_ns: int | None = None
        """Time of the last measurement."""
        self.failures = 0
        """Gate failures in a row."""
        self.fused = self.rejected = self.resets = 0
        self.reasons: dict[str, int] = {}
        """Of those not accepted, how many for which reason."""

    def set_gate(self, gate: Gate) -> None:
        """Other limits from now on."""
        self.gate = gate
        self.thresholds = [calc_quantile(m, 1.0 - gate.probability) for m in range(1, COMPONENTS + 1)]
        self._timeout_ns = round(gate.timeout * 1e9)

    def note_arrival(self, t_ns: int) -> None:
        """A measurement of that time has come."""
        self.last_ns = t_ns

    def accept(self) -> None:
        """An observation has corrected the filter."""
        self.state = "active"
        self.failures = 0
        self.fused += 1

    def reject(self, reason: str) -> None:
        """An observation was not used, for `reason`."""
        self.rejected += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def fail(self) -> bool:
        """A gate failure. True when the policy now asks for a reset in favour of this source."""
        self.reject("gate")
        self.failures += 1
        if self.failures < self.gate.persistent:
            return False
        if self.gate.policy == "distrust":
            self.state = "distrusted"
            return False
        self.failures = 0
        self.resets += 1
        return True

    def check_timeout(self, now_ns: int) -> None:
        """Count the source as lost when it has been silent for too long."""
        if self.last_ns is not None and now_ns - self.last_ns > self._timeout_ns and self.state != "lost":
            self.state = "lost"
            self.failures = 0

    def status(self) -> dict[str, Any]:
        """What `status` publishes of a source."""
        return {
            "state": self.state,
            "fused": self.fused,
            "rejected": self.rejected,
            "resets": self.resets,
            "reasons": dict(self.reasons),
        }
