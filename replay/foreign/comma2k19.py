"""comma2k19: a minute of a drive as a folder of numpy arrays, published by comma.ai (MIT licence).

Each signal has a folder with the arrays `t` (s, of the host) and `value`. Axes of the IMU are forward, right, down;
`global_pose` has the place, velocity and orientation of the camera in ECEF.
"""

import heapq
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pymap3d

from replay.foreign.extras import one_line
from replay.foreign.mapped_log import SignalRecord
from replay.foreign.mapping import RIGHT_DOWN_IMU, LogMapping, map_names
from replay.problems import Problems
from replay.times import LONGEST_S
from vehicled.errors import UsageError

_CHUNK = 4096
"""Number of samples converted at once."""
_IMU, _CAN, _GNSS = "processed_log/IMU", "processed_log/CAN", "processed_log/GNSS/live_gnss_ublox"
_SIGNALS: Mapping[str, tuple[tuple[str, str], ...]] = {
    f"{_IMU}/accelerometer": (("ax", "m/s²"), ("ay", "m/s²"), ("az", "m/s²")),
    f"{_IMU}/gyro": (("wx", "rad/s"), ("wy", "rad/s"), ("wz", "rad/s")),
    f"{_CAN}/speed": (("speed", "m/s"),),
    f"{_CAN}/steering_angle": (("steering_angle", "deg"),),
    f"{_CAN}/wheel_speed": tuple((f"wheel_speed.{w}", "m/s") for w in ("fl", "fr", "rl", "rr")),
    _GNSS: (
        *(("gnss.latitude", "deg"), ("gnss.longitude", "deg"), ("gnss.speed", "m/s")),
        *(("gnss.utc", ""), ("gnss.altitude", "m"), ("gnss.bearing", "deg")),
    ),
}
"""By folder: the columns of its values, with their units."""
_POSE = {
    **dict.fromkeys(("pose.lat", "pose.lon"), "deg"),
    "pose.alt": "m",
    **dict.fromkeys(("pose.vn", "pose.ve", "pose.vd"), "m/s"),
    **dict.fromkeys(("pose.roll", "pose.pitch", "pose.yaw"), "rad"),
}
"""Signals made from `global_pose`: angles of the axes forward, left, up relative to east, north, up."""
_OF_CAMERA = ("pose.roll", "pose.pitch")
_POSE_ARRAYS = ("frame_times", "frame_positions", "frame_velocities", "frame_orientations")


MAPPING: LogMapping = map_names(
    {
        **RIGHT_DOWN_IMU,
        "gnss.lat": "gnss.latitude",
        "gnss.lon": "gnss.longitude",
        "gnss.alt": "gnss.altitude",
        "gnss.speed": "gnss.speed",
        "gnss.course": "gnss.bearing",
        "steer.wheel": "steering_angle",
        "vehicle.speed": "speed",
        **{f"reference.{name.removeprefix('pose.')}": name for name in _POSE if name not in _OF_CAMERA},
    }
)
"""The camera is tilted in the car by unpublished angles, so roll and pitch are left out. Wheel speeds are in
m/s: a mapping file gives the radius that converts them to rates."""


def is_comma2k19(path: Path, head: bytes) -> bool:
    """Whether a folder is a segment of comma2k19."""
    del head
    return (path / "processed_log").is_dir()


class Comma2k19Signals:
    """Signals of a segment that its folder has; only the arrays of requested signals are read from disk."""

    has_clock = True

    def __init__(self, path: Path) -> None:
        """Opens the arrays. UsageError for one that cannot be read."""
        self.path = path
        self.problems = Problems(path.name)
        self._groups: list[tuple[dict[str, str], Callable[[], Iterator[SignalRecord]]]] = []
        for folder, columns in _SIGNALS.items():
            if (path / folder).is_dir():
                t, value = self._load(f"{folder}/t"), self._load(f"{folder}/value")
                self._add(folder, t, value, columns)
        if (path / "global_pose").is_dir():
            arrays = [self._load(f"global_pose/{name}") for name in _POSE_ARRAYS]
            shapes = [a.shape[1:] for a in arrays]
            if shapes != [(), (3,), (3,), (4,)]:
                raise UsageError(f"{path}/global_pose: expected times, places, velocities and quaternions")
            self._groups.append((dict(_POSE), lambda: self._poses(arrays)))

    def _load(self, name: str) -> np.ndarray:
        path = self.path / name
        try:
            array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError, SyntaxError) as error:
            raise UsageError(f"{path}: expected an array of numpy: {one_line(error)}") from None
        if array.dtype.kind not in "fiu" or array.ndim not in (1, 2):
            raise UsageError(f"{path}: expected an array of numbers, got {array.dtype} {array.shape}")
        return array

    def _add(
        self, folder: str, t: np.ndarray, value: np.ndarray, columns: tuple[tuple[str, str], ...]
    ) -> None:
        width = 1 if value.ndim == 1 else value.shape[1]
        if t.ndim != 1 or width != len(columns):
            raise UsageError(f"{self.path}/{folder}: expected {len(columns)} columns, got {width}")
        names = [name for name, _ in columns]

        def read() -> Iterator[SignalRecord]:
            for begin, times in self._chunks(t, len(value), folder):
                rows = np.asarray(value[begin : begin + len(times)], dtype=float).reshape(-1, width)
                for ns, row in zip(times, rows.tolist(), strict=True):
                    yield SignalRecord(ns, ns, dict(zip(names, row, strict=True)))

        self._groups.append((dict(columns), read))

    def _chunks(self, t: np.ndarray, length: int, where: str) -> Iterator[tuple[int, list[int]]]:
        """(index of the first sample, times in ns) of what can be read at once, up to the shorter array."""
        if len(t) != length:
            self.problems.add("truncated", where, f"{len(t)} times, {length} values")
        for begin in range(0, min(len(t), length), _CHUNK):
            seconds = np.asarray(t[begin : min(begin + _CHUNK, length)], dtype=float)
            if not (np.abs(seconds) <= LONGEST_S).all():
                self.problems.add("bad time", where, "no time in seconds; the rest is skipped")
                return
            yield begin, np.rint(seconds * 1e9).astype(np.int64).tolist()

    def _poses(self, arrays: list[Any]) -> Iterator[SignalRecord]:
        t, *values = arrays
        for begin, times in self._chunks(t, min(map(len, values)), "global_pose"):
            chunk = [np.asarray(v[begin : begin + len(times)], dtype=float) for v in values]
            with np.errstate(all="ignore"):
                rows = _to_local(*chunk).tolist()
            for ns, row in zip(times, rows, strict=True):
                yield SignalRecord(ns, ns, dict(zip(_POSE, row, strict=True)))

    @property
    def units(self) -> Mapping[str, str]:
        """Units of the signals that are there."""
        return {name: unit for units, _ in self._groups for name, unit in units.items()}

    def find_mapping(self) -> LogMapping:
        """Mapping of the signals that the segment has."""
        there = self.units
        return LogMapping(channels={c: m for c, m in MAPPING.channels.items() if m.signal in there})

    def records(self, wanted: Collection[str]) -> Iterator[SignalRecord]:
        """One per sample of a sensor, in order of time, by the clock of the host."""
        streams = [read() for units, read in self._groups if not units.keys().isdisjoint(wanted)]
        return heapq.merge(*streams, key=lambda record: record.t)


def _to_local(places: np.ndarray, velocities: np.ndarray, orientations: np.ndarray) -> np.ndarray:
    """(n, 9) in the order of `_POSE` of places (n, 3) m, velocities (n, 3) m/s, quaternions (n, 4) w x y z, ECEF.

    NaN for values that are not finite, or for a quaternion of zeros.
    """
    lat, lon, alt = pymap3d.ecef2geodetic(*places.T)
    phi, lam = np.radians(lat), np.radians(lon)
    zero = np.zeros_like(phi)
    R_world_ecef = np.moveaxis(
        np.array(
            [
                [-np.sin(lam), np.cos(lam), zero],
                [-np.sin(phi) * np.cos(lam), -np.sin(phi) * np.sin(lam), np.cos(phi)],
                [np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)],
            ]
        ),
        2,
        0,
    )
    east, north, up = np.einsum("nij,nj->in", R_world_ecef, velocities)
    w, x, y, z = (orientations / np.linalg.norm(orientations, axis=1, keepdims=True)).T
    ahead = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)], axis=1)
    right = np.stack([2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)], axis=1)
    ahead, left = np.einsum("nij,nj->ni", R_world_ecef, ahead), -np.einsum("nij,nj->ni", R_world_ecef, right)
    upwards = np.cross(ahead, left)
    roll = np.arctan2(left[:, 2], upwards[:, 2])
    pitch = -np.arcsin(np.clip(ahead[:, 2], -1.0, 1.0))
    yaw = np.arctan2(ahead[:, 1], ahead[:, 0])
    return np.column_stack([lat, lon, alt, north, east, -up, roll, pitch, yaw])
