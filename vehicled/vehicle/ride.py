"""Forces that move a body on its suspensions, and the resulting travel, to first order about design."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vehicled.vehicle.arrays import ADDED_FORCES
from vehicled.vehicle.kinematics import calc_ratios
from vehicled.vehicle.parameters import AnyAxle, Vehicle


@dataclass(frozen=True)
class TravelMode:
    """Both wheels of an axle travel equally, or oppositely; figures per wheel."""

    stiffness: float
    """Vertical force at the wheel by its travel, N/m, including the anti-roll bar's."""
    damping: float
    """N·s/m"""
    strut_stiffness: float
    """Force of the strut by the travel of the wheel, N/m."""
    strut_damping: float
    """N·s/m"""
    bar_stiffness: float
    """Force of the anti-roll bar on the suspension by the travel of the wheel, N/m."""


def calc_travel_modes(axle: AnyAxle) -> tuple[TravelMode, TravelMode]:
    """Mode of equal travel, and mode of the left wheel up and the right one down."""
    return _calc_mode(axle, 1.0), _calc_mode(axle, -1.0)


def _calc_mode(axle: AnyAxle, right: float) -> TravelMode:
    ratios = calc_ratios(axle.hard_points, right)
    spring, damper = axle.spring.stiffness, 0.5 * (axle.damper.bump + axle.damper.rebound)
    bar = axle.anti_roll_bar * ratios.bar * (1.0 - right)
    return TravelMode(
        stiffness=ratios.strut**2 * spring + ratios.bar * bar,
        damping=ratios.strut**2 * damper,
        strut_stiffness=ratios.strut * spring,
        strut_damping=ratios.strut * damper,
        bar_stiffness=bar,
    )


def calc_road_forces_by_travel(vehicle: Vehicle) -> np.ndarray:
    """(20, 8) forces added by a rough road, per added travel of the four wheels (m) and its rates (m/s).

    Rows: ADDED_FORCES, each by wheel, N. The load is the sum of the forces of spring, damper and bar at the
    wheel; the force along the wheel is zero.
    """
    found = np.zeros((len(ADDED_FORCES), 4, 2, 4))
    alike = np.full((2, 2), 0.5)
    apart = 0.5 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    for n, axle in enumerate((vehicle.front, vehicle.rear)):
        of = slice(2 * n, 2 * n + 2)
        for mode, wheels in zip(calc_travel_modes(axle), (alike, apart), strict=True):
            for name, by_travel, by_rate in (
                ("spring", mode.strut_stiffness, 0.0),
                ("damper", 0.0, mode.strut_damping),
                ("bar", mode.bar_stiffness, 0.0),
                ("load", mode.stiffness, mode.damping),
            ):
                row = found[ADDED_FORCES.index(name), of]
                row[:, 0, of] += by_travel * wheels
                row[:, 1, of] += by_rate * wheels
    return found.reshape(4 * len(ADDED_FORCES), 8)


def calc_road_forces(vehicle: Vehicle) -> np.ndarray:
    """(4, 4) vertical forces of the suspensions on the body, N per wheel, that cause its accelerations.

    Rows: front axle, both wheels equally, and left up with right down; then the same for the rear axle.
    Columns: upward acceleration of the vehicle origin (m/s²), specific force there to the left (m/s²), roll
    and pitch acceleration (rad/s²), vehicle axes.

    Newton and Euler for the body on its suspensions. Lateral forces act on it at the ground, because the roll
    centres of most suspensions are near the ground. Three equations do not determine four forces: the torsion
    of the body is unknown, and both axles are assumed to have the same roll.
    """
    bodies = [body for name, body in vehicle.central_bodies().items() if name != "axle"]
    mass = sum(b.mass for b in bodies)
    centre = sum((b.mass * np.array(b.center_of_mass) for b in bodies), np.zeros(3)) / mass
    roll_inertia = pitch_inertia = 0.0
    for body in bodies:
        x, y, z = body.center_of_mass - centre
        roll_inertia += body.inertia[0] + body.mass * (y * y + z * z)
        pitch_inertia += body.inertia[1] + body.mass * (x * x + z * z)
    ahead, _, above = centre - vehicle.center_of_mass()
    # Per unit of the four accelerations: force at the body's own centre of mass, and moments about it.
    lift = mass * np.array([1.0, 0.0, 0.0, -ahead])
    rolling = np.array([0.0, 0.0, roll_inertia, 0.0])
    rolling -= mass * centre[2] * np.array([0.0, 1.0, -above, 0.0])
    pitching = np.array([0.0, 0.0, 0.0, pitch_inertia])
    axles = vehicle.front, vehicle.rear
    front, rear = (axle.hard_points.wheel_center[0] - centre[0] for axle in axles)
    # 2 f + 2 r = lift, −2 f front − 2 r rear = pitching
    of_front = -(pitching + rear * lift) / (2.0 * (front - rear))
    halves = [axle.hard_points.wheel_center[1] for axle in axles]
    stiffness = [calc_travel_modes(axle)[1].stiffness * y for axle, y in zip(axles, halves, strict=True)]
    per_stiffness = rolling / (2.0 * sum(k * y for k, y in zip(stiffness, halves, strict=True)))
    return np.array(
        [of_front, stiffness[0] * per_stiffness, 0.5 * lift - of_front, stiffness[1] * per_stiffness]
    )
