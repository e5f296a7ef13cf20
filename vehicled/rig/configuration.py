"""A car's configuration, its devices exchanged for emulated ones: same drivers, same options otherwise."""

from __future__ import annotations

from pathlib import Path

import yaml

from drivers.registry import load_driver
from replay.emulate import connect_options
from replay.emulator import DevicePlan
from vehicled.daemon.configuration import DaemonConfiguration, load_daemon_configuration
from vehicled.reading.settings import config_path

_OF_THE_CAR = ("curve_secret_key_file", "allowed_clients", "insecure_public_bind")
"""Keys of `publish` that decide who may connect from outside."""
_NULL = "tag:yaml.org,2002:null"
_LINE_LATENCY = "0.2 ms"
"""Least time from when a frame is due to when its driver has it, through a pseudo-terminal. Other devices have clocks
that their drivers follow, or latencies beside which this is nothing."""


def write_configuration(
    name: str | Path, path: Path, ports: Path, record: Path, gnss_latency: float | None = None
) -> None:
    """Write the configuration `name`, a file or a shipped one, to `path`, with emulated devices.

    Serial devices, a CAN adapter and the daemon's two sockets get their places in the folder `ports`; recordings go
    into the folder `record`; what is learned is not kept, and receivers have no corrections. `gnss_latency`: of the
    receiver, s; None: as it is written.

    Raises UsageError for a configuration with mistakes, and for a device that cannot be emulated.
    """
    # First, so that mistakes are reported in this file and not in the one that is written.
    load_daemon_configuration(name)
    source = config_path(name)
    # As nodes, so that what stays is handed on as it is written, numbers with their units included.
    root = yaml.compose(source.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    assert root is not None
    daemon = _child(root, "daemon")
    for device, entry in _child(daemon, "devices").value:
        _remove(entry, "corrections")  # a caster is no part of the rig
        options = _child(entry, "options")
        kind = _child(entry, "driver").value
        _set(options, **connect_options(kind, device.value, ports))
        if kind in ("nmea", "ubx") and gnss_latency is not None:
            _set(options, latency=f"{gnss_latency * 1e3:g} ms")
        elif kind == "can":
            dbc = str((source.parent / _child(options, "dbc").value).resolve())
            _set(options, dbc=dbc, latency=_LINE_LATENCY)
    publish = _child(daemon, "publish")
    _remove(publish, *_OF_THE_CAR)
    _set(publish, endpoint=f"ipc://{ports}/results", command_endpoint=f"ipc://{ports}/commands")
    _remove(daemon, "learned")
    _set(_child(daemon, "record"), directory=str(record.resolve()))
    path.write_text(yaml.serialize(root, Dumper=yaml.SafeDumper, allow_unicode=True, width=110), "utf-8")


def plan_devices(configuration: DaemonConfiguration) -> dict[str, DevicePlan]:
    """What an `Emulator` has to emulate for a configuration from `write_configuration`, by name."""
    devices = configuration.daemon.devices.items()
    return {name: (d.driver, d.options.to(load_driver(d.driver).Options)) for name, d in devices}


def _child(node: yaml.Node, key: str) -> yaml.Node:
    """The value of `key` in a mapping; an empty mapping where there is none, or null."""
    assert isinstance(node, yaml.MappingNode)
    for name, value in node.value:
        if name.value == key and value.tag != _NULL:
            assert isinstance(value, yaml.Node)
            return value
    _remove(node, key)
    fresh = yaml.MappingNode("tag:yaml.org,2002:map", [])
    node.value.append((_text(key), fresh))
    return fresh


def _remove(node: yaml.Node, *keys: str) -> None:
    assert isinstance(node, yaml.MappingNode)
    node.value = [pair for pair in node.value if pair[0].value not in keys]


def _set(node: yaml.Node, **texts: str) -> None:
    assert isinstance(node, yaml.MappingNode)
    _remove(node, *texts)
    node.value += [(_text(key), _text(text)) for key, text in texts.items()]


def _text(text: str) -> yaml.ScalarNode:
    return yaml.ScalarNode("tag:yaml.org,2002:str", text)
