"""One MCAP file of what a run measured and estimated, and the items that it is made of."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from replay.mcap_writer import CHANNEL, McapWriter, write_clock
from vehicled import schemas
from vehicled.messages import Estimate, Innovation, Measurement, Parameters, Status

CHUNK_NS = 250_000_000
"""A chunk is written at least this often. Power loss costs it and what the disk was just writing: at most 0.5 s."""

QUEUE_LIMIT = 2048
"""Steps that may wait for a slow disk: 8 s at 250 Hz."""


class StepItem(NamedTuple):
    """One filter step: what it consumed, in this order, and what came of it."""

    number: int
    t: int
    measurements: list[Measurement]
    estimate: Estimate | None
    innovations: list[Innovation]
    duration: int | None


Item = StepItem | schemas.CommandRecord | Status | Parameters


def messages_of(item: Item | None) -> int:
    """How many messages an item becomes."""
    if not isinstance(item, StepItem):
        return int(item is not None)
    topics = len(schemas.TOPIC_COLUMNS) * (item.estimate is not None)
    return 1 + len(item.measurements) + len(item.innovations) + topics


class Intake(ABC):
    """Takes steps, commands and status from the estimator's thread. What is passed must not be changed afterwards."""

    def __init__(self) -> None:
        """Steps are numbered from 1, so that a gap can be found."""
        self._number = 0

    @abstractmethod
    def _put(self, item: Item) -> None:
        """Have an item written, after all before it."""

    def record_step(
        self,
        step_ns: int,
        measurements: list[Measurement],
        estimate: Estimate | None,
        innovations: list[Innovation],
        duration_ns: int | None = None,
    ) -> None:
        """One filter step: what it consumed, in this order, what came of it, and its duration, if live."""
        self._number += 1
        self._put(StepItem(self._number, step_ns, measurements, estimate, innovations, duration_ns))

    def record_command(self, step_ns: int, name: str, arguments: dict[str, Any]) -> None:
        """What changed the filter before the step at `step_ns`; call it before that step is recorded."""
        self._put(schemas.CommandRecord(step_ns, name, arguments))

    def record_status(self, status: Status) -> None:
        """Take the status as it is now."""
        self._put(status)

    def record_parameters(self, parameters: Parameters) -> None:
        """Take the filter's slow states as they are now."""
        self._put(parameters)


class RecordingFile:
    """Writes items into a file, in the order of consumption.

    That is a step's commands and measurements, its estimate and innovations, and last the record of the step
    itself, so that a replay of the file gives the filter exactly the same sequence.
    """

    def __init__(self, writer: McapWriter, configuration: str, t: int, utc_offset_ns: int) -> None:
        """Begins with the text that the program runs with and the time now, `t` (ns, clock of the measurements).

        `utc_offset_ns`: time of day minus that clock, 0 if unknown. OSError if the disk fails.
        """
        self.writer = writer
        self._offset = utc_offset_ns
        utc = t + utc_offset_ns
        writer.write(
            CHANNEL["configuration"], utc, utc, schemas.encode(schemas.ConfigurationRecord(t, configuration))
        )
        write_clock(writer, t, utc_offset_ns)
        writer.end_chunk()
        self._head = writer.messages

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in the file but what it begins with."""
        return self.writer.messages == self._head

    def write(self, item: Item) -> None:
        """Encode an item into the chunk in progress."""
        offset = self._offset
        write = self.writer.write
        if isinstance(item, StepItem):
            t = item.t
            now = t + offset
            for m in item.measurements:
                write(_MEASUREMENT, m.arrival + offset, m.t + offset, schemas.encode_measurement(t, m))
            if item.estimate is not None:
                for topic, channel in _ESTIMATE_CHANNELS:
                    write(channel, now, now, schemas.encode_estimate(topic, item.estimate))
            for innovation in item.innovations:
                write(_INNOVATION, now, innovation.t + offset, schemas.encode_innovation(innovation))
            record = schemas.StepRecord(t, len(item.measurements), item.duration)
            write(_STEP, now, now, schemas.encode(record), item.number)
        elif isinstance(item, schemas.CommandRecord):
            write(CHANNEL["command"], item.step + offset, item.step + offset, schemas.encode(item))
        elif isinstance(item, Status):
            write(CHANNEL["status"], item.t + offset, item.t + offset, schemas.encode(item))
        else:
            write(CHANNEL["parameters"], item.t + offset, item.t + offset, schemas.encode(item))


_MEASUREMENT, _INNOVATION, _STEP = CHANNEL["measurement"], CHANNEL["innovation"], CHANNEL["step"]
_ESTIMATE_CHANNELS = [(topic, CHANNEL[topic]) for topic in schemas.TOPIC_COLUMNS]
