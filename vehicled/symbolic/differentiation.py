"""What a program is differentiated by, and where its tangents lie (`tangent.py` makes them)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.symbolic.program import KernelHandle, Layout

PREFIX = "d."
"""Before the name of a kernel: its differentiated one."""


@dataclass(frozen=True)
class Differentiation:
    """What a program is differentiated by."""

    directions: int
    """2, 4 or a multiple of 8."""
    fixed: tuple[str, ...] = ()
    """Names of arrays that do not change with what is differentiated by: they have no tangents."""
    plain: tuple[KernelHandle, ...] = ()
    """Kernels that are left as they are; what they store has to be fixed."""


@dataclass(frozen=True)
class TangentLayout:
    """Where the tangents lie in a workspace."""

    begin: int
    """Of the array `tangents`."""
    layout: Layout
    """Within that array; one instance per direction."""

    def all(self, workspace: np.ndarray) -> np.ndarray:
        """Every tangent in a workspace."""
        return workspace[self.begin : self.begin + self.layout.size]

    def view(self, workspace: np.ndarray, name: str) -> np.ndarray:
        """Tangents of an array in a workspace: (count, directions) or (count, lanes, directions)."""
        return self.layout.view(self.all(workspace), name)
