"""Values that no car has are reported in one line with their field."""

from __future__ import annotations

import re

import pytest
from spoilt_cars import spoil

import vehicled
from vehicled.cli import main
from vehicled.reading.settings import config_path

HATCHBACK = config_path("hatchback").read_text(encoding="utf-8")
PROTOTYPE = config_path("prototype").read_text(encoding="utf-8").partition("\ndaemon:")[0]


WRONG_UNITS = [
    ("radius: 0.302 m", "radius: 302 m", "front.tyre.radius: expected at least 0.1 m and at most 1 m"),
    (
        "center_of_mass: -0.95 0 0.53 m",
        "center_of_mass: -950 0 530 m",
        "chassis.center_of_mass: expected at least",
    ),
    ("mass: 850 kg", "mass: 85 t", "chassis.mass: expected above 0 kg and at most 8000 kg"),
    ("mass: 850 kg", "mass: 7.9 t", "chassis.mass: the whole car has 8026 kg: expected at least 100 kg"),
    (
        "mass: 850 kg",
        "mass: 0.85 kg",
        "chassis.inertia: with this mass a radius of gyration of 38.8 m: expected",
    ),
    (
        "vertical_stiffness: 190 kN/m",
        "vertical_stiffness: 190 GN/m",
        "front.tyre.vertical_stiffness: expected at",
    ),
    (
        "vertical_stiffness: 190 kN/m",
        "vertical_stiffness: 19 kN/m",
        "front.tyre.vertical_stiffness: so soft that",
    ),
    (
        "slip_stiffness_y: 45 kN",
        "slip_stiffness_y: 45 N",
        "front.tyre.slip_stiffness_y: expected at least 1000 N",
    ),
    ("stiffness: 22 kN/m", "stiffness: 22 N/m", "front.spring.stiffness: expected at least 1000 N/m"),
    ("gain: 12 N·m/bar", "gain: 12 N·m/Pa", "front.brake.gain: expected at least 0"),
    (
        "strut_top: -0.040 0.545 0.850 m",
        "strut_top: -40 545 850 m",
        "front.hard_points.strut_top: expected at least",
    ),
    ("camber: -0.5 deg", "camber: -0.5 rad", "front.hard_points.camber: expected at least -0.3 rad"),
    (
        "inertia: 320 1150 1280",
        "inertia: 320e3 1150e3 1280e3",
        "chassis.inertia: with this mass a radius of gyration",
    ),
]
IMPOSSIBLE = [
    (
        "center_of_mass: -0.95 0 0.53 m",
        "center_of_mass: 0.95 0 0.53 m",
        "chassis.center_of_mass: with it the whole car's lies 0.6801 m ahead of the front axle: expected between the",
    ),
    (
        "center_of_mass: -0.95 0 0.53 m",
        "center_of_mass: -0.95 0.95 0.53 m",
        "chassis.center_of_mass: with it the whole car's lies 0.8274 m beside the middle: expected between the",
    ),
    (
        "center_of_mass: -0.95 0 0.53 m",
        "center_of_mass: -0.95 0 5.3 m",
        "chassis.center_of_mass: with it the whole car's lies 4.654 m over the ground: expected at least 0.15 m",
    ),
    (
        "wheel_center: 0 0.725 0.287 m",
        "wheel_center: 0 -0.725 0.287 m",
        "front.hard_points.wheel_center: expected the left wheel, y at least 0.3 m and at most 1.5 m, got -0.725 m",
    ),
    (
        "wheel_center: 0 0.725 0.287 m",
        "wheel_center: 0 0.725 0.487 m",
        "front.hard_points.wheel_center: 0.487 m over the ground: expected the tyre's radius less its deflection",
    ),
    (
        "wheel_center: 0 0.725 0.287 m",
        "wheel_center: 7.25 0.725 0.287 m",
        "front.hard_points.wheel_center: far from the other points: lower_hinge is 7.27 m from wheel_center",
    ),
    (
        "lower_ball_joint: 0.005 0.690 0.190 m",
        "lower_ball_joint: 0.005 -0.690 0.190 m",
        "front.hard_points.lower_ball_joint: 1.418 m from wheel_center: expected at most 0.9 m",
    ),
    (
        "tie_rod_inner: -0.130 0.335 0.2447 m",
        "tie_rod_inner: -0.130 0.335 -0.2447 m",
        "front.hard_points.tie_rod_inner: expected a point over the ground, got z -0.2447 m",
    ),
    (
        "center_of_mass: 0 0.520 0.203 m",
        "center_of_mass: 0 -0.520 0.203 m",
        "front.lower_wishbone.center_of_mass: expected that of the left one, got y -0.52 m",
    ),
    (
        "center_of_mass: 0 0.520 0.203 m",
        "center_of_mass: 0 5.20 0.203 m",
        "front.lower_wishbone.center_of_mass: 4.476 m from the wheel's centre: expected at most 2 m",
    ),
    (
        "mass: 3.5 kg",
        "mass: 0.35 t",
        "front.lower_wishbone.mass: wheels and suspension have 756 kg: expected at most",
    ),
]


@pytest.mark.parametrize(("old", "new", "error"), WRONG_UNITS + IMPOSSIBLE)
def test_values_that_no_car_has_are_reported_with_their_field(tmp_path, capsys, old, new, error):
    path = spoil(tmp_path, (old, new))
    assert main(["check", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert re.match(rf"vehicled: {path}:\d+: vehicle\.{re.escape(error)}", lines[0])
    assert all(
        " front." not in line and ".rear.tyre." in line for line in lines[1:]
    )  # the same tyre, by an alias


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "radius: 0.3075 m  ",
            "radius: 307.5 m  ",
            "front.tyre.radius: expected at least 0.1 m and at most 1 m",
        ),
        ("df0: 85 150 kN", "df0: 85 150 N", "front.tyre.longitudinal.df0: expected at least 1000 N"),
        ("nominal_load: 3 kN", "nominal_load: 3 N", "front.tyre.nominal_load: expected at least 100 N"),
        (
            "upper_ball_joint: -0.020 0.625 0.420 m",
            "upper_ball_joint: 0 0.40 0.395 m",
            "front.hard_points.upper_ball_joint: lies on the hinge axis: expected at least 20 mm from it",
        ),
        (
            "tie_rod_outer: 0.125 0.675 0.235 m",
            "tie_rod_outer: 0.006 0.665 0.170 m",
            "front.hard_points.tie_rod_outer: the tie rod does not hold the knuckle",
        ),
    ],
)
def test_values_that_no_double_wishbones_have_are_reported_with_their_field(tmp_path, old, new, error):
    with pytest.raises(vehicled.UsageError, match=rf"^[^\n]*: vehicle\.{re.escape(error)}[^\n]*$"):
        vehicled.load_configuration(spoil(tmp_path, (old, new), text=PROTOTYPE))


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "wheel_radius: 0.316 m",
            "wheel_radius: 316 m",
            "front.wheel_radius: expected at least 0.1 m and at most 1 m",
        ),
        (
            "ride_frequency: 1.3 Hz",
            "ride_frequency: 1.3 kHz",
            "front.ride_frequency: expected at least 0.3 Hz",
        ),
        (
            "roll_stiffness: 450 N·m/deg",
            "roll_stiffness: 450 kN·m/deg",
            "front.roll_stiffness: expected at least 0",
        ),
        (
            "drag_area: 0.65 m²",
            "drag_area: 65 m²",
            "aerodynamics.drag_area: expected at least 0 m² and at most 20 m²",
        ),
    ],
)
def test_values_that_no_handbook_car_has_are_reported_with_their_field(tmp_path, old, new, error):
    with pytest.raises(vehicled.UsageError, match=rf"^[^\n]*: vehicle\.{re.escape(error)}[^\n]*$"):
        vehicled.load_configuration(spoil(tmp_path, (old, new), text=HATCHBACK))
