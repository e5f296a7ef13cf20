"""Direction of a car's first motion: forwards, unless the estimate is certain of the opposite.

A course over ground does not show whether a car moves forwards or backwards. The sign of the estimated speed
would decide, but after standing it is due to noise, or to an IMU that is mounted askew. A receiver's speeds
have no sign, so they would confirm a wrong sign from then on.
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
"""Share of the speed by which it may differ from that of the vehicle origin."""


def go_ahead(filter: ObservedFilter, updates: MeasurementUpdates, speed: float, sigma: float) -> bool:
    """Set the forward speed to a speed over ground (m/s) with its σ, if the estimate has another direction.

    If nothing but receivers measures the motion, the direction of the estimate is due to chance, however
    certain the estimate is. Returns whether the speed was set: then earlier measurements are too old.
    """
    filter.apply_corrections()  # else pending corrections of this step would be added to the set speed
    ahead = filter.pose.item(AHEAD)
    variance = filter.get_variance(VELOCITY, "ahead")
    is_alone = not any(updates.is_active(kind) for kind in updates.health if not kind.startswith("gnss"))
    is_sure = ahead < -_CERTAIN * math.sqrt(variance) and not is_alone
    if is_sure or ahead > speed - _CERTAIN * sigma:
        return False
    filter.set_speed(speed, math.hypot(sigma, _SIDESLIP * speed))
    filter.restart_history(updates.step_ns)
    return True
