"""`vehicled bench points`: the modes of wheels on their tyres against a closed form, and the command."""

import dataclasses
import json
import math

import numpy as np
import pytest

from vehicled.cli import main
from vehicled.configuration import load_configuration
from vehicled.simulation.scenario import find_scenario
from vehicled.studies.benchmarks import wheel_points
from vehicled.vehicle.car import Car


@pytest.fixture(scope="module")
def modes():
    return wheel_points.find_modes(load_configuration("prototype"))


def test_modes_are_those_of_a_wheel_on_a_relaxing_contact_patch(modes):
    """J ω̇ = −r (c e + d ė), dF⁰/v (r ω − ė) = c e + d ė, with the figures of the file."""
    vehicle = load_configuration("prototype").vehicle
    car = Car(vehicle)
    for mode in modes:
        wheel, axle = (0, vehicle.front) if mode.axle == "front" else (2, vehicle.rear)
        tyre = axle.tyre.longitudinal
        r, c, d, j = car.rolling_radius[wheel], tyre.stiffness, tyre.damping, axle.wheel.axial_inertia
        k = car.slip_stiffness[wheel] / mode.speed
        slope = np.array([[-r * r * d * k / j, -r * c * k / j], [r * k, -c]]) / (k + d)
        expected = np.linalg.eigvals(slope)[0]
        assert 2 * math.pi * mode.frequency == pytest.approx(abs(expected.imag), rel=0.05)
        assert 1.0 / mode.decay == pytest.approx(-expected.real, rel=0.15)
        assert mode.per_step == pytest.approx(abs(expected) * wheel_points.H, rel=0.05)


def test_angular_momentum_that_a_wheel_loses_becomes_speed_of_the_car(modes):
    """The wheel's lost angular momentum over its radius becomes momentum of the car, except for tyre deflection."""
    vehicle = load_configuration("prototype").vehicle
    for mode in modes:
        axle = vehicle.front if mode.axle == "front" else vehicle.rear
        lost = (1.0 - mode.kept) * axle.wheel.axial_inertia
        assert mode.to_speed == pytest.approx(lost / axle.tyre.radius / vehicle.mass, rel=0.3)


def test_the_command_prints_modes_and_costs(capsys, monkeypatch):
    monkeypatch.setattr(wheel_points, "SPEEDS", (20.0,))
    monkeypatch.setattr(wheel_points, "measure_costs", lambda configuration: [])
    assert main(["bench", "points", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [m["axle"] for m in found["modes"]] == ["front", "rear"]
    assert found["drives"] == []
    assert main(["bench", "points"]) == 0
    assert "front" in capsys.readouterr().out


@pytest.mark.slow
def test_drives_compare_configured_slips_with_slips_at_points(capsys, monkeypatch):
    short = dataclasses.replace(find_scenario("mixed_drive"), duration=6.0)
    monkeypatch.setattr(wheel_points, "find_scenario", lambda name: short)
    monkeypatch.setattr(wheel_points, "SPEEDS", (20.0,))
    monkeypatch.setattr(wheel_points, "measure_costs", lambda configuration: [])
    assert main(["bench", "points", "--drive", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["drives"]
    assert [r["receiver"] for r in rows] == ["rtk", "rtk", "conventional", "conventional"]
    for configured, of_points in zip(rows[::2], rows[1::2], strict=True):
        assert configured["slip_time"] == 1.0
        assert 0.02 < of_points["slip_time"] < 0.06
        assert (
            configured["rmse"].keys() == of_points["rmse"].keys() == {"horizontal", "yaw", "vx", "sideslip"}
        )
        assert of_points["rmse"]["vx"] < 0.1
