"""Summary of a drive: totals, unused observations with reasons, faults, restarts, and estimated parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from vehicled.messages import Condition, Innovation, SlowState, SourceFault

_SHOWN = 4
"""Number of spans of a fault in one line."""
_STARTING = 0.01
"""Share of the drive that may pass before all inputs have arrived."""
SCREENED = ("future", "absurd", "stuck", "implausible", "mounting", "unit")
"""Reasons for which values are rejected before the filter: by channel, not by kind of observation."""


@dataclass(slots=True)
class Fault:
    """A source that did not serve the estimate for some time."""

    source: str
    kind: tuple[str, str]
    """As `SourceFault.kind`."""
    reason: str
    less_certain: tuple[str, ...]
    begun_ns: int
    ended_ns: int | None = None
    """None if it lasted to the end of the drive."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart of the filter, or its failure."""

    t_ns: int
    state: str
    """`recovering` or `failed`."""
    reason: str


@dataclass
class Summary:
    """Totals of a drive."""

    steps: int = 0
    measurements: int = 0
    estimates: int = 0
    errors: int = 0
    """Number of failed commands, and of steps in which the estimator failed."""
    last_error: str = ""
    begun_ns: int = 0
    ended_ns: int = 0
    """End of the drive."""
    seconds: float = 0.0
    """Duration of the replay, s."""
    sensors: dict[str, dict[str, Any]] = field(default_factory=dict)
    restarts: int = 0
    without_steering: int = 0
    """Number of steps in which the steering was not measured, or distrusted."""
    without_drive: int = 0
    """Number of steps in which drive torque or brake pressure were not measured, or distrusted."""
    units: dict[str, str] = field(default_factory=dict)
    """Channels that are probably in another unit, with a description."""
    channels: set[str] = field(default_factory=set)
    """What was measured."""
    not_used: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By reason and source: observations that did not correct the filter, and values rejected before it."""
    faults: list[Fault] = field(default_factory=list)
    """In the order in which they began."""
    restarted: list[Restart] = field(default_factory=list)
    """Restarts and failures with their reasons, in order."""
    parameters: dict[str, SlowState] = field(default_factory=dict)
    """Parameters of car and sensors at the end of the drive, by name."""
    _condition: Condition | None = None
    _open: dict[tuple[str, str], Fault] = field(default_factory=dict)

    @property
    def drive_seconds(self) -> float:
        """Duration of the drive by the log's clock, s."""
        return (self.ended_ns - self.begun_ns) / 1e9

    def take_innovations(self, innovations: Iterable[Innovation]) -> None:
        """Count the unused observations of a step."""
        for innovation in innovations:
            if not innovation.fused:
                self.not_used[innovation.reason, innovation.sensor] += 1

    def take_condition(self, t_ns: int, condition: Condition) -> None:
        """Take the estimator's condition after the step at t (ns): the same object until it changes."""
        before = self._condition
        if condition is before:
            return
        self._condition = condition
        present = {f.kind: f for f in condition.faults}
        for key in self._open.keys() - present.keys():
            self._open.pop(key).ended_ns = t_ns
        for key, fault in present.items():
            if key not in self._open:
                self._open[key] = _begin(t_ns, fault)
                self.faults.append(self._open[key])
            # Numbers in the reason, such as the largest value, change during the fault.
            self._open[key].reason = fault.reason
        has_restarted = condition.state in ("recovering", "failed")
        if has_restarted and (
            before is None or (before.state, before.reason) != (condition.state, condition.reason)
        ):
            self.restarted.append(Restart(t_ns, condition.state, condition.reason or ""))

    def finish(self, status: dict[str, Any], parameters: dict[str, SlowState]) -> None:
        """Complete the summary. `status`, `parameters`: of the estimator at the end of the drive."""
        self.sensors, self.restarts, self.parameters = status["sensors"], status["restarts"], parameters
        # These counters exist for cars only.
        self.without_steering, self.without_drive = (
            status.get(key, 0) for key in ("without_steering", "without_drive")
        )
        self.units = status.get("units", {})

    def line(self) -> str:
        """One line of text: duration, counts, speed relative to real time, errors."""
        speed = self.drive_seconds / self.seconds if self.seconds > 0 else 0.0
        left_out = sum(n for (reason, _), n in self.not_used.items() if reason in SCREENED)
        rejected = self.not_used.total() - left_out
        text = (
            f"{self.drive_seconds:.3f} s, {self.steps} steps, {self.measurements} measurements, "
            f"{self.estimates} estimates, {rejected} observations not used, "
        )
        text += f"{left_out} values left out, " if left_out else ""
        text += f"{speed:.1f} × real time"
        if self.restarts:
            text += f", {self.restarts} restart{'s' * (self.restarts > 1)}"
        if self.without_steering:
            text += f", without steering {100 * self.without_steering / self.steps:.0f} % of the time"
        return text + (f", {self.errors} errors (last: {self.last_error})" if self.errors else "")

    def lines(self) -> Iterator[str]:
        """`line`, followed by unused observations, resets, restarts and faults; times are those of the log, s."""
        yield self.line()
        share = min(self.without_drive / max(self.estimates, 1), 1.0)
        if share > _STARTING:
            yield (
                f"without drive torque or brake pressure {100 * share:.0f} % of the time: their force is estimated, "
                "and shared among the wheels as the car's file says"
            )
        for reason in dict.fromkeys(reason for reason, _ in self.not_used):
            counts = {source: n for (why, source), n in self.not_used.items() if why == reason}
            what = "left out" if reason in SCREENED else "not used"
            yield f"{what}, {reason}: {_gather(counts)}"
        resets = {source: s["resets"] for source, s in self.sensors.items() if s.get("resets")}
        if resets:
            yield f"reset to a source: {_gather(resets)}"
        for restart in self.restarted:
            what = "restart" if restart.state == "recovering" else "failure"
            yield f"{what} at {restart.t_ns * 1e-9:.2f} s: {restart.reason}"
        spans: dict[tuple[str, str], list[Fault]] = {}
        for fault in self.faults:
            spans.setdefault(fault.kind, []).append(fault)
        alike: dict[tuple[str, str], list[str]] = {}
        for (source, _), found in spans.items():
            alike.setdefault((found[-1].reason, self._describe(found)), []).append(source)
        for (reason, when), sources in alike.items():
            yield f"fault of {', '.join(sources)}: {reason}: {when}"

    def _describe(self, faults: list[Fault]) -> str:
        """Times at which a fault was present."""
        spans = [
            f"{f.begun_ns * 1e-9:.2f} s to "
            + ("the end" if f.ended_ns is None else f"{f.ended_ns * 1e-9:.2f} s")
            for f in faults[:_SHOWN]
        ]
        text = ", ".join(spans)
        if len(faults) > _SHOWN:
            lasted = sum((self.ended_ns if f.ended_ns is None else f.ended_ns) - f.begun_ns for f in faults)
            text += f" and {len(faults) - _SHOWN} more, {lasted * 1e-9:.1f} s in all"
        return text

    def to_dict(self) -> dict[str, Any]:
        """Contents for `--json`: SI units, times of the log in s."""
        by_source: dict[str, dict[str, int]] = {}
        for (reason, source), n in self.not_used.items():
            by_source.setdefault(source, {})[reason] = n
        return {
            "seconds": self.drive_seconds,
            "replay_seconds": self.seconds,
            "begun": self.begun_ns / 1e9,
            "steps": self.steps,
            "measurements": self.measurements,
            "estimates": self.estimates,
            "errors": self.errors,
            "last_error": self.last_error,
            "sensors": self.sensors,
            "not_used": by_source,
            "without_steering": self.without_steering,
            "without_drive": self.without_drive,
            "units": self.units,
            "restarts": [{"t": r.t_ns / 1e9, "state": r.state, "reason": r.reason} for r in self.restarted],
            "faults": [
                {
                    "source": f.source,
                    "reason": f.reason,
                    "less_certain": list(f.less_certain),
                    "begun": f.begun_ns / 1e9,
                    "ended": None if f.ended_ns is None else f.ended_ns / 1e9,
                }
                for f in self.faults
            ],
            "parameters": {
                name: {"value": p.value, "sigma": p.sigma, "unit": p.unit}
                for name, p in self.parameters.items()
            },
        }


def _begin(t_ns: int, fault: SourceFault) -> Fault:
    return Fault(fault.source, fault.kind, fault.reason, fault.less_certain, t_ns)


def _gather(counts: dict[str, int]) -> str:
    """`wheel.rl.speed 28, imu.wx imu.wy imu.wz 549 each`: sources with the same number in one item."""
    alike: dict[int, list[str]] = {}
    for source, n in counts.items():
        alike.setdefault(n, []).append(source)
    return ", ".join(
        f"{' '.join(sources)} {n}{' each' if len(sources) > 1 else ''}" for n, sources in alike.items()
    )
