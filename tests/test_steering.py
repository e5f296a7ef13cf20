"""Steering geometry: inverse, signs, and agreement with the multibody model; units of the offset."""

import re

import numpy as np
import pytest
from vehicle_rig import Rig, vehicle

from vehicled.errors import SettingsError
from vehicled.reading.settings import loads
from vehicled.sources.sensors import Sensors
from vehicled.vehicle.steering import SteeringGeometry

CARS = ["prototype", "reference_vehicle", "ferrari_250lm"]


@pytest.mark.parametrize("name", CARS)
@pytest.mark.parametrize("corner", [0, 1])
def test_rod_and_angle_are_inverse_of_each_other(name, corner):
    g = SteeringGeometry(vehicle(name))
    assert g.rod(corner, 0.0) == pytest.approx(0.0, abs=1e-12)
    for angle in np.linspace(-0.45, 0.45, 31):
        assert g.angle(corner, g.rod(corner, angle)) == pytest.approx(angle, abs=1e-9)


@pytest.mark.parametrize("name", CARS)
def test_left_and_right_mirror_each_other(name):
    g = SteeringGeometry(vehicle(name))
    for angle in (0.05, 0.2, 0.4):
        assert g.rod(0, angle) == pytest.approx(-g.rod(1, -angle), rel=1e-9)


@pytest.mark.parametrize("name", CARS)
def test_the_rack_goes_left_to_steer_left_when_the_tie_rods_are_in_front(name):
    """Behind the axle the knuckle's arm points backward, so that the rack goes right."""
    v = vehicle(name)
    g = SteeringGeometry(v)
    points = v.front.hard_points
    in_front = points.tie_rod_outer[0] > points.wheel_center[0]
    assert g.sign == (1.0 if in_front else -1.0)
    assert np.sign(g.rod(0, 0.1)) == np.sign(g.rod(1, 0.1)) == g.sign
    arm = abs(points.tie_rod_outer[0] - points.lower_ball_joint[0])
    assert abs(g.rack_per_angle) == pytest.approx(arm, rel=0.2)


@pytest.mark.parametrize("name", CARS)
@pytest.mark.parametrize("angle", [-0.25, 0.1, 0.3])
def test_wheels_of_the_multibody_model_turn_as_by_the_geometry(name, angle):
    """Both tie rods move slowly while the car rolls. Camber, travel and roll cause differences of a few mrad."""
    rig = Rig(vehicle(name))
    g = SteeringGeometry(rig.vehicle)
    car = rig.car
    rig.roll(1.0)
    rod = g.rod(0, angle)
    # Coordinates of a corner end with the spin axis and the spin; those of the car have its x axis after r1.
    spin_axis, along = slice(-4, -2), slice(3, 5)

    def headings() -> np.ndarray:
        """(2,) headings of the front wheels relative to the car, rad."""
        axis, v1 = car.view("branch.q")[spin_axis, :2], car.view("q")[along]
        return np.arctan2(-axis[0], axis[1]) - np.arctan2(v1[1], v1[0])

    begin = headings()
    for k in range(1, 501):
        car.inputs[0] = car.corner_inputs[0, :2] = rod * min(k / 400, 1.0)
        car.corner_inputs[1, :2] = car.inputs[1] = rod / 1.6 if k <= 400 else 0.0
        car.step(4e-3)
    turned = headings() - begin
    expected = [g.angle(n, rod) for n in (0, 1)]
    assert turned == pytest.approx(expected, abs=5e-3)
    assert expected[0] == pytest.approx(angle, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("{offset: 2 mm}", 0.002),
        ("{source: wheel, offset: 1.5 deg}", np.radians(1.5)),
        ("{offset: -1.5°, source: road_wheels}", -np.radians(1.5)),
        ("{offset: 0.002}", 0.002),
        ("{source: wheel, offset: 20 rad}", 20.0),
    ],
)
def test_the_offset_has_the_unit_of_its_source(text, offset):
    assert loads(f"steering: {text}", Sensors).steering.offset == pytest.approx(offset)


def test_an_offset_of_the_wrong_dimension_is_refused():
    wanted = "<text>:3: steering.offset: expected an angle such as '3 deg', as steering.source is wheel, got '2 mm'"
    with pytest.raises(SettingsError, match=f"^{re.escape(wanted)}$"):
        loads("steering:\n  source: wheel\n  offset: 2 mm", Sensors)
    with pytest.raises(SettingsError, match=r"a length such as .*, as steering\.source is rack, got '2 deg'"):
        loads("steering: {offset: 2 deg}", Sensors)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{offset: 2}", "steering.offset: expected at most ±0.3 m of rack, got 2 m"),
        ("{offset: 2 m}", "steering.offset: expected at most ±0.3 m of rack, got 2 m"),
        (
            "{source: wheel, offset: 7200 deg}",
            "steering.offset: expected at most ±20 rad of wheel, got 125.664 rad",
        ),
        ("{source: road_wheels, offset: 720 deg}", "steering.offset: expected at most ±1 rad of road_wheels"),
    ],
)
def test_an_implausible_offset_is_refused(text, message):
    with pytest.raises(SettingsError, match=message):
        loads(f"steering: {text}", Sensors)
