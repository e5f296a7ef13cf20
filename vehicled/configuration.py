"""The configuration of an estimator: the car, its sensors, the filter.

The daemon's own sections are not read here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vehicled.filter.settings import Filter, World
from vehicled.reading import settings
from vehicled.reading.settings import Deferred
from vehicled.sources.output import Output, PointName, locate
from vehicled.sources.sensors import Sensors
from vehicled.units import Vector
from vehicled.vehicle.handbook import AnyVehicle
from vehicled.vehicle.parameters import Vehicle

_AT = {"imu": "imu", "gnss": "antenna"}
"""For each sensor, the name of its place."""

_OTHERS = {"space": "describes a mechanism", "particles": "is for `vehicled particles`"}
"""Keys of other kinds of files, and a description of these."""


@dataclass(frozen=True, kw_only=True)
class File:
    """Contents of the YAML file."""

    vehicle: AnyVehicle
    sensors: Sensors = field(default_factory=Sensors)
    filter: Filter = field(default_factory=Filter)
    world: World | None = None
    output: Output = field(default_factory=Output)
    daemon: Deferred | None = None
    """Devices, rate, recording: see `vehicled.daemon.configuration`."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, fault) for points of the output at a sensor that is not configured."""
        points = {"point": self.output.point} | {f"points.{n}": p for n, p in self.output.points.items()}
        for key, point in points.items():
            for name, place in _AT.items():
                if point == place and getattr(self.sensors, name) is None:
                    yield f"output.{key}", f"expected sensors.{name}, whose place it is, got null there"


@dataclass(frozen=True)
class Configuration:
    """A configuration that was read and checked."""

    vehicle: Vehicle
    """The vehicle by its hard points, in whatever form the file gives it."""
    sensors: Sensors
    filter: Filter
    world: World | None
    point: Vector
    """Point of position, velocity, sideslip and acceleration in estimates: m, vehicle axes."""
    points: Mapping[str, Vector] = field(hash=False)
    """Further points by name, for which the same quantities are given."""
    loads: bool
    """Whether estimates include the forces in the joints of the suspensions."""
    text: str
    """Text of the file."""

    def locate(self, point: PointName | Vector) -> Vector | None:
        """Place of a point of this car, m in vehicle axes; None if its sensor is not configured."""
        return locate(point, self.vehicle, self.sensors)

    def noise_arguments(self) -> dict[str, Any]:
        """Arguments of the estimator's command `reload_noise`: sensors and filter as plain data."""
        return {"sensors": dataclasses.asdict(self.sensors), "filter": dataclasses.asdict(self.filter)}


def load_configuration(name_or_path: str | Path) -> Configuration:
    """The configuration in a file, or the shipped one of that name. Raises SettingsError."""
    path = settings.config_path(name_or_path)
    text = settings.read(path)
    return configure(to_file(settings.document(text, str(path), path.parent)), text)


def parse_configuration(text: str) -> Configuration:
    """A recorded configuration. Raises SettingsError."""
    return configure(settings.loads(text, File, "recorded configuration"), text)


def to_file(document: Deferred) -> File:
    """Contents of a document. Raises SettingsError, in one line for a file of another kind."""
    keys = document.parts()
    if "vehicle" not in keys:
        for key, kind in _OTHERS.items():
            if key in keys:
                keys[key].fail(f"expected the configuration of a car; this file {kind}")
    return document.to(File)


def configure(file: File, text: str) -> Configuration:
    """Configuration from the contents of a file, with the vehicle by its hard points."""
    vehicle = file.vehicle.to_vehicle()
    point, *others = (
        locate(point, vehicle, file.sensors) for point in (file.output.point, *file.output.points.values())
    )
    assert point is not None  # see `File.check`
    points = {
        name: place for name, place in zip(file.output.points, others, strict=True) if place is not None
    }
    loads = file.output.loads
    return Configuration(vehicle, file.sensors, file.filter, file.world, point, points, loads, text)
