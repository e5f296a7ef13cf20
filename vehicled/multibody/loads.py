"""Springs, dampers, forces and torques."""

from __future__ import annotations

from vehicled.multibody.elements import (
    Actuator,
    CoordinateForce,
    DifferenceSpring,
    Force,
    Load,
    Spring,
    TorsionSpring,
)
from vehicled.multibody.model import MechanismError, Model
from vehicled.multibody.natural import Combination
from vehicled.multibody.system import Soft
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.vector import Vector


def add_load(model: Model, name: str, load: Load) -> None:
    """Add a load; for a spring also its contribution to the tangent matrix and to the potential energy.

    Raises MechanismError for a torque on a body without orientation, and for a force without direction.
    """
    where = f"forces.{name}"
    if isinstance(load, Spring):
        _add_spring(model, name, load)
    elif isinstance(load, TorsionSpring):
        _add_torsion_spring(model, name, load)
    elif isinstance(load, DifferenceSpring):
        _add_difference_spring(model, name, load)
    elif isinstance(load, Actuator):
        apart, length = _calc_line(model, name, load.points)
        force = model.expression(f"{where}.force", load.force, of="state", more={"length": length})
        _apply(model, name, apart, apart.position / length * force)
    elif isinstance(load, CoordinateForce):
        force = model.expression(f"{where}.force", load.force, of="state")
        model.system.generalised_force(model.coordinate(load.coordinate), force)
        model.load_forces[name] = Vector(force, model.graph.zero, model.graph.zero)
    elif isinstance(load, Force):
        parts = [model.expression(f"{where}.force", f, of="state") for f in load.force]
        _apply(model, name, model.points[load.point], _vector(model, parts))
    else:
        parts = [model.expression(f"{where}.torque", f, of="state") for f in load.torque]
        frame = model.parts[load.body].frame
        if frame is None:
            raise MechanismError(
                f"{load.body} has no orientation, so that no torque can act on it", f"{where}.body"
            )
        torque = Vector(model.graph.zero, model.graph.zero, parts[0]) if model.planar else Vector.of(parts)
        model.system.torque(frame, torque)
        model.load_forces[name] = torque


def _calc_line(model: Model, name: str, points: tuple[str, str]) -> tuple[Combination, Atom]:
    """Vector from the first point to the second, and its length."""
    first, second = points
    apart = model.points[second] - model.points[first]
    length = apart.position.norm()
    if length.is_constant(0.0):
        raise MechanismError(
            f"{first} and {second} are always at one place, so that no line is between them",
            f"forces.{name}.points",
        )
    return apart, length


def _apply(model: Model, name: str, point: Combination, force: Vector) -> None:
    model.system.force(point, force)
    model.load_forces[name] = force


def _vector(model: Model, parts: list[Atom]) -> Vector:
    return Vector.of(parts + [model.graph.zero] * (3 - len(parts)))


def _add_spring(model: Model, name: str, spring: Spring) -> None:
    stiffness = model.parameter(f"{name}.stiffness", spring.stiffness, "N/m")
    damping = model.parameter(f"{name}.damping", spring.damping, "N·s/m")
    free = model.parameter(f"{name}.free_length", spring.free_length, "m")
    apart, length = _calc_line(model, name, spring.points)
    direction = apart.position / length
    stretch = length - free
    rate = direction.dot(apart.velocity)
    resistance, slope = _find_resistance(model, name, spring, rate, damping)
    pull = stiffness * stretch + resistance
    _apply(model, name, apart, direction * -pull)
    row = model.system.jacobian(direction, apart)
    half_h = 0.5 * model.h
    model.system.soft.append(Soft(row, half_h * slope + half_h * half_h * stiffness))
    model.potential = model.potential + 0.5 * stiffness * stretch * stretch


def _add_torsion_spring(model: Model, name: str, spring: TorsionSpring) -> None:
    stiffness = model.parameter(f"{name}.stiffness", spring.stiffness, "N·m/rad")
    damping = model.parameter(f"{name}.damping", spring.damping, "N·m·s/rad")
    turned = model.coordinate(spring.angle).q - model.parameter(
        f"{name}.free_angle", spring.free_angle, "rad"
    )
    angle = model.coordinate(spring.angle)
    resistance, slope = _find_resistance(model, name, spring, angle.qd, damping)
    torque = -(stiffness * turned + resistance)
    model.system.generalised_force(angle, torque)
    model.load_forces[name] = Vector(torque, model.graph.zero, model.graph.zero)
    half_h = 0.5 * model.h
    weight = half_h * slope + half_h * half_h * stiffness
    model.system.soft.append(Soft({angle: model.graph.one}, weight))
    model.potential = model.potential + 0.5 * stiffness * turned * turned


def _add_difference_spring(model: Model, name: str, spring: DifferenceSpring) -> None:
    stiffness = model.parameter(f"{name}.stiffness", spring.stiffness, "N/m")
    first, second = (model.coordinate(distance) for distance in spring.distances)
    difference = first.q - second.q
    force = -(stiffness * difference)
    model.system.generalised_force(first, force)
    model.system.generalised_force(second, -force)
    model.load_forces[name] = Vector(force, model.graph.zero, model.graph.zero)
    weight = 0.25 * model.h * model.h * stiffness
    model.system.soft.append(Soft({first: model.graph.one, second: -model.graph.one}, weight))
    model.potential = model.potential + 0.5 * stiffness * difference * difference


def _find_resistance(
    model: Model, name: str, spring: Spring | TorsionSpring, rate: Atom, damping: Atom
) -> tuple[Atom, Atom]:
    """Force or torque of damper and dry friction against a rate, and its derivative with respect to the rate."""
    if spring.friction == 0.0:
        return damping * rate, damping
    units = ("N·m", "rad/s") if isinstance(spring, TorsionSpring) else ("N", "m/s")
    friction = model.parameter(f"{name}.friction", spring.friction, units[0])
    slow = model.parameter(f"{name}.friction_rate", spring.friction_rate, units[1])
    share = model.graph.tanh(rate / slow)
    return damping * rate + friction * share, damping + friction / slow * (1.0 - share * share)
