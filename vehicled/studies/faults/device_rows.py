"""Rows of faults of lines and devices, which drivers have to handle."""

from __future__ import annotations

import math

from replay.faults import BadLine, Fault, Unplugged, WrongBaud
from vehicled.studies.faults.disturbances import share_port
from vehicled.studies.faults.drives import BEGIN
from vehicled.studies.faults.row import ALL, CAN, GNSS, IMU, INPUTS, OF_CAN, WAY_OFF, Make, Row
from vehicled.studies.faults.signals import ClockBeginsAnew, WrongClock


def _unplugged(*devices: str) -> Make:
    return lambda begin, end: [Unplugged(devices=devices, begin=begin, end=end)]


def _bad_line(device: str, each: float) -> Make:
    """`each`: probability of each kind of damage to a message."""

    def make(begin: float, end: float) -> list[Fault]:
        return [BadLine(device=device, garbage=each, dropped=each, flipped=each, begin=begin, end=end)]

    return make


def _wrong_baud(device: str, ratio: float) -> Make:
    return lambda begin, end: [WrongBaud(device=device, ratio=ratio, begin=begin, end=end)]


def _wrong_clock(name: str, channels: str, rate: float) -> Row:
    return Row(
        name=name,
        make=lambda begin, end: [WrongClock(channels=channels, rate=rate)],
        begin=0.0,
        end=math.inf,
        offline=False,
    )


def _clock_begins_anew(name: str, channels: str) -> Row:
    return Row(
        name=name,
        make=lambda begin, end: [ClockBeginsAnew(channels=channels, begin=begin)],
        refused=(channels,),
        offline=False,
    )


DEVICE_ROWS: tuple[Row, ...] = (
    Row(
        name="bus off 8 s",
        make=_unplugged(CAN),
        culprits=(CAN, "wheel."),
        refused=(*OF_CAN, *INPUTS),
        end=BEGIN + 8.0,
        offline=False,
    ),
    Row(
        name="USB hub reset",
        make=_unplugged(IMU, GNSS),
        culprits=(IMU, GNSS),
        refused=("imu.", "gnss."),
        end=BEGIN + 2.0,
        offline=False,
    ),
    Row(
        name="every device unplugged",
        make=_unplugged(IMU, GNSS, CAN),
        culprits=(IMU, GNSS, CAN),
        refused=(*ALL, *INPUTS),
        end=BEGIN + 3.0,
        metres=WAY_OFF,
        degrees=40.0,
        offline=False,
    ),
    Row(name="GNSS on a bad line", make=_bad_line(GNSS, 1.0), offline=False, metres=1.5, degrees=3.0),
    Row(name="IMU on a bad line", make=_bad_line(IMU, 0.2), offline=False),
    Row(
        name="IMU at half the baud rate",
        make=_wrong_baud(IMU, 0.5),
        culprits=(IMU,),
        refused=("imu.",),
        offline=False,
    ),
    Row(
        name="GNSS at a quarter of the baud rate",
        make=_wrong_baud(GNSS, 0.25),
        culprits=(GNSS,),
        refused=("gnss.",),
        metres=1.5,
        degrees=3.0,
        offline=False,
    ),
    _wrong_clock("clock of the IMU 1 % fast", "imu.", 0.01),
    _wrong_clock("clock of the IMU 1 % slow", "imu.", -0.01),
    _wrong_clock("clock of the GNSS receiver 1 % fast", "gnss.", 0.01),
    _clock_begins_anew("clock of the IMU begins anew", "imu."),
    _clock_begins_anew("clock of the GNSS receiver begins anew", "gnss."),
    Row(
        name="receiver on the port of the IMU",
        disturbance=share_port,
        culprits=(GNSS,),
        refused=("gnss.",),
        metres=1.5,
        degrees=3.0,
        offline=False,
    ),
)
