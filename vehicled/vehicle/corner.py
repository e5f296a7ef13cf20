"""Bodies and forces of a corner, as the balance of forces needs them.

Vectors in world axes; N, m, kg.
"""

from __future__ import annotations

from dataclasses import dataclass

from vehicled.multibody.natural import Combination, Frame
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector


@dataclass(frozen=True)
class Wishbone:
    """A body on a hinge of the chassis, with a ball joint."""

    body: str
    """Its name in the system."""
    frame: Frame
    hinge: Combination
    axis: Combination
    """Unit vector."""
    joint: Combination
    """The ball joint."""
    arm_design: Vector
    """From the hinge to the ball joint in design position, chassis axes."""
    axis_design: Vector

    @property
    def arm(self) -> Combination:
        """From the hinge to the ball joint."""
        return self.joint - self.hinge


@dataclass(frozen=True)
class TieRod:
    """A rod without mass from chassis or rack to the knuckle."""

    outer: Combination
    """Its end at the knuckle."""
    rod: Vector
    """From the inner to the outer end."""
    design: Vector
    """The same in design position, chassis axes."""


@dataclass(frozen=True)
class WheelInertia:
    """An axisymmetric body, kg and kg·m²."""

    mass: Atom
    axial: Atom
    transverse: Atom


@dataclass(frozen=True)
class Strut:
    """Spring, damper and stops between the chassis and the body that they stand on."""

    foot: Combination
    """Lower end, on that body."""
    direction: Vector
    """Unit vector from the foot to the top."""
    force: Atom
    """Total force, positive in compression."""
    spring: Atom
    damper: Atom
    """Positive when the strut lengthens."""
    bump: Atom
    droop: Atom
    """Forces of the stops, never negative."""


@dataclass(frozen=True)
class Tyre:
    """The ground's force on the wheel at present."""

    fx: Atom
    """Along the ground in the direction of the wheel."""
    fy: Atom
    """Along the ground to the left."""
    force: Vector
    """Total force."""
    arm: Vector
    """From the wheel's centre to the point of action, at right angles to the axle."""
    up: Vector
    """Normal of the ground."""
    aligning: Atom
    """Torque about the normal, N·m."""
    resistance: Atom
    """Torque against the wheel's spin, N·m."""


@dataclass(frozen=True)
class CornerParts:
    """One corner without the suspension of its knuckle (`Linkage`)."""

    centre: Combination
    """Centre of the wheel."""
    spin: Atom
    """Absolute rate of the wheel about its axis, rad/s."""
    wheel: WheelInertia
    strut: Strut
    bar_force: Atom
    """Force of the anti-roll bar on the lower wishbone at its ball joint, downwards in chassis axes."""
    brake_torque: Atom
    """Present torque on the knuckle about the spin axis; the opposite acts on the wheel."""
    tyre: Tyre
