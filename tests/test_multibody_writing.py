"""Descriptions written as text are read back unchanged."""

import pytest
from car_mechanism_rig import CARS, vehicle_of

from vehicled.multibody.description import load_description, parse_description
from vehicled.multibody.files import mechanisms_folder
from vehicled.multibody.writing import write_description
from vehicled.vehicle.car import Car
from vehicled.vehicle.mechanism import describe_car

SHIPPED = sorted(path.stem for path in mechanisms_folder().glob("*.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_mechanism_is_read_back_unchanged(name):
    description = load_description(name)
    assert parse_description(write_description(description)) == description


@pytest.mark.parametrize("name", CARS)
def test_a_car_is_read_back_unchanged(name):
    description = describe_car(Car(vehicle_of(name)))
    assert parse_description(write_description(description)) == description


def test_numbers_have_their_units_and_defaults_are_left_out():
    description = load_description("pendulum")
    text = write_description(description)
    assert "gravity: 0.0 -9.81 m/s²" in text
    assert "coordinates" not in text
    assert "products" not in text
