"""Columns of the truth that follow from the motion of an engine's wheels."""

from __future__ import annotations

import numpy as np

from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.studies.benchmarks.peers.wheels import Wheels
from vehicled.vehicle.outputs import SLIP_SPEED

SLIPS_AND_FORCES, TRAVEL = (
    np.array([[ESTIMATE_INDEX[f"{part}.{w}.{what}"] for w in WHEELS] for part, what in names])
    for names in (
        (("slip", "angle"), ("slip", "ratio"), ("tyre", "fx"), ("tyre", "fy"), ("tyre", "fz")),
        (("suspension", "deflection"), ("suspension", "rate")),
    )
)
"""Indices in a row of the truth of the results of these functions."""


def calc_slips_and_forces(wheels: Wheels) -> np.ndarray:
    """(5, 4): slip angle (rad) and ratio of thin discs on a level road; forces fx, fy, fz in their axes (N).

    Defined as in the estimate: slip of the lowest point at the rolling radius, over the speed of the hub.
    """
    axes, velocities = wheels.axes, wheels.velocities
    level = np.hypot(axes[:, 0], axes[:, 1])
    ahead = np.column_stack((axes[:, 1], -axes[:, 0], np.zeros(len(WHEELS)))) / level[:, None]
    left = np.column_stack((-ahead[:, 1], ahead[:, 0], np.zeros(len(WHEELS))))
    down = np.column_stack((axes[:, :2] * axes[:, 2:], -(level**2))) / level[:, None]
    contact = velocities + np.cross(wheels.rates, wheels.radii[:, None] * down)

    def along(axis: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(axis * vectors, axis=1))

    speed = np.maximum(np.abs(along(ahead, velocities)), SLIP_SPEED)
    angle, ratio = np.arctan(along(left, velocities) / speed), -along(ahead, contact) / speed
    forces = wheels.forces
    return np.stack((angle, ratio, along(ahead, forces), along(left, forces), forces[:, 2]))


def calc_travel(
    wheels: Wheels, place: np.ndarray, R: np.ndarray, velocity: np.ndarray, rates: np.ndarray
) -> np.ndarray:
    """(2, 4): height of the hubs over the chassis' centre of mass in its axes, m, and its rate, m/s.

    Arguments of the chassis: centre of mass and its velocity in world axes, R_world_chassis, and body rates.
    """
    arms = (wheels.places - place) @ R
    relative = (wheels.velocities - velocity) @ R - np.cross(rates, arms)
    return np.stack((arms[:, 2], relative[:, 2]))
