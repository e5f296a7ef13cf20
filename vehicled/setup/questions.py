"""The questions, in order, with typical values if the answer is unknown."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drivers.can import load_dbc
from vehicled.units import parse_unit

Known = Mapping[str, Any]
"""Answers so far, including defaults: SI units, radians."""

_GRAVITY = 9.81


@dataclass(frozen=True)
class Question:
    """One question. Its key is a field of `Answers`, which has its type and its bounds."""

    key: str
    text: str
    default: Callable[[Known], Any]
    """In SI units; None if the question may be left unanswered."""
    why: str = ""
    """Origin of the default."""
    unit: str = ""
    """Unit of question and answer."""
    applies: Callable[[Known], bool] = lambda _: True
    check: Callable[[Any], object] = lambda _: None
    """Raises UsageError for wrong answers that pass the checks of type and bounds."""


def _always(value: Any) -> Callable[[Known], Any]:
    return lambda _: value


def _same(key: str) -> Callable[[Known], Any]:
    return lambda known: known[key]


def _axle_load(known: Known, axle: str) -> float:
    """Load on an axle, N."""
    share = known["front_share"] if axle == "front" else 1.0 - known["front_share"]
    return float(known["mass"] * _GRAVITY * share)


def _cornering_stiffness(known: Known, axle: str, per_load: float) -> float:
    """N/rad of a tyre with its largest force at the same slip for any friction above 1; unchanged on wet roads."""
    stiffness = per_load * _axle_load(known, axle) * max(float(known["friction"]), 1.0)
    return round(stiffness, -3)


_BESIDE_TRACK = 0.25
"""m: difference between the width of a car without mirrors and its track: width of a tyre, and bodywork."""
_FILLED = 0.82
"""Frontal area over height times width: 0.79 to 0.84 (Wong, Theory of Ground Vehicles)."""
_DRAG_COEFFICIENTS = ((1.6, 0.30), (1.9, 0.35), (math.inf, 0.40))
"""Drag coefficient up to a height in m: of cars, of higher cars such as SUVs, and of vans."""


def calc_drag_area(track: float, height: float) -> float:
    """Typical drag coefficient times frontal area, m², from track and height, m."""
    coefficient = next(c for most, c in _DRAG_COEFFICIENTS if height <= most)
    return round(coefficient * _FILLED * height * (track + _BESIDE_TRACK), 2)


def _details(known: Known) -> bool:
    return bool(known["details"])


_SHARES = {"front": 0.60, "rear": 0.50, "all": 0.54}
_PER_DEGREE = parse_unit("N·m/deg")[0]

VEHICLE: tuple[Question, ...] = (
    Question("driven", "Which axle does the engine drive: front, rear or all?", _always("front")),
    Question("mass", "Mass with driver and fuel", _always(1400.0), "a compact car with a driver", "kg"),
    Question("wheelbase", "Wheelbase", _always(2.65), "a compact car", "m"),
    Question(
        "front_share",
        "Share of the mass on the front axle",
        lambda known: _SHARES[known["driven"]],
        "of a car with this drive",
        "%",
    ),
    Question("height", "Height of the car", _always(1.48), "a compact car", "m"),
    Question(
        "center_of_mass_height",
        "Height of the centre of mass over the ground",
        lambda known: round(0.37 * known["height"], 2),
        "0.37 of the car's height",
        "m",
    ),
    Question(
        "front_track",
        "Track in front",
        lambda known: round(0.58 * known["wheelbase"], 2),
        "0.58 of the wheelbase",
        "m",
    ),
    Question("rear_track", "Track behind", _same("front_track"), "as in front", "m"),
    Question("front_tyre", "Tyres in front", _always("205/55 R16"), "a compact car"),
    Question("rear_tyre", "Tyres behind", _same("front_tyre"), "as in front"),
    Question(
        "steering",
        "Where is the steering measured: wheel, rack, road_wheels or bicycle?",
        _always("wheel"),
        "as for ESC",
    ),
    Question(
        "steering_ratio",
        "Angle of the steering wheel over that of the road wheels",
        lambda known: 1.0 if known["steering"] == "bicycle" else 15.0,
        "most cars",
        applies=lambda known: bool(known["steering"] != "bicycle"),
    ),
    Question(
        "details",
        "Do you know springs, tyre stiffness, drag and downforce? (otherwise they are typical ones)",
        _always(False),
    ),
    Question(
        "front_ride_frequency",
        "Frequency of the body on its springs in front",
        _always(1.3),
        "",
        "Hz",
        _details,
    ),
    Question("rear_ride_frequency", "The same behind", _always(1.5), "", "Hz", _details),
    Question(
        "front_roll_stiffness",
        "Roll stiffness of the anti-roll bar in front",
        lambda known: round(known["mass"] / 3.0, -1) * _PER_DEGREE,
        "in proportion to the mass",
        "N·m/deg",
        _details,
    ),
    Question(
        "rear_roll_stiffness",
        "The same behind",
        lambda known: round(known["mass"] / 5.5, -1) * _PER_DEGREE,
        "in proportion to the mass",
        "N·m/deg",
        _details,
    ),
    Question("friction", "Friction of tyres and road", _always(1.0), "dry asphalt", "", _details),
    Question(
        "front_cornering_stiffness",
        "Cornering stiffness of the front axle",
        lambda known: _cornering_stiffness(known, "front", 13.5),
        "13.5 times its load per radian, and with grippy tyres times their friction",
        "kN/rad",
        _details,
    ),
    Question(
        "rear_cornering_stiffness",
        "Cornering stiffness of the rear axle",
        lambda known: _cornering_stiffness(known, "rear", 17.0),
        "17 times its load per radian, for understeer, and with grippy tyres times their friction",
        "kN/rad",
        _details,
    ),
    Question(
        "differential",
        "Differential: open, limited_slip or locked?",
        _always("open"),
        "most cars",
        "",
        _details,
    ),
    Question(
        "drag_area",
        "Drag coefficient times frontal area",
        lambda known: calc_drag_area(known["front_track"], known["height"]),
        "drag coefficient by the height, frontal area by height and track",
        "m²",
        _details,
    ),
    Question(
        "front_downforce",
        "Downforce on the front axle at 100 km/h",
        _always(0.0),
        "no wings",
        "N",
        _details,
    ),
    Question("rear_downforce", "The same behind", _always(0.0), "no wings", "N", _details),
)
"""Parameters of the car, and how its steering is measured. Those that do not apply have their defaults."""

SENSORS: tuple[Question, ...] = (
    Question("imu", "Is there an IMU?", _always(True)),
    Question(
        "imu_position",
        "Its place",
        lambda known: (round(-0.45 * known["wheelbase"], 2), 0.0, 0.35),
        "on the tunnel",
        "m",
        lambda known: bool(known["imu"]),
    ),
    Question(
        "imu_rotation",
        "Its roll, pitch and yaw against the car's axes",
        _always((0.0, 0.0, 0.0)),
        "x forward, z up",
        "deg",
        lambda known: bool(known["imu"]),
    ),
    Question("gnss", "Is there a GNSS receiver?", _always(True)),
    Question(
        "gnss_antenna",
        "Place of its antenna",
        lambda known: (round(-0.7 * known["wheelbase"], 2), 0.0, round(known["height"], 2)),
        "on the roof",
        "m",
        lambda known: bool(known["gnss"]),
    ),
    Question("wheels", "What do the wheels' sensors give: speeds, angles or none?", _always("speeds"), "ABS"),
)
"""Sensors of the car, and their places."""


def make_bus_questions(channels: Sequence[str]) -> tuple[Question, ...]:
    """Questions on the CAN bus; `channels`: interfaces and adapters that were found."""
    return (
        Question("dbc", "DBC file of the CAN bus (Enter: none)", _always(None), check=load_dbc),
        Question(
            "can_channel",
            "Its interface, or the port of an slcan adapter",
            _always(channels[0] if channels else "can0"),
            applies=lambda known: known["dbc"] is not None,
        ),
    )


RECORD = Question("record", "Folder for recordings (Enter: nothing is recorded)", _always(None))
