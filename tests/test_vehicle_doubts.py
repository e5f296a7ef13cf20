"""`vehicled check` reports what is possible but doubtful about a car."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from spoilt_cars import spoil
from vehicle_rig import G

import vehicled
from vehicled.cli import main
from vehicled.reading.expectations import join_path
from vehicled.vehicle.car import Car

CARS = ["compact", "ferrari_250lm", "hatchback", "prototype", "rav4", "reference_vehicle", "saloon"]


def describe(capsys, path):
    assert main(["check", str(path), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", CARS)
def test_nothing_is_doubtful_about_shipped_cars(capsys, name):
    found = describe(capsys, name)
    assert found["doubtful"] == []
    car = Car(vehicled.load_configuration(name).vehicle)
    car.report()
    assert sum(found["wheel_loads"].values()) == pytest.approx(car.vehicle.mass * G, rel=1e-6)
    assert found["rest_height"] == pytest.approx(car.output("z"))


RACK = (
    "rack: {mass: 3 kg, center_of_mass: -0.13 0 0.25 m",
    "rack: {mass: 3 kg, center_of_mass: 0.13 0 0.25 m",
)
INNER = ("tie_rod_inner: -0.130", "tie_rod_inner: 0.130")
OUTER = ("tie_rod_outer: -0.135", "tie_rod_outer: 0.135")


@pytest.mark.parametrize(
    ("changes", "doubts"),
    [
        ([RACK], {"rack.center_of_mass": "260 mm off the line"}),
        (
            [INNER, RACK],
            {"front.hard_points.tie_rod_inner": "39° off the rack", "front.hard_points.tie_rod_outer": ""},
        ),
        (
            [INNER, OUTER, RACK],
            {"front.hard_points.tie_rod_outer": "outer wheel turns by 15.8° where the inner one"},
        ),
        (
            [("tie_rod_inner: -0.130 0.335", "tie_rod_inner: -0.130 -0.335")],
            {"front.hard_points.tie_rod_inner": "on the right"},
        ),
        (
            [("center_of_mass: -0.95 0 0.53 m", "center_of_mass: -0.31 0 0.53 m")],
            {"": "the front axle carries 83 % of the weight"},
        ),
        (
            [("center_of_mass: -0.95 0 0.53 m", "center_of_mass: -0.95 0.4 0.53 m")],
            {"chassis.center_of_mass": "fr carries 1206 N, fl 4559 N"},
        ),
        (
            [("stiffness: 22 kN/m", "stiffness: 22 kN/m, preload: 272 N")],
            {"front.spring.preload": "compressed by"},
        ),
        (
            [("wheel_center: 0 0.725 0.287 m", "wheel_center: 0 0.725 0.330 m")],
            {"front.hard_points.wheel_center": "in design position 0.33 m"},
        ),
        (
            [("spring_arm: -2.400 0.560 0.250 m", "spring_arm: -2.400 0.560 0.750 m")],
            {"rear.spring": "it pulls"},
        ),
    ],
)
def test_doubtful_values_are_reported(tmp_path, capsys, changes, doubts):
    path = spoil(tmp_path, *changes)
    found = {doubt["key"]: doubt["text"] for doubt in describe(capsys, path)["doubtful"]}
    for key, text in doubts.items():
        assert text in found[join_path("vehicle", key)]
    assert main(["check", str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.startswith("doubtful: ")] == [
        f"doubtful: {key}: {text}" for key, text in found.items()
    ]


@pytest.mark.parametrize(("changes", "side"), [([], "right"), ([INNER, OUTER, RACK], "left")])
def test_check_shows_to_which_side_the_rack_moves_to_steer_left(tmp_path, capsys, changes, side):
    path = spoil(tmp_path, *changes)
    assert np.sign(describe(capsys, path)["rack_per_angle"]) == (1.0 if side == "left" else -1.0)
    assert main(["check", str(path)]) == 0
    assert re.search(rf"(?m)^rack +moves {side} to steer left, 2\.. mm per degree", capsys.readouterr().out)
