"""Forces of the suspensions on the body, and travel, compared with Newton and Euler and with the compiled car."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from test_live_axle import example as with_live_axle
from vehicle_rig import Rig, vehicle

from vehicled.messages import WHEELS
from vehicled.vehicle.kinematics import calc_ratios
from vehicled.vehicle.parameters import LiveAxle, Vehicle
from vehicled.vehicle.ride import calc_road_forces, calc_travel_modes

CARS = ["prototype", "compact", "hatchback", "live axle"]
BUMP = 1e-3
"""m"""


@lru_cache
def car_of(name: str) -> Vehicle:
    return with_live_axle() if name == "live axle" else vehicle(name)


def at_wheels(car: Vehicle, accelerations: np.ndarray) -> np.ndarray:
    """(4,) forces by wheel."""
    front, front_more, rear, rear_more = calc_road_forces(car) @ accelerations
    return np.array([front + front_more, front - front_more, rear + rear_more, rear - rear_more])


def places_of(car: Vehicle) -> np.ndarray:
    """(4, 3) of the wheel centres, design frame."""
    centres = [car.axle(w).hard_points.wheel_center for w in WHEELS]
    places: np.ndarray = np.array(centres) * [[1, side, 1] for side in (1, -1, 1, -1)]
    return places


@pytest.mark.parametrize("name", CARS)
def test_forces_cause_the_given_accelerations(name):
    """Momentum of the bodies that the suspensions carry, and angular momentum about the ground under the origin.

    Lateral forces have no moment about that point. Cars are symmetric except for parts such as a Panhard rod.
    """
    car = car_of(name)
    foot = car.center_of_mass() * [1.0, 1.0, 0.0]
    bodies = car.central_bodies()
    bodies.pop("axle", None)
    heave, left, roll, pitch = accelerations = np.array([1.3, -0.8, -2.0, 0.7])
    force, moments = 0.0, np.zeros(2)
    for body in bodies.values():
        x, y, z = body.center_of_mass - car.center_of_mass()
        # Small angles: α × r, and rates of angular momentum.
        aside, upwards = left - roll * z, heave + roll * y - pitch * x
        force += body.mass * upwards
        arm = body.center_of_mass - foot
        moments += np.array([roll, pitch]) * body.inertia[:2]
        moments += body.mass * np.array([arm[1] * upwards - arm[2] * aside, -arm[0] * upwards])
        moments[1] += body.mass * pitch * z * z  # about the height of the origin: nothing acts along the car
    found, places = at_wheels(car, accelerations), places_of(car) - foot
    assert found.sum() == pytest.approx(force, rel=2e-3)
    assert places[:, 1] @ found == pytest.approx(moments[0], rel=2e-3)
    assert -places[:, 0] @ found == pytest.approx(moments[1], rel=2e-3)


@pytest.mark.parametrize("name", CARS)
def test_both_axles_roll_alike(name):
    car = car_of(name)
    travel = []
    for row, axle in ((1, car.front), (3, car.rear)):
        forces = calc_road_forces(car)[row]
        travel.append(forces / calc_travel_modes(axle)[1].stiffness / axle.hard_points.wheel_center[1])
    assert travel[0] == pytest.approx(travel[1], rel=1e-9)
    assert travel[0][2] > 0.0


def lifted(rig: Rig, travel: list[float]) -> np.ndarray:
    """Change of the struts' forces as wheels go up by `travel` (m), from half below to half above design position."""
    car = rig.car
    car.restart()
    found = []
    for sign in (-0.5, 0.5):
        car.restart()
        car.correct_suspension(sign * np.array(travel), np.zeros(4))
        car.report()
        found.append(car.corner_output("suspension.force").copy())
    difference: np.ndarray = found[1] - found[0]
    return difference


@pytest.mark.parametrize("name", CARS)
@pytest.mark.parametrize("right", [1.0, -1.0])
def test_struts_are_as_stiff_as_those_of_the_compiled_car(name, right):
    car = car_of(name)
    force = lifted(Rig(car), [BUMP, right * BUMP, BUMP, right * BUMP])
    for axle, left in ((car.front, force[0]), (car.rear, force[2])):
        mode = calc_travel_modes(axle)[0 if right > 0.0 else 1]
        assert mode.strut_stiffness == pytest.approx(left / BUMP, rel=1e-3)
        # The work of the strut is that of the force at the wheel.
        bar = 2.0 * axle.anti_roll_bar * calc_ratios(axle.hard_points, right).bar ** 2 if right < 0.0 else 0.0
        assert mode.stiffness - bar == pytest.approx(
            mode.strut_stiffness**2 / axle.spring.stiffness, rel=1e-12
        )
        damper = 0.5 * (axle.damper.bump + axle.damper.rebound)
        assert mode.damping == pytest.approx(mode.strut_damping**2 / damper, rel=1e-12)


@pytest.mark.parametrize("name", CARS)
def test_bars_have_the_energy_of_the_compiled_car_in_opposite_travel(name):
    bar = 30e3
    car = car_of(name)
    energies = []
    for stiffness in (0.0, bar):
        rig = Rig(car).set(anti_roll__stiffness=stiffness)
        rig.car.restart()
        rig.car.correct_suspension(BUMP * np.array([1.0, -1.0, 1.0, -1.0]), np.zeros(4))
        energies.append(rig.energy()[2])
    # Half the stiffness times the square of the travel, of four wheels.
    expected = 0.0
    for axle in (car.front, car.rear):
        with_bar, without = (calc_travel_modes(replace(axle, anti_roll_bar=b))[1] for b in (bar, 0.0))
        expected += 2.0 * 0.5 * (with_bar.stiffness - without.stiffness) * BUMP**2
        together = [calc_travel_modes(replace(axle, anti_roll_bar=b))[0] for b in (bar, 0.0)]
        assert together[0] == together[1]
    assert energies[1] - energies[0] == pytest.approx(expected, rel=2e-2)


def test_a_live_axle_rolls_on_springs_that_are_closer_together_than_its_wheels():
    axle = with_live_axle().rear
    assert isinstance(axle, LiveAxle)
    heave, roll = calc_travel_modes(replace(axle, anti_roll_bar=0.0))
    base = axle.hard_points.spring_axle[1] / axle.hard_points.wheel_center[1]
    assert roll.stiffness / heave.stiffness == pytest.approx(base**2, rel=0.2)
    assert roll.stiffness < heave.stiffness
