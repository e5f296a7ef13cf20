"""One MCAP file of what a run measured and estimated, and the items that it is made of."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from mcap.records import Attachment, Metadata

from replay.mcap_writer import CHANNEL, McapWriter, write_clock
from vehicled import __version__, schemas
from vehicled.foxglove.scene import Scene
from vehicled.messages import (
    SCHEMA_VERSION,
    AnyEstimate,
    Estimate,
    Innovation,
    Measurement,
    Parameters,
    ParticleEstimate,
    Status,
)
from vehicled.units import Hertz, Range

CHUNK_NS = 250_000_000
"""A chunk is written at least this often. Power loss costs it and what the disk was just writing: at most 0.5 s."""

QUEUE_LIMIT = 2048
"""Steps that may wait for a slow disk: 8 s at 250 Hz."""


Rate = Annotated[Hertz, Range(0.0, 2000.0)]


@dataclass(frozen=True, kw_only=True)
class RecordRates:
    """How often a topic is recorded, Hz: None for each step, 0 for never. A replay needs none of them."""

    position: Rate | None = None
    slip: Rate | None = 50.0
    suspension: Rate | None = 50.0
    points: Rate | None = 50.0
    loads: Rate | None = 50.0
    innovation: Rate | None = 25.0
    """Of each kind of observation; None for each measurement."""
    scene: Rate = 10.0
    """What Foxglove draws: place on the map, frames, and the car with its tyre forces."""


EVERY_STEP = RecordRates(slip=None, suspension=None, points=None, loads=None, innovation=None)
"""All results of every step."""


@dataclass(frozen=True)
class Contents:
    """What a recording has beside what a replay needs."""

    rates: RecordRates = EVERY_STEP
    scene: Scene | None = None
    """Draws the car; None: the recording has no scene."""


ALL_RESULTS = Contents()


class StepItem(NamedTuple):
    """One filter step: what it consumed, in this order, and what came of it."""

    number: int
    t: int
    measurements: list[Measurement]
    estimate: AnyEstimate | None
    innovations: list[Innovation]
    duration: int | None


Item = StepItem | schemas.CommandRecord | Status | Parameters


def messages_of(item: Item | None) -> int:
    """How many messages an item becomes, if none is left out for its rate."""
    if not isinstance(item, StepItem):
        return int(item is not None)
    e = item.estimate
    topics = int(e is not None)
    if isinstance(e, Estimate):
        topics = len(schemas.TOPIC_COLUMNS) + (e.points is not None) + (e.loads is not None)
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
        estimate: AnyEstimate | None,
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

    def __init__(
        self,
        writer: McapWriter,
        configuration: str,
        t: int,
        utc_offset_ns: int,
        contents: Contents = ALL_RESULTS,
    ) -> None:
        """Begins with the text that the program runs with and the time now, `t` (ns, clock of the measurements).

        `utc_offset_ns`: time of day minus that clock, 0 if unknown; `contents`: by default all of every step, and no
        scene. OSError if the disk fails.
        """
        self.writer = writer
        self._contents = contents
        self._due: dict[str, int] = {}
        """By topic or kind of observation: the time of the step that is recorded next, ns."""
        self._offset = utc_offset_ns
        utc = t + utc_offset_ns
        text = configuration.encode()
        at = max(utc, 0)
        writer.add_beside(Attachment(at, at, "configuration.yaml", "application/yaml", text))
        writer.add_beside(Metadata("vehicled", {"version": __version__, "schema": str(SCHEMA_VERSION)}))
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
            self._write_results(item, now)
            record = schemas.StepRecord(t, len(item.measurements), item.duration)
            write(_STEP, now, now, schemas.encode(record), item.number)
        elif isinstance(item, schemas.CommandRecord):
            write(CHANNEL["command"], item.step + offset, item.step + offset, schemas.encode(item))
        elif isinstance(item, Status):
            write(CHANNEL["status"], item.t + offset, item.t + offset, schemas.encode(item))
        else:
            write(CHANNEL["parameters"], item.t + offset, item.t + offset, schemas.encode(item))

    def _write_results(self, item: StepItem, now: int) -> None:
        """What came of a step, as far as it is due; `now`: its time since 1970 UTC, ns."""
        write, rates, t = self.writer.write, self._contents.rates, item.t
        if isinstance(item.estimate, ParticleEstimate):
            write(CHANNEL["mechanism"], now, item.estimate.t + self._offset, schemas.encode(item.estimate))
        elif item.estimate is not None:
            for topic, channel in _ESTIMATE_CHANNELS:
                if self._is_due(topic, getattr(rates, topic), t):
                    write(channel, now, now, schemas.encode_estimate(topic, item.estimate))
            if item.estimate.points is not None and self._is_due("points", rates.points, t):
                write(CHANNEL["points"], now, now, schemas.encode_points(item.estimate))
            if item.estimate.loads is not None and self._is_due("loads", rates.loads, t):
                write(CHANNEL["loads"], now, now, schemas.encode_loads(item.estimate))
            if self._contents.scene is not None and self._is_due("scene", rates.scene, t):
                for topic, message in self._contents.scene.draw(item.estimate, now):
                    write(CHANNEL[topic], now, now, message)
        for innovation in item.innovations:
            if self._is_due(innovation.sensor, rates.innovation, t):
                write(_INNOVATION, now, innovation.t + self._offset, schemas.encode_innovation(innovation))

    def _is_due(self, what: str, rate: float | None, t: int) -> bool:
        if rate is None:
            return True
        if rate == 0.0 or t < self._due.get(what, t):
            return False
        period = round(1e9 / rate)
        self._due[what] = t - t % period + period
        return True


_MEASUREMENT, _INNOVATION, _STEP = CHANNEL["measurement"], CHANNEL["innovation"], CHANNEL["step"]
_ESTIMATE_CHANNELS = [(topic, CHANNEL[topic]) for topic in schemas.TOPIC_COLUMNS]
