"""Wheels of cars in other engines: loads, travel and slip against our own model, at rest, in a turn and over kerbs."""

from functools import cache

import numpy as np
import pytest

from vehicled.cli import main
from vehicled.configuration import load_configuration
from vehicled.errors import UsageError
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.simulation.driver import Controls
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.plant import MultibodyPlant
from vehicled.simulation.road import Edge
from vehicled.simulation.scenario import Ground, PlantErrors
from vehicled.simulation.sensors import SensorPlaces
from vehicled.studies.robustness import plants, suspension
from vehicled.studies.robustness.engine_plant import EnginePlant

KERB = Ground(edges=[Edge(at=1.5, height=0.1), Edge(at=3.5, height=-0.1)])
"""Between two edges lie 2 m."""


def find(pattern: str) -> list[int]:
    return [ESTIMATE_INDEX[pattern.format(w)] for w in WHEELS]


LOADS, DEFLECTIONS, RATES = find("tyre.{}.fz"), find("suspension.{}.deflection"), find("suspension.{}.rate")
ANGLES, RATIOS, LATERAL = find("slip.{}.angle"), find("slip.{}.ratio"), find("tyre.{}.fy")


@cache
def vehicle():
    return load_configuration("reference_vehicle").vehicle


@cache
def own() -> MultibodyPlant:
    return MultibodyPlant(load_configuration("reference_vehicle"), PlantErrors())


def make_engine(name: str, step: float = 1e-3) -> EnginePlant:
    pytest.importorskip(name.split(",")[0])
    return EnginePlant(vehicle(), SensorPlaces(), plants.get_engine(name), step)


def drive(
    plant,
    ground: Ground,
    seconds: float,
    speed: float,
    steer: float = 0.0,
    h: float = 1e-3,
    start: float = 0.0,
) -> np.ndarray:
    plant.reset(InitialMotion(speed=speed, x=start), ground)
    rows = [plant.truth()]
    rack = plant.handling.rack_per_steer * steer
    for k in range(round(seconds / h)):
        share = min((k + 1) * h / 0.5, 1.0)
        plant.step(k * h, h, Controls(share * rack, 0.0, 0.0))
        rows.append(plant.truth())
    if isinstance(plant, EnginePlant):
        plant.close()
    return np.array(rows)


@cache
def turn(name: str) -> np.ndarray:
    """Into a turn of constant radius, at about 3.5 m/s²."""
    return drive(own() if name == "own" else make_engine(name), Ground(), 2.0, 15.0, 0.04)


@cache
def kerb(name: str, h: float = 1e-3) -> np.ndarray:
    """Over a kerb of 10 cm and down again at 15 m/s, 0.9 s."""
    if name != "own":
        return drive(make_engine(name, h), KERB, 0.7, 15.0, h=h)
    # Our model begins in design position: earlier, so that it has settled.
    return drive(own(), KERB, 2.7, 15.0, start=-30.0)[2000:]


ENGINES = ["mujoco", "exudyn", plants.OWN_CONTACT]


@pytest.mark.parametrize("name", ENGINES)
def test_rolling_straight_on_the_wheels_are_as_in_our_model(name):
    """The front wheels toe in by a milliradian, whose forces lift the car by half a millimetre."""
    ours, theirs = kerb("own")[0], kerb(name)[0]
    assert np.sum(theirs[LOADS]) == pytest.approx(vehicle().mass * 9.81, rel=1e-3)
    assert theirs[LOADS] == pytest.approx(ours[LOADS], rel=1e-3)
    assert theirs[DEFLECTIONS] == pytest.approx(ours[DEFLECTIONS], abs=5e-5)
    assert theirs[RATES] == pytest.approx(0.0, abs=1e-4)
    assert theirs[ANGLES] == pytest.approx(ours[ANGLES], abs=2e-5)
    assert theirs[RATIOS] == pytest.approx(0.0, abs=2e-4)


@pytest.mark.parametrize("name", ["mujoco", pytest.param("exudyn", marks=pytest.mark.slow)])
def test_in_a_turn_the_wheels_are_as_in_our_model(name):
    ours, theirs = turn("own")[-1], turn(name)[-1]
    assert np.ptp(ours[LOADS]) > 500.0
    assert theirs[LOADS] == pytest.approx(ours[LOADS], rel=3e-3)
    assert theirs[DEFLECTIONS] == pytest.approx(ours[DEFLECTIONS], abs=1e-4)
    assert theirs[ANGLES] == pytest.approx(ours[ANGLES], abs=1e-4)
    assert theirs[RATIOS] == pytest.approx(ours[RATIOS], abs=1e-4)
    assert theirs[LATERAL] == pytest.approx(ours[LATERAL], rel=5e-3)


def test_own_contacts_carry_and_guide_the_car_as_tyres_do():
    """Their friction has the tyre's slope at 15 m/s."""
    end, tyres = turn(plants.OWN_CONTACT)[-1], turn("mujoco")[-1]
    assert end[LOADS] == pytest.approx(tyres[LOADS], rel=0.02)
    assert end[LATERAL] == pytest.approx(tyres[LATERAL], rel=0.1)
    assert end[ANGLES] == pytest.approx(tyres[ANGLES], rel=0.2)


@pytest.mark.parametrize("name", ENGINES)
def test_wheels_leave_the_ground_over_a_kerb_and_land_as_in_our_model(name):
    ours, theirs = kerb("own"), kerb(name)
    assert np.any(theirs[:, LOADS[0]] == 0.0)
    assert theirs[-1, LOADS[0]] > 0.0
    assert theirs[:, LOADS[0]].max() > 2.0 * theirs[0, LOADS[0]]
    for columns in (LOADS, DEFLECTIONS):
        assert np.std((theirs - ours)[:, columns]) < 0.05 * np.std(ours[:, columns])


@pytest.mark.parametrize(
    ("name", "steps"),
    [("mujoco", (2e-3, 1e-3, 5e-4)), pytest.param("exudyn", (1e-3, 5e-4, 2.5e-4), marks=pytest.mark.slow)],
)
def test_a_landing_converges_with_the_step(name, steps):
    rows = [kerb(name, h)[:: round(steps[0] / h)] for h in steps]
    finest = rows[-1][:, LOADS]
    coarse, fine = (np.std(found[:, LOADS] - finest) for found in rows[:-1])
    assert fine < 0.6 * coarse
    assert coarse < 0.05 * np.std(finest)


def test_slopes_are_refused():
    with pytest.raises(UsageError, match="level plane"):
        make_engine("mujoco").reset(InitialMotion(speed=15.0), Ground(slope=0.05))
