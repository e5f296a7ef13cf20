"""The text of a first configuration: every value with its unit and its origin."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from drivers.can import CanSignal
from drivers.receiver import ReceiverOptions
from drivers.registry import load_driver
from vehicled.setup.answers import DeviceAnswer
from vehicled.setup.questions import SENSORS, VEHICLE
from vehicled.setup.tyre_size import read_tyre
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.imu.imu import Imu
from vehicled.units import parse_unit
from vehicled.vehicle.model import AIR_DENSITY

_COMMENT_AT = 42
_SPEED = 100.0 / 3.6
"""m/s, at which downforce is asked for."""
_QUESTIONS = {q.key: q for q in (*VEHICLE, *SENSORS)}

_HEAD = """\
# {title}: a car by its handbook figures, as `vehicled new` has asked for them. Replace what is only typical of cars
# where you know better, then: vehicled check {name}. All keys: config/prototype.yaml and docs/configuration.md.
"""
_NO_DEVICES = """\
  devices: {}
  # There is none yet. Such as, without the line above:
  # devices:
  #   imu: {driver: xsens, options: {port: /dev/serial/by-id/…, baud: 921600}}
  #   gnss: {driver: ubx, options: {port: /dev/serial/by-id/…}}"""


@dataclass(frozen=True)
class Draft:
    """All answers at the end of the questions."""

    known: Mapping[str, Any]
    """Answers by question, SI units."""
    given: frozenset[str]
    """Questions that were answered, without those left at their defaults."""
    devices: Mapping[str, DeviceAnswer] = field(default_factory=dict)
    signals: Mapping[str, CanSignal] = field(default_factory=dict)


def format_value(value: Any, unit: str) -> str:
    """A value in SI units as in a configuration: `1400 kg`, `-1.2 0 0.35 m`, `front`."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        value = (value,)
    if not isinstance(value, tuple):
        return str(value)
    factor = parse_unit(unit)[0] if unit else 1.0
    numbers = " ".join(f"{number / factor:.6g}" for number in value)
    return f"{numbers} {unit}".rstrip()


def make_text(draft: Draft, path: Path) -> str:
    """The configuration to be written to `path`."""
    head = _HEAD.format(title=path.stem, name=quote(path.name))
    lines = (*_vehicle(draft), "", *_sensors(draft), "", *_daemon(draft, path))
    return head + "\n".join(line.rstrip() for line in lines) + "\n"


def make_vehicle_text(draft: Draft) -> str:
    """The section of the car by itself."""
    return "\n".join(_vehicle(draft))


def _line(indent: int, text: str, comment: str = "") -> str:
    line = " " * indent + text
    return f"{line:<{_COMMENT_AT - 2}}  # {comment}" if comment else line


def _source(draft: Draft, *keys: str) -> str:
    if draft.given.issuperset(keys):
        return "given"
    why = _QUESTIONS[keys[0]].why
    return f"typical: {why}" if why else "typical"


def _asked(draft: Draft, indent: int, name: str, key: str) -> str:
    value = format_value(draft.known[key], _QUESTIONS[key].unit)
    return _line(indent, f"{name}: {value}", _source(draft, key))


def _vehicle(draft: Draft) -> Iterator[str]:
    known = draft.known
    arm = (1.0 - known["front_share"]) * known["wheelbase"]
    share = f"{100 * known['front_share']:.3g} % of the mass on the front axle"
    yield "vehicle:"
    yield "  kind: handbook"
    yield _asked(draft, 2, "mass", "mass")
    yield _asked(draft, 2, "wheelbase", "wheelbase")
    yield _line(2, f"front_to_center_of_mass: {arm:.4g} m", f"{_source(draft, 'front_share')}; {share}")
    yield _asked(draft, 2, "center_of_mass_height", "center_of_mass_height")
    yield _asked(draft, 2, "driven", "driven")
    if known["steering"] == "bicycle":
        yield _line(2, "steering_ratio: 1", "as steer.wheel has the angle of the road wheels")
    else:
        yield _asked(draft, 2, "steering_ratio", "steering_ratio")
    for axle in ("front", "rear"):
        yield f"  {axle}:"
        yield _asked(draft, 4, "track", f"{axle}_track")
        tyre = read_tyre(known[f"{axle}_tyre"])
        comment = f"{_source(draft, f'{axle}_tyre')}; {tyre.description}"
        yield _line(4, f"wheel_radius: {tyre.radius:.4g} m", comment)
        for name in ("ride_frequency", "roll_stiffness", "cornering_stiffness"):
            yield _asked(draft, 4, name, f"{axle}_{name}")
        yield _asked(draft, 4, "friction", "friction")
        if known["driven"] in (axle, "all"):
            yield _asked(draft, 4, "differential", "differential")
    yield "  aerodynamics:"
    yield _asked(draft, 4, "drag_area", "drag_area")
    for axle in ("front", "rear"):
        key = f"{axle}_downforce"
        if force := known[key]:
            area = format_value(-force / (0.5 * AIR_DENSITY * _SPEED**2), "m²")
            yield _line(4, f"{axle}_lift_area: {area}", f"given; {force:g} N of downforce at 100 km/h")


def _sensors(draft: Draft) -> Iterator[str]:
    known = draft.known
    yield "# Places in vehicle axes (x forward, y left, z up) from the centre of mass of the car at rest. In"
    yield "# comments from the ground below the middle of the front axle, where they can be measured."
    yield "sensors:"
    if known["imu"]:
        yield "  imu:"
        yield _place(draft, "position", "imu_position")
        yield _asked(draft, 4, "rotation", "imu_rotation")
        sigma = math.degrees(Imu().rotation_sigma)
        yield _default(f"rotation_sigma: {sigma:.2g} deg", "1 σ of how well that is known; by eye 2 deg")
    else:
        yield "  imu: null"
    if known["gnss"]:
        yield "  gnss:"
        yield _place(draft, "antenna", "gnss_antenna")
        gnss = Gnss()
        if any(issubclass(load_driver(d.driver).Options, ReceiverOptions) for d in draft.devices.values()):
            meaning = f"beside the {ReceiverOptions.latency:g} s that its driver takes off"
        else:
            meaning = "where fixes come with their time of arrival: 0.05 s to 0.2 s"
        yield _default(f"latency: {gnss.latency:g} s", meaning)
        yield _default(f"latency_sigma: {gnss.latency_sigma:g} s", "1 σ of how well that is known")
    else:
        yield "  gnss: null"
    wheels = known["wheels"]
    for name, kind, noise in (
        ("wheel_angles", "angles", "{}"),
        ("wheel_speeds", "speeds", "{noise: 0.1 rad/s}"),
    ):
        if wheels == kind:
            yield _line(2, f"{name}: {noise}", _source(draft, "wheels"))
        else:
            yield f"  {name}: null"
    source, comment = known["steering"], _source(draft, "steering")
    if source == "bicycle":
        source, comment = "wheel", f"{comment}; steer.wheel: one angle of the road wheels"
    yield _line(2, f"steering: {{source: {source}}}", comment)
    if "vehicle.wz" in draft.signals:
        yield _line(2, "yaw_rate: {}", "vehicle.wz on the bus; the gyroscopes and it watch each other")


def _default(text: str, comment: str) -> str:
    """A key of a sensor without a question, to be edited."""
    return _line(4, f"# {text}", f"default; {comment}")


def _place(draft: Draft, name: str, key: str) -> str:
    known = draft.known
    x, y, z = known[key]
    origin_x = -(1.0 - known["front_share"]) * known["wheelbase"]
    place = (x - origin_x, y, z - known["center_of_mass_height"])
    text = " ".join(f"{number:.3f}" for number in place)
    return _line(
        4, f"{name}: {text} m", f"{_source(draft, key)}; from the front axle {format_value((x, y, z), 'm')}"
    )


def _daemon(draft: Draft, path: Path) -> Iterator[str]:
    known = draft.known
    yield "daemon:"
    if not draft.devices and not draft.signals:
        yield from _NO_DEVICES.splitlines()
    else:
        yield "  devices:"
    for name, device in draft.devices.items():
        baud = "" if device.baud is None else f", baud: {device.baud}"
        yield f"    {name}: {{driver: {device.driver}, options: {{port: {_quote(device.port)}{baud}}}}}"
    if draft.signals:
        channel = known["can_channel"]
        serial = "/" in channel
        yield "    can:"
        yield "      driver: can"
        yield "      options:"
        yield f"        interface: {'slcan' if serial else 'socketcan'}"
        yield f"        channel: {_quote(channel)}"
        if serial:
            yield _line(8, "bitrate: 500000", "typical of a car's bus")
        yield f"        dbc: {_quote(_relative(known['dbc'], path))}"
        yield "        signals:"
        for name, signal in draft.signals.items():
            radius = "" if signal.radius is None else f", radius: {signal.radius:.4g} m"
            yield f"          {name}: {{message: {_quote(signal.message)}, signal: {_quote(signal.signal)}{radius}}}"
    if known["record"] is not None:
        yield f"  record: {{directory: {_quote(str(known['record']))}}}"
    else:
        yield "  # record: {directory: /var/lib/vehicled}    # default: nothing is recorded"


def _relative(file: Path, path: Path) -> str:
    """A path relative to the configuration's folder, if it is in it."""
    folder, target = os.path.abspath(path.parent), os.path.abspath(file)
    return os.path.relpath(target, folder) if os.path.commonpath((folder, target)) == folder else target


def _quote(text: str) -> str:
    plain = text.replace("/", "").replace("-", "").replace("_", "").replace(".", "")
    return text if plain.isalnum() and not text[0].isdigit() else json.dumps(text, ensure_ascii=False)
