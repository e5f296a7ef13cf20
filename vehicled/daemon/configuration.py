"""The whole configuration of a daemon: that of its estimator, and devices, rate, publishing and recording."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drivers.registry import load_driver
from vehicled import settings
from vehicled.configuration import Configuration, File, configure
from vehicled.daemon.daemon import DaemonOptions


@dataclass(frozen=True)
class DaemonConfiguration(Configuration):
    """A configuration with its section `daemon`."""

    daemon: DaemonOptions

    def find_signals(self) -> frozenset[str]:
        """The channels that its CAN devices send. Raises SettingsError."""
        devices = [d for d in self.daemon.devices.values() if d.driver == "can"]
        return frozenset(c for d in devices for c in d.options.to(load_driver(d.driver).Options).signals)


def load_daemon_configuration(name_or_path: str | Path) -> DaemonConfiguration:
    """The configuration in a file, or the shipped one of that name. Raises SettingsError."""
    path = settings.config_path(name_or_path)
    text = settings.read(path)
    file = settings.loads(text, File, str(path), path.parent)
    c = configure(file, text)
    daemon = DaemonOptions(devices={}) if file.daemon is None else file.daemon.to(DaemonOptions)
    return DaemonConfiguration(
        c.vehicle, c.sensors, c.filter, c.world, c.point, c.points, c.loads, c.text, daemon
    )
