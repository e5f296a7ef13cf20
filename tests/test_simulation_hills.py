"""Hilly roads: statistics of their slopes, and energy and attitude of a car on them."""

import numpy as np
import pytest
from estimator_rig import prototype

from vehicled.messages import ESTIMATE_INDEX
from vehicled.simulation.driver import Controls
from vehicled.simulation.hills import Hills, HillyRoad
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.plant import MultibodyPlant
from vehicled.simulation.scenario import Ground, PlantErrors

STEP = 1e-3


def find_all(hills: Hills, ways: np.ndarray) -> np.ndarray:
    """(2, n) rises ahead and to the left."""
    road = HillyRoad(hills)
    return np.array([road.find_rises(way) for way in ways]).T


def test_slopes_are_as_large_and_hills_as_long_as_described():
    ways = np.arange(100.0, 50e3, 2.0)
    ahead, left = find_all(Hills(slope=0.08, bank=0.03, length=200.0, seed=3), ways)
    assert ahead.std() == pytest.approx(0.04, rel=0.1)
    assert left.std() == pytest.approx(0.015, rel=0.1)
    assert np.mean(np.abs(ahead) > 0.08) < 0.08
    crests = np.count_nonzero((ahead[:-1] > 0.0) & (ahead[1:] <= 0.0))
    assert np.ptp(ways) / crests == pytest.approx(200.0, rel=0.4)


def test_a_road_begins_on_its_plane_and_depends_on_its_seed():
    assert HillyRoad(Hills()).find_rises(0.0) == (0.0, 0.0)
    assert HillyRoad(Hills(seed=1)).find_rises(99.0) != HillyRoad(Hills(seed=2)).find_rises(99.0)


def test_a_road_falls_to_the_right_by_its_crossfall_wherever_it_leads():
    rows = drive(Hills(slope=0.0, crossfall=0.02), 8.0, rack=0.01, speed=12.0)
    roll, yaw = get(rows, "roll", "yaw")
    on_level = get(drive(None, 8.0, rack=0.01, speed=12.0), "roll")[0]
    assert abs(np.ptp(np.unwrap(yaw))) > 1.5
    assert (roll - on_level)[5000:] == pytest.approx(0.02, abs=0.004)  # and what the springs add
    assert HillyRoad(Hills(slope=0.0, crossfall=0.02)).find_rises(99.0) == (0.0, 0.02)


def drive(hills: Hills | None, seconds: float, rack: float = 0.0, speed: float = 20.0) -> np.ndarray:
    plant = MultibodyPlant(prototype(), PlantErrors())
    plant.reset(InitialMotion(speed=speed, yaw=0.7), Ground(hills=hills))
    rows = []
    for k in range(round(seconds / STEP)):
        plant.step(k * STEP, STEP, Controls(rack, 0.0, 0.0, 0.0))
        rows.append(plant.truth())
    return np.array(rows)


def get(rows: np.ndarray, *columns: str) -> list[np.ndarray]:
    return [rows[:, ESTIMATE_INDEX[c]] for c in columns]


def test_a_car_that_rolls_over_hills_conserves_its_energy():
    """Apart from its loss on an even road in the same time. Wheel speeds are proportional to the car's speed."""
    rows = drive(Hills(slope=0.08, bank=0.03, length=150.0, seed=2), 15.0)
    vx, vy, vz, z = get(rows, "vx", "vy", "vz", "z")
    (even,) = get(drive(None, 15.0), "vx")
    wheels = 1.0 + 0.03  # kinetic energy of turning wheels over that of the car
    energy = 0.5 * wheels * (vx**2 + vy**2 + vz**2) + 9.81 * (z - z[0])
    lost = 0.5 * wheels * (even[0] ** 2 - even**2)
    assert np.ptp(z) > 2.0
    assert energy + lost == pytest.approx(energy[0], abs=0.06 * 9.81 * np.ptp(z))


def test_climb_and_bank_stay_relative_to_a_car_that_turns():
    """On a helix a long climb stays a climb, and does not become a bank as on an inclined plane."""
    hills = Hills(slope=0.1, bank=0.0, length=5000.0, seed=1)
    rows = drive(hills, 8.0, rack=0.01, speed=12.0)
    roll, pitch, yaw = get(rows, "roll", "pitch", "yaw")
    assert abs(np.ptp(np.unwrap(yaw))) > 1.5
    assert abs(pitch[-1]) > 0.02
    (on_plane,) = get(drive(None, 8.0, rack=0.01, speed=12.0), "roll")
    assert np.all(np.abs(roll) < 1.1 * np.max(np.abs(on_plane)))  # the climb slows the car down
