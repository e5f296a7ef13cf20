"""The drives in which faults happen, and what was true in them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from vehicled.configuration import Configuration
from vehicled.geodesy import WorldOrigin
from vehicled.messages import Measurement
from vehicled.simulation.drive import simulate
from vehicled.simulation.equipment import Equipment
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario
from vehicled.simulation.sensor_settings import CONVENTIONAL, RTK, SimulatedSensors

LENGTH = 22.0
"""s."""
BEGIN, END = 8.0, 14.0
"""s: of a fault, where its row says nothing else."""
GNSS_LATENCY = RTK.latency
_EVERY = 0.05
"""s, between points of a sine of the steering."""


def _sine(amplitude: float, frequency: float, begin: float) -> list[tuple[float, float]]:
    """Rack displacement, m, over time, s."""
    points = [begin + _EVERY * k for k in range(round((LENGTH - begin) / _EVERY))]
    return [(t, amplitude * math.sin(2 * math.pi * frequency * (t - begin))) for t in points]


_INPUTS = {
    "corner": DriveInputs(
        rack=[(5.0, 0.0), (6.5, 0.0085), (18.0, 0.0085), (19.0, 0.0)],
        rear_torque=[(5.0, 100.0), (6.5, 200.0), (18.0, 200.0), (19.0, 100.0)],
    ),
    "slalom": DriveInputs(rack=_sine(0.008, 0.35, 4.0), rear_torque=150.0),
    "braking": DriveInputs(
        rack=[(4.0, 0.0), (5.0, 0.003), (18.0, 0.003), (19.0, 0.0)],
        rear_torque=[(6.0, 100.0), (6.2, 700.0), (10.0, 700.0), (10.2, 0.0), (13.0, 0.0), (13.2, 600.0)],
        brake_pressure=[(10.3, 0.0), (10.6, 35e5), (12.6, 35e5), (12.9, 0.0)],
    ),
}
"""From 15 m/s: at 5.5 m/s² through a bend; to and fro; accelerating, braking and accelerating in a wide bend."""
DRIVES = tuple(_INPUTS)
RECEIVERS = {"rtk": RTK, "conventional": CONVENTIONAL}


@dataclass(frozen=True)
class FaultDrive:
    """A drive without faults."""

    measurements: list[Measurement]
    """In order of arrival."""
    t: np.ndarray
    """(n,) int64 ns, of the truth."""
    truth: np.ndarray
    """(n, len(ESTIMATE_COLUMNS))."""
    origin: WorldOrigin
    """Of x and y in the truth."""


@lru_cache
def make_drive(configuration: Configuration, name: str, receiver: str, seed: int) -> FaultDrive:
    """One of `DRIVES`, with one of `RECEIVERS`. The plant differs from the configuration by the standard errors."""
    sensors = SimulatedSensors(gnss=RECEIVERS[receiver])
    scenario = Scenario(
        duration=LENGTH,
        initial=InitialMotion(speed=15.0, yaw=0.5),
        inputs=_INPUTS[name],
        plant=STANDARD_ERRORS,
        sensors=sensors,
    )
    measurements, truth = simulate(scenario, make_plant(configuration, scenario.plant), seed)
    latitude, longitude, height = sensors.find_origin(Equipment())
    origin = WorldOrigin(math.degrees(latitude), math.degrees(longitude), height)
    return FaultDrive(measurements, truth.t, truth.values, origin)
