"""Forces in the joints of a car, as an option: computed by a program separate from that of the car."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vehicled.symbolic.program import KernelHandle
from vehicled.vehicle.car import Car
from vehicled.vehicle.car_copy import CarCopy
from vehicled.vehicle.extension import Extension

if TYPE_CHECKING:
    from vehicled.symbolic.program import Program
    from vehicled.vehicle.outputs import Parts


@dataclass(frozen=True)
class LoadKernels:
    """The kernel that `add_loads` adds."""

    loads: KernelHandle
    """`loads` in the order of CORNER_LOADS, and `load_residual` (N·m), both per corner, of the present state and
    `added_forces`."""


def add_loads(program: Program, parts: Parts) -> LoadKernels:
    """Add the kernel `loads`."""
    # Imported here, as cached code does not need it.
    from vehicled.vehicle.joint_forces import add_joint_forces

    return LoadKernels(add_joint_forces(program, parts))


_LOADS = Extension(add_loads, LoadKernels)


class JointLoads:
    """Forces in ball joints, tie rods, hinges and wheel bearings of a moving car.

    They are computed in a copy of the car, so that the code of the car itself does not change.
    """

    def __init__(self, car: Car) -> None:
        """The code is compiled on first use."""
        self._copy = copy = CarCopy(car, _LOADS)
        self._calc = copy.bind(copy.added.loads)
        self._loads, self._added = copy.view("loads"), copy.view("added_forces")
        self.residual = copy.view("load_residual")[0]
        """(4,) N·m, from `calc`: residual of the redundant equation of a corner, the moment on the lower
        wishbone about its hinge. It is due to errors of the step, and to later corrections."""

    def calc(self, added: np.ndarray | float = 0.0) -> np.ndarray:
        """(len(LOAD_COLUMNS),) joint forces of the car's present motion, N and N·m in vehicle axes; a copy.

        `added`: (len(ADDED_FORCES), 4) forces on its corners in addition to the model's, N.
        """
        self._copy.update()
        self._added[:] = added
        self._calc()
        return self._loads.T.ravel()
