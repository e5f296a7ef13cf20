"""Reduces mechanisms to natural coordinates: angles and distances become functions of these.

As separate coordinates, they would have no mass, which particles do not allow, and a constraint each, which
costs time. Their values and rates are substituted wherever the description uses them; by virtual work, a
force on one is replaced by forces on the others, each ∂s/∂q times as large.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from vehicled.multibody.building import build_model
from vehicled.multibody.description import Description
from vehicled.multibody.model import MechanismError, Model
from vehicled.multibody.system import Coordinate
from vehicled.symbolic.graph import Atom

Row = dict[Coordinate, Atom]


@dataclass(frozen=True)
class Quantity:
    """An angle or a distance of the description."""

    value: Atom
    """rad in (−π, π], or m"""
    gradient: Row
    """Gradient by q; its product with q̇ is the rate."""
    sides: tuple[Atom, Atom] | None
    """For an angle: sine and cosine, both times the same positive number."""

    def rate(self, zero: Atom) -> Atom:
        """Its rate Σ ∂/∂q · q̇, added to `zero`."""
        total = zero
        for c, slope in self.gradient.items():
            total = total + slope * c.qd
        return total


def reduce(description: Description) -> tuple[Model, dict[str, Quantity]]:
    """The model without relative coordinates, which become quantities, angles first. Raises MechanismError."""
    for kind, names in (("drive", description.drives), ("input", description.inputs)):
        for name in names:
            raise MechanismError(
                f"{kind} {name}: particles move freely, mechanisms with drives or inputs are not supported"
            )
    model = build_model(
        replace(description, coordinates="natural", independent=None, degrees_of_freedom=None)
    )
    g, system = model.graph, model.system
    defined_by = {
        **{n: f"angle {n}" for n in description.angles},
        **{n: f"distance {n}" for n in description.distances},
    }
    """Maps each relative coordinate to the constraint that defines it."""
    relative = {c.name: c for c in system.coordinates if c.name in defined_by}
    system.coordinates = [c for c in system.coordinates if c.name not in relative]
    quantities: dict[str, Quantity] = {}
    for name in description.angles:
        quantities[name] = _quantity(model, g.atan2(*model.sines[name]), model.sines[name])
    for name, distance in description.distances.items():
        a, b = (model.points[p].position for p in distance.points)
        apart = b - a
        value = apart.norm()
        if distance.along is not None:
            along, _ = model.segment(distance.along)
            value = apart.dot(along.position)
        quantities[name] = _quantity(model, value, None)
    known = {relative[n].q: x.value for n, x in quantities.items()}
    known |= {relative[n].qd: x.rate(g.zero) for n, x in quantities.items()}
    constraints = [(n, phi) for n, phi in system.constraints if n not in defined_by.values()]
    substituted = g.substitute([phi for _, phi in constraints], known)
    system.constraints = [(n, phi) for (n, _), phi in zip(constraints, substituted, strict=True)]
    forces, system.forces = system.forces, []
    for (c, _), force in zip(forces, g.substitute([f for _, f in forces], known), strict=True):
        slopes = quantities[c.name].gradient if c.name in relative else {c: g.one}
        system.forces += [(k, slope * force) for k, slope in slopes.items()]
    return model, quantities


def _quantity(model: Model, value: Atom, sides: tuple[Atom, Atom] | None) -> Quantity:
    coordinates = [c for c in model.system.coordinates if value.depends & c.q.depends]
    return Quantity(value, {c: model.graph.derivative(value, c.q) for c in coordinates}, sides)
