"""A drive of any length: the mixed drive repeated, which ends at rest as it began."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from replay.laps import Laps
from vehicled.daemon.configuration import DaemonConfiguration
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.simulation.drive import simulate
from vehicled.simulation.equipment import find_equipment
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import find_scenario

_DRIVE = "mixed_drive"
_GRID_NS = 20_000_000
"""The time of a lap is a multiple of this, so that the sensors' rates continue from lap to lap."""
_GAINED = {"gnss.lat": "lat", "gnss.lon": "lon"} | {f"wheel.{w}.angle": f"wheel.{w}.angle" for w in WHEELS}
"""Channels that differ between start and end of a lap, and the corresponding columns of the truth."""


def make_drive(
    configuration: DaemonConfiguration, seconds: float, seed: int, progress: Callable[[float], None]
) -> Laps:
    """Measurements of this car's sensors over `seconds`; `progress` receives the simulated time, s."""
    scenario = find_scenario(_DRIVE)
    lap_s = min(seconds, scenario.length)
    scenario = dataclasses.replace(scenario, duration=lap_s)
    equipment = find_equipment(configuration, configuration.find_signals())
    plant = make_plant(configuration, scenario.plant)
    measurements, truth = simulate(scenario, plant, seed, progress, equipment)
    lap_ns = round(lap_s * 1e9) // _GRID_NS * _GRID_NS
    last = int(np.searchsorted(truth.t, lap_ns, side="right")) - 1
    change = truth.values[last] - truth.values[0]
    gained = {channel: float(change[ESTIMATE_INDEX[column]]) for channel, column in _GAINED.items()}
    # Measurements at the very end belong to the next lap.
    lap = [m for m in measurements if m.t < lap_ns]
    return Laps(lap, lap_ns, gained, round(seconds * 1e9))


def drive_length(seconds: float) -> float:
    """Simulated time, s, needed for a drive of `seconds`."""
    return min(seconds, find_scenario(_DRIVE).length)
