"""Friction in series with an elastic mounting, as expressions: a brake's disc, a differential's clutch."""

from __future__ import annotations

from dataclasses import dataclass

from vehicled.symbolic.graph import Atom, Graph

_SHAFT_STIFFNESS = 5000.0
"""Of both half-shafts of an axle in series, N·m/rad: some 10 kN·m/rad each."""
_SHAFT_DAMPING = 50.0
"""N·m·s/rad: wheels against each other on these shafts are damped to a half of critical."""
_LARGEST_WEIGHT = 0.1
"""Of the shafts in a Newton iteration, over the inertia of a wheel: what an iteration leaves of the error."""


@dataclass(frozen=True)
class Friction:
    """An elastic-plastic element at the end of a step."""

    torque: Atom
    """N·m, against the motion."""
    windup: Atom
    """Twist of the mounting that is left, rad."""
    grip: Atom
    """Share of stiffness and damping that is effective: 1 while it sticks."""


def calc_friction(
    g: Graph, wound: Atom, rate: Atom, limit: Atom, stiffness: Atom | float, damping: Atom | float
) -> Friction:
    """Sticking like spring and damper up to a torque `limit` (N·m), slipping with that torque; it does not creep.

    `wound`: twist if it sticks (rad), `rate`: of the motion (rad/s); N·m/rad, N·m·s/rad.
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
    """Between the wheels of an axle, in series with the half-shafts; and its weight in the tangent of each wheel.

    `h` step (s), `windup` of the shafts before it (rad), `difference` of the wheel's rate from the other one's
    (rad/s), `limit` (N·m), `inertia` of a wheel (kg·m²). Backward Euler for the twist, as filters change the wheels'
    rates between steps. The tangent has each wheel by itself, so that iterations converge with weight over inertia:
    where steps are long, shafts are softer than real ones.
    """
    half_h = 0.5 * h
    real = half_h * (_SHAFT_STIFFNESS * h + _SHAFT_DAMPING)
    scale = g.min((_LARGEST_WEIGHT * inertia) / real, 1.0)
    stiffness, damping = _SHAFT_STIFFNESS * scale, _SHAFT_DAMPING * scale
    clutch = calc_friction(g, windup + h * difference, difference, limit, stiffness, damping)
    return clutch, real * scale * clutch.grip
