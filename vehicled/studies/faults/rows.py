"""The rows of the campaign: each fault, which source it should be named by, and what has to hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from replay.faults import BadLine, Fault, Freeze, Multiply, Offset, Silence, Unplugged
from vehicled.studies.faults.disturbances import (
    Disturbance,
    fill_disk,
    hog_processor,
    reset_filter,
    send_commands,
    send_hangups,
    subscribe_hostile,
    suspend,
)
from vehicled.studies.faults.drives import BEGIN, DRIVES, END
from vehicled.studies.faults.signals import Displaced, Exchanged, Flapping, NoReception, Turned

IMU, GNSS, CAN = "imu", "gnss", "can"
"""Devices of the configuration."""
_OF_CAN = ("wheel.", "steer.", "brake.", "torque.", "vehicle.")
_ALL = ("imu.", "gnss.", *_OF_CAN)
_RACK_5_DEGREES = math.radians(5.0) * 0.126
"""m, of the prototype's rack."""
_STEERING = ("steer.rack",)

Make = Callable[[float, float], Sequence[Fault]]
"""The faults between two times, s from the start of the log."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """A fault."""

    name: str
    make: Make
    culprits: tuple[str, ...] = ()
    """Any of these is named, or something that begins with it; empty: nothing needs to be."""
    metres: float = 0.5
    """Largest error of the position from the beginning of the fault until a second after its end."""
    degrees: float = 2.0
    """Likewise of the heading."""
    refused: tuple[str, ...] | None = None
    """What may be refused beside the culprits, or what begins with it."""
    begin: float = BEGIN
    end: float = END
    """s from the start of the log; infinite where it does not end."""
    recovery: float = 1.0
    """s after the end, within which errors and state are normal again."""
    named_within: float = 0.5
    """s."""
    drives: tuple[str, ...] = DRIVES
    receiver: str = "rtk"
    offline: bool = True
    """Whether it exists without devices: whether it is one of sensors alone."""
    scored_from: float = 0.0
    """s from the start of the log, for faults that hold from the start."""
    disturbance: Disturbance | None = None
    """Of daemon or machine, between `begin` and `end`."""
    module: tuple[str, ...] = ("vehicled",)
    """What is run in place of the program, with arguments before its own."""

    @property
    def faults(self) -> list[Fault]:
        """For one play of a log."""
        return list(self.make(self.begin, self.end))


def _nothing(begin: float, end: float) -> Sequence[Fault]:
    return ()


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


_LEFT_RIGHT = [(f"wheel.{a}l.angle", f"wheel.{a}r.angle") for a in "fr"]

ROWS: tuple[Row, ...] = (
    Row(name="nothing", make=_nothing),
    Row(name="steering silent", make=_silent("steer."), culprits=("steering",)),
    Row(name="steering stuck", make=_stuck("steer."), culprits=("steering",), drives=("slalom",)),
    Row(name="steering off by 5°", make=_more(_RACK_5_DEGREES, *_STEERING), culprits=("steering",)),
    Row(
        name="rack at the end of its range",
        make=_at(0.2997, "steer.rack"),
        culprits=("steering",),
    ),
    Row(
        name="CAN silent 4 s",
        make=_silent(*_OF_CAN),
        culprits=("wheel.", CAN),
        refused=(*_OF_CAN, "steering", "torques", "brakes"),
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
    Row(name="GNSS spoofed by 0.5 m/s", make=_each(partial(Displaced, drift=0.5)), metres=3.5),
    Row(name="RTK flapping", make=_each(Flapping), metres=0.7),
    Row(
        name="ionosphere steps of 2 m",
        make=_each(partial(Displaced, north=2.0, period=4.0)),
        metres=2.5,
        culprits=(),
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
        make=_silent(*_ALL),
        culprits=("imu.", "gnss.", "wheel."),
        refused=(*_ALL, "steering", "torques", "brakes"),
        end=BEGIN + 3.0,
        metres=8.0,
        degrees=40.0,
    ),
    Row(
        name="brake stuck at 20 bar, torque silent",
        make=lambda begin, end: [
            Offset(channels=("brake.pressure",), factor=0.0, by=20e5, begin=begin, end=end),
            Silence(channels=("torque.",), begin=begin, end=end),
        ],
        culprits=("torques", "brakes"),
    ),
    Row(
        name="brake at 999 bar",
        make=_at(9.99e7, "brake.pressure"),
        culprits=("brakes",),
        refused=("torques",),
    ),
    Row(
        name="torque of 100 kN·m",
        make=_at(9.99e4, "torque.rl", "torque.rr"),
        culprits=("torques",),
        refused=("brakes",),
    ),
    Row(name="wheel counter stuck", make=_stuck("wheel.fl.angle"), culprits=("wheel.fl.angle",)),
    Row(
        name="wheel counters swapped left and right",
        make=_each(partial(Exchanged, pairs=_LEFT_RIGHT)),
        culprits=("wheel.",),
        begin=0.0,
        end=math.inf,
        scored_from=9.0,
        named_within=8.5,
    ),
    Row(
        name="yaw rate 3 rad/s too large",
        make=_more(3.0, "imu.wz"),
        culprits=("imu.gyro",),
        refused=("imu.w",),
        recovery=2.0,
    ),
    Row(
        name="yaw rate 0.4 rad/s too large",
        make=_more(0.4, "imu.wz"),
        culprits=("imu.gyro",),
        refused=("imu.w",),
        recovery=2.0,
    ),
    Row(
        name="yaw rate 0.1 rad/s too large",
        make=_more(0.1, "imu.wz"),
        culprits=("imu.gyro",),
        refused=("imu.w",),
        recovery=2.0,
    ),
    Row(
        name="gyroscope silent",
        make=_silent("imu.wx", "imu.wy", "imu.wz"),
        culprits=("imu.gyro",),
        refused=("imu.w",),
    ),
    Row(name="IMU stuck", make=_stuck("imu."), culprits=("imu.",)),
    Row(
        name="accelerometer 2 m/s² off",
        make=_more(2.0, "imu.ay"),
        culprits=("imu.accel",),
        refused=("imu.a",),
    ),
    Row(
        name="IMU upside down",
        make=_each(partial(Turned, roll=math.pi)),
        culprits=("imu.",),
        begin=0.0,
        end=math.inf,
        scored_from=9.0,
        named_within=8.5,
    ),
    Row(
        name="IMU turned by 90°",
        make=_each(partial(Turned, yaw=math.pi / 2)),
        culprits=("imu.",),
        begin=0.0,
        end=math.inf,
        scored_from=9.0,
        named_within=8.5,
    ),
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
    Row(name="start in a turn", make=_silent(*_ALL), begin=0.0, end=9.0, scored_from=12.0),
    Row(
        name="bus off 8 s",
        make=lambda begin, end: [Unplugged(devices=(CAN,), begin=begin, end=end)],
        culprits=(CAN, "wheel."),
        refused=(*_OF_CAN, "steering", "torques", "brakes"),
        end=BEGIN + 8.0,
        offline=False,
    ),
    Row(
        name="USB hub reset",
        make=lambda begin, end: [Unplugged(devices=(IMU, GNSS), begin=begin, end=end)],
        culprits=(IMU, GNSS),
        refused=("imu.", "gnss."),
        end=BEGIN + 2.0,
        offline=False,
    ),
    Row(
        name="every device unplugged",
        make=lambda begin, end: [Unplugged(devices=(IMU, GNSS, CAN), begin=begin, end=end)],
        culprits=(IMU, GNSS, CAN),
        refused=(*_ALL, "steering", "torques", "brakes"),
        end=BEGIN + 3.0,
        metres=8.0,
        degrees=40.0,
        offline=False,
    ),
    Row(
        name="GNSS on a bad line",
        make=lambda begin, end: [
            BadLine(device=GNSS, garbage=1.0, dropped=1.0, flipped=1.0, begin=begin, end=end)
        ],
        offline=False,
        metres=1.5,
        degrees=3.0,
    ),
    Row(
        name="IMU on a bad line",
        make=lambda begin, end: [
            BadLine(device=IMU, garbage=0.2, dropped=0.2, flipped=0.2, begin=begin, end=end)
        ],
        offline=False,
    ),
    Row(
        name="restart in a turn",
        scored_from=BEGIN + 3.0,
        make=_nothing,
        disturbance=reset_filter,
        metres=2.0,
        recovery=3.0,
        offline=False,
    ),
    Row(name="SIGHUP 100 times a second", make=_nothing, disturbance=send_hangups, offline=False),
    Row(name="commands in a loop", make=_nothing, disturbance=send_commands, offline=False),
    Row(name="hostile subscriptions", make=_nothing, disturbance=subscribe_hostile, offline=False),
    Row(
        name="suspend and resume",
        make=_nothing,
        disturbance=suspend,
        metres=20.0,
        degrees=40.0,
        recovery=3.0,
        refused=_ALL,
        end=BEGIN + 4.0,
        offline=False,
    ),
    Row(name="processor busy at the same priority", make=_nothing, disturbance=hog_processor, offline=False),
    Row(name="files cannot grow", make=_nothing, disturbance=fill_disk, offline=False),
    Row(
        name="disk stalls for 100 ms",
        make=_nothing,
        module=("vehicled.studies.faults.slow_disk", "0.1"),
        offline=False,
    ),
    Row(
        name="file system hangs for 3 s",
        make=_nothing,
        module=("vehicled.studies.faults.slow_disk", "3"),
        offline=False,
    ),
)
"""All of them, in the order of the table."""
BY_NAME = {row.name: row for row in ROWS}
