"""Every quantity of a configuration takes its units: all fields of vehicles, sensors, filter, daemon and drivers."""

import types
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, make_dataclass
from importlib.metadata import entry_points
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import pytest

from drivers.can import CanOptions
from drivers.nmea import NmeaOptions
from drivers.ubx import UbxOptions
from drivers.vectornav import VectorNavOptions
from drivers.xsens import XsensOptions
from vehicled.configuration import File
from vehicled.daemon.daemon import DaemonOptions
from vehicled.errors import SettingsError
from vehicled.filter.settings import Filter
from vehicled.reading.expectations import find_metadata, find_unit_choice, numbers_of, type_hints
from vehicled.reading.settings import loads
from vehicled.simulation.scenario import Scenario
from vehicled.sources.sensors import Sensors
from vehicled.units import Range, Unit, UnitBy, parse_unit

SECTIONS = {
    "": File,
    "daemon": DaemonOptions,
    "can": CanOptions,
    "nmea": NmeaOptions,
    "ubx": UbxOptions,
    "vectornav": VectorNavOptions,
    "xsens": XsensOptions,
    "scenario": Scenario,
}


PLAIN_FIELDS = {
    *(
        "bitrate",
        "baud",
        "cpu",
        "edges",
        "high_water_mark",
        "persistent",
        "quality",
        "realtime_priority",
        "roll_over",
        "seed",
        "version",
    ),
    *("pulses_per_revolution", "weigh_beyond", "reject_beyond", "file_size_mb", "keep_free"),
    *("locking", "torque_split", "final_drive"),
    *(
        "bank",
        "damping_ratio",
        "friction",
        "gain",
        "rolling_resistance",
        "scale",
        "crossfall",
        "slope",
        "sm",
        "ss",
    ),
    *(
        "slip_stiffness_ratio",
        "steering_ratio",
        "trail",
        "trail_zero",
        "trail_end",
        "rolling_share",
        "dropout",
        "wander",
    ),
    *(
        "cornering_stiffness",
        "rolling_radius",
        "mass",
        "inertia",
        "tyre_stiffness",
        "springs",
        "gravity",
        "offset",
    ),
}
"""Counts, ratios, and relative errors of quantities that have a unit elsewhere."""

SPELLINGS = {
    "m": ("mm", "cm", "m", "km"),
    "m²": ("cm²", "m^2"),
    "rad": ("deg", "°", "mrad", "rad"),
    "s": ("ms", "µs", "s", "min", "h"),
    "Hz": ("Hz", "kHz", "1/s"),
    "kg": ("kg", "t"),
    "kg·m²": ("kg·m²", "t m²", "kg cm²"),
    "m/s": ("km/h", "m/s", "mm/s"),
    "m/s²": ("m/s²", "g", "mg", "m/s^2"),
    "rad/s": ("deg/s", "rad/s", "rpm", "°/h"),
    "rad/s²": ("deg/s²", "rad/s²"),
    "N": ("N", "kN"),
    "N/m": ("N/mm", "kN/m", "N/m"),
    "N·s/m": ("kN·s/m", "N·s/mm", "N s/m"),
    "N/rad": ("kN/rad", "N/deg"),
    "N·m": ("N·m", "kN m", "Nm"),
    "N·m/rad": ("kN·m/rad", "N·m/deg", "Nm/deg"),
    "N·m·s/rad": ("N·m·s/rad", "Nm s/deg"),
    "N·m/Pa": ("N·m/bar", "Nm/MPa"),
    "Pa": ("bar", "MPa", "kPa", "mbar", "Pa"),
    "m/rad": ("mm/rad", "mm/deg", "mm/rev"),
    "m/√s": ("m/√s", "mm/sqrt(s)"),
    "rad/√s": ("deg/√s", "deg/√h"),
    "rad/s/√s": ("deg/s/√s", "deg/h/√h"),
    "m/s²/√s": ("mg/√s", "m/s²/√s"),
    "m/s²/√Hz": ("µg/√Hz", "mg/√Hz", "m/s²/√Hz"),
    "rad/s²/√Hz": ("deg/s²/√Hz", "rad/s²/√Hz"),
    "1/s/√Hz": ("1/s/√Hz", "1/min/√Hz"),
    "1/s²/√Hz": ("1/s²/√Hz", "1/min²/√Hz"),
}
"""Units in which people write a quantity, by its SI unit."""
BY_DIMENSION = {parse_unit(symbol)[1]: units for symbol, units in SPELLINGS.items()}


class Number(NamedTuple):
    """A field of the configuration that holds a number, or several in one unit."""

    path: str
    kind: Any
    metadata: tuple[Any, ...]

    @property
    def unit(self) -> Unit:
        return find_metadata(self.metadata, Unit) or Unit("1", plain=True)

    @property
    def count(self) -> int:
        """Count of numbers in the field."""
        return len([a for a in get_args(self.kind) if a is not Ellipsis]) or 1

    @property
    def value(self) -> float:
        """An allowed value, SI."""
        bounds = find_metadata(self.metadata, Range)
        return next(v for v in (0.05, 0.5, 1.5, 40.0, 1e3, 40e3, 1e-3) if bounds is None or v in bounds)

    def read(self, text: str) -> Any:
        """Value that the settings reader gives for `text` in this field."""
        resolved = [m for m in self.metadata if not isinstance(m, UnitBy)]
        hint = Annotated[self.kind, *resolved] if resolved else self.kind
        probe = make_dataclass("Probe", [("value", hint)], frozen=True)
        return loads(f"value: {text}", probe).value


def find_numbers(kind: Any, metadata: tuple[Any, ...], path: str) -> Iterator[Number]:
    """All numbers below a type, as the settings' reader finds them."""
    if get_origin(kind) is Annotated:
        yield from find_numbers(kind.__origin__, kind.__metadata__ + metadata, path)
    elif get_origin(kind) in (list, tuple) and (own := numbers_of(kind, metadata)) is not None:
        yield Number(path, kind, own)
    elif get_origin(kind) in (Union, types.UnionType, list, tuple, dict):
        for argument in get_args(kind):
            yield from find_numbers(argument, metadata, path)
    elif is_dataclass(kind):
        hints = type_hints(kind)
        for name in (f.name for f in fields(kind)):
            choice = find_unit_choice(hints[name])
            for chosen in [()] if choice is None else [(unit,) for unit in choice.units.values()]:
                yield from find_numbers(hints[name], (*chosen, *metadata), f"{path}.{name}".lstrip("."))
    elif kind in (int, float):
        yield Number(path, kind, metadata)


NUMBERS = list(
    dict.fromkeys(n for name, section in SECTIONS.items() for n in find_numbers(section, (), name))
)
RATIO = parse_unit("1")[1]
QUANTITIES = [n for n in NUMBERS if n.unit.dimension != RATIO]


def test_all_drivers_and_sections_are_covered() -> None:
    drivers = {point.name for point in entry_points(group="vehicled.drivers")}
    assert {"xsens", "vectornav", "ubx", "nmea", "can"} <= drivers <= SECTIONS.keys()
    assert len(QUANTITIES) > 150
    sections = {n.path.split(".")[0] for n in QUANTITIES}
    assert sections >= {"vehicle", "sensors", "filter", "world", "daemon", "scenario", *drivers}


def test_only_counts_and_ratios_have_no_unit() -> None:
    """A new field that is a physical quantity needs its unit."""
    without = {n.path for n in NUMBERS if n.unit.dimension == RATIO}
    assert {path for path in without if path.split(".")[-1] not in PLAIN_FIELDS} == set()


@pytest.mark.parametrize("number", QUANTITIES, ids=lambda n: f"{n.path}-{n.unit.symbol}")
def test_a_quantity_takes_its_units_and_no_others(number: Number) -> None:
    for unit in BY_DIMENSION[number.unit.dimension]:
        text = f"{number.value / parse_unit(unit)[0]!r} {unit}"
        if number.count == 1:
            assert number.read(text) == pytest.approx(number.value)
        else:
            several = f"{text.split()[0]} " * (number.count - 1) + text
            for form in (several, f"[{', '.join([text] * number.count)}]"):
                assert number.read(form) == pytest.approx((number.value,) * number.count)
    wrong = "kg" if number.unit.dimension != parse_unit("kg")[1] else "m"
    for text in (f"1 {wrong}", "1 furlong") if number.unit.plain else ("1", f"1 {wrong}", "1 furlong"):
        with pytest.raises(SettingsError, match=r"^<text>:1: value: expected [^\n]*got [^\n]*$"):
            number.read(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "imu: {rotation: 180 0 0 rad}",
            "imu.rotation: expected at least -360 deg and at most 360 deg, got '180 0 0",
        ),
        (
            "velocity: {angle: 90 rad}",
            "velocity.angle: expected at least -360 deg and at most 360 deg, got '90 rad'",
        ),
        (
            "imu: {gyroscopes: {gate: {weigh_beyond: 12}}}",
            "imu.gyroscopes.gate.weigh_beyond: expected at most reject_beyond, 10, got 12",
        ),
    ],
)
def test_impossible_settings_of_sensors_are_refused(text, message):
    with pytest.raises(SettingsError) as refused:
        loads(text, Sensors)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["memory: 100 s", "start: {yaw: 90 rad}"])
def test_filter_settings_with_numbers_in_another_unit_are_refused(text):
    with pytest.raises(SettingsError, match="at most"):
        loads(text, Filter)


def test_an_imu_may_be_turned_by_any_angle():
    rotation = loads("imu: {rotation: 360 -360 3.14159 deg}", Sensors).imu.rotation
    assert rotation == pytest.approx((6.28319, -6.28319, 0.0548311))
