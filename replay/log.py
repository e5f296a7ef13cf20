"""Logs of any format: recognised by content or extension, with their measurements and filter steps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

from drivers.can import CanOptions
from drivers.nmea import NmeaOptions
from drivers.registry import load_driver
from replay import can_log, nmea_log
from replay.can_log import CanLog
from replay.csv_log import CsvLog, CsvLogWriter
from replay.mcap_log import McapLog
from replay.mcap_messages import is_mcap
from replay.mcap_writer import McapLogWriter
from replay.nmea_log import NmeaLog
from replay.problems import Problems
from replay.steps import as_measured, make_steps, sort_by_arrival, with_commands
from vehicled.errors import UsageError
from vehicled.messages import CHANNELS, Measurement, Step

FORMATS = ".mcap, .csv, .asc, .blf, .log (candump), .nmea or .txt"

LogDevices = Mapping[str, CanOptions | NmeaOptions]
"""Options of devices, which some logs need to be decoded, by name of the device."""


class Log(Protocol):
    """Interface of all kinds of log. Each iteration reads from the start and counts the problems from zero."""

    path: Path
    problems: Problems

    @property
    def recorded(self) -> bool:
        """Whether this is the recording of a filter's run, which has the measurements that each step consumed."""

    def measurements(self) -> Iterator[Measurement]:
        """All measurements in the order of the file."""


class LogWriter(Protocol):
    """A log to write measurements to. A context manager."""

    def write(self, m: Measurement) -> None:
        """Take a measurement, in order of arrival. Raises OSError."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class _Device(Protocol):
    """A device of the daemon's configuration: kind of driver, and settings that are not yet read."""

    @property
    def driver(self) -> str: ...

    @property
    def options(self) -> Any: ...


def log_devices(devices: Mapping[str, _Device]) -> dict[str, CanOptions | NmeaOptions]:
    """Those devices of a configuration whose raw logs can be read."""
    kinds = {"can": CanOptions, "nmea": NmeaOptions}
    return {
        name: device.options.to(load_driver(device.driver).Options)
        for name, device in devices.items()
        if device.driver in kinds
    }


def open_log(
    path: str | Path, devices: LogDevices | None = None, following: Sequence[str | Path] = ()
) -> Log:
    """The log at `path`, recognised by its content (MCAP) or extension.

    `devices` names the signals of CAN logs and the latency of NMEA receivers; `following` are the further files of a
    recorded run, in their order. UsageError if a file cannot be read, is of no known kind, or not of the kind of its
    extension, or if files do not follow each other.
    """
    path = Path(path)
    try:
        for other in (path, *following) if following else ():
            if not is_mcap(other):
                raise UsageError(f"{other}: expected a recording (.mcap), as several files were given")
        return McapLog(path, *following) if following else _open_log(path, devices or {})
    except OSError as error:
        raise UsageError(f"{error.filename or path}: {error.strerror}") from None


def _open_log(path: Path, devices: LogDevices) -> Log:
    suffix = path.suffix.lower()
    if is_mcap(path):
        return McapLog(path)
    if suffix == ".csv":
        return CsvLog(path)
    if suffix in can_log.SUFFIXES:
        return CanLog(path, {n: o for n, o in devices.items() if isinstance(o, CanOptions)})
    if suffix in nmea_log.SUFFIXES:
        receivers = [(n, o) for n, o in devices.items() if isinstance(o, NmeaOptions)]
        name, options = receivers[0] if receivers else ("gnss", NmeaOptions(port="-"))
        return NmeaLog(path, name, options)
    raise UsageError(f"{path}: unknown kind of log {suffix or 'without an extension'!r}; expected {FORMATS}")


def create_log(path: str | Path, channels: Iterable[str] = CHANNELS, utc_offset_ns: int = 0) -> LogWriter:
    """A new measurement log, `.csv` or `.mcap`; UsageError for any other kind.

    `channels`: those that will come; a CSV file has a column for each. `utc_offset_ns`: time of day minus the
    clock of the measurements, 0 if there is none (MCAP only).
    """
    suffix = Path(path).suffix.lower()
    if suffix == ".csv":
        return CsvLogWriter(path, channels)
    if suffix == ".mcap":
        return McapLogWriter(path, utc_offset_ns)
    raise UsageError(f"{path}: cannot write a log of this kind; expected .csv or .mcap")


def read_steps(log: Log, period_ns: int) -> Iterator[Step]:
    """The filter steps of a log: exactly those of the run, if it is a recording, else at a fixed period."""
    if isinstance(log, McapLog) and log.recorded:
        return log.recorded_steps()
    return make_steps(sort_by_arrival(log.measurements(), log.problems), period_ns, log.problems)


def read_steps_as_measured(log: Log, period_ns: int) -> Iterator[Step]:
    """Steps at a fixed period as if everything had arrived when it was measured: for what need not run in real time.

    The commands of a recording are executed at the times when they were.
    """
    measurements = sort_by_arrival(as_measured(log.measurements()), log.problems)
    steps = make_steps(measurements, period_ns, log.problems)
    if isinstance(log, McapLog) and log.recorded:
        commands = [(step.t, step.commands) for step in log.recorded_steps() if step.commands]
        return with_commands(steps, commands)
    return steps
