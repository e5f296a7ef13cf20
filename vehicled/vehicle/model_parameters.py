"""Parameter values of a car for the compiled model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vehicled.vehicle.hard_points import calc_spin_axis
from vehicled.vehicle.parameters import LEFT_RIGHT, BodyParameters, LinearTyre, LiveAxle, Vehicle

_LEAST_INERTIA = 1e-6
"""kg·m²"""
_AXLE_IN_CORNER = 0.25
"""Share of a live axle in each corner: it is three bodies in the model, fixed to each other, so that no body
that carries a load is without mass."""


def _components(name: str, values: Iterable[float]) -> dict[str, float]:
    return {f"{name}.{a}": float(v) for a, v in zip("xyz", values, strict=True)}


def _inertia(name: str, body: BodyParameters, place: np.ndarray, share: float = 1.0) -> dict[str, float]:
    return _moments(name, share * body.mass, [share * i for i in body.inertia], place)


def _without_mass(name: str, place: np.ndarray) -> dict[str, float]:
    return _moments(name, 0.0, (_LEAST_INERTIA,) * 3, place)


def _moments(name: str, mass: float, inertia: Iterable[float], place: np.ndarray) -> dict[str, float]:
    moments = dict(zip((f"{name}.ixx", f"{name}.iyy", f"{name}.izz"), inertia, strict=True))
    return {f"{name}.mass": mass, **_components(f"{name}.com", place), **moments}


def root_parameters(v: Vehicle) -> dict[str, float]:
    """Values of the model's root parameters by name: SI, chassis axes, relative to the vehicle origin."""
    origin = v.center_of_mass()
    aero = v.aerodynamics
    height = 0.0 if aero.drag_height is None else aero.drag_height - origin[2]
    values: dict[str, float] = {}
    for name, body in v.central_bodies().items():
        share = 1.0 - 2.0 * _AXLE_IN_CORNER if name == "axle" else 1.0
        values |= _inertia(name, body, np.array(body.center_of_mass) - origin, share)
    return {
        **values,
        **_components("gravity", (0.0, 0.0, -v.gravity)),
        "aero.drag_area": aero.drag_area,
        **_components("aero.centre", (0.0, 0.0, height)),
        "aero.front": v.front.hard_points.wheel_center[0] - origin[0],
        "aero.rear": v.rear.hard_points.wheel_center[0] - origin[0],
        "aero.front_lift_area": aero.front_lift_area,
        "aero.rear_lift_area": aero.rear_lift_area,
    }


def corner_parameters(v: Vehicle, wheel: str) -> dict[str, float]:
    """Values of the model's parameters of one corner by name, as `root_parameters`."""
    axle, side, origin = v.axle(wheel), LEFT_RIGHT[wheel], v.center_of_mass()
    p, mirror = axle.hard_points, np.array([1.0, LEFT_RIGHT[wheel], 1.0])

    def place(point: tuple[float, float, float]) -> np.ndarray:
        moved: np.ndarray = mirror * point - origin
        return moved

    def axis(direction: tuple[float, float, float]) -> np.ndarray:
        # Forward on both sides: mirrored as a direction, not as the pseudo-vector of a rotation.
        d = mirror * direction
        return d / np.linalg.norm(d)

    tyre = axle.tyre
    values: dict[str, float] = {
        **{k: x for name, at in p.places(side).items() for k, x in _components(name, place(at)).items()},
        **{k: x for name, d in p.directions().items() for k, x in _components(name, axis(d)).items()},
        **_components("wheel.centre", place(p.wheel_center)),
        **_components("wheel.axis", calc_spin_axis(p) * (side, 1.0, side)),
        "wheel.mass": axle.wheel.mass,
        "wheel.axial": axle.wheel.axial_inertia,
        "wheel.transverse": axle.wheel.transverse_inertia,
        "spring.stiffness": axle.spring.stiffness,
        "spring.preload": axle.spring.preload or 0.0,
        "damper.bump": axle.damper.bump,
        "damper.rebound": axle.damper.rebound,
        "stop.bump": axle.stops.bump,
        "stop.droop": axle.stops.droop,
        "stop.stiffness": axle.stops.stiffness,
        "stop.softness": axle.stops.softness,
        "anti_roll.stiffness": axle.anti_roll_bar,
        "brake.gain": axle.brake.gain,
        "brake.stiffness": axle.brake.stiffness,
        "brake.damping": axle.brake.damping,
        "tyre.radius": tyre.radius,
        "tyre.vertical_stiffness": tyre.vertical_stiffness,
        "tyre.vertical_damping": tyre.vertical_damping,
        "tyre.rolling_speed": 1.0,
        "rest.travel": 0.0,
    }
    for name, body in axle.bodies().items():
        values |= _inertia(name, body, place(body.center_of_mass))
    if v.front.suspension != v.rear.suspension:
        values["is_rear"] = float(wheel[0] == "r")
        # Corners share the code of the kind with more bodies: here the additional bodies carry nothing, have
        # no mass, and so little inertia that the mass matrix is just regular.
        if "double_wishbone" in v.suspensions and "upper_wishbone" not in axle.bodies():
            x, y, z = p.places(side)["upper.joint"]
            values |= _components("upper.hinge", place((x, y - 1.0, z)))
            values |= _components("upper.axis", (1.0, 0.0, 0.0))
            values |= _without_mass("upper_wishbone", place((x, y - 1.0, z)))
        if isinstance(axle, LiveAxle):
            values |= _without_mass("lower_wishbone", place(p.places(side)["lower.hinge"]))
            center = np.array(axle.axle.center_of_mass) - origin
            values |= _inertia("knuckle", axle.axle, center, _AXLE_IN_CORNER)
            values["propeller_share"] = 1.0 / axle.final_drive
    if isinstance(tyre, LinearTyre):
        values |= {
            "tyre.slip_stiffness_x": tyre.slip_stiffness_x,
            "tyre.slip_stiffness_y": tyre.slip_stiffness_y,
            "tyre.friction": tyre.friction,
            "tyre.least_speed": tyre.least_speed,
            "tyre.rolling_resistance": 0.0,
        }
    else:
        values |= {
            "tyre.nominal_load": tyre.nominal_load,
            "tyre.rolling_share": tyre.rolling_share,
            "tyre.rolling_resistance": tyre.rolling_resistance,
            "tyre.trail": tyre.trail,
            "tyre.trail_zero": tyre.trail_zero,
            "tyre.trail_end": tyre.trail_end,
        }
        for a, c in (("x", tyre.longitudinal), ("y", tyre.lateral)):
            for name in ("df0", "fm", "fs", "sm", "ss"):
                one, two = getattr(c, name)
                values |= {f"tyre.{a}.{name}1": one, f"tyre.{a}.{name}2": two}
            values |= {f"tyre.{a}.stiffness": c.stiffness, f"tyre.{a}.damping": c.damping}
    return values
