"""The cases: which drive, with which receiver, and what is wrong."""

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
"""Cases that the same limits hold for."""
NOMINAL = "nominal"
_AND = " and "
"""Between the names of what is wrong at the same time."""
_BOTH: tuple[Receiver, ...] = ("rtk", "conventional")


@dataclass(frozen=True)
class RobustnessCase:
    """One drive and what is wrong in it."""

    name: str
    group: Group
    drive: str
    """As `drives` names it."""
    wrongs: tuple[str, ...] = ()
    """Names that `find_wrong` knows."""
    receivers: tuple[Receiver, ...] = _BOTH

    @property
    def subjects(self) -> set[str]:
        """What is wrong, beside what differs anyway."""
        return {find_wrong(name).subject for name in self.wrongs}

    @property
    def changes_grip(self) -> bool:
        """Whether the configured tyres differ from those of the car."""
        return any(find_wrong(name).changes_grip for name in self.wrongs)


def table_cases() -> Iterable[RobustnessCase]:
    """The own plant, nothing wrong and then one thing at a time."""
    yield RobustnessCase(NOMINAL, "table", drives.OWN)
    for name, wrong in WRONGS.items():
        if wrong.listed:
            yield RobustnessCase(name, "table", drives.OWN, (name,))


def road_cases() -> Iterable[RobustnessCase]:
    """The own plant on roads that are not even."""
    without = "no torque, no pressure"
    yield RobustnessCase("hills", "hills", drives.HILLS)
    yield RobustnessCase(f"hills, {without}", "hills", drives.HILLS, (without,))
    for roughness, drive in drives.ROUGH.items():
        yield RobustnessCase(f"road of class {roughness}", "table", drive)


def sensor_cases() -> Iterable[RobustnessCase]:
    """The own plant with fewer sensors than are configured, or with worse ones."""
    for name, wrong in WRONGS.items():
        if wrong.subject == "sensors":
            yield RobustnessCase(name, "sensors", drives.OWN, (name,))


def commonroad_cases() -> Iterable[RobustnessCase]:
    """Third-party cars with a handbook's figures, the wheels a little too large or too small in it."""
    for plant, drive, error in product(("commonroad 1", "commonroad 3"), DRIVES, (0.02, -0.02)):
        name = f"{plant.replace('commonroad', 'CommonRoad')} {drive}, wheel radius {100 * error:+g} %"
        drive_name = drives.name_foreign(plant, drive, error)
        yield RobustnessCase(name, "commonroad", drive_name, receivers=("conventional",))


def engine_cases() -> Iterable[RobustnessCase]:
    """The published reference vehicle in other engines, heavier and on softer tyres than published.

    Once in the slower one: they agree to millimetres.
    """
    for plant, name, chosen in (("mujoco", "MuJoCo", tuple(DRIVES)), ("exudyn", "Exudyn", ("mixed",))):
        for drive in chosen:
            drive_name = drives.name_foreign(plant, drive)
            yield RobustnessCase(f"{name} {drive}", "engine", drive_name, receivers=("conventional",))


def precise_cases() -> Iterable[RobustnessCase]:
    """These cars with an RTK receiver, and no speeds but those of wheels, which slip; also with a late IMU."""
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
    """A minute without GNSS after a minute with it; with one of these cars, by its IMU alone."""
    yield RobustnessCase("outage, nominal", "outage", drives.OUTAGE)
    for names in product(
        ("wheel radius +1 %", "wheel radius -1 %"), ("gyro scale +0.5 %", "gyro scale -0.5 %")
    ):
        yield RobustnessCase(f"outage, {_AND.join(names)}", "outage", drives.OUTAGE, names)
    yield RobustnessCase(f"outage, {ALONE}", "outage", drives.OUTAGE, (ALONE,))


def recorded_case(
    name: str, group: Group, log: Path, truth: Path, configuration: str | Path, receiver: Receiver
) -> RobustnessCase:
    """A drive that was recorded, with a truth for scoring."""
    drive = drives.name_recorded(log, truth, configuration)
    return RobustnessCase(name, group, drive, receivers=(receiver,))


def drawn_cases(count: int) -> Iterable[RobustnessCase]:
    """Pairs and triples of wrongs at random, no two about the same; always the same for the same count."""
    random = np.random.default_rng(12)
    known = [w for w in WRONGS.values() if w.listed and w.drawn]
    drawn: dict[str, tuple[str, ...]] = {}
    while len(drawn) < count:
        names = tuple(w.name for w in _draw(known, int(random.integers(2, 4)), random))
        drawn.setdefault(f"draw, {_AND.join(names)}", names)
    for name, wrongs in drawn.items():
        yield RobustnessCase(name, "draws", drives.OWN, wrongs)


def car_cases(count: int) -> Iterable[RobustnessCase]:
    """Cars of which everything is a little wrong; the first ones are the same for all counts."""
    for name in (f"{PREFIX}{k}" for k in range(1, count + 1)):
        yield RobustnessCase(name, "cars", drives.OWN, (name,))


def _draw(known: list[Wrong], count: int, random: np.random.Generator) -> list[Wrong]:
    """That many, in the order of the table."""
    order = random.permutation(len(known))
    chosen: dict[str, int] = {}
    for i in order.tolist():
        if len(chosen) < count:
            chosen.setdefault(known[i].subject, i)
    return [known[i] for i in sorted(chosen.values())]
