"""A car, the same car as a mechanism, and the car's coordinates computed from the mechanism.

The coordinates of the car's compiled program are points and directions of its bodies. The poses and twists of the
mechanism's bodies give their values. The mechanism has natural coordinates: velocities are a constant map of q̇.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from test_live_axle import example
from vehicle_rig import Rig, sine, vehicle

from vehicled.messages import WHEELS
from vehicled.multibody.body_operators import Forces
from vehicled.multibody.mechanism import Mechanism
from vehicled.vehicle.car_copy import CarCopy
from vehicled.vehicle.car_mechanism import CarMechanism
from vehicled.vehicle.equations import EQUATIONS
from vehicled.vehicle.parameters import Vehicle

CARS = ("prototype", "compact", "live axle")
"""Double wishbones; MacPherson struts and semi-trailing arms; a rigid rear axle."""


@lru_cache
def vehicle_of(name: str) -> Vehicle:
    return example() if name == "live axle" else vehicle(name)


class Pair:
    """A moving car and its mechanism."""

    def __init__(self, name: str) -> None:
        self.name, self.rig = name, Rig(vehicle_of(name))
        self.car, self.rest = self.rig.car, self.rig.car.workspace.copy()
        self.twin = CarMechanism(self.car)
        self.mechanism: Mechanism = self.twin.mechanism
        self.start = self.mechanism.get_state()
        self.equations = CarCopy(self.car, EQUATIONS)
        names = self.car.compiled.names.coordinates
        self.root = [n for n in names if n[-2:] not in WHEELS]
        self.branch = [n[:-3] for n in names if n.endswith(" fl")]

    def drive(self, duration: float = 0.6) -> Forces:
        """Drive with steering, braking, an external force, and a different road height under each wheel.

        Cars other than the compact have a drive torque as well. Returns the forces on the mechanism.
        """
        self.car.workspace[:] = self.rest
        self.rig.roll(14.0)
        self.car.corner_inputs[6] = 0.012, -0.01, 0.02, 0.004
        self.car.view("external_force")[:] = 300.0, -150.0, 80.0, 120.0
        away = -1.0 if self.name == "compact" else 1.0
        torque = None if self.name == "compact" else lambda t: 150.0 * t
        self.rig.drive(duration, rack=sine(0.02 * away, 0.7), brake=lambda t: 12e5 * t, torque=torque)
        self.car.report()
        return self.twin.follow()

    def body_of(self, coordinate: str, w: str) -> str:
        """The mechanism's body to which a basic vector of the car belongs."""
        if coordinate in ("r1", "v1", "v2", "v3"):
            return "chassis"
        if coordinate == "rack" or coordinate.startswith("axle."):
            return coordinate.partition(".")[0]
        bodies = self.mechanism.compiled.bodies
        if coordinate.startswith("upper.normal"):
            return f"upper_wishbone_{w}"
        if coordinate == "lower.normal" and f"lower_wishbone_{w}" in bodies:
            return f"lower_wishbone_{w}"
        return next(b for b in (f"knuckle_{w}", f"arm_{w}", "axle") if b in bodies)

    def is_dummy(self, coordinate: str, corner: int) -> bool:
        """Whether the coordinate belongs to a body that only the other axle has: a massless placeholder."""
        has = self.mechanism.compiled.bodies
        w = WHEELS[corner]
        lacks_upper = coordinate == "upper.normal" and f"upper_wishbone_{w}" not in has
        return lacks_upper or (coordinate == "lower.normal" and w[0] == "r" and "axle" in has)

    def calc_coordinates(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        """q (order 0), q̇ (1) or q̈ (2) of the car, computed from the mechanism: root (k,) and branches (k, 4)."""
        car = self.car
        saved = car.workspace.copy()
        car.call(car.kernels.design)
        design = car.view("q").copy(), car.view("branch.q").copy()
        car.workspace[:] = saved
        found = tuple(np.full_like(d, np.nan) for d in design)
        for k, name in enumerate(self.root):
            if name.endswith(".x"):
                body = self.body_of(name[:-2], "")
                is_point = name in ("r1.x", "rack.x", "axle.centre.x")
                found[0][k : k + 3] = self._calc(body, design[0][k : k + 3], is_point, order)
        for n, w in enumerate(WHEELS):
            for k, name in enumerate(self.branch):
                if name == "wheel.spin":
                    found[1][k, n] = self.calc_spin(w, order)
                elif name.endswith(".x"):
                    body = self.body_of(name[:-2], w)
                    is_point = name in ("lower.joint.x", "upper.joint.x")
                    if not self.is_dummy(name[:-2], n):
                        found[1][k : k + 3, n] = self._calc(body, design[1][k : k + 3, n], is_point, order)
        return found

    def _calc(self, body: str, design: np.ndarray, is_point: bool, order: int) -> np.ndarray:
        m = self.mechanism
        placed = m.placement.bodies[body]
        elements = (placed.place(m.q), placed.move(m.qd), placed.accelerate(m.qdd))[order]
        value: np.ndarray = design @ elements[1:] + (elements[0] if is_point else 0.0)
        return value

    def calc_spin(self, w: str, order: int) -> float:
        """The absolute rate of a wheel about its axis, and its derivative."""
        m = self.mechanism
        if order == 0:
            return np.nan
        placed = m.placement.bodies[f"wheel_{w}"]
        axis = f"wheel_bearing_{w}_axis_on_wheel"
        e, ed, edd = placed.place(m.q)[1:], placed.move(m.qd)[1:], placed.accelerate(m.qdd)[1:]
        s, sd = m.placement.vector(axis, m.q), m.placement.vectors[axis] @ m.qd
        turning = 0.5 * np.cross(e, ed).sum(axis=0)
        if order == 1:
            return float(s @ turning)
        return float(sd @ turning + s @ (0.5 * np.cross(e, edd).sum(axis=0)))

    def give(self, *orders: int) -> None:
        """Copy rates or accelerations of the mechanism to the car. Placeholder coordinates keep their values."""
        for order in orders:
            for prefix, values in zip(("", "branch."), self.calc_coordinates(order), strict=True):
                there = self.car.view(prefix + ("q", "qd", "qdd")[order])
                there[...] = np.where(np.isnan(values), there, values)

    def calc_residual(self) -> tuple[np.ndarray, np.ndarray]:
        """M q̈ − Q in the car's present state, without constraint reactions: of the root and of the branches."""
        copy = self.equations
        copy.update()
        copy.view("integration")[0] = 0.0
        for name in ("lambda", "branch.lambda"):
            copy.view(name)[...] = 0.0
        copy.call(copy.added.residual)
        return copy.view("residual"), copy.view("branch.residual")


@lru_cache
def pair_of(name: str) -> Pair:
    return Pair(name)
