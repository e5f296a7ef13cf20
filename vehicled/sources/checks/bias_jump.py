"""What a gyroscope whose bias has jumped or drifted has falsified before this was found."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from vehicled.filter.boundary import EstimatedFilter
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    POSITION,
    VELOCITY,
    WHEEL_SLIP,
    Group,
)
from vehicled.sources.falsified import doubt_unmodelled
from vehicled.sources.imu.model import GYRO_BIAS
from vehicled.units import Vector
from vehicled.vehicle.arrays import AHEAD, YAW
from vehicled.vehicle.parameters import Vehicle

_OWN = 0.3
"""Share of each error that is independent of the others."""


class BiasJump(NamedTuple):
    """A jump of the gyroscope's bias."""

    angle: float
    """rad: by how much its angle has exceeded that of other sensors, beyond what the bias at the beginning
    explains."""
    within: float
    """s: time in which it has done so."""
    followed: float
    """rad: the part of `angle` that the estimated heading has followed, as the bias estimated meanwhile does
    not explain it."""
    rate: float
    """rad/s: least change of the bias; of one that drifts, lately."""
    is_large: bool = True
    """Whether `followed` is more than the sideslip of a car that does not slide much."""


def doubt_falsified(
    f: EstimatedFilter, jump: BiasJump, upward: Sequence[float], vehicle: Vehicle, antenna: Vector
) -> None:
    """Make the bias uncertain, together with all that has followed from it.

    An independent error of the bias would not help: the yaw rate that the filter has found with the old bias
    would show that bias again. So one common error is added. Its size, which is unknown, is the amount by which
    the bias is wrong. What it does to the other states follows from what sensors show rightly all the same: place
    and velocity of the antenna, and the speeds of the wheels.

    A false sideslip has no effect on the acceleration. Forces that the model lacks have explained that, so they
    are uncertain by their whole size.

    `upward`: (3,) the car's upward axis, IMU axes; `antenna`: place of the receiver's antenna, vehicle axes, m.
    """
    falsified = list(_list_falsified(f, jump, upward, vehicle, antenna))
    f.add_common_error(falsified)
    for group, element, by in falsified:
        f.add_variance(group, element, (_OWN * by) ** 2)
    doubt_unmodelled(f)


def _list_falsified(
    f: EstimatedFilter, jump: BiasJump, upward: Sequence[float], vehicle: Vehicle, antenna: Vector
) -> Iterator[tuple[Group, str, float]]:
    """States, and how far the truth is from their estimates if the bias is wrong by as much as it seems."""
    for element, share in zip(GYRO_BIAS.elements, upward, strict=True):
        yield GYRO_BIAS, element, share * jump.rate
    rate, turned = -jump.rate, -jump.followed
    yield ANGULAR_RATE, "yaw", rate
    yield ATTITUDE, "yaw", turned
    ahead, left, _ = antenna
    heading = f.pose.item(YAW)
    cos, sin = math.cos(heading), math.sin(heading)
    yield POSITION, "x", turned * (ahead * sin + left * cos)
    yield POSITION, "y", turned * (left * sin - ahead * cos)
    yield VELOCITY, "ahead", rate * left
    # The course is right, so that the sideslip has the same error as the heading.
    yield VELOCITY, "left", -turned * f.pose.item(AHEAD) - rate * ahead
    for wheel in WHEEL_SLIP.elements:
        place = vehicle.axle(wheel)
        y = place.hard_points.wheel_center[1] * (1.0 if wheel[1] == "l" else -1.0)
        yield WHEEL_SLIP, wheel, rate * (y - left) / place.tyre.radius
