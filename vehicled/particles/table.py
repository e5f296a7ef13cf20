"""Estimates of a mechanism as tables: a CSV file with a row per estimate, and the last one as text."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Self

from vehicled.messages import ParticleEstimate
from vehicled.terminal.output_files import open_text_output

_PARTS = ("value", "sigma", "rate", "rate_sigma", "mean", "deviation")


class MechanismWriter:
    """Context manager that writes estimates as CSV: `t` (s), `cluster`, `effective`, and each coordinate.

    `theta` is the mean of the heaviest cluster, `theta.mean` that of all particles.
    """

    def __init__(self, path: Path) -> None:
        """Creates the file, or overwrites it. Raises OSError."""
        self._file = open_text_output(path)
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._has_header = False

    def write(self, estimate: ParticleEstimate) -> None:
        """Append a row. Raises OSError."""
        if not self._has_header:
            self._has_header = True
            columns = [
                name if part == "value" else f"{name}.{part}"
                for name in estimate.coordinates
                for part in _PARTS
            ]
            self._writer.writerow(["t", "cluster", "effective", *columns])
        values = [getattr(c, part) for c in estimate.coordinates.values() for part in _PARTS]
        seconds = f"{estimate.t // 10**9}.{estimate.t % 10**9:09d}"
        self._writer.writerow([seconds, estimate.cluster, estimate.effective, *values])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def format_estimate(estimate: ParticleEstimate) -> list[str]:
    """Lines of a table: each coordinate by the heaviest cluster, and by all particles."""
    lines = [f"{'coordinate':<16} {'heaviest cluster':>24} {'rate':>24} {'all particles':>24}"]
    for name, c in estimate.coordinates.items():
        factor, unit = (math.degrees(1.0), "°") if c.unit == "rad" else (1.0, " m")
        cells = [
            f"{factor * mean:.4g} ± {factor * sigma:.2g}{unit}{per}"
            for mean, sigma, per in (
                (c.value, c.sigma, ""),
                (c.rate, c.rate_sigma, "/s"),
                (c.mean, c.deviation, ""),
            )
        ]
        lines.append(f"{name:<16} {cells[0]:>24} {cells[1]:>24} {cells[2]:>24}")
    lines.append(
        f"weight of the cluster {100 * estimate.cluster:.0f} %, "
        f"effective sample size {100 * estimate.effective:.0f} % of the particles"
    )
    return lines
