"""Plants of other programs: rigid-body motion of the car in other engines, cached tracks, and owners' knowledge."""

import dataclasses
import math
from functools import cache

import numpy as np
import pytest

from vehicled.configuration import load_configuration
from vehicled.errors import UsageError
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.points import rotations
from vehicled.simulation.driver import Controls
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.random_course import RandomDrive
from vehicled.simulation.scenario import Ground
from vehicled.simulation.sensors import SensorPlaces
from vehicled.studies.robustness import owners, plants
from vehicled.studies.robustness.engine_plant import EnginePlant

DT = 1e-3


def columns(rows: np.ndarray, *names: str) -> np.ndarray:
    return rows[:, [ESTIMATE_INDEX[n] for n in names]]


ENGINES = ["mujoco", "exudyn"]
DRIVEN = 1000
"""Number of steps with drive torque; the same number with brakes follows."""


@cache
def turn(name: str) -> np.ndarray:
    """Truth of a turn to the left with drive torque, then braking."""
    pytest.importorskip(name)
    vehicle = load_configuration("reference_vehicle").vehicle
    plant = EnginePlant(vehicle, SensorPlaces(), plants.get_engine(name))
    plant.reset(InitialMotion(speed=15.0, yaw=2.0, x=5.0, y=-3.0), Ground())
    rows = [plant.truth()]
    for k in range(2 * DRIVEN):
        steer = 0.04 * min(k * DT / 0.4, 1.0)
        torque, pressure = (400.0, 0.0) if k < DRIVEN else (0.0, 2e6)
        plant.step(k * DT, DT, Controls(plant.handling.rack_per_steer * steer, torque, pressure))
        rows.append(plant.truth())
    plant.close()
    return np.array(rows)


@pytest.fixture(params=ENGINES)
def turned(request) -> np.ndarray:
    return turn(request.param)


def test_the_car_begins_in_the_given_state(turned):
    assert columns(turned[:1], "x", "y", "yaw")[0] == pytest.approx([5.0, -3.0, 2.0], abs=1e-6)
    assert turned[0, ESTIMATE_INDEX["vx"]] == pytest.approx(15.0, abs=0.1)
    assert columns(turned[:1], "wheel.fl.angle", "wheel.rr.angle")[0] == pytest.approx([0.0, 0.0])


def test_velocities_are_the_derivatives_of_position_and_attitude(turned):
    R = rotations(*columns(turned, "roll", "pitch", "yaw").T)
    velocity = np.einsum("nij,nj->ni", R, columns(turned, "vx", "vy", "vz"))
    travelled = np.gradient(columns(turned, "x", "y", "z"), DT, axis=0)
    assert travelled[2:-2] == pytest.approx(velocity[2:-2], abs=0.02)
    turning = np.einsum("nji,njk->nik", R[1:-1], (R[2:] - R[:-2]) / (2 * DT))
    rates = np.stack([turning[:, 2, 1], turning[:, 0, 2], turning[:, 1, 0]], axis=1)
    assert rates[2:-2] == pytest.approx(columns(turned, "wx", "wy", "wz")[3:-3], abs=5e-3)


def test_the_car_turns_left_drives_and_brakes(turned):
    driven, end = turned[DRIVEN - 1], turned[-1]
    assert driven[ESTIMATE_INDEX["wz"]] > 0.15
    assert driven[ESTIMATE_INDEX["vx"]] > 15.0
    # 600 N·m at radii of 0.3 m slow 1,087 kg.
    slowed = driven[ESTIMATE_INDEX["vx"]] - end[ESTIMATE_INDEX["vx"]]
    assert slowed / (DRIVEN * DT) == pytest.approx(600 / 0.3 / 1087, rel=0.2)
    assert end[ESTIMATE_INDEX["wheel.rr.speed"]] > end[ESTIMATE_INDEX["wheel.rl.speed"]]


def test_two_engines_agree():
    one, other = (turn(name) for name in ENGINES)
    names = ("x", "y", "z", "roll", "pitch", "yaw", "vx", "vy", "wz")
    assert columns(one[-1:], *names) == pytest.approx(columns(other[-1:], *names), abs=0.02)
    for pattern, tolerance in (
        ("tyre.{}.fz", 10.0),
        ("tyre.{}.fx", 10.0),
        ("suspension.{}.deflection", 1e-4),
        ("suspension.{}.rate", 1e-3),
        ("slip.{}.angle", 1e-4),
        ("slip.{}.ratio", 1e-4),
    ):
        of_wheels = [pattern.format(w) for w in WHEELS]
        # At the end of driving and at the end of braking.
        rows = [columns(found[[DRIVEN - 1, -1]], *of_wheels) for found in (one, other)]
        assert rows[0] == pytest.approx(rows[1], abs=tolerance)


def test_torque_acts_on_the_driven_axle():
    pytest.importorskip("mujoco")
    vehicle = dataclasses.replace(load_configuration("reference_vehicle").vehicle, driven="front")
    plant = EnginePlant(vehicle, SensorPlaces(), plants.get_engine("mujoco"))
    assert plant.handling.front_share == 1.0
    plant.reset(InitialMotion(speed=15.0), Ground())
    before = plant.truth()
    controls = Controls(0.0, 0.0, 0.0, front_torque=600.0)
    for k in range(1000):
        plant.step(k * DT, DT, controls)
    after = plant.truth()
    plant.close()
    assert after[ESTIMATE_INDEX["vx"]] - before[ESTIMATE_INDEX["vx"]] == pytest.approx(
        600 / 0.3 / 1087, rel=0.2
    )
    front, rear = (after[ESTIMATE_INDEX[f"wheel.{w}.speed"]] for w in ("fl", "rl"))
    assert front > rear + 0.1
    assert plant.wheel_torques(controls) == pytest.approx([300.0, 300.0, 0.0, 0.0])


def test_a_car_that_the_engines_cannot_drive_is_rejected():
    pytest.importorskip("mujoco")
    with pytest.raises(UsageError, match="linear tyres"):
        EnginePlant(load_configuration("saloon").vehicle, SensorPlaces(), plants.get_engine("mujoco"))


def test_owners_know_which_wheels_are_driven():
    pytest.importorskip("vehiclemodels")
    assert owners.configure("commonroad 1", 0.0).vehicle.driven == "front"
    assert owners.configure("commonroad 3", 0.0).vehicle.driven == "rear"


def test_a_track_is_driven_once_and_then_loaded(monkeypatch, tmp_path):
    pytest.importorskip("vehiclemodels")
    monkeypatch.setenv("VEHICLED_CACHE", str(tmp_path))
    short = dataclasses.replace(plants.DRIVES["gentle"], duration=1.0)
    monkeypatch.setitem(plants.DRIVES, "gentle", short)
    plants.load_or_drive.cache_clear()
    assert not plants.is_driven("commonroad 1", "gentle")
    first = plants.load_or_drive("commonroad 1", "gentle")
    plants.load_or_drive.cache_clear()
    assert plants.is_driven("commonroad 1", "gentle")
    again = plants.load_or_drive("commonroad 1", "gentle")
    plants.load_or_drive.cache_clear()
    assert again.gravity == first.gravity
    assert all(np.array_equal(again.columns[c], first.columns[c]) for c in first.columns)


def test_unknown_plants_and_drives_are_refused():
    with pytest.raises(UsageError):
        plants.load_or_drive("commonroad 1", "round the world")
    with pytest.raises(UsageError):
        plants.load_or_drive("a bicycle", "gentle")


@pytest.mark.parametrize("error", [0.02, -0.02])
@pytest.mark.parametrize("plant", [p for p in plants.PLANTS if p.startswith("commonroad")])
def test_an_owner_knows_the_axle_loads_and_has_the_given_error_of_the_wheel_radius(plant, error):
    pytest.importorskip("vehiclemodels")
    from vehicled.simulation.commonroad import load_parameters
    from vehicled.vehicle.car import Car

    p = load_parameters(int(plant.split()[1]))
    vehicle = owners.configure(plant, error).vehicle
    assert vehicle.mass == pytest.approx(p.m, abs=0.5)
    front = (p.m_s * p.b / (p.a + p.b) + p.m_uf) / p.m
    axle = vehicle.front.hard_points.wheel_center[0]
    wheelbase = axle - vehicle.rear.hard_points.wheel_center[0]
    assert (axle - vehicle.center_of_mass()[0]) / wheelbase == pytest.approx(1 - front, abs=1e-3)
    assert Car(vehicle).rolling_radius / p.R_w == pytest.approx(1 + error, abs=1e-3)


def test_a_random_drive_is_determined_by_its_number():
    one, same, other = (RandomDrive(duration=20.0, number=n) for n in (1, 1, 2))
    assert one.begin == same.begin
    assert one.begin != other.begin
    assert -math.pi <= one.begin.yaw <= math.pi
    assert one.begin.speed >= 4.0
