"""Description of a car as a mechanism, so that every operator of `multibody` applies to it.

Each body has a point at its centre of mass; its connections to other bodies are markers and joints, so that
each joint has a name and a reaction. Initially the car is in design position, and the world's axes are those
of the vehicle. Displacement of the rack and torques of drive and brakes are inputs; the caller adds the
forces of the tyres.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.messages import WHEELS
from vehicled.multibody.description import Description
from vehicled.multibody.elements import (
    Actuator,
    Angle,
    ConstantDistance,
    CoordinateForce,
    DifferenceSpring,
    Distance,
    Expression,
    Force,
    Joint,
    Load,
    PointOnLine,
    Prismatic,
    Revolute,
    Rigid,
    Spherical,
    Spring,
    Torque,
)
from vehicled.vehicle.car import Car
from vehicled.vehicle.hard_points import calc_spin_axis
from vehicled.vehicle.model import AIR_DENSITY
from vehicled.vehicle.parameters import (
    LEFT_RIGHT,
    AnyAxle,
    BodyParameters,
    LiveAxle,
    MacphersonAxle,
    SwingArmAxle,
    Vehicle,
)

ORIGIN = "origin"
"""The vehicle origin: a marker of the chassis."""
AXES = ("ahead", "left", "up")
"""Axes of the vehicle: directions of the chassis."""
_DEGREES_OF_FREEDOM = 14
_Triple = tuple[float, float, float]


def describe_car(like: Car) -> Description:
    """A car as a mechanism, as described by its file, with the spring preloads found when it was settled."""
    vehicle = like.vehicle
    car = _Writer(vehicle)
    for wheel, preload in zip(WHEELS, like.get_corner_parameter("spring.preload"), strict=True):
        _Corner(car, wheel).add(float(preload))
    car.add_anti_roll_bars()
    car.add_drive()
    car.add_air()
    return Description(
        space="spatial",
        gravity=(0.0, 0.0, -vehicle.gravity),
        points={f"{name}_center": body.center_of_mass for name, body in car.bodies.items()},
        angles=car.angles,
        distances=car.distances,
        inputs=["rack", *(f"{what}_{w}" for what in ("drive", "brake") for w in WHEELS)],
        bodies={**car.bodies},
        joints=car.joints,
        drives={"rack_travel": "rack"},
        forces=car.forces,
        degrees_of_freedom=_DEGREES_OF_FREEDOM,
    )


def _triple(values: Iterable[float]) -> _Triple:
    x, y, z = map(float, values)
    return x, y, z


class _Writer:
    """Collects the parts, beginning with those that belong to no corner."""

    def __init__(self, vehicle: Vehicle) -> None:
        self.vehicle, self.origin = vehicle, vehicle.center_of_mass()
        self.bodies: dict[str, Rigid] = {}
        self.joints: dict[str, Joint] = {}
        self.forces: dict[str, Load] = {}
        self.angles: dict[str, Angle] = {}
        self.distances: dict[str, Distance] = {}
        for name, parameters in vehicle.central_bodies().items():
            self.add_body(name, parameters)
        unit = [_triple(axis) for axis in np.eye(3)]
        chassis, rack = self.bodies["chassis"], self.bodies["rack"]
        chassis.markers[ORIGIN] = 0.0, 0.0, 0.0
        chassis.directions.update(zip(AXES, unit, strict=True))
        rack.directions.update(zip(("rack_ahead", "rack_left"), unit[:2], strict=True))
        guide = self.mark("rack_guide", "chassis", rack.center_of_mass), "rack_center"
        self.joints["rack_guide"] = Prismatic(
            kind="prismatic", points=guide, axes=("left", "rack_left"), normals=("ahead", "rack_ahead")
        )
        self.distances["rack_travel"] = Distance(points=guide, along="left")

    # -- bodies and joints -----------------------------------------------------------------------------------

    def add_body(self, name: str, parameters: BodyParameters, side: float = 1.0) -> None:
        """Add a body on that side (1: left or middle, −1: right)."""
        center = self.place(parameters.center_of_mass, side)
        self.add_rigid(name, parameters.mass, center, np.diag(parameters.inertia))

    def add_rigid(self, name: str, mass: float, center: np.ndarray, inertia: np.ndarray) -> None:
        """Add a body with an inertia matrix (3, 3), kg·m²."""
        self.bodies[name] = Rigid(
            kind="rigid",
            points=[f"{name}_center"],
            mass=mass,
            center_of_mass=_triple(center),
            inertia=_triple(np.diag(inertia)),
            products=_triple(inertia[[0, 1, 2], [1, 2, 0]]),
        )

    def place(self, point: Sequence[float], side: float) -> np.ndarray:
        """(3,) from the vehicle origin to a point given for the left side, mirrored to `side`."""
        place: np.ndarray = np.array([1.0, side, 1.0]) * point - self.origin
        return place

    def mark(self, what: str, body: str, place: Iterable[float]) -> str:
        """Add a marker to a body; returns its name."""
        name = name_on(what, body)
        self.bodies[body].markers[name] = _triple(place)
        return name

    def mark_both(
        self, what: str, bodies: tuple[str, str], first: np.ndarray, second: np.ndarray
    ) -> tuple[str, str]:
        """Add a marker to each of two bodies; returns their names."""
        return self.mark(what, bodies[0], first), self.mark(what, bodies[1], second)

    def direct(self, what: str, body: str, along: Iterable[float]) -> str:
        """Add a direction to a body; returns its name."""
        name = name_on(what, body)
        self.bodies[body].directions[name] = _triple(along)
        return name

    def add_hinge(self, name: str, bodies: tuple[str, str], place: np.ndarray, along: np.ndarray) -> None:
        """Add a revolute joint about an axis through that place."""
        axes = self.direct(f"{name}_axis", bodies[0], along), self.direct(f"{name}_axis", bodies[1], along)
        points = self.mark_both(name, bodies, place, place)
        self.joints[name] = Revolute(kind="revolute", points=points, axes=axes)

    def add_ball_joint(self, name: str, bodies: tuple[str, str], place: np.ndarray) -> None:
        """Add a spherical joint at that place."""
        points = self.mark_both(name, bodies, place, place)
        self.joints[name] = Spherical(kind="spherical", points=points)

    def add_rod(self, name: str, bodies: tuple[str, str], start: np.ndarray, end: np.ndarray) -> None:
        """Add a rod without mass."""
        points, length = self.mark_both(name, bodies, start, end), float(np.linalg.norm(end - start))
        self.joints[name] = ConstantDistance(kind="distance", points=points, length=length)

    # -- forces ----------------------------------------------------------------------------------------------

    def add_anti_roll_bars(self) -> None:
        """Forces against the difference of the heights of an axle's left and right end over the chassis."""
        for axle, (left, right) in (("front", WHEELS[:2]), ("rear", WHEELS[2:])):
            self.forces[f"anti_roll_bar_{axle}"] = DifferenceSpring(
                kind="difference_spring",
                distances=(f"bar_{left}", f"bar_{right}"),
                stiffness=getattr(self.vehicle, axle).anti_roll_bar,
            )

    def add_drive(self) -> None:
        """Torques on the wheels, about their axes, and their reactions.

        A final drive in the chassis bears them about the vehicle's y axis. A final drive in a live axle bears
        them about the wheels' axes, and the propeller shaft turns the axle about x and the chassis
        oppositely.
        """
        on_chassis, on_axle, shaft = [], [], []
        for w in WHEELS:
            axle, torque, axis = self.vehicle.axle(w), f"drive_{w}", f"wheel_bearing_{w}_axis_on_wheel"
            self.forces[torque] = _torque(f"wheel_{w}", [(torque, axis)])
            self.forces[f"brake_{w}"] = CoordinateForce(
                kind="on_coordinate", coordinate=f"spin_{w}", force=f"-brake_{w}"
            )
            if isinstance(axle, LiveAxle):
                on_axle.append((f"-{torque}", f"wheel_bearing_{w}_axis_on_axle"))
                shaft.append((f"{torque}/{axle.final_drive}", "ahead"))
            else:
                on_chassis.append((f"-{torque}", "left"))
        self.forces["final_drive"] = _torque("chassis", on_chassis + shaft)
        if on_axle:
            self.forces["propeller_shaft"] = _torque("axle", on_axle + [(f"-{size}", d) for size, d in shaft])

    def add_air(self) -> None:
        """Drag, and lift at both axles."""
        air, mark = self.vehicle.aerodynamics, self.mark
        speed = "(" + " + ".join(f"rate(origin.{a})*ahead.{a}" for a in "xyz") + ")"
        height = 0.0 if air.drag_height is None else air.drag_height - self.origin[2]
        at = {"drag": (0.0, 0.0, height)}
        sizes = {"drag": (f"-{0.5 * AIR_DENSITY * air.drag_area}*{speed}*abs({speed})", "ahead")}
        for axle, area in (("front", air.front_lift_area), ("rear", air.rear_lift_area)):
            center = getattr(self.vehicle, axle).hard_points.wheel_center
            at[f"{axle}_lift"] = (center[0] - self.origin[0], 0.0, 0.0)
            sizes[f"{axle}_lift"] = (f"{0.5 * AIR_DENSITY * area}*{speed}**2", "up")
        for name, (size, axis) in sizes.items():
            force: list[Expression] = [f"{size}*{axis}.{a}" for a in "xyz"]
            self.forces[name] = Force(kind="force", point=mark(name, "chassis", at[name]), force=force)


def name_on(what: str, body: str) -> str:
    """Name of a marker or direction: `tie_rod_fl_on_rack`, `tie_rod_fl_on_knuckle`."""
    head, _, corner = body.rpartition("_")
    return f"{what}_on_{head if corner in WHEELS else body}"


def _torque(body: str, parts: Iterable[tuple[str, str]]) -> Torque:
    """Sum of torques, each given by size and direction."""
    parts = list(parts)
    return Torque(
        kind="torque",
        body=body,
        torque=[" + ".join(f"{size}*{axis}.{a}" for size, axis in parts) for a in "xyz"],
    )


@dataclass(frozen=True)
class _Holding:
    """Bodies of a corner by function."""

    carrier: str
    """Body that carries the wheel."""
    lower: str
    """Body on which the anti-roll bar acts."""
    base: str
    """Body on which spring and damper stand."""
    foot: str
    """Name of the place of their lower end."""


class _Corner:
    """Suspension of one wheel, the wheel, and the forces between them and the chassis."""

    def __init__(self, car: _Writer, wheel: str) -> None:
        self._car, self._w, self._side = car, wheel, LEFT_RIGHT[wheel]
        self._axle: AnyAxle = car.vehicle.axle(wheel)
        points = self._axle.hard_points
        self._at = {name: car.place(p, self._side) for name, p in points.places(self._side).items()}
        """Points by name of the model's parameter."""
        self._along = {name: np.array([1.0, self._side, 1.0]) * d for name, d in points.directions().items()}

    def add(self, preload: float) -> None:
        """Add all parts of the corner."""
        car, w, at = self._car, self._w, self._at
        held = self._hold()
        self._add_wheel(held.carrier)
        self._add_strut(held, preload)
        bar = car.mark_both(
            f"anti_roll_bar_{w}", ("chassis", held.lower), at["lower.hinge"], at["lower.joint"]
        )
        car.distances[f"bar_{w}"] = Distance(points=bar, along="up")

    def _hold(self) -> _Holding:
        car, w, at, axle = self._car, self._w, self._at, self._axle
        if isinstance(axle, LiveAxle):
            rod = "panhard_rod" if self._side > 0.0 else "upper_link"
            car.add_rod(f"trailing_link_{w}", ("chassis", "axle"), at["lower.hinge"], at["lower.joint"])
            car.add_rod(rod, ("chassis", "axle"), at["tie.inner"], at["tie.outer"])
            return _Holding("axle", "axle", "axle", "spring.axle")
        if isinstance(axle, SwingArmAxle):
            arm = f"arm_{w}"
            car.add_body(arm, axle.arm, self._side)
            self._add_hinge("lower", arm)
            return _Holding(arm, arm, arm, "spring.wishbone")
        for name, body in axle.bodies().items():
            car.add_body(f"{name}_{w}", body, self._side)
        lower, knuckle = f"lower_wishbone_{w}", f"knuckle_{w}"
        self._add_hinge("lower", lower)
        car.add_ball_joint(f"lower_ball_joint_{w}", (lower, knuckle), at["lower.joint"])
        inner = "rack" if w in WHEELS[:2] else "chassis"
        car.add_rod(f"tie_rod_{w}", (inner, knuckle), at["tie.inner"], at["tie.outer"])
        if isinstance(axle, MacphersonAxle):
            self._add_strut_guide(knuckle)
            return _Holding(knuckle, lower, knuckle, "strut.foot")
        upper = f"upper_wishbone_{w}"
        self._add_hinge("upper", upper)
        car.add_ball_joint(f"upper_ball_joint_{w}", (upper, knuckle), at["upper.joint"])
        return _Holding(knuckle, lower, lower, "spring.wishbone")

    def _add_hinge(self, which: str, body: str) -> None:
        place, along = self._at[f"{which}.hinge"], self._along[f"{which}.axis"]
        self._car.add_hinge(f"{which}_hinge_{self._w}", ("chassis", body), place, along)

    def _add_strut_guide(self, knuckle: str) -> None:
        """The line of the knuckle along the strut passes through the strut's top on the chassis."""
        car, name, top = self._car, f"strut_top_{self._w}", self._at["upper.joint"]
        points = car.mark_both(name, (knuckle, "chassis"), top, top)
        axis = car.direct(f"{name}_axis", knuckle, top - self._at["strut.foot"])
        car.joints[name] = PointOnLine(kind="point_on_line", points=points, axis=axis)

    def _add_wheel(self, carrier: str) -> None:
        """Axisymmetric wheel on its bearing, with its angle and the height of its centre as coordinates."""
        car, w, given = self._car, self._w, self._axle.wheel
        points, name, bearing = self._axle.hard_points, f"wheel_{w}", f"wheel_bearing_{w}"
        center = car.place(points.wheel_center, self._side)
        spin = calc_spin_axis(points) * (self._side, 1.0, self._side)
        across = given.transverse_inertia
        inertia = across * np.eye(3) + (given.axial_inertia - across) * np.outer(spin, spin)
        car.add_rigid(name, given.mass, center, inertia)
        car.add_hinge(bearing, (carrier, name), center, spin)
        ahead = np.array([spin[1], -spin[0], 0.0])
        sides = car.direct(f"spin_{w}", carrier, ahead), car.direct(f"spin_{w}", name, ahead)
        car.angles[f"spin_{w}"] = Angle(between=sides, about=name_on(f"{bearing}_axis", carrier))
        rest = car.mark(f"travel_{w}", "chassis", center)
        car.distances[f"travel_{w}"] = Distance(points=(rest, f"{name}_center"), along="up")

    def _add_strut(self, held: _Holding, preload: float) -> None:
        """Spring, damper and stops: forces that drive their ends apart."""
        car, w, axle, stops = self._car, self._w, self._axle, self._axle.stops
        foot, top = self._at[held.foot], self._at["spring.chassis"]
        ends = car.mark_both(f"strut_{w}", (held.base, "chassis"), foot, top)
        length, stiffness = float(np.linalg.norm(top - foot)), axle.spring.stiffness

        def stop(depth: str) -> str:
            """Force of a stop: soft over its first millimetres, then linear."""
            pressed = f"max({depth}, 0)"
            return f"{stops.stiffness}*{pressed}**2/({pressed} + {stops.softness})"

        bump, droop = stop(f"{length - stops.bump} - length"), stop(f"length - {length + stops.droop}")
        car.forces[f"spring_{w}"] = Spring(
            kind="spring", points=ends, stiffness=stiffness, free_length=length + preload / stiffness
        )
        car.forces[f"damper_{w}"] = Actuator(
            kind="actuator",
            points=ends,
            force=f"-{axle.damper.bump}*min(rate(length), 0) - {axle.damper.rebound}*max(rate(length), 0)",
        )
        car.forces[f"stops_{w}"] = Actuator(kind="actuator", points=ends, force=f"{bump} - {droop}")
