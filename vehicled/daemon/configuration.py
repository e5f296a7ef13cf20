"""Whole configuration of a daemon: that of its estimator, and of devices, rate, publishing and recording."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from drivers.ports import find_place_fault
from drivers.registry import load_driver
from vehicled.configuration import Configuration, configure, to_file
from vehicled.daemon.daemon import DaemonOptions, DeviceOptions, check_ports, make_driver
from vehicled.daemon.written_files import check_learned, check_record
from vehicled.reading import settings
from vehicled.reading.mistakes import Mistakes
from vehicled.reading.settings import Deferred

Configured = TypeVar("Configured")


@dataclass(frozen=True)
class DaemonConfiguration(Configuration):
    """A configuration with its section `daemon`."""

    daemon: DaemonOptions

    def find_signals(self) -> frozenset[str]:
        """The channels that its CAN devices send. Raises SettingsError."""
        devices = [d for d in self.daemon.devices.values() if d.driver == "can"]
        return frozenset(c for d in devices for c in d.options.to(load_driver(d.driver).Options).signals)

    def find_unused(self, name: str) -> str | None:
        """Describe, in a line, what a replay by this configuration, `name`, does not use; None if nothing."""
        if self.daemon.learned is None:
            return None
        return (
            f"{name}: daemon.learned: neither read nor written by a replay, which begins with what the log has: "
            "nothing, or in a recording of the daemon what that run began with"
        )


def load_daemon_configuration(name_or_path: str | Path) -> DaemonConfiguration:
    """The configuration in a file, or the shipped one of that name. Raises SettingsError."""
    return _configure(*_read(name_or_path))


def load_configuration_to_run(name_or_path: str | Path) -> DaemonConfiguration:
    """As `load_daemon_configuration`, for a daemon that writes files: none may be one that it reads."""
    document, text = _read(name_or_path)
    configuration = _configure(document, text)
    check_learned(document, settings.config_path(name_or_path))
    return configuration


def check_daemon_configuration(name_or_path: str | Path) -> DaemonConfiguration:
    """As `load_daemon_configuration`, with the options of every device read by its driver, which opens nothing.

    Raises SettingsError with the mistakes of all of them.
    """
    document, text = _read(name_or_path)
    path = settings.config_path(name_or_path)
    return check_with_devices(document, path, lambda: _configure(document, text))


def check_with_devices(document: Deferred, path: Path, configure: Callable[[], Configured]) -> Configured:
    """Make a configuration by `configure`, with every device's options read by its driver.

    `path`: of its file. Nothing is opened. Raises SettingsError with all mistakes, including those in the
    places of files that will be written.
    """
    mistakes = Mistakes()
    with mistakes.part():
        configuration = configure()
    _check_devices(document, mistakes)
    with mistakes.part():
        check_learned(document, path)
    with mistakes.part():
        check_record(document)
    mistakes.raise_any()
    return configuration


def _check_devices(document: Deferred, mistakes: Mistakes) -> None:
    """Read the options of every device by its driver, which opens nothing; adds their mistakes to `mistakes`."""
    devices: dict[str, DeviceOptions] = {}
    drivers = []
    # Read from the document, as there is no configuration if any part of it has a mistake.
    for name, part in document.parts("daemon", "devices").items():
        with mistakes.part():
            devices[name] = part.to(DeviceOptions)
            driver = make_driver(name, devices[name], lambda _: None)
            drivers.append(driver)
            # Checked only here: a running daemon keeps trying, as with a device that is not there.
            if driver.port is not None and (fault := find_place_fault(driver.port)) is not None:
                devices[name].options.fail(fault)
    with mistakes.part():
        check_ports(devices, drivers)


def _read(name_or_path: str | Path) -> tuple[Deferred, str]:
    path = settings.config_path(name_or_path)
    text = settings.read(path)
    return settings.document(text, str(path), path.parent), text


def _configure(document: Deferred, text: str) -> DaemonConfiguration:
    mistakes = Mistakes()
    daemon = DaemonOptions(devices={})
    with mistakes.part():
        c = configure(to_file(document), text)
    with mistakes.part():
        if (section := document.parts().get("daemon")) is not None:
            daemon = section.to(DaemonOptions)
    mistakes.raise_any()
    return DaemonConfiguration(
        c.vehicle, c.sensors, c.filter, c.world, c.point, c.points, c.loads, c.text, daemon
    )
