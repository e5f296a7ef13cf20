"""Columns of an estimate, gathered in their order from the car's outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vehicled.filter.factors import calc_dot
from vehicled.filter.structure import SIGMAS
from vehicled.messages import ESTIMATE_COLUMNS, WHEELS
from vehicled.symbolic.program import KernelHandle
from vehicled.vehicle.arrays import CORNER_OUTPUTS, ROOT_OUTPUTS

if TYPE_CHECKING:
    from vehicled.symbolic.program import Program

ESTIMATE, PER_BOUND, SHARE = "estimate", "estimate.per_bound", "estimate.share"
"""Arrays: the columns; by column the inverse of a magnitude that no car reaches; and the sum of squares of
columns over these magnitudes. If that is below 1, each column is below its magnitude."""
GATHER = KernelHandle("gather")
"""Kernel that writes columns and sum. Columns that are not the car's, such as the latitude, are zero."""


def add_estimate(program: Program) -> None:
    """Add these arrays and the kernel; to be called after the outputs have been added."""
    g = program.graph
    columns = dict(zip(ROOT_OUTPUTS, program.arrays["outputs"], strict=True))
    columns |= zip((f"sigma.{name}" for name in SIGMAS), program.arrays["sigmas"], strict=True)
    for output, row in zip(CORNER_OUTPUTS, program.lanes("corner_outputs"), strict=True):
        group, quantity = output.split(".")
        columns |= {f"{group}.{w}.{quantity}": value for w, value in zip(WHEELS, row, strict=True)}
    estimate, per_bound = (program.array(name, len(ESTIMATE_COLUMNS)) for name in (ESTIMATE, PER_BOUND))
    (share,) = program.array(SHARE, 1)
    values = [columns.get(name, g.zero) for name in ESTIMATE_COLUMNS]
    shares = [value * p for value, p in zip(values, per_bound, strict=True)]
    stores = [*zip(estimate, values, strict=True), (share, calc_dot(g, shares, shares))]
    handle = program.kernel(GATHER.name, stores)
    assert handle == GATHER
