"""Knowledge about a car without sensors: roads are nearly level, and springs and dampers hold the body."""

from __future__ import annotations

from vehicled.filter.error_model import ErrorModel
from vehicled.filter.states import ANGULAR_RATE, ATTITUDE, CROSSFALL
from vehicled.vehicle.arrays import YAW


def add_road(model: ErrorModel) -> None:
    """Add observations `road.slope` and `road.bank`: both are small, but for a crossfall that all roads have.

    And `lean.ahead` and `lean.left`: by how much the axes of the car rise more than estimated, with the road.
    """
    g, s = model.g, model.states
    yaw = model.now[YAW]
    normal, cos, sin = model.parts.ground, g.cos(yaw), g.sin(yaw)
    along, across = normal[0] * cos + normal[1] * sin, normal[1] * cos - normal[0] * sin
    slope, bank = ({s.index(ATTITUDE, axis): g.one} for axis in ("v1z", "v2z"))
    model.observe("road.slope", [-along], [slope])
    (usual,) = model.estimates(CROSSFALL)
    model.observe("road.bank", [-across - usual], [bank | s.entries(CROSSFALL, {0: -g.one})])
    model.observe("lean.ahead", [g.zero], [slope])
    model.observe("lean.left", [g.zero], [bank])


def add_springs(model: ErrorModel) -> None:
    """Add observations `springs.pitch` and `springs.roll`: the body's rotation is near the model's."""
    _, pitch, roll = model.states.places(ANGULAR_RATE)
    model.observe("springs.pitch", [model.g.zero], [{pitch: model.g.one}])
    model.observe("springs.roll", [model.g.zero], [{roll: model.g.one}])
