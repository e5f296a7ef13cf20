"""The multibody plant in a scenario: published trajectory, slopes, parameter errors."""

import dataclasses
import math

import numpy as np
import pytest

from vehicled.configuration import load_configuration
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.reading.settings import loads
from vehicled.simulation.drive import drive_plant, simulate
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import Scenario, find_scenario
from vehicled.vehicle.differential import Differential

PLAIN = (
    "sensors: {imu: null, gnss: null, wheel_angles: null, steering: null, brake_pressure: null, speed: null}"
)


def drive(name, text):
    scenario = loads(f"{text}\n{PLAIN}", Scenario)
    _, truth = simulate(scenario, make_plant(load_configuration(name), scenario.plant), 0)
    return truth.t * 1e-9, {c: truth.values[:, i] for c, i in ESTIMATE_INDEX.items()}


def test_the_published_drive_is_reproduced_as_a_scenario():
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
    # The inertia of the wheels and rolling resistance (1.2 %) reduce the acceleration.
    assert expected < measured < 0.5 * expected


def test_a_bank_rolls_the_car_to_the_right():
    _, truth = drive("prototype", "duration: 0.5\nground: {bank: 3 %}\ninputs: {brake_pressure: 50 bar}")
    assert truth["roll"][-1] == pytest.approx(0.03, abs=5e-3)


def test_a_heavier_plant_has_larger_wheel_loads():
    loads_of = []
    for mass in (0, 10):
        _, truth = drive("prototype", f"duration: 0.5\nplant: {{mass: {mass}}}\ninputs: {{}}")
        loads_of.append(sum(truth[f"tyre.{w}.fz"][-1] for w in ("fl", "fr", "rl", "rr")))
    assert loads_of[1] / loads_of[0] == pytest.approx(1.10, abs=1e-3)


def torques_of(configuration, scenario):
    """(steps, 4) drive torques at the wheels, NaN where there is no sensor."""
    plant = make_plant(configuration, scenario.plant)
    track, _ = drive_plant(scenario, plant, None)
    none = np.full(len(track.t), np.nan)
    return np.stack([track.columns.get(f"torque.{w}", none) for w in WHEELS], axis=1)


@pytest.mark.parametrize(
    ("name", "wheels", "front"),
    [("prototype", ["rl", "rr"], 0.0), ("hatchback", ["fl", "fr"], 1.0), ("saloon", list(WHEELS), 0.4)],
)
def test_drive_torque_is_applied_and_measured_at_the_driven_wheels(name, wheels, front):
    scenario = dataclasses.replace(find_scenario("acceleration_and_braking"), duration=4.0)
    torques = torques_of(load_configuration(name), scenario)
    has_sensor = ~np.isnan(torques[0])
    assert [w for w, has in zip(WHEELS, has_sensor, strict=True) if has] == wheels
    total = np.nansum(torques, axis=1)
    assert total[-1] > 300.0
    assert np.nansum(torques[:, :2], axis=1) == pytest.approx(front * total)
    assert torques[:, 0] == pytest.approx(torques[:, 1], nan_ok=True)
    assert torques[:, 2] == pytest.approx(torques[:, 3], nan_ok=True)


def test_torques_are_measured_behind_the_differential():
    """In a bend, a limited-slip differential moves torque to the inner wheel; the sum is the engine's torque."""
    given = load_configuration("hatchback")
    limited = Differential(kind="limited_slip", preload=50.0, locking=0.3)
    front = dataclasses.replace(given.vehicle.front, differential=limited)
    configuration = dataclasses.replace(given, vehicle=dataclasses.replace(given.vehicle, front=front))
    scenario = loads(
        "duration: 4\ninitial: {speed: 10}\ninputs: {front_torque: 400, rack: [[1, 0], [2, 0.02]]}", Scenario
    )
    torques = torques_of(configuration, scenario)
    assert torques[:, :2].sum(axis=1) == pytest.approx(400.0)
    left, right = torques[-1, :2]
    assert abs(left - right) == pytest.approx(50.0 + 0.3 * 400.0)
    steers_left = make_plant(configuration, scenario.plant).handling.rack_per_steer > 0
    assert (left > right) == steers_left


def test_front_torque_accelerates_as_rear_torque_does():
    speeds = []
    for axle in ("front", "rear"):
        _, truth = drive("prototype", f"duration: 2\ninitial: {{speed: 10}}\ninputs: {{{axle}_torque: 600}}")
        speeds.append(truth["vx"][-1] - 10.0)
    assert speeds[0] > 2.0
    assert speeds[0] == pytest.approx(speeds[1], rel=0.03)
