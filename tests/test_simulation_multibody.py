"""The multibody plant in a scenario: published trajectory, slopes, parameter errors."""

import math

import numpy as np
import pytest

from vehicled.configuration import load_configuration
from vehicled.messages import ESTIMATE_INDEX
from vehicled.settings import loads
from vehicled.simulation.drive import simulate
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import Scenario

PLAIN = (
    "sensors: {imu: null, gnss: null, wheel_angles: null, steering: null, brake_pressure: null, speed: null}"
)


def drive(name, text):
    scenario = loads(f"{text}\n{PLAIN}", Scenario)
    _, truth = simulate(scenario, make_plant(load_configuration(name), scenario.plant), 0)
    return truth.t * 1e-9, {c: truth.values[:, i] for c, i in ESTIMATE_INDEX.items()}


def test_the_published_drive_as_a_scenario():
    t, truth = drive(
        "reference_vehicle",
        "duration: 10\ninitial: {speed: 20}\n"
        "inputs: {rack: {sine: {amplitude: 0.004, frequency: 0.25, start: 0}}}",
    )
    assert t[-1] == pytest.approx(10.0)
    # The chassis' centre of mass, which the other engines give, lies 3 mm behind the vehicle origin.
    assert truth["x"][-1] == pytest.approx(192.68, abs=0.02)
    assert truth["y"][-1] == pytest.approx(-32.69, abs=0.02)


def test_a_car_stands_settled_on_a_slope_and_rolls_down_it():
    slope = 0.04
    t, truth = drive("prototype", f"duration: 3\nground: {{slope: {slope}, height: 2}}\ninputs: {{}}")
    assert truth["pitch"][0] == pytest.approx(-math.atan(slope), abs=2e-3)
    assert truth["suspension.fl.deflection"][0] == pytest.approx(0.0, abs=1e-4)
    expected = -9.81 * slope
    measured = np.polyfit(t[t > 1], truth["vx"][t > 1], 1)[0]
    # Turning wheels take some of it, rolling resistance (1.2 %) more.
    assert expected < measured < 0.5 * expected


def test_a_bank_leans_the_car_to_the_right_of_its_way():
    _, truth = drive("prototype", "duration: 0.5\nground: {bank: 3 %}\ninputs: {brake_pressure: 50 bar}")
    assert truth["roll"][-1] == pytest.approx(0.03, abs=5e-3)


def test_a_heavier_plant_presses_harder_on_the_ground():
    loads_of = []
    for mass in (0, 10):
        _, truth = drive("prototype", f"duration: 0.5\nplant: {{mass: {mass}}}\ninputs: {{}}")
        loads_of.append(sum(truth[f"tyre.{w}.fz"][-1] for w in ("fl", "fr", "rl", "rr")))
    assert loads_of[1] / loads_of[0] == pytest.approx(1.10, abs=1e-3)
