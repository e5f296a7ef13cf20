"""The cases: which drive, with which receiver, and which errors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

import numpy as np

from vehicled.studies.robustness import drives
from vehicled.studies.robustness.drawn_cars import PREFIX, find_wrong
from vehicled.studies.robustness.drives import Receiver
from vehicled.studies.robustness.plants import DRIVES
from vehicled.studies.robustness.wrongs import ALONE, WRONGS, Wrong

Group = Literal[
    "table",
    "hills",
    "sensors",
    "commonroad",
    "engine",
    "precise",
    "outage",
    "draws",
    "cars",
    "ferrari",
    "rav4",
    "recorded",
]
"""Groups of cases with the same limits."""
NOMINAL = "nominal"
_AND = " and "
"""Separator of the names of simultaneous errors."""
_BOTH: tuple[Receiver, ...] = ("rtk", "conventional")


@dataclass(frozen=True)
class RobustnessCase:
    """One drive, and the errors in it."""

    name: str
    group: Group
    drive: str
    """Name of a drive, as in `drives`."""
    wrongs: tuple[str, ...] = ()
    """Names of errors, as in `find_wrong`."""
    receivers: tuple[Receiver, ...] = _BOTH

    @property
    def subjects(self) -> set[str]:
        """Subjects of the errors, without differences that are always present."""
        return {find_wrong(name).subject for name in self.wrongs}

    @property
    def changes_grip(self) -> bool:
        """Whether the configured tyres differ from those of the car."""
        return any(find_wrong(name).changes_grip for name in self.wrongs)


def table_cases() -> Iterable[RobustnessCase]:
    """The program's own plant, first without errors, then with one at a time."""
    yield RobustnessCase(NOMINAL, "table", drives.OWN)
    for name, wrong in WRONGS.items():
        if wrong.listed:
            yield RobustnessCase(name, "table", drives.OWN, (name,))


def road_cases() -> Iterable[RobustnessCase]:
    """The program's own plant on uneven roads."""
    without = "no torque, no pressure"
    yield RobustnessCase("hills", "hills", drives.HILLS)
    yield RobustnessCase(f"hills, {without}", "hills", drives.HILLS, (without,))
    for roughness, drive in drives.ROUGH.items():
        yield RobustnessCase(f"road of class {roughness}", "table", drive)


def sensor_cases() -> Iterable[RobustnessCase]:
    """The program's own plant with fewer sensors than configured, or with worse ones."""
    for name, wrong in WRONGS.items():
        if wrong.subject == "sensors":
            yield RobustnessCase(name, "sensors", drives.OWN, (name,))


def commonroad_cases() -> Iterable[RobustnessCase]:
    """Third-party cars with a handbook's figures, in which the wheels are slightly too large or too small."""
    for plant, drive, error in product(("commonroad 1", "commonroad 3"), DRIVES, (0.02, -0.02)):
        name = f"{plant.replace('commonroad', 'CommonRoad')} {drive}, wheel radius {100 * error:+g} %"
        drive_name = drives.name_foreign(plant, drive, error)
        yield RobustnessCase(name, "commonroad", drive_name, receivers=("conventional",))


def engine_cases() -> Iterable[RobustnessCase]:
    """The published reference vehicle in other engines, heavier and on softer tyres than published.

    Only one case uses the slower engine: the engines agree to millimetres.
    """
    for plant, name, chosen in (("mujoco", "MuJoCo", tuple(DRIVES)), ("exudyn", "Exudyn", ("mixed",))):
        for drive in chosen:
            drive_name = drives.name_foreign(plant, drive)
            yield RobustnessCase(f"{name} {drive}", "engine", drive_name, receivers=("conventional",))


def precise_cases() -> Iterable[RobustnessCase]:
    """These cars with an RTK receiver, and no speeds except those of wheels, which slip; also with a late IMU."""
    plants = (
        ("commonroad 1", "CommonRoad 1", 0.02),
        ("commonroad 3", "CommonRoad 3", 0.02),
        ("mujoco", "MuJoCo", 0.0),
    )
    late = "IMU time stamps 20 ms late"
    for (plant, name, error), drive in product(plants, DRIVES):
        drive_name = drives.name_foreign(plant, drive, error)
        for wrongs in ((), (late,)):
            case_name = ", ".join((f"{name} {drive}, RTK", *wrongs))
            yield RobustnessCase(case_name, "precise", drive_name, wrongs, ("rtk",))


def outage_cases() -> Iterable[RobustnessCase]:
    """A minute without GNSS after a minute with it; for one of these cars with its IMU only."""
    yield RobustnessCase("outage, nominal", "outage", drives.OUTAGE)
    for names in product(
        ("wheel radius +1 %", "wheel radius -1 %"), ("gyro scale +0.5 %", "gyro scale -0.5 %")
    ):
        yield RobustnessCase(f"outage, {_AND.join(names)}", "outage", drives.OUTAGE, names)
    yield RobustnessCase(f"outage, {ALONE}", "outage", drives.OUTAGE, (ALONE,))


def recorded_case(
    name: str, group: Group, log: Path, truth: Path, configuration: str | Path, receiver: Receiver
) -> RobustnessCase:
    """A recorded drive, with a truth for scoring."""
    drive = drives.name_recorded(log, truth, configuration)
    return RobustnessCase(name, group, drive, receivers=(receiver,))


def drawn_cases(count: int) -> Iterable[RobustnessCase]:
    """Random pairs and triples of errors, each of different subjects; the same for the same count."""
    random = np.random.default_rng(12)
    known = [w for w in WRONGS.values() if w.listed and w.drawn]
    drawn: dict[str, tuple[str, ...]] = {}
    while len(drawn) < count:
        names = tuple(w.name for w in _draw(known, int(random.integers(2, 4)), random))
        drawn.setdefault(f"draw, {_AND.join(names)}", names)
    for name, wrongs in drawn.items():
        yield RobustnessCase(name, "draws", drives.OWN, wrongs)


def car_cases(count: int) -> Iterable[RobustnessCase]:
    """Cars in which everything is slightly wrong; the first ones are the same for all counts."""
    for name in (f"{PREFIX}{k}" for k in range(1, count + 1)):
        yield RobustnessCase(name, "cars", drives.OWN, (name,))


def _draw(known: list[Wrong], count: int, random: np.random.Generator) -> list[Wrong]:
    """Draw `count` errors, in the order of the table."""
    order = random.permutation(len(known))
    chosen: dict[str, int] = {}
    for i in order.tolist():
        if len(chosen) < count:
            chosen.setdefault(known[i].subject, i)
    return [known[i] for i in sorted(chosen.values())]
