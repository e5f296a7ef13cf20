"""Drives of cars that differ from their configuration, for the tests of identification."""

from __future__ import annotations

import dataclasses
from functools import lru_cache

from estimator_rig import steps

from vehicled.configuration import File, configure
from vehicled.identification.vehicle.filter_form import calc_filter_form
from vehicled.identification.vehicle.names import PARAMETERS, apply, with_defaults
from vehicled.messages import Step
from vehicled.reading import settings
from vehicled.simulation.drive import simulate
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import DriveInputs, PlantErrors, Scenario, find_scenario
from vehicled.simulation.sensor_settings import SimulatedSignal

TEXT = settings.config_path("prototype").read_text(encoding="utf-8")


@lru_cache
def prototype_file(tuning: bool = False) -> File:
    """The prototype's file in the form for identification, or for tuning."""
    return with_defaults(calc_filter_form(settings.loads(TEXT, File), tuning)[0])


def changed(**theta: float) -> File:
    """The prototype with parameters changed by these `theta`; `__` stands for a dot."""
    names = [n.replace("__", ".") for n in theta]
    return apply(prototype_file(), [PARAMETERS[n] for n in names], theta.values())


def drive(file: File, scenario: Scenario, seed: int = 3) -> list[Step]:
    """Filter steps of a drive of that car."""
    measurements, _ = simulate(scenario, make_plant(configure(file, TEXT), scenario.plant), seed)
    return steps(measurements)


def mixed(seconds: float) -> Scenario:
    """The mixed drive without plant errors and without scale errors of torques, which would bias the mass."""
    given = find_scenario("mixed_drive")
    torques = SimulatedSignal(noise=5.0, bias=2.0, quantisation=0.2)
    sensors = dataclasses.replace(given.sensors, wheel_torques=torques)
    return dataclasses.replace(given, duration=seconds, plant=PlantErrors(), sensors=sensors)


def bend(seconds: float) -> Scenario:
    """15 m/s from the start, bends to the left and to the right, driven wheels."""
    inputs = DriveInputs(rack=[(0.5, 0.0), (1.0, 0.012), (2.5, 0.012), (3.0, -0.01)], rear_torque=400.0)
    return Scenario(duration=seconds, initial=InitialMotion(speed=15.0), inputs=inputs)
