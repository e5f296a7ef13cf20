"""A car's configuration, its devices exchanged for emulated ones: same drivers, same options otherwise."""

from __future__ import annotations

from pathlib import Path

import yaml

from drivers.registry import load_driver
from replay.emulate import EmulatedDevice, connect_options, emulate
from vehicled.daemon.configuration import DaemonConfiguration
from vehicled.settings import config_path

_LOCAL = "tcp://127.0.0.1:*"
"""A port that is free: a daemon that already runs on this machine is not disturbed."""


def write_configuration(name: str, path: Path, ports: Path, record: Path, gnss_latency: float) -> None:
    """Write the shipped configuration `name` to `path`, with emulated devices.

    Serial devices get their ports in the folder `ports`, which also has the command socket, CAN a virtual bus of
    this process; results go to a free port of this machine and into the folder `record`. `gnss_latency`: of the
    receiver, s. Raises UsageError for a device that cannot be emulated.
    """
    source = config_path(name)
    # As nodes, so that what stays is handed on as it is written, numbers with their units included.
    root = yaml.compose(source.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    assert root is not None
    daemon = _child(root, "daemon")
    for device, entry in _child(daemon, "devices").value:
        options = _child(entry, "options")
        kind = _child(entry, "driver").value
        _set(options, **connect_options(kind, device.value, ports))
        if kind == "nmea":
            _set(options, latency=f"{gnss_latency * 1e3:g} ms")
        elif kind == "can":
            _set(options, dbc=str((source.parent / _child(options, "dbc").value).resolve()))
    _set(_child(daemon, "publish"), endpoint=_LOCAL, command_endpoint=f"ipc://{ports.resolve()}/commands")
    _set(_child(daemon, "record"), directory=str(record.resolve()))
    path.write_text(yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=110), "utf-8")


def emulated_devices(configuration: DaemonConfiguration) -> dict[str, EmulatedDevice]:
    """The other ends of all devices of a configuration from `write_configuration`, by name, plugged in."""
    devices: dict[str, EmulatedDevice] = {}
    for name, device in configuration.daemon.devices.items():
        devices[name] = emulate(device.driver, device.options.to(load_driver(device.driver).Options))
    return devices


def _child(node: yaml.Node, key: str) -> yaml.Node:
    """The value of `key` in a mapping; an empty mapping where there is none."""
    assert isinstance(node, yaml.MappingNode)
    for name, value in node.value:
        if name.value == key:
            present: yaml.Node = value
            return present
    fresh = yaml.MappingNode("tag:yaml.org,2002:map", [], flow_style=False)
    node.value.append((_text(key), fresh))
    return fresh


def _set(node: yaml.Node, **texts: str) -> None:
    assert isinstance(node, yaml.MappingNode)
    node.value = [pair for pair in node.value if pair[0].value not in texts]
    node.value += [(_text(key), _text(text)) for key, text in texts.items()]


def _text(text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode("tag:yaml.org,2002:str", text)
