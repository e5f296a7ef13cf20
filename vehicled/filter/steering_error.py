"""How far the front wheels are turned beside what the steering sensor gives: by an offset, and by a ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vehicled.filter.states import STEERING_OFFSET, STEERING_RATIO
from vehicled.vehicle.arrays import RACK, ROD

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom

_SMALL_ANGLE = 0.1
"""rad: wheels that are turned by less show little of a ratio. At speed other tyres change how a car turns as another
ratio does; and what the noise of an angle's samples makes of forces is correlated with innovations of those."""


def calc_angle(model: ErrorModel) -> Atom:
    """Angle of the front wheels as measured now, rad to the left, which a ratio changes; zero where nothing does.

    Small ones count less.
    """
    angle = model.program.arrays["inputs"][RACK] / model.rod_per_angle
    return (1.0 - model.unsteered) * model.discount(angle, _SMALL_ANGLE)


def calc_rods(model: ErrorModel) -> list[Atom]:
    """(4,) by how much farther the tie rods' inner ends have moved than measured, m; rear ones do not move."""
    (offset,), (ratio,) = model.estimates(STEERING_OFFSET), model.estimates(STEERING_RATIO)
    left, right, *_ = model.program.lanes("corner_inputs")[ROD]
    by_offset = model.rod_per_angle * offset
    return [by_offset + ratio * left, by_offset + ratio * right, model.g.zero, model.g.zero]
