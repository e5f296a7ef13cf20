"""Newton–Euler equations of every body of a car, to check the forces in its joints.

From the model come only accelerations, strut forces, and tyre forces in wheel axes. Rotations, inertia and lever arms
come from the textbook formulas of `vehicle_rig`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from vehicle_rig import Basics, Motion, Rig, motions

from vehicled.messages import CORNER_LOADS
from vehicled.vehicle.car import Car
from vehicled.vehicle.loads import JointLoads

BODIES = ("lower_wishbone", "upper_wishbone", "knuckle", "wheel")
UP = np.array([0.0, 0.0, 1.0])


def loads_of(car: Car) -> list[dict[str, np.ndarray]]:
    """Loads of each corner by joint: components in chassis axes, as published."""
    rows = JointLoads(car).calc().reshape(4, len(CORNER_LOADS))
    found: list[dict[str, np.ndarray]] = []
    for row in rows:
        groups: dict[str, list[float]] = {}
        for name, value in zip(CORNER_LOADS, row, strict=True):
            groups.setdefault(name.split(".")[0], []).append(value)
        found.append({name: np.array(values) for name, values in groups.items()})
    return found


def tyre_force(car: Car, axis: str) -> np.ndarray:
    """(4,) tyre force along x or y of the wheels; from the deflection after the step if the tyre law has one."""
    if car.vehicle.tyre == "linear":
        return car.corner_output(f"tyre.f{axis}")
    stiffness, damping = (car.get_corner_parameter(f"tyre.{axis}.{p}") for p in ("stiffness", "damping"))
    deflection = f"deflection.{axis}"
    return stiffness * car.get_state(deflection) + damping * car.get_state(f"{deflection}.rate")


@dataclass
class Wrench:
    """Sum of forces, and of moments about the world origin."""

    force: np.ndarray
    moment: np.ndarray

    def add(self, force: np.ndarray, at: np.ndarray) -> None:
        self.force = self.force + force
        self.moment = self.moment + np.cross(at, force)

    def about(self, point: np.ndarray) -> np.ndarray:
        """The moment about a point."""
        return self.moment - np.cross(point, self.force)


def required(moving: Motion, accelerated: Motion, gravity: np.ndarray) -> Wrench:
    """The wrench other than gravity that a body's motion requires."""
    # α × = d/dt (Ṙ Rᵀ)
    turning = accelerated.rotation_rate @ moving.rotation.T + moving.rotation_rate @ moving.rotation_rate.T
    alpha = np.array([turning[2, 1], turning[0, 2], turning[1, 0]])
    inertia = moving.rotation @ moving.inertia @ moving.rotation.T
    w = moving.angular_velocity
    own = inertia @ alpha + np.cross(w, inertia @ w) + accelerated.spin_momentum
    wrench = Wrench(np.zeros(3), own)
    wrench.add(moving.mass * (accelerated.velocity - gravity), moving.place)
    return wrench


class Corner:
    """Present points of one corner in world axes, and the remaining wrench of each body after all known forces."""

    def __init__(self, rig: Rig, n: int, bodies: tuple[list[Motion], list[Motion]]) -> None:
        car = rig.car
        names = car.compiled.names.corner_parameters
        self.p = {name: float(car.corner_parameters[i, n]) for i, name in enumerate(names)}
        chassis = bodies[0][0]
        own = slice(2 + 4 * n, 6 + 4 * n)
        self.moving, self.accelerated = (dict(zip(BODIES, b[own], strict=True)) for b in bodies)
        self.R_world_chassis = chassis.rotation
        origin = car.view("q")[:3]
        self.hinge, self.axis, self.joint = {}, {}, {}
        for side in ("lower", "upper"):
            self.hinge[side] = origin + chassis.rotation @ self.vector(f"{side}.hinge")
            self.axis[side] = chassis.rotation @ self.vector(f"{side}.axis")
            self.joint[side] = self._on(f"{side}_wishbone", f"{side}.joint")
        self.centre = self._on("knuckle", "wheel.centre")
        self.outer = self._on("knuckle", "tie.outer")
        rod = np.array([0.0, car.corner_inputs[0, n], 0.0])
        self.inner = origin + chassis.rotation @ (self.vector("tie.inner") + rod)
        self.foot = self._on("lower_wishbone", "spring.wishbone")
        self.top = origin + chassis.rotation @ self.vector("spring.chassis")
        self.spin_axis = self.moving["knuckle"].rotation @ self.vector("wheel.axis")
        ahead = np.cross(self.spin_axis, UP)
        ahead /= np.linalg.norm(ahead)
        self.down = np.cross(self.spin_axis, ahead)
        fx, fy = (tyre_force(car, axis)[n] for axis in "xy")
        self.tyre = ahead * fx + np.cross(UP, ahead) * fy + UP * car.corner_output("tyre.fz")[n]
        # With the linear law, the force acts at the lowest point of the undeformed wheel; otherwise on the ground.
        reach = -self.centre[2] / self.down[2]
        if rig.vehicle.tyre == "linear":
            reach = self.p["tyre.radius"]
        self.contact = self.centre + self.down * reach
        self.strut = (self.top - self.foot) / np.linalg.norm(self.top - self.foot)
        self.strut_force = car.corner_output("suspension.force")[n]
        self.spin = Basics(car).spin(n)
        self.gravity = np.array([0.0, 0.0, -rig.vehicle.gravity])

    def vector(self, name: str) -> np.ndarray:
        return np.array([self.p[f"{name}.{a}"] for a in "xyz"])

    def _on(self, body: str, point: str) -> np.ndarray:
        """Present position of a point of a body."""
        moving = self.moving[body]
        return moving.place + moving.rotation @ (self.vector(point) - self.vector(f"{body}.com"))

    def required(self, body: str) -> Wrench:
        """The wrench other than gravity that the body's motion requires."""
        wrench = required(self.moving[body], self.accelerated[body], self.gravity)
        if body == "wheel":
            # d/dt of I φ̇ s: `accelerated.spin_momentum` already has the part with φ̈.
            spinning = self.moving["knuckle"].rotation_rate @ self.vector("wheel.axis")
            wrench.moment = wrench.moment + self.p["wheel.axial"] * self.spin * spinning
        return wrench

    def lacks(self, loads: dict[str, np.ndarray]) -> dict[str, Wrench]:
        """By body: the wrench that its motion requires, minus all forces on it."""
        R = self.R_world_chassis
        rod = (self.inner - self.outer) / np.linalg.norm(self.inner - self.outer)
        brake = self.spin_axis * loads["brake"][0]
        lack = {body: self.required(body) for body in BODIES}

        def act(body: str, force: np.ndarray, at: np.ndarray, moment: np.ndarray | float = 0.0) -> None:
            lack[body].add(-force, at)
            lack[body].moment = lack[body].moment - moment

        for side in ("lower", "upper"):
            ball = R @ loads[f"{side}_ball_joint"]
            act("knuckle", ball, self.joint[side])
            act(f"{side}_wishbone", -ball, self.joint[side])
            hinge, moment = R @ loads[f"{side}_hinge"][:3], R @ loads[f"{side}_hinge"][3:]
            act(f"{side}_wishbone", hinge, self.hinge[side], moment)
        bearing, moment = R @ loads["wheel_bearing"][:3], R @ loads["wheel_bearing"][3:]
        act("knuckle", bearing, self.centre, moment + brake)
        act("wheel", -bearing, self.centre, -moment - brake)
        act("knuckle", rod * loads["tie_rod"][0], self.outer)
        act("lower_wishbone", -self.strut * self.strut_force, self.foot)
        act("lower_wishbone", R[:, 2] * loads["anti_roll_bar"][0], self.joint["lower"])
        act("wheel", self.tyre, self.contact)
        return lack

    def on_chassis(self, loads: dict[str, np.ndarray]) -> Wrench:
        """The corner's wrench on chassis and rack, without the driveline."""
        R = self.R_world_chassis
        rod = (self.outer - self.inner) / np.linalg.norm(self.inner - self.outer)
        wrench = Wrench(np.zeros(3), np.zeros(3))
        for side in ("lower", "upper"):
            wrench.add(-R @ loads[f"{side}_hinge"][:3], self.hinge[side])
            wrench.moment = wrench.moment - R @ loads[f"{side}_hinge"][3:]
        wrench.add(rod * loads["tie_rod"][0], self.inner)
        wrench.add(self.strut * self.strut_force, self.top)
        wrench.add(-R[:, 2] * loads["anti_roll_bar"][0], self.joint["lower"])
        return wrench


def corners(rig: Rig) -> list[Corner]:
    """All four corners, with the model's accelerations; updates the car's outputs first."""
    rig.car.report()
    bodies = motions(rig), motions(rig, "qdd")
    return [Corner(rig, n, bodies) for n in range(4)]
