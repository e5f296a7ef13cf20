"""The configuration of an estimator: the car, its sensors, the filter. What the daemon adds stays unread here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vehicled import settings
from vehicled.filter.settings import Filter, World
from vehicled.settings import Deferred
from vehicled.sources.sensors import Sensors
from vehicled.vehicle.handbook import AnyVehicle
from vehicled.vehicle.parameters import Vehicle


@dataclass(frozen=True, kw_only=True)
class File:
    """What stands in the YAML file."""

    vehicle: AnyVehicle
    sensors: Sensors = field(default_factory=Sensors)
    filter: Filter = field(default_factory=Filter)
    world: World | None = None
    daemon: Deferred | None = None
    """Devices, rate, recording: see `vehicled.daemon.configuration`."""


@dataclass(frozen=True)
class Configuration:
    """A configuration that has been read and checked."""

    vehicle: Vehicle
    """By its hard points, whatever the file gave."""
    sensors: Sensors
    filter: Filter
    world: World | None
    text: str
    """Of the file."""

    def noise_arguments(self) -> dict[str, Any]:
        """Arguments of the estimator's command `reload_noise`: sensors and filter as plain data."""
        return {"sensors": dataclasses.asdict(self.sensors), "filter": dataclasses.asdict(self.filter)}


def load_configuration(name_or_path: str | Path) -> Configuration:
    """The configuration in a file, or the shipped one of that name. Raises SettingsError."""
    path = settings.config_path(name_or_path)
    return configure(settings.load(path, File), path.read_text(encoding="utf-8"))


def parse_configuration(text: str) -> Configuration:
    """A configuration that was recorded. Raises SettingsError."""
    return configure(settings.loads(text, File, "recorded configuration"), text)


def configure(file: File, text: str) -> Configuration:
    """What stands in a file, with the vehicle by its hard points."""
    return Configuration(file.vehicle.to_vehicle(), file.sensors, file.filter, file.world, text)
