"""A row of the campaign: a fault, which source it should be named by, and what has to hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from replay.faults import Fault
from vehicled.studies.faults.disturbances import Disturbance
from vehicled.studies.faults.drives import BEGIN, END, PLACES

IMU, GNSS, CAN = "imu", "gnss", "can"
"""Devices of the configuration."""
OF_CAN = ("wheel.", "steer.", "brake.", "torque.", "vehicle.")
INPUTS = ("steering", "torques", "brakes")
"""What comes over CAN and is named by these words."""
ALL = ("imu.", "gnss.", *OF_CAN)
WAY_OFF = 0.5 * 4.5 * 3.0**2
"""m: the limit where nothing is measured for 3 s. A driver can turn away from the course by so much: a t²/2 with
4.5 m/s²."""

Make = Callable[[float, float], Sequence[Fault]]
"""The faults between two times, s from the start of the log."""


def no_fault(begin: float, end: float) -> Sequence[Fault]:
    """Sensors and lines stay whole."""
    return ()


def common_disk(folder: Path) -> AbstractContextManager[None]:
    """Recordings go to the disk that temporary files are on."""
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A fault."""

    name: str
    make: Make = no_fault
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
    """s after the end within which all is normal again."""
    named_within: float = 0.5
    """s."""
    unrecorded: float = 0.5
    """Longest time with estimates that no recording has, s."""
    drives: tuple[str, ...] = PLACES
    receiver: str = "rtk"
    offline: bool = True
    """Whether it exists without devices: whether it is one of sensors alone."""
    scored_from: float = 0.0
    """s from the start of the log, for faults that hold from the start."""
    honest_before: bool = False
    """Whether the standard deviations have to hold before `scored_from` too."""
    disturbance: Disturbance | None = None
    """Of daemon or machine, between `begin` and `end`."""
    disk: Callable[[Path], AbstractContextManager[None]] = common_disk
    """Entered before the daemon starts, with the folder of its recordings."""
    module: tuple[str, ...] = ("vehicled",)
    """What is run in place of the program, with arguments before its own."""

    @property
    def faults(self) -> list[Fault]:
        """For one play of a log."""
        return list(self.make(self.begin, self.end))
