"""Where in a workspace the columns of an estimate stand."""

from __future__ import annotations

import numpy as np

from vehicled.filter.structure import SIGMAS
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, WHEELS
from vehicled.symbolic.program import Layout
from vehicled.vehicle.arrays import CORNER_OUTPUTS, ROOT_OUTPUTS


def find_columns(layout: Layout) -> np.ndarray:
    """(len(ESTIMATE_COLUMNS),) where in a workspace each column stands; 0 for those that are not there."""
    places = np.zeros(len(ESTIMATE_COLUMNS), dtype=np.intp)
    every = np.arange(layout.size)
    for names, array in ((ROOT_OUTPUTS, "outputs"), ([f"sigma.{n}" for n in SIGMAS], "sigmas")):
        places[[ESTIMATE_INDEX[n] for n in names]] = layout.view(every, array)
    for output, row in zip(CORNER_OUTPUTS, layout.view(every, "corner_outputs"), strict=True):
        group, quantity = output.split(".")
        places[[ESTIMATE_INDEX[f"{group}.{w}.{quantity}"] for w in WHEELS]] = row
    return places
