"""Messages as viewers read them: only the fields that they show, checked."""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec

from vehicled.messages import SourceFault, State

Nanoseconds = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A time. JSON permits integers that are too large to calculate with; the limits here and below exclude them."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Variance = Annotated[float, msgspec.Meta(ge=0.0)]


class Fix(msgspec.Struct):
    """The innovation record of a GNSS position."""

    t: Nanoseconds
    innovation: list[float | None]
    variance: list[Variance | None]
    fused: bool

    @property
    def horizontal(self) -> float | None:
        """Distance of the position from its prediction, m; None without a prediction."""
        known = [c for c in self.innovation[:2] if c is not None]
        return math.hypot(*known) if known else None

    @property
    def sigma(self) -> float | None:
        """Standard deviation of that distance per axis, m."""
        variances = [v for v in self.variance[:2] if v is not None]
        return math.sqrt(sum(variances) / len(variances)) if variances else None


class ShownCommand(msgspec.Struct):
    """A command that was executed."""

    step: Nanoseconds
    name: str
    arguments: dict[str, Any]


class StepTimes(msgspec.Struct):
    """Times of the filter step, µs; None before the first step."""

    median: float | None
    p999: float | None
    max: float | None


class LoopCounters(msgspec.Struct):
    """Counters of the step loop."""

    rate_hz: float
    steps: Count
    missed: Count
    step_us: StepTimes


class QueueCounters(msgspec.Struct):
    """Counters of the measurements in the queue."""

    put: Count
    dropped: dict[str, Count]


class RecorderCounters(msgspec.Struct):
    """State of the recorder, and bytes on the disk."""

    state: str
    bytes: Count
    reason: str | None = None


class SensorCounters(msgspec.Struct):
    """Counters of one kind of observation."""

    state: str
    fused: Count
    rejected: Count


class EstimatorCounters(msgspec.Struct):
    """Counters of the estimator: all that a replay has."""

    sensors: dict[str, SensorCounters] = {}
    inputs: dict[str, str] = {}
    restarts: Count = 0


class DeviceCounters(msgspec.Struct):
    """State of one device."""

    state: str


class CommandCounters(msgspec.Struct):
    """Address for commands to a daemon."""

    endpoint: str


class ShownCounters(msgspec.Struct):
    """None, or empty, where the publisher is a replay."""

    estimator: EstimatorCounters = msgspec.field(default_factory=EstimatorCounters)
    loop: LoopCounters | None = None
    queue: QueueCounters | None = None
    recorder: RecorderCounters | None = None
    devices: dict[str, DeviceCounters] = {}
    commands: CommandCounters | None = None


class ShownStatus(msgspec.Struct):
    """`vehicled.messages.Status`, as far as it is shown."""

    t: Nanoseconds
    state: State
    counters: ShownCounters
    reason: str | None = None
    faults: tuple[SourceFault, ...] = ()


decode_fix = msgspec.json.Decoder(Fix).decode
decode_command = msgspec.json.Decoder(ShownCommand).decode
decode_status = msgspec.json.Decoder(ShownStatus).decode
"""Decode a status from JSON. All decoders raise msgspec.DecodeError or UnicodeDecodeError, both ValueErrors."""
