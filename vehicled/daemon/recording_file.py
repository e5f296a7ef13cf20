"""One MCAP file with a run's measurements and estimates, and the items that it consists of."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from mcap.records import Attachment, Metadata

from replay.mcap_writer import CHANNEL, McapWriter, write_clock
from vehicled import schemas
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
from vehicled.version import __version__

CHUNK_NS = 250_000_000
"""Longest time between chunks. A power loss costs this time and data still being written: at most 0.5 s."""

QUEUE_LIMIT = 2048
"""Steps that may wait for a slow disk: 8 s at 250 Hz."""


Rate = Annotated[Hertz, Range(0.0, 2000.0)]


@dataclass(frozen=True, kw_only=True)
class RecordRates:
    """Rate at which a topic is recorded, Hz: None: each step, 0: never. A replay needs none of them."""

    position: Rate | None = None
    slip: Rate | None = 50.0
    suspension: Rate | None = 50.0
    points: Rate | None = 50.0
    loads: Rate | None = 50.0
    innovation: Rate | None = 25.0
    """Of each kind of observation; None for each measurement."""
    scene: Rate = 10.0
    """Scene for Foxglove: place on the map, frames, and the car with its tyre forces."""


EVERY_STEP = RecordRates(slip=None, suspension=None, points=None, loads=None, innovation=None)
"""All results of every step."""


@dataclass(frozen=True)
class Contents:
    """Contents of a recording in addition to those that a replay needs."""

    rates: RecordRates = EVERY_STEP
    scene: Scene | None = None
    """Draws the car; None: the recording has no scene."""


ALL_RESULTS = Contents()


class StepItem(NamedTuple):
    """One filter step: its measurements, in the order used, and its results."""

    number: int
    t: int
    measurements: list[Measurement]
    estimate: AnyEstimate | None
    innovations: list[Innovation]
    duration: int | None


Item = StepItem | schemas.CommandRecord | Status | Parameters


def messages_of(item: Item | None) -> int:
    """Number of messages of an item, if none is left out because of its rate."""
    if not isinstance(item, StepItem):
        return int(item is not None)
    e = item.estimate
    topics = int(e is not None)
    if isinstance(e, Estimate):
        topics = len(schemas.TOPIC_COLUMNS) + (e.points is not None) + (e.loads is not None)
    return 1 + len(item.measurements) + len(item.innovations) + topics


class Intake(ABC):
    """Receives steps, commands and status of the estimator's thread. Objects passed must not be changed later."""

    def __init__(self) -> None:
        """Steps are numbered from 1, so that a gap can be found."""
        self._number = 0

    @abstractmethod
    def _put(self, item: Item) -> None:
        """Have an item written, after all earlier ones."""

    def record_step(
        self,
        step_ns: int,
        measurements: list[Measurement],
        estimate: AnyEstimate | None,
        innovations: list[Innovation],
        duration_ns: int | None = None,
    ) -> None:
        """Record a filter step: measurements in the order used, results, and its duration, if live."""
        self._number += 1
        self._put(StepItem(self._number, step_ns, measurements, estimate, innovations, duration_ns))

    def record_command(self, step_ns: int, name: str, arguments: dict[str, Any]) -> None:
        """Record a command executed before the step at `step_ns`; call it before that step is recorded."""
        self._put(schemas.CommandRecord(step_ns, name, arguments))

    def record_status(self, status: Status) -> None:
        """Record the present status."""
        self._put(status)

    def record_parameters(self, parameters: Parameters) -> None:
        """Record the present slow states of the filter."""
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
        """Starts the file with the configuration's text and the present time `t` (ns, clock of the measurements).

        `utc_offset_ns`: time of day minus that clock, 0 if unknown; `contents`: by default all of every step,
        and no scene. OSError if the disk fails.
        """
        self.writer = writer
        self._contents = contents
        self._due: dict[str, int] = {}
        """By topic or kind of observation: time of the next step that is recorded, ns."""
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
        """Whether the file only has its head."""
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
        """Write the results of a step that are due; `now`: its time since 1970 UTC, ns."""
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
