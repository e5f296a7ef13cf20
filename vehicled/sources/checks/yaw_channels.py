"""The channels of a measurement that show how the car turns: gyroscopes, accelerometers, and wheels of an axle."""

from __future__ import annotations

from typing import NamedTuple

from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES, Imu
from vehicled.vehicle.parameters import Vehicle

_LEAST_SHARE = 0.03
"""Least share of an accelerometer axis along the lateral direction for the axis to be needed: with less,
gravity along it has less effect than a bank."""


class YawParts(NamedTuple):
    """The channels of a measurement that are compared."""

    wheels: list[tuple[int, str]]
    """Number and channel of each wheel: its angle, or else its speed."""
    lateral: list[tuple[str, float]]
    """Channels of the accelerometers with their shares in the lateral acceleration; empty if one is
    missing."""
    turn: list[tuple[str, float]]
    """The same for gyroscopes and yaw rate."""


class YawChannels:
    """Selects the channels for one car."""

    def __init__(self, vehicle: Vehicle) -> None:
        # Driven wheels slip: the undriven axle is better; with both driven, the rear one.
        axle = "f" if vehicle.driven == "rear" else "r"
        self.wheel = f"{axle}l"
        """The left wheel of the axle."""
        self.wheels = [(f"wheel.{axle}{side}.angle", f"wheel.{axle}{side}.speed") for side in "lr"]
        """Channels of the angles and speeds of its wheels, the left one first."""
        self.others = (*ACCELEROMETERS, *(c for pair in self.wheels for c in pair))
        """All channels that are read, except for those of the yaw rate."""

    def find(self, imu: Imu | None, channels: tuple[str, ...], instead: str | None = None) -> YawParts:
        """Parts of a measurement with certain channels. `instead`: a yaw rate that takes the gyroscope's place."""
        wheels = []
        for n, (angle, speed) in enumerate(self.wheels):
            if angle in channels or speed in channels:
                wheels.append((n, angle) if angle in channels else (n, speed))
        turn = [(c, 1.0) for c in channels if c == instead]
        if imu is None:
            return YawParts(wheels, [], turn)
        (_, to_left, to_yaw), there = imu.R_imu_vehicle.T.tolist(), set(channels)
        left = [(c, share) for c, share in zip(ACCELEROMETERS, to_left, strict=True) if share]
        if instead is None and GYROSCOPES[2] in there:
            turn = [(c, share) for c, share in zip(GYROSCOPES, to_yaw, strict=True) if share and c in there]
        has_left = {c for c, share in left if abs(share) > _LEAST_SHARE} <= there
        return YawParts(wheels, [each for each in left if has_left and each[0] in there], turn)
