"""Variables by which a program is differentiated, and places of its tangents (`tangent.py` computes these)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.symbolic.program import KernelHandle, Layout

PREFIX = "d."
"""Prefix of a kernel's name for its differentiated kernel."""


@dataclass(frozen=True)
class Differentiation:
    """Directions of the derivatives of a program, and its arrays and kernels without derivatives."""

    directions: int
    """Number of directions: 2, 4 or a multiple of 8."""
    fixed: tuple[str, ...] = ()
    """Names of arrays that do not depend on the variables of differentiation: they have no tangents."""
    plain: tuple[KernelHandle, ...] = ()
    """Kernels that are not differentiated; the arrays that they store have to be fixed."""


@dataclass(frozen=True)
class TangentLayout:
    """Places of the tangents in a workspace."""

    begin: int
    """Start of the array `tangents`."""
    layout: Layout
    """Layout within that array; one instance per direction."""

    def all(self, workspace: np.ndarray) -> np.ndarray:
        """All tangents in a workspace."""
        return workspace[self.begin : self.begin + self.layout.size]

    def view(self, workspace: np.ndarray, name: str) -> np.ndarray:
        """Tangents of an array in a workspace: (count, directions) or (count, lanes, directions)."""
        return self.layout.view(self.all(workspace), name)
