"""Which way a car goes that moves for the first time: ahead, unless the estimate is sure that it does not.

A course over ground does not tell whether the car goes ahead or back. The sign of the estimated speed would decide,
which after standing comes of noise, or of an IMU that is mounted askew. Speeds of a receiver, which have no sign,
would confirm it from then on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vehicled.filter.boundary import ObservedFilter
from vehicled.filter.states import VELOCITY
from vehicled.vehicle.arrays import AHEAD

if TYPE_CHECKING:
    from vehicled.sources.updates import MeasurementUpdates

_CERTAIN = 5.0
"""Standard deviations by which an estimate has to differ from zero, or a reading from the estimate."""
_SIDESLIP = 0.01
"""Of the speed: how much it may differ from that of the vehicle origin."""


def go_ahead(filter: ObservedFilter, updates: MeasurementUpdates, speed: float, sigma: float) -> bool:
    """Set the speed (m/s) that is measured over ground, with its σ, where the estimate goes another way.

    Where nothing but receivers measures the motion, the estimate has its direction by chance, however sure it is.
    Returns whether the speed was set: what has been measured before is too old then.
    """
    filter.apply_corrections()  # what the same step has found until now would come on top of the speed that is set
    ahead = filter.pose.item(AHEAD)
    variance = filter.get_variance(VELOCITY, "ahead")
    is_alone = not any(updates.is_active(kind) for kind in updates.health if not kind.startswith("gnss"))
    is_sure = ahead < -_CERTAIN * math.sqrt(variance) and not is_alone
    if is_sure or ahead > speed - _CERTAIN * sigma:
        return False
    filter.set_speed(speed, math.hypot(sigma, _SIDESLIP * speed))
    filter.restart_history(updates.step_ns)
    return True
