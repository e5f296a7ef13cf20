"""The life of a source of measurements, and the gate that each measurement must pass."""

from __future__ import annotations

from scipy.special import chdtri

from vehicled.sources.settings import Gate

LARGEST = 3
"""Components of the largest observation."""


class Source:
    """Counts what becomes of the measurements of one kind from the start over gate failures to time-out.

    `waiting` until the first one is fused, `active`, `distrusted` after persistent failures under that policy,
    `lost` after silence.
    """

    def __init__(self, gate: Gate):
        self.set_gate(gate)
        self.state = "waiting"
        self.last_ns: int | None = None
        """Time of the last measurement."""
        self.failures = 0
        """Gate failures in a row."""
        self.fused = self.rejected = self.resets = 0
        self.reasons: dict[str, int] = {}
        """Of those not fused, how many for which reason."""

    def set_gate(self, gate: Gate) -> None:
        """Other limits from now on."""
        self.gate = gate
        self.thresholds = [float(chdtri(m, 1.0 - gate.probability)) for m in range(1, LARGEST + 1)]
        self._timeout_ns = round(gate.timeout * 1e9)

    def heard(self, t_ns: int) -> None:
        """A measurement has come."""
        self.last_ns = t_ns

    def accept(self) -> None:
        self.state = "active"
        self.failures = 0
        self.fused += 1

    def refuse(self, reason: str) -> None:
        self.rejected += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def fail(self) -> bool:
        """A gate failure. True when the policy now asks for a reset in favour of this source."""
        self.refuse("gate")
        self.failures += 1
        if self.failures < self.gate.persistent:
            return False
        if self.gate.policy == "distrust":
            self.state = "distrusted"
            return False
        self.failures = 0
        self.resets += 1
        return True

    def look(self, now_ns: int) -> None:
        """See whether it has fallen silent."""
        if self.last_ns is not None and now_ns - self.last_ns > self._timeout_ns and self.state != "lost":
            self.state = "lost"
            self.failures = 0

    def status(self) -> dict:
        return {
            "state": self.state,
            "fused": self.fused,
            "rejected": self.rejected,
            "resets": self.resets,
            "reasons": dict(self.reasons),
        }
