"""Magnitudes that no sensor of a car can give."""

import math

from vehicled.messages import Measurement
from vehicled.sources.fusion import Fusion
from vehicled.sources.onboard import ACCELEROMETER, GYRO, WHEEL_ANGLES, WHEEL_SPEEDS

FASTEST = 200.0
"""m/s: no car is faster."""

LIMITS = {
    **dict.fromkeys(ACCELEROMETER, 500.0),
    **dict.fromkeys(GYRO, 50.0),
    **{"gnss.lat": 90.0, "gnss.lon": 360.0, "gnss.alt": 1e5, "gnss.quality": 100.0},
    **{"gnss.h_acc": 1e5, "gnss.v_acc": 1e5, "gnss.speed": FASTEST, "gnss.course": 7.0},
    **dict.fromkeys(WHEEL_ANGLES, 1e9),
    **dict.fromkeys(WHEEL_SPEEDS, 1000.0),
    **{"steer.wheel": 50.0, "steer.rack": 0.3, "steer.fl": 1.5, "steer.fr": 1.5},
    **{"brake.pressure": 1e8, "torque.rl": 1e5, "torque.rr": 1e5, "vehicle.speed": FASTEST},
}
"""By channel, in its unit; beyond it a value is no measurement (NaN never is within)."""


def without_absurd(m: Measurement, fusion: Fusion) -> tuple[Measurement, int]:
    """The measurement without such values, each of which is recorded, and how many they were."""
    for channel, value in m.values.items():
        if not abs(value) <= LIMITS.get(channel, math.inf):
            break
    else:
        return m, 0
    good = {}
    for channel, value in m.values.items():
        if abs(value) <= LIMITS.get(channel, math.inf):
            good[channel] = value
        else:
            fusion.record(m, channel, [value], "absurd")
    return Measurement(m.source, m.t, m.arrival, good), len(m.values) - len(good)
