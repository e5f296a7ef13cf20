"""Handles of the kernels of a step of the multibody simulation (`ali3p.py` makes them)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vehicled.symbolic.program import KernelHandle


@dataclass(frozen=True)
class StepKernels:
    """The kernels of one step, in their order."""

    predict: KernelHandle
    factor: KernelHandle
    iterate: KernelHandle
    recover: KernelHandle
    project_velocity: KernelHandle
    project_acceleration: KernelHandle
    finish: KernelHandle


StepFunction = Callable[[int, int, float, float, int], int]
"""Machine code of `Ali3pStep.routine`. Arguments: address of the workspace, iteration limit, tolerance on
‖Δq‖², ‖Δq‖² above which to factorise again, projection passes. Returns the number of Newton iterations,
negative if the tolerance was not reached. Each of several instances iterates until it has reached the
tolerance and is then not changed any more, so that its result is the same as alone; the number is that of the
last instance to finish."""
