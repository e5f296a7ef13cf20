"""Least noise of fixes and velocities while no accelerometers measure: that of the model which has to follow them.

Where only wheels, steering or fixes themselves show how the car accelerates, the model follows late. Beside fixes
good to centimetres that lag looks like a latency of the receiver, or like an antenna in another place: RTK alone was
off by 0.6 to 1.0 m at 13 to 21 σ. With this noise it is off by 0.01 to 0.06 m, by at most 2.3 σ.
"""

from __future__ import annotations

from vehicled.sources.updates import MeasurementUpdates

_HORIZONTAL, _VERTICAL, _VELOCITY = 0.5, 0.75, 0.25
"""m, m and m/s, 1 σ per axis."""


def limit_fix(horizontal: float, vertical: float, updates: MeasurementUpdates) -> tuple[float, float]:
    """σ of a fix, m, horizontal and vertical; at least the model's while no accelerometers correct the filter."""
    if updates.is_active("imu.accel"):
        return horizontal, vertical
    return max(horizontal, _HORIZONTAL), max(vertical, _VERTICAL)


def limit_velocity(sigma: float, updates: MeasurementUpdates) -> float:
    """The same for a velocity, m/s."""
    return sigma if updates.is_active("imu.accel") else max(sigma, _VELOCITY)
