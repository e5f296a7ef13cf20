"""Rows of faults of sensors: wrong or missing measurements over intact lines."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import starmap

from replay.faults import Fault, Freeze, Multiply, Offset, Silence
from vehicled.studies.faults.drives import BEGIN
from vehicled.studies.faults.row import ALL, CAN, INPUTS, OF_CAN, WAY_OFF, Make, Row
from vehicled.studies.faults.signals import (
    Dead,
    Displaced,
    Drifting,
    Exchanged,
    Flapping,
    Noisy,
    NoReception,
    Turned,
)

_RACK_5_DEGREES = math.radians(5.0) * 0.126
"""Displacement of the prototype's rack, m."""
_LEFT_RIGHT = [(f"wheel.{a}l.angle", f"wheel.{a}r.angle") for a in "fr"]


def _each(*faults: Callable[..., Fault]) -> Make:
    return lambda begin, end: [fault(begin=begin, end=end) for fault in faults]


def _silent(*channels: str) -> Make:
    return _each(partial(Silence, channels=channels))


def _stuck(*channels: str) -> Make:
    return _each(partial(Freeze, channels=channels))


def _at(value: float, *channels: str) -> Make:
    return _each(partial(Offset, channels=channels, factor=0.0, by=value))


def _more(by: float, *channels: str, factor: float = 1.0) -> Make:
    return _each(partial(Offset, channels=channels, by=by, factor=factor))


def _steer_5_degrees(begin: float, end: float) -> list[Fault]:
    """Of the rack, or of the road wheels where these are measured."""
    rack = Offset(channels=("steer.rack",), by=_RACK_5_DEGREES, begin=begin, end=end)
    return [rack, Offset(channels=("steer.fl", "steer.fr"), by=math.radians(5.0), begin=begin, end=end)]


def _yaw_rate(by: float) -> Row:
    """`by`: error of the yaw rate, rad/s."""
    return Row(
        name=f"yaw rate {by:g} rad/s too large",
        make=_more(by, "imu.wz"),
        culprits=("imu.gyro",),
        refused=("imu.w",),
        recovery=2.0,
    )


def _yaw_rate_drifts(by: float, named_within: float) -> Row:
    """`by`: drift of the yaw rate, rad/s²."""
    return Row(
        name=f"yaw rate drifts by {by:g} rad/s²",
        make=_each(partial(Drifting, channel="imu.wz", rate=by)),
        culprits=("imu.gyro",),
        refused=("imu.w",),
        recovery=2.0,
        named_within=named_within,
    )


def _speeds(name: str, make: Make, named_within: tuple[float, float] = (0.5, 0.5)) -> list[Row]:
    """A wrong speed of the car beside an RTK and a conventional receiver."""
    culprits = ("vehicle.speed",)
    return [
        Row(name=name, make=make, culprits=culprits, named_within=named_within[0]),
        Row(
            name=f"{name}, conventional",
            make=make,
            culprits=culprits,
            named_within=named_within[1],
            receiver="conventional",
            metres=1.5,
            degrees=3.0,
        ),
    ]


def _accelerometer_drifts(name: str, channel: str, named_within: float) -> Row:
    return Row(
        name=name,
        make=_each(partial(Drifting, channel=channel, rate=0.5)),
        culprits=("imu.accel",),
        refused=("imu.a",),
        named_within=named_within,
    )


def _counter_stuck(name: str, channel: str) -> Row:
    return Row(name=name, make=_stuck(channel), culprits=(channel,))


def _from_the_start(name: str, make: Make, culprit: str) -> Row:
    """Something is mounted or wired wrongly, and is found in the first bend."""
    return Row(
        name=name,
        make=make,
        culprits=(culprit,),
        begin=0.0,
        end=math.inf,
        scored_from=9.0,
        named_within=8.5,
    )


SENSOR_ROWS: tuple[Row, ...] = (
    Row(name="nothing"),
    Row(name="steering silent", make=_silent("steer."), culprits=("steering",)),
    Row(name="steering stuck", make=_stuck("steer."), culprits=("steering",), drives=("slalom",)),
    Row(name="steering off by 5°", make=_steer_5_degrees, culprits=("steering",)),
    Row(
        name="steering noisy by 0.5°",
        make=_each(partial(Noisy, channel="steer.rack", sigma=0.1 * _RACK_5_DEGREES)),
        culprits=("steering",),
        elsewhere=False,
    ),
    Row(
        name="rack at the end of its range",
        make=_at(0.2997, "steer.rack"),
        culprits=("steering",),
        elsewhere=False,
    ),
    Row(
        name="CAN silent 4 s",
        make=_silent(*OF_CAN),
        culprits=("wheel.", CAN),
        refused=(*OF_CAN, *INPUTS),
        end=BEGIN + 4.0,
    ),
    Row(name="GNSS silent", make=_silent("gnss."), culprits=("gnss.",), metres=1.5, degrees=3.0),
    Row(name="GNSS jumps by 100 m", make=_each(partial(Displaced, north=100.0)), culprits=("gnss.position",)),
    Row(
        name="GNSS jumps by 100 m, conventional",
        make=_each(partial(Displaced, north=100.0)),
        culprits=("gnss.position",),
        receiver="conventional",
        metres=5.0,
    ),
    Row(name="GNSS frozen", make=_stuck("gnss."), culprits=("gnss.",), metres=1.5, degrees=3.0),
    Row(
        name="GNSS frozen, conventional",
        make=_stuck("gnss."),
        culprits=("gnss.",),
        receiver="conventional",
        metres=5.0,
        degrees=3.0,
    ),
    Row(
        name="GNSS spoofed by 0.5 m/s",
        make=_each(partial(Displaced, drift=0.5)),
        culprits=("gnss.position",),
        metres=0.5,
        named_within=1.2,  # within half a second the error is 0.25 m
    ),
    Row(
        name="GNSS spoofed as a whole",
        make=_each(partial(Displaced, drift=0.5, has_velocity=True)),
        culprits=("gnss.",),
        metres=0.7,
    ),
    Row(
        name="GNSS spoofed as a whole, conventional",
        make=_each(partial(Displaced, drift=1.0, has_velocity=True)),
        culprits=("gnss.",),
        receiver="conventional",
        metres=3.0,
        named_within=1.2,
        recovery=4.0,
    ),
    Row(
        name="GNSS spoofed by 1 m/s, conventional",
        make=_each(partial(Displaced, drift=1.0)),
        refused=("gnss.position",),  # named only as far as white noise of 0.5 m shows it
        receiver="conventional",
        metres=5.0,
        recovery=4.5,  # means over whole seconds, which do not begin where the fault ends
    ),
    Row(name="RTK flapping", make=_each(Flapping), metres=0.7),
    Row(
        name="ionosphere steps of 2 m",
        make=_each(partial(Displaced, north=2.0, period=4.0)),
        metres=2.5,
        refused=("gnss.position",),
    ),
    Row(
        name="ionosphere steps of 2 m, conventional",
        make=_each(partial(Displaced, north=2.0, period=4.0)),
        receiver="conventional",
        metres=6.0,
    ),
    Row(name="antenna cable off", make=_each(NoReception), culprits=("gnss.",), metres=1.5, degrees=3.0),
    Row(
        name="all devices silent",
        make=_silent(*ALL),
        culprits=("imu.", "gnss.", "wheel."),
        refused=(*ALL, *INPUTS),
        end=BEGIN + 3.0,
        metres=WAY_OFF,
        degrees=40.0,
    ),
    Row(
        name="brake stuck at 20 bar",
        make=_at(20e5, "brake.pressure"),
        culprits=("brakes",),
        elsewhere=False,
    ),
    Row(
        name="torques stuck",
        make=_stuck("torque."),
        culprits=("torques",),
        drives=("braking",),
        named_within=2.5,  # they are right until the car brakes
        elsewhere=False,
    ),
    Row(
        name="brake stuck at 20 bar, torque silent",
        make=lambda begin, end: [
            Offset(channels=("brake.pressure",), factor=0.0, by=20e5, begin=begin, end=end),
            Silence(channels=("torque.",), begin=begin, end=end),
        ],
        culprits=("torques", "brakes"),
        elsewhere=False,
    ),
    Row(
        name="brake at 999 bar",
        make=_at(9.99e7, "brake.pressure"),
        culprits=("brakes",),
        refused=("torques",),
        elsewhere=False,
    ),
    Row(
        name="torque of 100 kN·m",
        make=_at(9.99e4, "torque.rl", "torque.rr"),
        culprits=("torques",),
        refused=("brakes",),
        elsewhere=False,
    ),
    _counter_stuck("wheel counter stuck", "wheel.fl.angle"),
    *(_counter_stuck(f"wheel counter stuck, {w}", f"wheel.{w}.angle") for w in ("fr", "rl", "rr")),
    _from_the_start(
        "wheel counters swapped left and right", _each(partial(Exchanged, pairs=_LEFT_RIGHT)), "wheel."
    ),
    *map(_yaw_rate, (3.0, 0.4, 0.1)),
    *starmap(_yaw_rate_drifts, ((0.2, 1.5), (0.05, 2.0), (0.02, 3.5))),
    Row(
        name="gyroscopes in deg/s",
        make=_more(0.0, "imu.wx", "imu.wy", "imu.wz", factor=math.degrees(1.0)),
        culprits=("imu.gyro",),
        refused=("imu.w",),
        end=BEGIN + 2.0,  # after some seconds their unit is known, and they are not used any more
        recovery=2.0,
    ),
    Row(
        name="gyroscope silent",
        make=_silent("imu.wx", "imu.wy", "imu.wz"),
        culprits=("imu.gyro",),
        refused=("imu.w",),
    ),
    Row(
        name="yaw rate dead",
        make=_each(partial(Dead, channel="imu.wz", sigma=0.002)),
        culprits=("imu.gyro",),
        refused=("imu.w",),
        recovery=2.0,
    ),
    Row(name="IMU stuck", make=_stuck("imu."), culprits=("imu.",)),
    Row(
        name="accelerometer 2 m/s² off",
        make=_more(2.0, "imu.ay"),
        culprits=("imu.accel",),
        refused=("imu.a",),
    ),
    Row(
        name="accelerometer 8 m/s² off",
        make=_more(8.0, "imu.ax"),
        culprits=("imu.accel",),
        refused=("imu.a",),
    ),
    Row(
        name="lateral accelerometer dead",
        make=_each(partial(Dead, channel="imu.ay", sigma=0.05)),
        culprits=("imu.accel",),
        refused=("imu.a",),
    ),
    Row(
        name="roll rate 0.5 rad/s too large",
        make=_more(0.5, "imu.wx"),
        culprits=("imu.gyro",),
        refused=("imu.w",),
    ),
    *_speeds("speed stuck", _stuck("vehicle.speed")),
    *_speeds("speed 7 % too low", _more(0.0, "vehicle.speed", factor=0.93)),
    *_speeds("speed 0.5 m/s too high", _more(0.5, "vehicle.speed")),
    *_speeds(
        "speed drifts by 0.25 m/s²",
        _each(partial(Drifting, channel="vehicle.speed", rate=0.25)),
        named_within=(1.5, 2.0),
    ),
    _accelerometer_drifts("accelerometer drifts by 0.5 m/s³", "imu.ax", 2.5),
    _accelerometer_drifts("lateral accelerometer drifts by 0.5 m/s³", "imu.ay", 5.0),
    _from_the_start("IMU upside down", _each(partial(Turned, roll=math.pi)), "imu."),
    _from_the_start("IMU turned by 90°", _each(partial(Turned, yaw=math.pi / 2)), "imu."),
    Row(
        name="speed in another scale",
        make=_more(0.0, "vehicle.speed", factor=3.6),
        culprits=("vehicle.speed",),
        begin=0.0,
        end=math.inf,
        scored_from=5.0,
    ),
    Row(
        name="IMU at ten times its rate",
        make=_each(partial(Multiply, channels=("imu.",), times=10, interval=0.0004)),
    ),
    Row(
        name="GNSS at ten times its rate",
        make=_each(partial(Multiply, channels=("gnss.",), times=10, interval=0.002)),
        refused=("gnss.",),
    ),
    Row(
        name="wheel counters begin anew after a gap",
        make=lambda begin, end: [
            Silence(channels=("wheel.",), begin=begin, end=end),
            Offset(channels=("wheel.",), by=-1000.3, begin=end),
        ],
        culprits=("wheel.",),
        end=BEGIN + 0.5,
    ),
)
