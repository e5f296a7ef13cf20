"""A status message as viewers read it: the counters that they show, checked; the others are left out."""

from __future__ import annotations

import msgspec

from vehicled.messages import SourceFault, State


class StepTimes(msgspec.Struct):
    """Of the filter step, µs; None before the first."""

    median: float | None
    p999: float | None
    max: float | None


class LoopCounters(msgspec.Struct):
    """Deadlines."""

    rate_hz: float
    steps: int
    missed: int
    step_us: StepTimes


class QueueCounters(msgspec.Struct):
    """Measurements."""

    put: int
    dropped: dict[str, int]


class RecorderCounters(msgspec.Struct):
    """What is on the disk."""

    state: str
    bytes: int
    reason: str | None = None


class SensorCounters(msgspec.Struct):
    """Of one kind of observation."""

    state: str
    fused: int
    rejected: int


class EstimatorCounters(msgspec.Struct):
    """All that a replay has."""

    sensors: dict[str, SensorCounters] = {}
    inputs: dict[str, str] = {}
    restarts: int = 0


class DeviceCounters(msgspec.Struct):
    """Of one device."""

    state: str


class CommandCounters(msgspec.Struct):
    """Where a daemon takes commands."""

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

    t: int
    state: State
    counters: ShownCounters
    reason: str | None = None
    faults: tuple[SourceFault, ...] = ()


decode_status = msgspec.json.Decoder(ShownStatus).decode
"""From JSON. Raises msgspec.DecodeError, a ValueError."""
