"""Bags of ROS 1 (`.bag`) and ROS 2 (folders, `.db3`, `.mcap`), read by rosbags; no ROS is needed.

A signal is `/topic:field`, with the field's path in the message: `/imu:angular_velocity.z`, `/wheels:velocity[0]`.
Standard messages are in SI units and axes forward, left, up (REP 103).
"""

import math
import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

from replay.foreign.extras import one_line, require
from replay.foreign.mapped_log import SignalRecord
from replay.foreign.mapping import LogMapping, map_names
from replay.foreign.ros_bounds import bound
from replay.mcap_format import MAGIC
from replay.problems import Problems
from replay.steps import MAX_GAP_NS
from vehicled.errors import UsageError

SUFFIXES = (".bag", ".db3")
_MARKS = (b"#ROSBAG V2.0", b"SQLite format 3\0")
"""How bags of ROS 1, and of ROS 2 in SQLite, begin."""

_IMU, _FIX = "sensor_msgs/msg/Imu", "sensor_msgs/msg/NavSatFix"
_UNITS: Mapping[str, Mapping[str, str]] = {
    _IMU: {"linear_acceleration": "m/s²", "angular_velocity": "rad/s"},
    _FIX: {"latitude": "deg", "longitude": "deg", "altitude": "m", "h_acc": "m", "v_acc": "m"},
    "geometry_msgs/msg/TwistStamped": {"twist.linear": "m/s", "twist.angular": "rad/s"},
    "geometry_msgs/msg/TwistWithCovarianceStamped": {
        "twist.twist.linear": "m/s",
        "twist.twist.angular": "rad/s",
    },
    "nav_msgs/msg/Odometry": {"twist.twist.linear": "m/s", "twist.twist.angular": "rad/s"},
}
"""By kind of message: units of fields whose paths begin with these."""
_CHANNELS: Mapping[str, Mapping[str, str]] = {
    _IMU: {
        **{f"imu.a{axis}": f"linear_acceleration.{axis}" for axis in "xyz"},
        **{f"imu.w{axis}": f"angular_velocity.{axis}" for axis in "xyz"},
    },
    _FIX: {
        **{"gnss.lat": "latitude", "gnss.lon": "longitude", "gnss.alt": "altitude"},
        **{"gnss.quality": "quality", "gnss.h_acc": "h_acc", "gnss.v_acc": "v_acc"},
    },
}
"""Mapped without a file if a bag has one topic of the kind."""
_QUALITY = {-1: 0.0, 0: 1.0, 1: 2.0, 2: 2.0}
"""Of NMEA by `status` of a fix: none, GNSS alone, satellite-based and ground-based augmentation."""

_ELEMENTS = 16
"""Number of elements of a sequence without fixed length that can be mapped."""
_DEEPEST = 6
_BASE, _NAME, _ARRAY = 1, 2, 3
"""Kinds of field in the library's descriptions; a sequence is the fourth."""
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


class _Topic(NamedTuple):
    kind: str
    fields: dict[str, str]
    """Unit by path."""


def is_ros(path: Path, head: bytes) -> bool:
    """Whether a folder, or a file that begins with `head`, is a bag of ROS."""
    if path.is_dir():
        return (path / "metadata.yaml").is_file()
    if head.startswith(_MARKS):
        return True
    if not head.startswith(MAGIC) or len(head) < len(MAGIC) + 13:
        return False
    # The first record is the header (1): its length, then the name of the profile.
    (length,) = struct.unpack_from("<I", head, len(MAGIC) + 9)
    return head[len(MAGIC) + 13 :][: min(length, 8)] in (b"ros1", b"ros2")


class RosSignals:
    """The numbers in the messages of a bag."""

    has_clock = True

    def __init__(self, path: Path) -> None:
        """Reads topics and descriptions of messages. UsageError if that fails."""
        self.path = path
        self.problems = Problems(path.name)
        self._library = require("rosbags.highlevel", "ros", path)
        with self._reader() as reader:
            self._topics = {
                topic: _Topic(info.msgtype, _find_fields(reader.typestore, info.msgtype))
                for topic, info in reader.topics.items()
                if info.msgtype is not None
            }

    def _reader(self) -> "_Bag":
        return _Bag(self._library, self.path)

    @property
    def units(self) -> Mapping[str, str]:
        """Units of all numbers in messages, and of signals derived from fixes."""
        return {f"{name}:{path}": unit for name, t in self._topics.items() for path, unit in t.fields.items()}

    def find_mapping(self) -> LogMapping:
        """Mapping that needs no file: IMU and fixes, if there is one topic of each."""
        found: dict[str, str] = {}
        for kind, channels in _CHANNELS.items():
            topics = self._of_kind(kind)
            if len(topics) == 1:
                found |= {channel: f"{topics[0]}:{path}" for channel, path in channels.items()}
        return map_names(found)

    def _of_kind(self, kind: str) -> list[str]:
        return [name for name, topic in self._topics.items() if topic.kind == kind]

    def records(self, wanted: Collection[str]) -> Iterator[SignalRecord]:
        """One record per message, measured at the stamp in its header, and arrived when it was recorded."""
        paths: dict[str, dict[str, Callable[[Any], float]]] = {}
        for name in wanted:
            topic, _, path = name.partition(":")
            paths.setdefault(topic, {})[name] = _make_getter(self._topics[topic].kind, path)
        for kind in _CHANNELS:
            several = self._of_kind(kind)
            if len(several) > 1 and not paths.keys() & set(several):
                self.problems.add("not mapped", ", ".join(several), f"several topics of {kind}")
        with self._reader() as reader:
            done = 0
            try:
                for connection, recorded, data in reader.messages(
                    connections=[c for c in reader.connections if c.topic in paths]
                ):
                    done += 1
                    try:
                        message = reader.deserialize(data, connection.msgtype)
                    except Exception as error:  # on damage, of all kinds
                        self.problems.add("bad message", connection.topic, one_line(error))
                        continue
                    t = self._find_time(message, recorded, connection.topic)
                    values = {name: get(message) for name, get in paths[connection.topic].items()}
                    yield SignalRecord(t, recorded, values)
            except GeneratorExit:
                raise
            except Exception as error:  # on damage, of all kinds
                self.problems.add("unreadable", f"after message {done}", one_line(error))

    def _find_time(self, message: Any, recorded: int, topic: str) -> int:
        stamp = getattr(getattr(message, "header", None), "stamp", None)
        if stamp is None:
            return recorded
        t = int(stamp.sec) * 1_000_000_000 + int(stamp.nanosec)
        if t == 0 and recorded:  # a simulation's clock may begin at 0
            self.problems.add("no stamp", topic, "0 in the header; measured when recorded")
        elif not 0 <= recorded - t <= MAX_GAP_NS:
            # The device's own clock, or a stamp set later: the difference is no latency.
            self.problems.add("other clock", topic, f"stamped {(recorded - t) / 1e9:.6g} s before recorded")
        else:
            return t
        return recorded


class _Bag:
    """An open bag. Errors on opening are UsageError."""

    def __init__(self, library: Any, path: Path) -> None:
        self._library, self._path = library, path

    def __enter__(self) -> Any:
        try:
            stores = require("rosbags.typesys", "ros", self._path)
            bound(partial(require, extra="ros", path=self._path))
            known = stores.get_typestore(stores.Stores.LATEST)
            self._reader = self._library.AnyReader([self._path], default_typestore=known)
            self._reader.open()
        except Exception as error:  # on damage, of all kinds
            raise UsageError(f"{self._path}: cannot be read as a bag of ROS: {one_line(error)}") from None
        return self._reader

    def __exit__(self, *_: object) -> None:
        self._reader.close()


def _find_fields(store: Any, kind: str) -> dict[str, str]:
    """Path and unit of every number in a kind of message."""
    units = _UNITS.get(kind, {})
    found = dict.fromkeys(_walk(store, kind, 0), "")
    for path in found:
        for begin, unit in units.items():
            if path == begin or path.startswith(f"{begin}."):
                found[path] = unit
    if kind == _FIX:
        found |= {"quality": "", "h_acc": units["h_acc"], "v_acc": units["v_acc"]}
    return found


def _walk(store: Any, kind: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST or kind not in store.fielddefs:
        return
    for name, (node, detail) in store.fielddefs[kind][1]:
        for path, (inner, what) in _elements(name, int(node), detail):
            if int(inner) == _NAME:
                yield from (f"{path}.{below}" for below in _walk(store, what, depth + 1))
            elif int(inner) == _BASE and what[0] != "string":
                yield path


def _elements(name: str, node: int, detail: Any) -> Iterator[tuple[str, Any]]:
    """(path, description) of a field, or of each element of an array or of the first ones of a sequence."""
    if node in (_BASE, _NAME):
        yield name, (node, detail)
        return
    inner, length = detail
    for i in range(length if node == _ARRAY else _ELEMENTS):
        yield f"{name}[{i}]", inner


def _make_getter(kind: str, path: str) -> Callable[[Any], float]:
    """Make a function that reads a number from a message; NaN if it has none."""
    if kind == _FIX and path in _FROM_FIX:
        return _FROM_FIX[path]
    steps = [int(index) if index else name for name, index in _STEP.findall(path)]
    measured = path.split(".")[0]

    def get(message: Any) -> float:
        if kind == _IMU:
            covariance = getattr(message, f"{measured}_covariance", None)
            if covariance is not None and covariance[0] == -1.0:
                return math.nan  # the message's own sign that it does not measure this
        try:
            return float(reduce(_step, steps, message))
        except IndexError:
            return math.nan

    return get


def _step(value: Any, step: int | str) -> Any:
    return value[step] if isinstance(step, int) else getattr(value, step)


def _find_accuracy(message: Any, axes: tuple[int, ...]) -> float:
    if message.position_covariance_type == 0:
        return math.nan
    variance = sum(float(message.position_covariance[axis]) for axis in axes) / len(axes)
    return math.sqrt(variance) if variance > 0.0 else math.nan


_FROM_FIX: Mapping[str, Callable[[Any], float]] = {
    "quality": lambda m: _QUALITY.get(int(m.status.status), 1.0),
    "h_acc": lambda m: _find_accuracy(m, (0, 4)),
    "v_acc": lambda m: _find_accuracy(m, (8,)),
}
"""Fields of a fix: quality by NMEA's numbers, standard deviations from the covariance."""
