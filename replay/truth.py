"""Converts measurements of a reference (channels `reference.*`) to a table of truth for scores."""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Self

import numpy as np

from replay.rows import RowMerger, TableRow
from replay.times import format_seconds
from vehicled.maths.angles import wrap
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import CHANNELS, Measurement
from vehicled.points import rotations
from vehicled.terminal.output_files import open_text_output

REFERENCE = tuple(channel for channel in CHANNELS if channel.startswith("reference."))
"""Channels from which truth is made."""

_PLACE, _WORLD = ("lat", "lon", "alt"), ("x", "y", "z")
_ATTITUDE = ("roll", "pitch", "yaw")
_OVER_GROUND, _OF_VEHICLE = ("vn", "ve", "vd"), ("vx", "vy", "vz")
_COLUMNS = (*_WORLD, *_PLACE, *_ATTITUDE, *_OF_VEHICLE, "wx", "wy", "wz", "sideslip")


def find_truth_columns(channels: Collection[str]) -> list[str]:
    """The columns of truth that follow from channels."""
    given = {channel.removeprefix("reference.") for channel in channels if channel in REFERENCE}
    if {"lat", "lon"} <= given:
        given |= {"x", "y"} | ({"z"} if "alt" in given else set())
    if {"vn", "ve", "yaw"} <= given:
        given |= {"vx", "vy"} | ({"vz"} if "vd" in given else set())
    if {"vx", "vy"} <= given:
        given.add("sideslip")
    return [column for column in _COLUMNS if column in given]


class TruthWriter:
    """Writes a reference as CSV, a row per instant. A context manager.

    x, y, z are relative to an origin: the given one, or the reference's first position. Velocity over ground
    is rotated to vehicle axes with the attitude of the same time; missing roll and pitch count as zero.
    """

    def __init__(self, path: str | Path, channels: Collection[str], origin: WorldOrigin | None) -> None:
        """`channels` that will come; only those of references count."""
        self.rows = 0
        self.origin = origin
        self._merger = RowMerger(channels)
        self._columns = find_truth_columns(channels)
        self._file = open_text_output(path)
        self._file.write(",".join(["t", *self._columns]) + "\n")

    def write(self, m: Measurement) -> None:
        """Take a measurement; channels other than a reference's are ignored. Raises OSError."""
        values = {channel: value for channel, value in m.values.items() if channel in REFERENCE}
        if values:
            self._write(self._merger.take(Measurement(m.source, m.t, m.t, values)))

    def _write(self, rows: Iterable[TableRow]) -> None:
        for row in rows:
            cells = self._calc_columns({c.removeprefix("reference."): v for c, v in row.values.items()})
            line = [repr(cells[c]) if c in cells else "" for c in self._columns]
            self._file.write(",".join([format_seconds(row.t), *line]) + "\n")
            self.rows += 1

    def _calc_columns(self, given: Mapping[str, float]) -> dict[str, float]:
        found = {c: given[c] for c in self._columns if c in given}
        if "yaw" in found:
            found["yaw"] = float(wrap(found["yaw"]))
        if {"lat", "lon"} <= given.keys():
            lat, lon = given["lat"], given["lon"]
            if self.origin is None:
                self.origin = WorldOrigin(lat, lon, given.get("alt", 0.0))
            if "yaw" in found:  # references give it from north at their own position
                found["yaw"] = float(wrap(given["yaw"] - self.origin.find_north(lat, lon)))
            place = self.origin.to_world(lat, lon, given.get("alt", self.origin.height)).tolist()
            found |= dict(zip(_WORLD if "alt" in given else _WORLD[:2], place, strict=False))
        if {"vn", "ve", "yaw"} <= given.keys():
            attitude = (np.array([given.get(c, 0.0)]) for c in _ATTITUDE)
            R_world_vehicle = rotations(*attitude)[0]
            north, east, down = (given.get(c, 0.0) for c in _OVER_GROUND)
            velocity = (R_world_vehicle.T @ (east, north, -down)).tolist()
            names = _OF_VEHICLE if "vd" in given else _OF_VEHICLE[:2]
            found = dict(zip(names, velocity, strict=False)) | found
        if {"vx", "vy"} <= found.keys():
            found.setdefault("sideslip", float(np.arctan2(found["vy"], found["vx"])))
        return found

    def close(self) -> None:
        """Write what is still held, and close the file."""
        self._write(self._merger.finish())
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
