"""The chassis pose in the errorEKF's coordinates: z = (r1, ψ, v1z, v2z), a chart of all poses that are not vertical.

Sanjurjo's observer uses exactly these error states. Both ways are closed forms, so that a correction Δz, Δż
maps onto q, q̇ with every constraint still satisfied.
"""

from __future__ import annotations

from dataclasses import dataclass

from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.vector import Vector


@dataclass(frozen=True)
class Axes:
    """Unit vectors of the chassis in world axes."""

    v1: Vector
    v2: Vector
    v3: Vector

    def to_body(self, v: Vector) -> Vector:
        """Components in chassis axes of a vector in world axes."""
        return Vector(self.v1.dot(v), self.v2.dot(v), self.v3.dot(v))

    def to_world(self, v: Vector) -> Vector:
        """Components in world axes of a vector in chassis axes."""
        return self.v1 * v.x + self.v2 * v.y + self.v3 * v.z


def axes(g: Graph, yaw: Atom, v1z: Atom, v2z: Atom) -> Axes:
    """Chassis axes from the chart."""
    c = g.sqrt(1.0 - v1z * v1z)
    cos, sin = g.cos(yaw), g.sin(yaw)
    v1 = Vector(cos * c, sin * c, v1z)
    level = Vector(-sin, cos, g.zero)
    upward = v1.cross(level)
    sin_roll = v2z / c
    cos_roll = g.sqrt(1.0 - sin_roll * sin_roll)
    v2 = level * cos_roll + upward * sin_roll
    return Axes(v1, v2, v1.cross(v2))


def chart_rates(a: Axes, w_world: Vector) -> Vector:
    """(ψ̇, v̇1z, v̇2z) of an angular velocity."""
    d1, d2 = w_world.cross(a.v1), w_world.cross(a.v2)
    level = a.v1.x * a.v1.x + a.v1.y * a.v1.y
    return Vector((a.v1.x * d1.y - a.v1.y * d1.x) / level, d1.z, d2.z)


def angular_velocity(a: Axes, rates: Vector) -> Vector:
    """w (world axes) from (ψ̇, v̇1z, v̇2z): the inverse of `chart_rates`.

    With (w×v1)z = wx v1y − wy v1x and (w×v2)z = wx v2y − wy v2x, wx and wy follow from two equations whose
    determinant is v1x v2y − v1y v2x = v3z; ψ̇ then gives wz.
    """
    v1, v2 = a.v1, a.v2
    wx = (v1.x * rates.z - v2.x * rates.y) / a.v3.z
    wy = (v1.y * rates.z - v2.y * rates.y) / a.v3.z
    # ψ̇ (v1x² + v1y²) = v1x (wz v1x − wx v1z) − v1y (wy v1z − wz v1y)
    level = v1.x * v1.x + v1.y * v1.y
    wz = rates.x + (v1.x * wx * v1.z + v1.y * wy * v1.z) / level
    return Vector(wx, wy, wz)


def yaw_of(g: Graph, a: Axes) -> Atom:
    """Heading of the chassis' longitudinal axis, rad in (−π, π], from the world's x axis towards y."""
    return g.atan2(a.v1.y, a.v1.x)


def body_rates(a: Axes, d1: Vector, d2: Vector, d3: Vector) -> Vector:
    """ω in vehicle axes from the axes' derivatives: (v̇2·v3, v̇3·v1, v̇1·v2)."""
    return Vector(d2.dot(a.v3), d3.dot(a.v1), d1.dot(a.v2))
