"""Initialises the simulated car in a turn or a skid, with the tyre and spring forces that belong to it.

A simulated car that starts straight ahead takes tenths of a second to load its tyres; meanwhile the filter
would explain the measured lateral acceleration by wrong causes. To be called for a filter that has just been
initialised, before `restart_history`.
"""

from __future__ import annotations

import math

import numpy as np

from vehicled.filter.boundary import EstimatedFilter
from vehicled.messages import WHEELS
from vehicled.vehicle.arrays import AHEAD, CHART_SIZE, LEFT, PLACE, YAW, YAW_RATE

_TIME, _STEP = 0.8, 0.01
"""s: time in which roll and tyres become steady, and step of the simulation."""
_STEADY = 0.3
"""Largest relative difference between the steady yaw rate and the measured one."""


def settle_in_turn(filter: EstimatedFilter, yaw_rate: float) -> bool:
    """Simulate the car's turn with its inputs until roll and sideslip are steady, at its place and speed.

    Returns False, with nothing changed, if the steady yaw rate is far from `yaw_rate`, rad/s.
    """
    before, begun = filter.save(), filter.read_state().copy()
    for _ in range(round(_TIME / _STEP)):
        filter.car.step(_STEP)
    steady = filter.read_state()[YAW_RATE]
    if not math.isfinite(steady) or abs(steady - yaw_rate) > _STEADY * abs(yaw_rate):
        filter.restore(before)
        return False
    _return(filter, begun, [AHEAD])
    return True


def hold_motion(filter: EstimatedFilter, left: float, yaw_rate: float) -> None:
    """Load tyres and springs as at a lateral velocity (m/s) and a yaw rate (rad/s), which are held constant.

    If the simulation fails, nothing is changed.
    """
    before, held = filter.save(), filter.read_state().copy()
    held[LEFT], held[YAW_RATE] = left, yaw_rate
    for _ in range(round(_TIME / _STEP)):
        _return(filter, held, [AHEAD, LEFT, YAW_RATE])
        filter.car.step(_STEP)
        filter.read_state()
    _return(filter, held, [AHEAD, LEFT, YAW_RATE])
    if not filter.is_sound:
        filter.restore(before)


def _return(filter: EstimatedFilter, to: np.ndarray, velocities: list[int]) -> None:
    """Return to the place and heading of a pose, and to the given ones of its velocities."""
    now = filter.pose
    change = np.zeros(CHART_SIZE)
    change[PLACE][:2] = (to - now)[PLACE][:2]
    change[[YAW, *velocities]] = (to - now)[[YAW, *velocities]]
    wheels = np.zeros((2, len(WHEELS)))
    wheels[1] = change[AHEAD] / filter.car.rolling_radius
    filter.car.correct(change, wheels, carry=True)
    now[YAW] = to[YAW]  # from which `read_state` goes on
    filter.read_state()
