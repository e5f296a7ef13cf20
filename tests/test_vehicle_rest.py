"""A car that does not come to rest is refused, and one that does is at rest."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from spoilt_cars import spoil
from vehicle_rig import G, vehicle

import vehicled
from vehicled.cli import main
from vehicled.errors import NoRestError
from vehicled.simulation.plant import make_plant
from vehicled.simulation.scenario import PlantErrors
from vehicled.vehicle.car import Car

NO_REST = ("spring_arm: -2.400 0.560 0.250 m", "spring_arm: -2.400 0.056 0.250 m")
"""With this place, the spring turns over as it is loaded."""
MESSAGE = (
    r"vehicled: vehicle: the car does not come to rest on level ground, its struts end 3\d\d mm beyond their stops: "
    r"expected masses, places, springs, dampers and tyres that carry it\n"
)


@pytest.mark.parametrize(
    "command",
    [
        "check mine.yaml",
        "check mine.yaml --mechanism",
        "codegen mine.yaml --language yaml",
        "simulate slalom --config mine.yaml --output drive.csv",
        "replay given.csv --config mine.yaml",
    ],
)
def test_every_command_reports_a_car_that_does_not_come_to_rest_in_one_line(
    tmp_path, monkeypatch, capsys, command
):
    spoil(tmp_path, NO_REST)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "given.csv").write_text("t,vehicle.speed\n0,10\n0.01,10\n")
    assert main(command.split()) == 2
    assert re.fullmatch(MESSAGE, capsys.readouterr().err)


def test_a_car_whose_motion_grows_without_bounds_is_refused():
    car = vehicle("compact")
    wide = replace(car, front=replace(car.front, tyre=replace(car.front.tyre, radius=302.0)))
    with pytest.raises(NoRestError, match="its motion grows beyond all bounds"):
        Car(wide)


def test_a_car_on_its_nose_is_refused():
    car = vehicle("compact")
    with pytest.raises(NoRestError, match=r"its wheels carry \d+ N of 9575 N|beyond"):
        Car(replace(car, chassis=replace(car.chassis, center_of_mass=(0.95, 0.0, 0.53))))


def test_a_plant_that_does_not_come_to_rest_is_reported_with_its_section():
    configuration = vehicled.load_configuration("compact")
    make_plant(configuration, PlantErrors(mass=1.0, springs=-0.5))
    with pytest.raises(
        NoRestError, match=r"^plant: the car does not come to rest on level ground, its struts end"
    ):
        make_plant(configuration, PlantErrors(mass=9.0, springs=-0.9))


def test_a_car_that_bounces_on_its_stops_has_time_to_settle():
    """Twice the chassis mass on the same springs. Before, the car still moved at 0.1 m/s when taken to be at rest."""
    car = vehicle("saloon")
    given = Car(car).get_corner_parameter("spring.preload")[::2]
    axles = {
        name: replace(axle, spring=replace(axle.spring, preload=float(preload)))
        for (name, axle), preload in zip({"front": car.front, "rear": car.rear}.items(), given, strict=True)
    }
    heavy = replace(car, **axles, chassis=replace(car.chassis, mass=2.0 * car.chassis.mass))
    settled = Car(heavy)
    assert abs(settled.output("vz")) < 5e-3
    assert settled.corner_output("tyre.fz").sum() == pytest.approx(heavy.mass * G, rel=0.01)
