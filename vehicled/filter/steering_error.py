"""Error of the front wheels' angle relative to the steering sensor: by an offset and by a ratio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vehicled.filter.states import STEERING_OFFSET, STEERING_RATIO
from vehicled.vehicle.arrays import RACK, ROD

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom

_SMALL_ANGLE = 0.1
"""rad: smaller steering angles show little of a ratio. At speed, other tyres have the same effect on a turn
as another ratio; and the noise of the angle's samples affects forces, and correlates with their
innovations."""


def calc_angle(model: ErrorModel) -> Atom:
    """Present measured angle of the front wheels, rad to the left, that a ratio scales; zero if not measured.

    Small angles are reduced.
    """
    angle = model.program.arrays["inputs"][RACK] / model.rod_per_angle
    return (1.0 - model.unsteered) * model.discount(angle, _SMALL_ANGLE)


def calc_rods(model: ErrorModel) -> list[Atom]:
    """(4,) displacement of the tie rods' inner ends in addition to the measured one, m; rear rods do not move."""
    (offset,), (ratio,) = model.estimates(STEERING_OFFSET), model.estimates(STEERING_RATIO)
    left, right, *_ = model.program.lanes("corner_inputs")[ROD]
    by_offset = model.rod_per_angle * offset
    return [by_offset + ratio * left, by_offset + ratio * right, model.g.zero, model.g.zero]
