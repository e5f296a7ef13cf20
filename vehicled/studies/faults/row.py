"""A row of the campaign: a fault, the source by which it should be named, and the requirements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from replay.faults import Fault
from vehicled.studies.faults.disturbances import Disturbance
from vehicled.studies.faults.drives import BEGIN, END, PLACES

IMU, GNSS, CAN = "imu", "gnss", "can"
"""Devices of the configuration."""
OF_CAN = ("wheel.", "steer.", "brake.", "torque.", "vehicle.")
INPUTS = ("steering", "torques", "brakes")
"""Inputs over CAN that are named by these words."""
ALL = ("imu.", "gnss.", *OF_CAN)
WAY_OFF = 0.5 * 4.5 * 3.0**2
"""m: limit if nothing is measured for 3 s. A driver can deviate from the course by that much: a t²/2 with 4.5
m/s²."""

Make = Callable[[float, float], Sequence[Fault]]
"""A function that returns the faults between two times, s from the start of the log."""


def no_fault(begin: float, end: float) -> Sequence[Fault]:
    """No faults of sensors or lines."""
    return ()


def common_disk(folder: Path) -> AbstractContextManager[None]:
    """Record on the disk of temporary files."""
    return nullcontext()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A fault and its requirements."""

    name: str
    make: Make = no_fault
    culprits: tuple[str, ...] = ()
    """One of these sources has to be named, or one that starts with such a name; empty: none has to be."""
    metres: float = 0.5
    """Largest error of the position from the beginning of the fault until a second after its end."""
    degrees: float = 2.0
    """Same for the heading, degrees."""
    refused: tuple[str, ...] | None = None
    """Sources that may be rejected in addition to the culprits, or that start with such a name."""
    begin: float = BEGIN
    end: float = END
    """End of the fault, s from the start of the log; infinite if it does not end."""
    recovery: float = 1.0
    """s after the end within which everything has to be normal again."""
    named_within: float = 0.5
    """s within which the fault has to be named."""
    unrecorded: float = 0.5
    """Longest time with estimates that are in no recording, s."""
    drives: tuple[str, ...] = PLACES
    elsewhere: bool = True
    """Whether it can also occur in other cars, which have neither rack nor torques nor pressure."""
    receiver: str = "rtk"
    offline: bool = True
    """Whether it can occur without devices, as a fault of sensors only."""
    scored_from: float = 0.0
    """Start of scoring, s from the start of the log, for faults from the start."""
    honest_before: bool = False
    """Whether the standard deviations also have to be right before `scored_from`."""
    disturbance: Disturbance | None = None
    """Disturbance of daemon or machine, between `begin` and `end`."""
    disk: Callable[[Path], AbstractContextManager[None]] = common_disk
    """Context entered before the daemon starts, with the folder of its recordings."""
    module: tuple[str, ...] = ("vehicled",)
    """Module that runs instead of the program, with arguments before the program's own."""

    def later(self, by: float) -> Row:
        """The same row in a drive in which a fault occurs later by so much, s; one from the start is found later."""
        if self.begin == 0.0:
            return replace(self, scored_from=self.scored_from + by, named_within=self.named_within + by)
        return replace(self, begin=self.begin + by, end=self.end + by)

    @property
    def faults(self) -> list[Fault]:
        """The faults for one replay of a log."""
        return list(self.make(self.begin, self.end))
