"""Operations on a body of a mechanism: pose, twist, acceleration, wrench, forces at its points.

A twist is (angular velocity, velocity of a point), (6,) in rad/s and m/s; a wrench (torque, force at a point), (6,)
in N·m and N, in world axes both, so that wrench · twist is a power. A place on a body is in the body's axes
(m): those in which its description gives its points, which for points given by name are the world's in the
position as described; of a bar, x along it from its first point. As everywhere, the angular velocity is
½ Σ e_k × ė_k of the body's axes e_k (García de Jalón and Bayo, *Kinematic and Dynamic Simulation of Multibody
Systems*, chapter 2), exact where the constraints of rigid body are met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody import problems
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.placement import PlacedBody

Place = Sequence[float] | np.ndarray


def get_body(mechanism: Mechanism, name: str) -> PlacedBody:
    """A body's maps. Raises UsageError if there is none of that name."""
    bodies = mechanism.placement.bodies
    if name not in bodies:
        raise UsageError(f"unknown body '{name}'; known here: {', '.join(bodies)}")
    return bodies[name]


@dataclass(frozen=True)
class BodyPose:
    """Pose of a body: p_world = R_world_body p_body + origin_world."""

    R_world_body: np.ndarray
    """(3, 3)"""
    origin_world: np.ndarray
    """(3,) m"""


def calc_pose(mechanism: Mechanism, body: str) -> BodyPose:
    """Pose of a body. Raises UsageError for one without orientation (a point mass, a bar in space)."""
    origin, *axes = _oriented(mechanism, body).place(mechanism.q)
    return BodyPose(np.array(axes).T, origin)


def calc_center_place(mechanism: Mechanism, body: str) -> np.ndarray:
    """(3,) centre of mass in the body's axes, m; zero for a body without mass. Raises UsageError as `calc_pose`."""
    moments = _oriented(mechanism, body).moments
    return moments[0, 1:] / moments[0, 0] if moments[0, 0] else np.zeros(3)


def calc_point_map(mechanism: Mechanism, point: str) -> np.ndarray:
    """(3, n) Jacobian J of a named point or marker, constant in natural coordinates.

    Its velocity is J q̇, its acceleration J q̈, and a force f (N) at it is the generalised force Jᵀ f. Raises
    UsageError when there is none of that name.
    """
    points = mechanism.placement.points
    if point not in points:
        raise UsageError(f"unknown point '{point}'; known here: {', '.join(points)}")
    position: np.ndarray = points[point]
    return position


def calc_body_point_map(mechanism: Mechanism, body: str, place: Place) -> np.ndarray:
    """(3, n) Jacobian as in `calc_point_map`, of the body's point at a place. Raises UsageError as `calc_pose`."""
    there = _oriented(mechanism, body)
    return np.tensordot(np.concatenate([[1.0], place]), there.map, axes=1)


def calc_twist_map(mechanism: Mechanism, body: str, place: Place | None = None) -> np.ndarray:
    """J (6, n) at the present q: twist = J q̇, and the generalised force of a wrench is Jᵀ wrench.

    Both at a place of the body, by default its centre of mass. Raises UsageError as `calc_pose`.
    """
    there = _oriented(mechanism, body)
    axes = there.place(mechanism.q)[1:]
    turn = 0.5 * sum(_cross_matrix(e) @ a for e, a in zip(axes, there.map[1:], strict=True))
    at = calc_center_place(mechanism, body) if place is None else place
    return np.vstack([turn, calc_body_point_map(mechanism, body, at)])


def calc_twist(mechanism: Mechanism, body: str, place: Place | None = None) -> np.ndarray:
    """(6,) twist of a body at a place in its axes (default: its centre of mass), J q̇.

    Raises UsageError as `calc_pose`.
    """
    twist: np.ndarray = calc_twist_map(mechanism, body, place) @ mechanism.qd
    return twist


def calc_spatial_acceleration(mechanism: Mechanism, body: str, place: Place | None = None) -> np.ndarray:
    """(6,) angular acceleration, and acceleration of a place of a body (default: its centre of mass).

    With the present q̇ and q̈: the rate of the twist of that material point. Raises UsageError as
    `calc_pose`.
    """
    return _calc_acceleration(mechanism, body, place, mechanism.qdd)


def calc_coriolis_acceleration(mechanism: Mechanism, body: str, place: Place | None = None) -> np.ndarray:
    """(6,) part of `calc_spatial_acceleration` due to the rates, with z̈ = 0: J c + J̇ q̇.

    The other part is J R z̈ (`operators.CoordinateMaps`). Raises UsageError as `calc_pose`.
    """
    _, s = problems.calc_velocity_map(mechanism)
    return _calc_acceleration(mechanism, body, place, s @ mechanism.calc_gamma())


def calc_inertia(mechanism: Mechanism, body: str) -> np.ndarray:
    """(3, 3) inertia about the centre of mass, in world axes, kg·m². Raises UsageError as `calc_pose`."""
    there = _oriented(mechanism, body)
    center, R = calc_center_place(mechanism, body), there.place(mechanism.q)[1:].T
    second = there.moments[1:, 1:] - there.moments[0, 0] * np.outer(center, center)
    inertia: np.ndarray = R @ (np.trace(second) * np.eye(3) - second) @ R.T
    return inertia


def calc_gyroscopic_wrench(mechanism: Mechanism, body: str) -> np.ndarray:
    """(6,) torque ω × J ω about the centre of mass, and no force: required without angular acceleration.

    Raises UsageError as `calc_pose`.
    """
    w = calc_twist(mechanism, body)[:3]
    return np.concatenate([np.cross(w, calc_inertia(mechanism, body) @ w), np.zeros(3)])


def calc_required_wrench(mechanism: Mechanism, body: str) -> np.ndarray:
    """(6,) J α + ω × J ω and m a at the centre of mass: the sum of all that acts on a body, including weight.

    Raises UsageError as `calc_pose`.
    """
    acceleration = calc_spatial_acceleration(mechanism, body)
    mass = get_body(mechanism, body).moments[0, 0]
    direct = np.concatenate(
        [calc_inertia(mechanism, body) @ acceleration[:3], mass * acceleration[3:]],
    )
    wrench: np.ndarray = direct + calc_gyroscopic_wrench(mechanism, body)
    return wrench


def _calc_acceleration(mechanism: Mechanism, body: str, place: Place | None, qdd: np.ndarray) -> np.ndarray:
    there = _oriented(mechanism, body)
    at = calc_center_place(mechanism, body) if place is None else place
    second = there.accelerate(qdd)
    # d/dt ½ Σ e × ė = ½ Σ e × ë
    turning = 0.5 * np.cross(there.place(mechanism.q)[1:], second[1:]).sum(axis=0)
    return np.concatenate([turning, np.concatenate([[1.0], at]) @ second])


def _oriented(mechanism: Mechanism, name: str) -> PlacedBody:
    body = get_body(mechanism, name)
    if not body.has_orientation:
        raise UsageError(f"{name} has no orientation, only points")
    return body


def _cross_matrix(v: np.ndarray) -> np.ndarray:
    """(3, 3) matrix of the vector product v ×."""
    x, y, z = v
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


class Forces:
    """Forces that a caller applies to a mechanism at its present position, in addition to those of its description.

    They are collected here and act when their `generalised` is written to `Mechanism.applied`. Forces and
    torques keep their directions in world axes, so both have to be computed again after the mechanism has
    moved. `reactions` needs them too, to distinguish forces on a body from those on a joint.
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self._mechanism = mechanism
        self.generalised = np.zeros(len(mechanism.q))
        """(n,) generalised forces Q"""
        self.on_bodies: dict[str, np.ndarray] = {}
        """(6,) torque about the world's origin and force, in world axes."""
        self.on_points: dict[str, np.ndarray] = {}
        """(3,) forces at named points, in world axes."""
        self.on_coordinates = np.zeros(len(mechanism.q))
        """(n,) forces on coordinates"""

    def add_force(self, body: str, place: Place, force: Place) -> None:
        """Add a force (3,) (N, world axes) at a place of a body (m, its axes). Raises UsageError as `calc_pose`."""
        jacobian = calc_body_point_map(self._mechanism, body, place)
        pose = calc_pose(self._mechanism, body)
        at = pose.R_world_body @ place + pose.origin_world
        self.generalised += jacobian.T @ force
        self._add(body, np.cross(at, force), force)

    def add_torque(self, body: str, torque: Place) -> None:
        """Add a torque (3,) (N·m, world axes) on a body. Raises UsageError as `calc_pose`."""
        self.generalised += calc_twist_map(self._mechanism, body)[:3].T @ torque
        self._add(body, torque, np.zeros(3))

    def add_point_force(self, point: str, force: Place) -> None:
        """Add a force (3,) (N, world axes) at a named point or marker.

        Raises UsageError if there is none of that name.
        """
        self.generalised += calc_point_map(self._mechanism, point).T @ force
        self.on_points[point] = self.on_points.get(point, np.zeros(3)) + force

    def add_coordinate_force(self, coordinate: str, force: float) -> None:
        """Add a force on a coordinate (N, or N·m on an angle). Raises KeyError for an unknown coordinate."""
        k = self._mechanism.index(coordinate)
        self.generalised[k] += force
        self.on_coordinates[k] += force

    def _add(self, body: str, torque: Place, force: Place) -> None:
        self.on_bodies[body] = self.on_bodies.get(body, np.zeros(6)) + np.concatenate([torque, force])
