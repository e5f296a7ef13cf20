"""Motions of mechanisms as tables of CSV."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from vehicled.simulation.motion import SimulatedMotion
from vehicled.terminal.output_files import open_text_output, writing


def write_motion(path: str | Path, motion: SimulatedMotion) -> None:
    """Write the input of `vehicled identify --mechanism`: `t`, coordinates, `NAME.force`. Raises UsageError."""
    columns = {name: motion.get(name) for name in motion.independent}
    _write(path, motion, columns | _name_forces(motion))


def write_truth(path: str | Path, motion: SimulatedMotion) -> None:
    """Write `t`, coordinates with `NAME.rate`, `NAME.acceleration`, `NAME.force`; `energy`. Raises UsageError."""
    columns: dict[str, np.ndarray] = {}
    for k, name in enumerate(motion.names):
        columns |= {name: motion.q[:, k], f"{name}.rate": motion.qd[:, k]}
        columns[f"{name}.acceleration"] = motion.qdd[:, k]
    _write(path, motion, columns | _name_forces(motion) | {"energy": motion.energy})


def _name_forces(motion: SimulatedMotion) -> dict[str, np.ndarray]:
    return {f"{name}.force": force for name, force in motion.forces.items()}


def _write(path: str | Path, motion: SimulatedMotion, columns: dict[str, np.ndarray]) -> None:
    table = zip(motion.t.tolist(), *(values.tolist() for values in columns.values()), strict=True)
    with writing(path), open_text_output(Path(path)) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["t", *columns])
        writer.writerows([f"{x:.15g}" for x in row] for row in table)
