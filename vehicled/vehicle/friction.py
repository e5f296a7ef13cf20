"""Friction in series with an elastic mounting, as expressions: for brakes, and clutches of differentials."""

from __future__ import annotations

from dataclasses import dataclass

from vehicled.symbolic.graph import Atom, Graph

_SHAFT_STIFFNESS = 5000.0
"""Stiffness of both half-shafts of an axle in series, N·m/rad: some 10 kN·m/rad each."""
_SHAFT_DAMPING = 50.0
"""N·m·s/rad: half of the critical damping of wheels against each other on these shafts."""
_LARGEST_WEIGHT = 0.1
"""Largest weight of the shafts in the tangent, over the inertia of a wheel: share of the error that a Newton
iteration leaves."""


@dataclass(frozen=True)
class Friction:
    """An elastic-plastic element at the end of a step."""

    torque: Atom
    """N·m, against the motion."""
    windup: Atom
    """Remaining twist of the mounting, rad."""
    grip: Atom
    """Effective share of stiffness and damping: 1 while it sticks."""


def calc_friction(
    g: Graph, wound: Atom, rate: Atom, limit: Atom, stiffness: Atom | float, damping: Atom | float
) -> Friction:
    """Friction that sticks like spring and damper up to a torque `limit` (N·m), then slips; it does not creep.

    `wound`: twist if it sticks (rad); `rate`: of the motion (rad/s); `stiffness`: N·m/rad; `damping`:
    N·m·s/rad.
    """
    trial = stiffness * wound + damping * rate
    torque = g.clamp(trial, -limit, limit)
    left_over = (torque - damping * rate) / stiffness
    return Friction(
        torque=torque,
        windup=g.clamp(left_over, -(limit / stiffness), limit / stiffness),
        grip=g.where_less(g.abs(trial), limit, g.one, limit / (g.abs(trial) + 1e-9)),
    )


def calc_clutch(
    g: Graph, h: Atom, windup: Atom, difference: Atom, limit: Atom, inertia: Atom
) -> tuple[Friction, Atom]:
    """Clutch between the wheels of an axle, in series with the half-shafts; and its weight in each wheel's tangent.

    `h`: step (s); `windup`: of the shafts before it (rad); `difference`: of the wheel's rate from the other
    one's (rad/s); `limit`: N·m; `inertia`: of a wheel (kg·m²). The twist is integrated by backward Euler, as
    filters change the wheels' rates between steps. The tangent has no coupling of the wheels, so iterations
    converge with weight over inertia: for long steps the shafts are made softer than real ones.
    """
    half_h = 0.5 * h
    real = half_h * (_SHAFT_STIFFNESS * h + _SHAFT_DAMPING)
    scale = g.min((_LARGEST_WEIGHT * inertia) / real, 1.0)
    stiffness, damping = _SHAFT_STIFFNESS * scale, _SHAFT_DAMPING * scale
    clutch = calc_friction(g, windup + h * difference, difference, limit, stiffness, damping)
    return clutch, real * scale * clutch.grip
