"""The drives in which faults occur, and their truth."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from vehicled.configuration import Configuration
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import Measurement
from vehicled.simulation.drive import simulate
from vehicled.simulation.equipment import Equipment
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Ground, Scenario
from vehicled.simulation.sensor_settings import CONVENTIONAL, RTK, SimulatedSensors

LENGTH = 22.0
"""Length of a drive, s."""
BEGIN, END = 8.0, 14.0
"""s: of a fault whose row has no other times."""
START = 9.0
"""s: start of the measurements in rows of starts."""
PULLS_OFF = 12.0
"""s: time at which the standing car pulls off."""
_EVERY = 0.05
"""s between points of a sinusoidal steering input."""


def _sine(amplitude: float, frequency: float, begin: float) -> list[tuple[float, float]]:
    """Rack displacement, m, over time, s, as a sine."""
    points = [begin + _EVERY * k for k in range(round((LENGTH - begin) / _EVERY))]
    return [(t, amplitude * math.sin(2 * math.pi * frequency * (t - begin))) for t in points]


@dataclass(frozen=True)
class _Course:
    inputs: DriveInputs
    speed: float = 15.0
    """Initial speed, m/s."""
    ground: Ground = field(default_factory=Ground)


_COURSES = {
    "corner": _Course(
        DriveInputs(
            rack=[(5.0, 0.0), (6.5, 0.0085), (18.0, 0.0085), (19.0, 0.0)],
            rear_torque=[(5.0, 100.0), (6.5, 200.0), (18.0, 200.0), (19.0, 100.0)],
        )
    ),
    "slalom": _Course(DriveInputs(rack=_sine(0.008, 0.35, 4.0), rear_torque=150.0)),
    "braking": _Course(
        DriveInputs(
            rack=[(4.0, 0.0), (5.0, 0.003), (18.0, 0.003), (19.0, 0.0)],
            rear_torque=[(6.0, 100.0), (6.2, 700.0), (10.0, 700.0), (10.2, 0.0), (13.0, 0.0), (13.2, 600.0)],
            brake_pressure=[(10.3, 0.0), (10.6, 35e5), (12.6, 35e5), (12.9, 0.0)],
        )
    ),
    "standing": _Course(
        DriveInputs(
            rack=[(14.0, 0.0), (15.0, 0.01)],
            rear_torque=[(PULLS_OFF, 0.0), (PULLS_OFF + 0.3, 600.0), (18.0, 600.0), (18.5, 100.0)],
            brake_pressure=[(PULLS_OFF - 0.3, 10e5), (PULLS_OFF, 0.0)],
        ),
        speed=0.0,
    ),
    "straight": _Course(DriveInputs(rear_torque=150.0)),
    "reverse": _Course(
        DriveInputs(rack=[(5.0, 0.0), (6.5, 0.01), (18.0, 0.01), (19.0, 0.0)], rear_torque=-60.0), speed=-4.0
    ),
    "slope": _Course(
        DriveInputs(
            rack=[(8.0, 0.0), (9.0, 0.006)],
            rear_torque=[(6.0, 300.0), (6.5, 900.0), (16.0, 900.0), (17.0, 300.0)],
            brake_pressure=[(5.5, 30e5), (6.0, 0.0)],
        ),
        speed=0.0,
        ground=Ground(slope=0.1, bank=0.05),
    ),
    "skid": _Course(
        DriveInputs(
            rack=[(5.0, 0.0), (6.0, 0.012), (8.8, 0.012), (9.0, -0.03), (9.8, -0.03), (10.3, 0.004)],
            rear_torque=[(8.4, 100.0), (8.5, 2200.0), (9.0, 2200.0), (9.1, 0.0), (13.0, 0.0), (13.5, 200.0)],
        ),
        speed=14.0,
    ),
}
"""For faults, from 15 m/s: at 5.5 m/s² through a bend; to and fro; accelerating, braking and accelerating in a wide
bend. For starts also: standing; straight ahead; backwards through a bend; uphill from a stop, on banked ground; in a
skid, by 14° to one side at `START`, by 28° to the other side three seconds later.
"""
DRIVES = tuple(_COURSES)
PLACES = ("corner", "slalom", "braking")
"""Drives with faults for rows that name no drives."""
RECEIVERS = {"rtk": RTK, "conventional": CONVENTIONAL}


@dataclass(frozen=True)
class FaultDrive:
    """A drive without faults."""

    measurements: list[Measurement]
    """Measurements in order of arrival."""
    t: np.ndarray
    """(n,) int64 ns, times of the truth."""
    truth: np.ndarray
    """(n, len(ESTIMATE_COLUMNS))."""
    origin: WorldOrigin
    """Origin of x and y in the truth."""


@lru_cache
def make_drive(
    configuration: Configuration, name: str, receiver: str, seed: int, length: float = LENGTH
) -> FaultDrive:
    """One of `DRIVES`, with one of `RECEIVERS`, or its first `length` s.

    The plant differs from the configuration by the standard errors.
    """
    course = _COURSES[name]
    sensors = SimulatedSensors(gnss=RECEIVERS[receiver])
    scenario = Scenario(
        duration=length,
        initial=InitialMotion(speed=course.speed, yaw=0.5),
        ground=course.ground,
        inputs=course.inputs,
        plant=STANDARD_ERRORS,
        sensors=sensors,
    )
    measurements, truth = simulate(scenario, make_plant(configuration, scenario.plant), seed)
    latitude, longitude, height = sensors.find_origin(Equipment())
    origin = WorldOrigin(math.degrees(latitude), math.degrees(longitude), height)
    return FaultDrive(measurements, truth.t, truth.values, origin)
