"""Wrenches on the wheels of a car from outside its suspensions: a kernel for programs that compute these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vehicled.symbolic.program import KernelHandle
from vehicled.vehicle.extension import Extension

if TYPE_CHECKING:
    from vehicled.symbolic.program import Program
    from vehicled.vehicle.outputs import Parts


@dataclass(frozen=True)
class WrenchKernels:
    """The kernel that `add_wheel_wrenches` adds."""

    wrenches: KernelHandle
    """`wheel_wrenches` (7) per corner, of the present state: the ground's force on the wheel and its moment about the
    wheel's centre (N, N·m, world axes), and the brake's torque on the wheel carrier about the spin axis (N·m)."""


def add_wheel_wrenches(program: Program, parts: Parts) -> WrenchKernels:
    """Add the kernel `wheel_wrenches`."""
    corner, s = parts.corner, parts.spin_axis.position
    tyre = corner.tyre
    moment = tyre.arm.cross(tyre.force) + tyre.up * tyre.aligning - s * tyre.resistance
    values = [*tyre.force, *moment, corner.brake_torque]
    places = program.array("wheel_wrenches", len(values), 1)
    return WrenchKernels(program.kernel("wheel_wrenches", zip(places, values, strict=True)))


WHEEL_WRENCHES = Extension(add_wheel_wrenches, WrenchKernels)
