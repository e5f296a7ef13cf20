"""Simulated readings of the sensors of `vehicled particles` for a motion, with noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vehicled.messages import Measurement
from vehicled.multibody.mechanism import Mechanism
from vehicled.particles.configuration import SensorOptions
from vehicled.particles.sensors import check_channel
from vehicled.simulation.motion import SimulatedMotion


def check_sensors(mechanism: Mechanism, sensors: Mapping[str, Mapping[str, SensorOptions]]) -> None:
    """Raise UsageError naming a sensor that measures nothing of the mechanism, or in another unit."""
    angles = mechanism.compiled.model.name_angles()
    for device, channels in sensors.items():
        for channel, o in channels.items():
            name = f"sensors.{device}.{channel}"
            check_channel(name, channel, o, o.measured in angles, mechanism.coordinate_names)


def make_readings(
    motion: SimulatedMotion, sensors: Mapping[str, Mapping[str, SensorOptions]], seed: int
) -> list[Measurement]:
    """A measurement of each device per sample of the motion, at the time when it was measured.

    Noise is white with each channel's `sigma`. The inverse of scale and offset is applied, as the filter
    applies these. Angles continue beyond ±π.
    """
    random = np.random.default_rng(seed)
    columns = {
        device: {
            channel: (
                motion.get(o.measured, rate=o.rate is not None)
                + o.sigma * random.standard_normal(len(motion.t))
                - o.offset
            )
            / o.scale
            for channel, o in channels.items()
        }
        for device, channels in sensors.items()
    }
    times = np.rint(1e9 * motion.t).astype(np.int64).tolist()
    return [
        Measurement(device, t, t, {channel: float(values[k]) for channel, values in channels.items()})
        for k, t in enumerate(times)
        for device, channels in columns.items()
    ]
