"""A car's sensors by its configuration: which channels they have, and how readings differ from the quantity."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from vehicled.configuration import Configuration
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.inputs.steering import CHANNELS_BY_SOURCE
from vehicled.sources.sensors import find_input_limits
from vehicled.vehicle.parameters import SteeringParameters

_REPORTED_AS = {
    "imu": "imu",
    "gnss": "gnss",
    "wheel_angles": "wheel.angle",
    "wheel_speeds": "wheel.speed",
    "vehicle_speed": "vehicle",
    "gnss2": "gnss2",
    "velocity": "velocity",
    "yaw_rate": "yaw_rate",
}
"""Sections of `sensors` to the names under which simulated sensors report."""


@dataclass(frozen=True, kw_only=True)
class Equipment:
    """The channels of a car's sensors, and how readings differ from the measured quantity.

    Without arguments: the sensors of the prototype, with torque sensors on the driven wheels.
    """

    channels: frozenset[str] | None = None
    latencies: Mapping[str, float] = field(default_factory=dict)
    """By sensor: age of a sample at its time stamp, s."""
    gains: Mapping[str, float] = field(default_factory=dict)
    """By channel: ratio of the true value to the reading."""
    offsets: Mapping[str, float] = field(default_factory=dict)
    """By channel: what is added to the reading, in the channel's unit."""
    steering_ratio: float = SteeringParameters().ratio
    """Rack displacement per steering-wheel angle, m/rad."""
    edges: int = 96
    """Counts of a wheel's counter per revolution."""
    gravity_removed: bool = False
    """Whether gravity is removed from the accelerations."""
    origin: tuple[float, float, float] | None = None
    """Origin of the world frame, if the configuration gives one: latitude and longitude in rad, height in
    m."""


def find_equipment(configuration: Configuration, sent: Collection[str]) -> Equipment:
    """Equipment of a configured car whose CAN devices send the channels `sent`.

    It has the channels that the section `sensors` enables, and those steering angles, torques and pressures
    in `sent` for which that section has no switch.
    """
    sensors, world = configuration.sensors, configuration.world
    channels = {c for _, settings in sensors.items() for c in settings.LIMITS}
    latencies = {_REPORTED_AS[name]: settings.latency for name, settings in sensors.items()}
    for receiver in (sensors.gnss, sensors.gnss2):
        if receiver is not None and receiver.heading is None:
            channels -= {f"{receiver.RECEIVER.name}.{what}" for what in ("heading", "heading_acc")}
    offsets: dict[str, float] = {}
    gravity_removed = False
    if sensors.imu is not None:
        for axes, part in (
            (GYROSCOPES, sensors.imu.gyroscopes),
            (ACCELEROMETERS, sensors.imu.accelerometers),
        ):
            if part is None:
                channels -= set(axes)
            else:
                offsets |= dict(zip(axes, part.offset, strict=True))
        accelerometers = sensors.imu.accelerometers
        gravity_removed = accelerometers is not None and accelerometers.gravity_removed
    steering = CHANNELS_BY_SOURCE[sensors.steering.source]
    channels |= {*steering, *(find_input_limits().keys() & sent)}
    offsets |= dict.fromkeys(steering, sensors.steering.offset)
    offsets |= dict.fromkeys(sensors.brake_pressure.LIMITS, sensors.brake_pressure.offset)
    angles = sensors.wheel_angles
    return Equipment(
        channels=frozenset(channels),
        latencies={**latencies, "steer": sensors.steering.latency},
        gains=dict.fromkeys(sensors.wheel_torques.LIMITS, sensors.wheel_torques.gain),
        offsets=offsets,
        steering_ratio=configuration.vehicle.steering.ratio,
        edges=_count_edges(0.0 if angles is None else angles.resolution),
        gravity_removed=gravity_removed,
        origin=None if world is None else (world.latitude, world.longitude, world.height),
    )


def _count_edges(resolution: float) -> int:
    """Counts per revolution for an angle of one count, rad; the default for a perfect counter."""
    return Equipment.edges if resolution == 0.0 else max(1, round(2 * math.pi / resolution))
