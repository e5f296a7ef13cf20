"""Roads: their spectrum against ISO 8608, edges against the geometry of a disc, and a car on them."""

import math
from itertools import pairwise

import numpy as np
import pytest
from estimator_rig import prototype

from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.simulation.driver import Controls
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.plant import MultibodyPlant
from vehicled.simulation.road import ROUGHNESS, Edge, Road
from vehicled.simulation.scenario import Ground, PlantErrors

LOADS = [ESTIMATE_INDEX[f"tyre.{w}.fz"] for w in WHEELS]
RADIUS = np.array([0.3])
FAR = (-1e6, 0.0)
"""A start so far away that roughness has its full height."""


def calc_heights(road: Road, x: np.ndarray, y: float | np.ndarray = 0.0) -> np.ndarray:
    return road.heights(x, np.broadcast_to(y, x.shape), np.broadcast_to(RADIUS, x.shape))


@pytest.mark.parametrize("angle", [0.0, 0.7])
def test_roughness_has_the_spectrum_of_its_class_along_any_line(angle):
    x, n0 = np.arange(0.0, 1000.0, 0.1), 0.1
    found = []
    for seed in range(10):
        road = Road("C", seed=seed, start=FAR)
        h = calc_heights(road, x * math.cos(angle), x * math.sin(angle))
        window = np.hanning(len(h))
        found.append(2 * 0.1 * np.abs(np.fft.rfft(h * window)) ** 2 / np.sum(window**2))
    n = np.fft.rfftfreq(len(x), 0.1)
    for low, high in ((0.02, 0.06), (0.06, 0.2), (0.2, 0.7), (0.7, 2.0)):
        band = (n > low) & (n < high)
        expected = ROUGHNESS["C"] * (n[band] / n0) ** -2
        assert np.mean(np.mean(found, axis=0)[band] / expected) == pytest.approx(1.0, abs=0.2)


def test_left_and_right_wheels_share_long_waves_and_differ_in_short_ones():
    x = np.arange(0.0, 2000.0, 0.1)
    road = Road("B", seed=3, start=FAR)
    left, right = (np.fft.rfft(calc_heights(road, x, y)) for y in (0.75, -0.75))
    n = np.fft.rfftfreq(len(x), 0.1)

    def correlation(low: float, high: float) -> float:
        a, b = (z[(n > low) & (n < high)] for z in (left, right))
        return float(np.real(np.vdot(a, b)) / (np.linalg.norm(a) * np.linalg.norm(b)))

    assert correlation(0.011, 0.05) > 0.9
    assert abs(correlation(1.0, 2.5)) < 0.3


@pytest.mark.parametrize("height", [0.05, -0.05])
def test_wheel_rolls_over_an_edge_as_a_disc(height):
    x = np.linspace(-1.0, 1.0, 4001)
    found = calc_heights(Road(None, [Edge(at=0.0, height=height)]), x)
    # Lowest point of the disc when it rests on a finely sampled profile.
    s = np.linspace(-0.3, 0.3, 2401)
    lift = np.sqrt(0.3**2 - s**2) - 0.3
    profile = height * (x[:, None] + s >= 0.0)
    assert found == pytest.approx(np.max(profile + lift, axis=1), abs=2e-3)
    assert found[0] == 0.0
    assert found[-1] == height


def test_kerb_is_under_the_wheels_of_its_side_only():
    edges = [Edge(at=5.0, height=0.1, side="right"), Edge(at=7.0, height=-0.1, side="right")]
    x = np.array([6.0, 6.0, 8.0])
    assert calc_heights(Road(None, edges), x, np.array([0.7, -0.7, -0.7])) == pytest.approx([0.0, 0.1, 0.0])


def make_plant() -> MultibodyPlant:
    return MultibodyPlant(prototype(), PlantErrors())


def drive(
    plant: MultibodyPlant,
    ground: Ground,
    seconds: float,
    h: float = 1e-3,
    speed: float = 10.0,
    every: int = 1,
):
    """Truth at every `every`-th step of h (s)."""
    plant.reset(InitialMotion(speed=speed), ground)
    rows = []
    for k in range(round(seconds / h)):
        plant.step(k * h, h, Controls(0.0, 0.0, 0.0, 0.0))
        if (k + 1) % every == 0:
            rows.append(plant.truth())
    return np.array(rows)


@pytest.fixture(scope="module")
def plant():
    return make_plant()


def test_car_stands_higher_behind_a_step_with_the_same_wheel_loads(plant):
    even = drive(plant, Ground(), 2.5)
    step = drive(plant, Ground(edges=[Edge(at=3.0, height=0.05)]), 2.5)
    z = ESTIMATE_INDEX["z"]
    assert step[-1, z] - even[-1, z] == pytest.approx(0.05, abs=2e-3)
    assert step[-1, LOADS] == pytest.approx(even[-1, LOADS], rel=0.01)
    # At the step the load of a front wheel more than doubles; the mean of the total load stays the weight.
    assert step[:, LOADS[0]].max() > 2.0 * even[-1, LOADS[0]]
    assert np.mean(np.sum(step[:, LOADS], axis=1)) == pytest.approx(np.sum(even[-1, LOADS]), rel=0.02)


def test_wheels_leave_the_ground_and_land_the_same_with_smaller_steps(plant):
    """Down the far edge of a kerb of 10 cm at 20 m/s."""
    ground = Ground(edges=[Edge(at=2.5, height=0.1), Edge(at=4.5, height=-0.1)])
    *coarser, finest = (drive(plant, ground, 0.4, 1e-3 / n, 20.0, every=n) for n in (2, 4, 8, 16))
    assert np.any(finest[:, LOADS[0]] == 0.0)
    z = ESTIMATE_INDEX["z"]
    heights = [np.max(np.abs(found - finest)[:, z]) for found in coarser]
    loads = [np.std((found - finest)[:, LOADS]) for found in coarser]
    assert heights[0] < 2e-4
    assert loads[0] < 0.01 * np.std(finest[:, LOADS])
    for errors in (heights, loads):
        # First order: errors are proportional to the step less the finest step, with ratios of 7/3 and 3.
        assert all(coarse > 1.7 * fine for coarse, fine in pairwise(errors))


def test_vertical_acceleration_on_a_rough_road_follows_its_class(plant):
    """Vertical acceleration doubles from class to class, as heights do."""
    az = ESTIMATE_INDEX["az"]
    shaken = [drive(plant, Ground(roughness=c, seed=5), 4.0, speed=15.0)[1000:, az].std() for c in ("A", "C")]
    assert shaken[1] / shaken[0] == pytest.approx(4.0, rel=0.15)
