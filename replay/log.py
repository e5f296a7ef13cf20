"""Logs of any format: recognised by content or extension, with their measurements and filter steps."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

from drivers.can import CanOptions
from drivers.nmea import NmeaOptions
from drivers.registry import load_driver
from drivers.ubx import UbxOptions
from replay import can_log, nmea_log, ubx_log
from replay.can_log import CanLog
from replay.csv_log import CsvLog, CsvLogWriter
from replay.foreign import comma2k19, gpx, mdf, ncom, parquet, ros, vbo
from replay.foreign.csv_signals import CsvSignals
from replay.foreign.mapped_log import MappedLog, SignalLog
from replay.foreign.mapping import LogMapping, MappedClock
from replay.log_about import LogAbout
from replay.mcap_format import MAGIC
from replay.mcap_log import McapLog
from replay.mcap_messages import is_mcap
from replay.mcap_writer import McapLogWriter
from replay.nmea_log import NmeaLog
from replay.problems import Problems
from replay.steps import as_measured, make_steps, sort_by_arrival, with_commands
from replay.ubx_log import UbxLog
from vehicled.errors import UsageError
from vehicled.messages import CHANNELS, Measurement, Step

LogDevices = Mapping[str, CanOptions | NmeaOptions | UbxOptions]
"""Options of devices that are needed to decode some logs, by name of the device."""

_HEAD = 64
"""Number of first bytes by which a file is recognised."""


class Log(Protocol):
    """Interface of all kinds of log. Each iteration reads from the start and counts the problems from zero."""

    path: Path
    problems: Problems

    @property
    def recorded(self) -> bool:
        """Whether this is a recording of a filter's run, with the measurements used by each step."""

    def measurements(self) -> Iterator[Measurement]:
        """All measurements in the order of the file."""


class ShiftedLog:
    """A log with all times shifted by the same amount."""

    def __init__(self, log: Log, offset_ns: int) -> None:
        self._log, self._offset_ns = log, offset_ns
        self.path, self.problems, self.recorded = log.path, log.problems, log.recorded
        known = describe_log(log)
        utc = known.utc_offset_ns - offset_ns if known.utc_offset_ns else 0
        self.about = known._replace(utc_offset_ns=utc)

    def measurements(self) -> Iterator[Measurement]:
        """The log's measurements, shifted."""
        offset = self._offset_ns
        for m in self._log.measurements():
            yield Measurement(m.source, m.t + offset, m.arrival + offset, m.values)


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


def log_devices(devices: Mapping[str, _Device]) -> dict[str, CanOptions | NmeaOptions | UbxOptions]:
    """Devices of a configuration whose raw logs can be read."""
    kinds = ("can", "nmea", "ubx")
    return {
        name: device.options.to(load_driver(device.driver).Options)
        for name, device in devices.items()
        if device.driver in kinds
    }


class LogFormat(NamedTuple):
    """A kind of log that can be read."""

    names: str
    """Name of its files, for lists."""
    suffixes: tuple[str, ...]
    open: Callable[[Path, LogDevices, LogMapping | None], Log]
    is_marked: Callable[[Path, bytes], bool] = lambda path, head: False
    """Whether a path is of this kind by its first bytes, which are empty for a folder."""


def _begins(*marks: bytes) -> Callable[[Path, bytes], bool]:
    return lambda _, head: head.startswith(marks)


def _mapped(signals: Callable[[Path], SignalLog]) -> Callable[[Path, LogDevices, LogMapping | None], Log]:
    return lambda path, _, mapping: MappedLog(signals(path), mapping or LogMapping())


def _open_mcap(path: Path, devices: LogDevices, mapping: LogMapping | None) -> Log:
    del devices
    log = McapLog(path)
    if log.recorded:
        _refuse(path, mapping)
    return _shift(log, mapping)


def _open_can(path: Path, devices: LogDevices, mapping: LogMapping | None) -> Log:
    return _shift(CanLog(path, {n: o for n, o in devices.items() if isinstance(o, CanOptions)}), mapping)


def _open_nmea(path: Path, devices: LogDevices, mapping: LogMapping | None) -> Log:
    receivers = [(n, o) for n, o in devices.items() if isinstance(o, NmeaOptions)]
    name, options = receivers[0] if receivers else ("gnss", NmeaOptions(port="-"))
    return _shift(NmeaLog(path, name, options), mapping)


def _open_ubx(path: Path, devices: LogDevices, mapping: LogMapping | None) -> Log:
    receivers = [(n, o) for n, o in devices.items() if isinstance(o, UbxOptions)]
    name, options = receivers[0] if receivers else ("gnss", UbxOptions(port="-"))
    return _shift(UbxLog(path, name, options), mapping)


def _open_csv(path: Path, devices: LogDevices, mapping: LogMapping | None) -> Log:
    return CsvLog(path) if mapping is None else _mapped(CsvSignals)(path, devices, mapping)


def _refuse(path: Path, mapping: LogMapping | None) -> None:
    if mapping is not None:
        raise UsageError(f"{path}: expected no mapping, as it is a recording of the daemon")


def _shift(log: Log, mapping: LogMapping | None) -> Log:
    """A log whose signals have names already: a mapping may only shift its times."""
    if mapping is None:
        return log
    offset = mapping.time.offset
    if mapping != LogMapping(time=MappedClock(offset=offset)):
        raise UsageError(
            f"{log.path}: expected a mapping with nothing but the `offset` of its `time`, as its signals have names "
            "by themselves or by --config"
        )
    return ShiftedLog(log, round(offset * 1e9))


LOG_FORMATS: tuple[LogFormat, ...] = (
    LogFormat("bags of ROS (.bag, .db3, folders)", ros.SUFFIXES, _mapped(ros.RosSignals), ros.is_ros),
    LogFormat(".mcap", (".mcap",), _open_mcap, _begins(MAGIC)),
    LogFormat("MDF (.mf4, .mdf)", mdf.SUFFIXES, _mapped(mdf.MdfSignals), _begins(*mdf.MARKS)),
    LogFormat(".parquet", (parquet.SUFFIX,), _mapped(parquet.ParquetSignals), _begins(parquet.MARK)),
    LogFormat(".csv", (".csv",), _open_csv),
    LogFormat("CAN logs (.asc, .blf, candump .log)", can_log.SUFFIXES, _open_can),
    LogFormat("NMEA (.nmea, .txt)", nmea_log.SUFFIXES, _open_nmea),
    LogFormat("UBX (.ubx)", ubx_log.SUFFIXES, _open_ubx, _begins(b"\xb5\x62")),
    LogFormat("VBOX (.vbo)", (vbo.SUFFIX,), _mapped(vbo.VboSignals)),
    LogFormat("OxTS (.ncom)", (ncom.SUFFIX,), _mapped(ncom.NcomSignals)),
    LogFormat("folders of comma2k19", (), _mapped(comma2k19.Comma2k19Signals), comma2k19.is_comma2k19),
)
"""The first format whose mark a path has is used; without any mark, that of its extension."""

FORMATS = ", ".join(f.names for f in LOG_FORMATS)


def open_log(
    path: str | Path,
    devices: LogDevices | None = None,
    mapping: LogMapping | None = None,
    following: Sequence[str | Path] = (),
) -> Log:
    """The log at `path`, recognised by its first bytes or its name.

    `devices` names the signals of CAN logs and the latency of receivers; `mapping` those of logs of other
    programs; `following` are the further files of a recorded run, in their order. UsageError if a file cannot be
    read, is of no known kind, or not of the kind of its extension, or if files do not follow each other.
    """
    path = Path(path)
    try:
        if following:
            return _open_run([path, *map(Path, following)], mapping)
        head = b""
        if not path.is_dir():
            with open(path, "rb") as file:
                head = file.read(_HEAD)
        marked = [kind for kind in LOG_FORMATS if kind.is_marked(path, head)]
        named = [kind for kind in LOG_FORMATS if path.suffix.lower() in kind.suffixes and not path.is_dir()]
        if marked or named:
            return (marked or named)[0].open(path, devices or {}, mapping)
    except OSError as error:
        raise UsageError(f"{error.filename or path}: {error.strerror or error}") from None
    what = "a folder" if path.is_dir() else path.suffix.lower() or "a file without an extension"
    raise UsageError(f"{path}: unknown kind of log, {what}; expected {FORMATS}")


def _open_run(paths: Sequence[Path], mapping: LogMapping | None) -> McapLog:
    for path in paths:
        if not is_mcap(path):
            raise UsageError(
                f"{path}: expected a recording (.mcap), as several files were given; `vehicled convert` makes one "
                "log of those of several loggers"
            )
    _refuse(paths[0], mapping)
    return McapLog(*paths)


def describe_log(log: Log) -> LogAbout:
    """What is known about a log."""
    if isinstance(log, ShiftedLog):
        return log.about
    return LogAbout(log.utc_offset_ns, log.configuration) if isinstance(log, McapLog) else LogAbout()


_WRITERS: Mapping[str, Callable[[str | Path, Iterable[str], LogAbout], LogWriter]] = {
    ".csv": lambda path, channels, _: CsvLogWriter(path, channels),
    ".mcap": lambda path, _, about: McapLogWriter(path, about.utc_offset_ns),
    parquet.SUFFIX: parquet.ParquetLogWriter,
    gpx.SUFFIX: lambda path, _, about: gpx.GpxWriter(path, about.utc_offset_ns),
}
"""Writers of logs, by extension."""

WRITTEN = tuple(_WRITERS)
"""Extensions that `create_log` can write."""


def create_log(
    path: str | Path,
    channels: Iterable[str] = CHANNELS,
    about: LogAbout = LogAbout(),  # noqa: B008 - immutable
) -> LogWriter:
    """A new log of measurements; UsageError for an extension that is not in `WRITTEN`.

    `channels`: those that will come; a table has a column for each.
    """
    suffix = Path(path).suffix.lower()
    if suffix not in _WRITERS:
        raise UsageError(f"{path}: cannot write a log of this kind; expected {', '.join(WRITTEN)}")
    return _WRITERS[suffix](path, channels, about)


def read_steps(log: Log, period_ns: int) -> Iterator[Step]:
    """Filter steps of a log: exactly those of the run if it is a recording, else at a fixed period."""
    if isinstance(log, McapLog) and log.recorded:
        return log.recorded_steps()
    return make_steps(sort_by_arrival(log.measurements(), log.problems), period_ns, log.problems)


def read_steps_as_measured(log: Log, period_ns: int) -> Iterator[Step]:
    """Steps at a fixed period as if everything arrived when it was measured, for uses without real time.

    Commands of a recording are executed at their recorded times.
    """
    measurements = sort_by_arrival(as_measured(log.measurements()), log.problems)
    steps = make_steps(measurements, period_ns, log.problems)
    if isinstance(log, McapLog) and log.recorded:
        commands = [(step.t, step.commands) for step in log.recorded_steps() if step.commands]
        return with_commands(steps, commands)
    return steps
