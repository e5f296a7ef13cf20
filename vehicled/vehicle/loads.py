"""Forces in the joints of a car, as one more kernel that only those who want them add to its program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from vehicled.symbolic.program import KernelHandle
from vehicled.vehicle.extension import Extension

if TYPE_CHECKING:
    from vehicled.symbolic.program import Program
    from vehicled.vehicle.car import Car
    from vehicled.vehicle.outputs import Parts


@dataclass(frozen=True)
class LoadKernels:
    """The kernel that `add_loads` adds."""

    loads: KernelHandle
    """`loads` in the order of CORNER_LOADS, and `load_residual` (N·m), both per corner, of the present state."""


def add_loads(program: Program, parts: Parts) -> LoadKernels:
    """What `LOADS` adds."""
    # Code that has been kept on disk needs none of what it was made with.
    from vehicled.vehicle.joint_forces import add_joint_forces

    return LoadKernels(add_joint_forces(program, parts))


LOADS = Extension(add_loads, LoadKernels)


class JointLoads:
    """Computes the forces in the joints of a car."""

    def __init__(self, car: Car) -> None:
        """A car with the extension LOADS. Raises KeyError for another one."""
        self._calc = car.bind(car.result(LOADS).loads)
        self._loads = car.view("loads")

    def calc(self) -> np.ndarray:
        """(len(LOAD_COLUMNS),) of the car's present state, N and N·m; a copy."""
        self._calc()
        return self._loads.T.ravel()
