"""Writes all that a run measured and estimated to an MCAP file, without ever blocking the estimator."""

import os
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Self

from replay.mcap_writer import CHANNEL, McapWriter, write_clock
from vehicled.messages import Estimate, Innovation, Measurement, Parameters, Status
from vehicled.schemas import (
    TOPIC_COLUMNS,
    CommandRecord,
    ConfigurationRecord,
    StepRecord,
    encode,
    encode_estimate,
    encode_innovation,
    encode_measurement,
)

CHUNK_NS = 500_000_000
"""A chunk is written at least this often: half of what a power failure may cost."""

QUEUE_LIMIT = 2048
"""Steps that may wait for a slow disk: 8 s at 250 Hz."""


class _Step(NamedTuple):
    number: int
    t: int
    measurements: list[Measurement]
    estimate: Estimate | None
    innovations: list[Innovation]
    duration: int | None

    @property
    def messages(self) -> int:
        return (
            1
            + len(self.measurements)
            + len(self.innovations)
            + len(TOPIC_COLUMNS) * (self.estimate is not None)
        )


class _Stop:
    pass


class Recorder:
    """Takes steps, commands and status from the estimator's thread, and writes them in a thread of its own.

    What is passed must not be changed afterwards. The file has messages in the order of consumption: a
    step's commands and measurements, its estimate and innovations, and last the record of the step itself, so
    that a replay of the recording gives the filter exactly the same sequence.

    With `live` (the daemon), a full queue drops whole steps, counted, and every chunk is forced to disk.
    Otherwise (replay) the caller waits, and the same run gives the same bytes.

    A disk that fails does not end the run: `counters()` has what was lost, and writing is tried again.
    """

    def __init__(
        self,
        path: str | Path,
        configuration: str,
        t: int,
        utc_offset_ns: int,
        live: bool = True,
        limit: int = QUEUE_LIMIT,
    ) -> None:
        """Creates the file and starts the thread.

        `path` is a file, or a directory in which a file is named after the time of day. `live` recordings
        never overwrite: a number is put behind the name of a file that exists. `configuration` is the text
        that the program runs with, `t` the time now (ns, the clock of the measurements), `utc_offset_ns` the
        time of day minus that clock, 0 if unknown. OSError if the file cannot be created.
        """
        self._writer, self.path = _create(Path(path), t + utc_offset_ns, live)
        self._offset = utc_offset_ns
        self._live = live
        self._limit = limit
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._room = threading.Event()
        self._number = 0
        self._written = self._dropped = self._lost = self._errors = self._high_water = 0
        self._last_error = ""
        self._last_chunk = t
        self._writer.write(
            CHANNEL["configuration"],
            t + utc_offset_ns,
            t + utc_offset_ns,
            encode(ConfigurationRecord(t, configuration)),
        )
        write_clock(self._writer, t, utc_offset_ns)
        self._end_chunk()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

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
        self._put(_Step(self._number, step_ns, measurements, estimate, innovations, duration_ns))

    def record_command(self, step_ns: int, name: str, arguments: dict[str, Any]) -> None:
        """What changed the filter before the step at `step_ns`; call it before that step is recorded."""
        self._put(CommandRecord(step_ns, name, arguments))

    def record_status(self, status: Status) -> None:
        """Take the status as it is now."""
        self._put(status)

    def record_parameters(self, parameters: Parameters) -> None:
        """Take the filter's slow states as they are now."""
        self._put(parameters)

    def counters(self) -> dict[str, Any]:
        """What `status` has of it: messages written, dropped (queue full), lost (disk); bytes; the queue."""
        return {
            "written": self._written,
            "dropped": self._dropped,
            "lost": self._lost,
            "bytes": self._writer.size,
            "errors": self._errors,
            "last_error": self._last_error,
            "queue": self._queue.qsize(),
            "queue_high_water": self._high_water,
        }

    def close(self) -> None:
        """Write what is still waiting, end the file and stop the thread."""
        if self._thread.is_alive():
            self._queue.put(_Stop())
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, item: _Step | CommandRecord | Status | Parameters) -> None:
        waiting = self._queue.qsize()
        if waiting >= self._limit:
            if self._live:
                self._dropped += item.messages if isinstance(item, _Step) else 1
                return
            while self._queue.qsize() >= self._limit:
                self._room.clear()
                self._room.wait(0.01)
        if waiting >= self._high_water:
            self._high_water = waiting + 1
        self._queue.put(item)

    def _run(self) -> None:
        waited_since = time.monotonic_ns()
        while True:
            try:
                item = self._queue.get(timeout=CHUNK_NS / 1e9)
            except Empty:
                item = None
            self._room.set()
            if isinstance(item, _Stop):
                break
            try:
                now = self._write(item)
            except Exception as error:  # A message that cannot be written must not prevent the next ones.
                self._note(error)
                self._lost += item.messages if isinstance(item, _Step) else 1
                continue
            if self._live:
                due = time.monotonic_ns() - waited_since >= CHUNK_NS
            else:
                due = now is not None and now - self._last_chunk >= CHUNK_NS
            if due or self._writer.chunk_is_full:
                self._end_chunk()
                waited_since = time.monotonic_ns()
                self._last_chunk = now if now is not None else self._last_chunk
        pending = self._writer.pending
        try:
            self._writer.close()
            self._written += pending
        except OSError as error:
            self._note(error)
            self._lost += pending

    def _write(self, item: _Step | CommandRecord | Status | Parameters | None) -> int | None:
        """Encode one item into the chunk in progress; returns the time of a step."""
        writer, offset = self._writer, self._offset
        write = writer.write
        if isinstance(item, _Step):
            t = item.t
            now = t + offset
            for m in item.measurements:
                write(_MEASUREMENT, m.arrival + offset, m.t + offset, encode_measurement(t, m))
            if item.estimate is not None:
                for topic, channel in _ESTIMATE_CHANNELS:
                    write(channel, now, now, encode_estimate(topic, item.estimate))
            for innovation in item.innovations:
                write(_INNOVATION, now, innovation.t + offset, encode_innovation(innovation))
            record = StepRecord(t, len(item.measurements), item.duration)
            write(_STEP, now, now, encode(record), item.number)
            return t
        if isinstance(item, CommandRecord):
            write(CHANNEL["command"], item.step + offset, item.step + offset, encode(item))
        elif isinstance(item, Status):
            write(CHANNEL["status"], item.t + offset, item.t + offset, encode(item))
        elif isinstance(item, Parameters):
            write(CHANNEL["parameters"], item.t + offset, item.t + offset, encode(item))
        return None

    def _end_chunk(self) -> None:
        pending = self._writer.pending
        try:
            self._writer.end_chunk()
            self._written += pending
            if self._live and pending:
                self._writer.sync()
        except OSError as error:
            self._note(error)
            self._lost += pending

    def _note(self, error: Exception) -> None:
        self._errors += 1
        self._last_error = f"{type(error).__name__}: {error}"


_MEASUREMENT, _INNOVATION, _STEP = CHANNEL["measurement"], CHANNEL["innovation"], CHANNEL["step"]
_ESTIMATE_CHANNELS = [(topic, CHANNEL[topic]) for topic in TOPIC_COLUMNS]


def _create(path: Path, utc: int, live: bool) -> tuple[McapWriter, Path]:
    """The file to record into; `utc` (ns) names it if `path` is a directory."""
    if path.is_dir():
        path = path / time.strftime("%Y%m%dT%H%M%SZ.mcap", time.gmtime(utc // 1_000_000_000))
    candidate = path
    for number in range(1, 10_000):
        try:
            return McapWriter(candidate, exclusive=live), candidate
        except FileExistsError:
            candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    raise FileExistsError(17, os.strerror(17), str(path))
