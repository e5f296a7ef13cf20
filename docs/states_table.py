"""Writes the tables of docs/states.md from the declarations of the error states: `python docs/states_table.py`.

A test compares the page with what this makes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vehicled.filter.settings import Filter, Suspension
from vehicled.filter.state_table import StateTable, make_table
from vehicled.filter.states import MODEL, STEERING_RATIO, SUSPENSION, Group, InitialConditions, Values
from vehicled.sources.gnss.fixes import Baseline
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.gnss.gnss2 import Gnss2
from vehicled.sources.sensors import Sensors, find_kinds
from vehicled.sources.speeds.body_velocity import BodyVelocity
from vehicled.sources.speeds.wheels import WheelSpeeds
from vehicled.sources.yaw_rate import YawRate

PAGE = Path(__file__).with_name("states.md")
BEGIN, END = "<!-- begin: states_table.py -->\n", "<!-- end -->"
STANDING = InitialConditions(speed=0.0, position_known=True, yaw_variance=1e-4)
MOVING = dataclasses.replace(STANDING, speed=10.0)


def make_tables() -> str:
    """All states with default settings, the optional ones too: what they are, then their numbers."""
    sensors = Sensors(
        gnss=Gnss(heading=Baseline()),
        gnss2=Gnss2(heading=Baseline()),
        velocity=BodyVelocity(),
        yaw_rate=YawRate(),
        wheel_speeds=WheelSpeeds(),
    )
    filter = Filter(suspension=Suspension())
    setup = sensors.make_setup()
    table = make_table(filter, setup.states)
    homes = {g.name: f"`sensors.{name}`" for name, kind in find_kinds().items() for g in kind.STATES}
    homes |= {g.name: "`filter.unknowns`" for g in MODEL if not g.settings}
    homes |= {g.name: "`filter.suspension`" for g in SUSPENSION}
    homes[STEERING_RATIO.name] = "`sensors.steering`"
    lines = [
        "| group | elements | unit | meaning | settings |",
        "| --- | --- | --- | --- | --- |",
        *(_describe(group, homes.get(group.name, "`filter`")) for group in table.groups),
        "",
        "| state | initial σ, standing | initial σ, at 10 m/s | noise density (root) | process: σ; time |",
        "| --- | --- | --- | --- | --- |",
        *_list_numbers(table),
    ]
    return "\n".join(lines) + "\n"


def _describe(group: Group, home: str) -> str:
    names = " ".join(f"`{name}`" for name in group.names)
    keys = dict.fromkeys(".".join(part for part in s.path if isinstance(part, str)) for s in group.settings)
    settings = " ".join(f"`{key}`" for key in keys) or home
    return f"| `{group.name}` | {names} | {group.unit} | {group.meaning} | {settings} |"


def _list_numbers(table: StateTable) -> list[str]:
    rows = []
    processes = dict(table.processes())
    standing, moving, densities = table.initial(STANDING), table.initial(MOVING), table.densities()
    begin = 0
    for group in table.groups:
        place = slice(begin, begin + len(group.elements))
        begin = place.stop
        # Without one unit for all elements, numbers stand by themselves.
        unit = "" if group.unit == "–" or ", " in group.unit else f" {group.unit}"
        initial = [f"{_join(np.sqrt(v[place]))}{unit}" for v in (standing, moving)]
        roots = np.sqrt(densities[place])
        noise = f"{_join(roots)}{unit or ' 1'}/√s" if roots.any() else "–"
        process = processes.get(group)
        fades = "–" if group not in processes else "set while running"
        if process is not None:
            sigma = _join(process.sigma) if np.any(process.sigma) else "0"
            fades = f"{sigma}{unit}; {process.time:g} s"
        rows.append(f"| `{group.name}` | {' | '.join(initial)} | {noise} | {fades} |")
    return rows


def _join(values: Values | np.ndarray) -> str:
    """One number where all elements have the same."""
    numbers: Sequence[str] = [f"{v:.2g}" for v in np.atleast_1d(np.asarray(values, dtype=float))]
    return numbers[0] if len(set(numbers)) == 1 else ", ".join(numbers)


def renew(page: str) -> str:
    """The page with the tables of today."""
    return re.sub(f"(?s){BEGIN}.*{END}", lambda _: f"{BEGIN}{make_tables()}{END}", page)


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(renew(before), encoding="utf-8")
