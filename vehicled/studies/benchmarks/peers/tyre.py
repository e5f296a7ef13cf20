"""The published tyre law for one wheel in plain Python: for the engines' force callbacks.

Floats instead of arrays: for a few numbers that is several times faster than NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt, tanh

from vehicled.vehicle.parameters import AxleParts, LinearTyre

Wrench = tuple[float, float, float, float, float, float]


def make_tyre(axle: AxleParts) -> Callable[..., Wrench]:
    """The tyre of an axle as a function of the wheel's motion, in world axes and SI units.

    Its arguments: height of the hub over the road; spin axis (3 numbers, unit vector to the left); velocity of the
    hub (3), the vertical one over that of the road; angular velocity of the wheel (3). It returns force on the wheel
    and moment about the hub.
    """
    tyre = axle.tyre
    assert isinstance(tyre, LinearTyre)
    radius, stiffness, damping = tyre.radius, tyre.vertical_stiffness, tyre.vertical_damping
    kx, ky, friction, least = tyre.slip_stiffness_x, tyre.slip_stiffness_y, tyre.friction, tyre.least_speed

    def wrench(height: float, *motion: float) -> Wrench:
        ax, ay, az, vx, vy, vz, wx, wy, wz = motion
        # t = axis × up made horizontal, l = up × t; r leads from the hub to the lowest point of the disc.
        level = sqrt(ax * ax + ay * ay)
        tx, ty = ay / level, -ax / level
        rx, ry, rz = radius * ax * az / level, radius * ay * az / level, -radius * level
        cx, cy, cz = vx + wy * rz - wz * ry, vy + wz * rx - wx * rz, vz + wx * ry - wy * rx
        pressed = -stiffness * (height + rz)
        # The damper's force is at most the spring's, so that the load of a wheel that touches down starts
        # from zero.
        load = min(pressed - damping * cz, 2.0 * pressed)
        if load <= 0.0:
            return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        speed = max(abs(vx * tx + vy * ty), least)
        along, across = -kx * (cx * tx + cy * ty) / speed, -ky * (cy * tx - cx * ty) / speed
        s = sqrt(along * along + across * across) / (friction * load)
        if s > 0.0:
            share = tanh(s) / s
            along, across = along * share, across * share
        fx, fy = along * tx - across * ty, along * ty + across * tx
        return fx, fy, load, ry * load - rz * fy, rz * fx - rx * load, rx * fy - ry * fx

    return wrench
