"""Wheels of cars in other engines against our model: loads, travel and slip, straight on, in a turn, over kerbs."""

import math
from functools import cache

import numpy as np
import pytest

from replay.csv_log import Table
from replay.problems import Problems
from vehicled.cli import main
from vehicled.configuration import load_configuration
from vehicled.errors import UsageError
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.simulation.driver import Controls
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.plant import MultibodyPlant
from vehicled.simulation.road import Edge
from vehicled.simulation.scenario import Ground, PlantErrors
from vehicled.simulation.sensors import SensorPlaces, Track
from vehicled.studies.robustness import plants, suspension
from vehicled.studies.robustness.engine_plant import EnginePlant

KERB = Ground(edges=[Edge(at=1.5, height=0.1), Edge(at=3.5, height=-0.1)])
"""Two edges, 2 m apart."""


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
    """A turn of constant radius, at about 3.5 m/s²."""
    return drive(own() if name == "own" else make_engine(name), Ground(), 2.0, 15.0, 0.04)


@cache
def kerb(name: str, h: float = 1e-3) -> np.ndarray:
    """0.7 s at 15 m/s, up a kerb of 10 cm and down again."""
    if name != "own":
        return drive(make_engine(name, h), KERB, 0.7, 15.0, h=h)
    # Our model begins in design position, and 2 s earlier, so that it has settled when the others begin.
    way = drive(own(), Ground(), 2.0, 15.0)[-1, ESTIMATE_INDEX["x"]]
    return drive(own(), KERB, 2.7, 15.0, start=-way)[2000:]


EXUDYN = pytest.param("exudyn", marks=pytest.mark.slow)
"""Exudyn takes seconds; quick tests compare it with MuJoCo in `test_robustness_plants`."""
OWN_CONTACTS = [pytest.param(f"{e}, own contact", marks=pytest.mark.slow) for e in ("mujoco", "exudyn")]
ENGINES = ["mujoco", EXUDYN, *OWN_CONTACTS]


@pytest.mark.parametrize("name", ENGINES)
def test_rolling_straight_on_the_wheels_are_as_in_our_model(name):
    """The front wheels have a milliradian of toe-in, and its forces lift the car by half a millimetre."""
    ours, theirs = kerb("own")[0], kerb(name)[0]
    assert np.sum(theirs[LOADS]) == pytest.approx(vehicle().mass * 9.81, rel=1e-3)
    assert theirs[LOADS] == pytest.approx(ours[LOADS], rel=1e-3)
    assert theirs[DEFLECTIONS] == pytest.approx(ours[DEFLECTIONS], abs=1e-4)
    assert theirs[RATES] == pytest.approx(0.0, abs=1e-4)
    assert theirs[ANGLES] == pytest.approx(ours[ANGLES], abs=2e-5)
    assert theirs[RATIOS] == pytest.approx(0.0, abs=2e-4)


@pytest.mark.parametrize("name", ["mujoco", EXUDYN])
def test_in_a_turn_the_wheels_are_as_in_our_model(name):
    ours, theirs = turn("own")[-1], turn(name)[-1]
    assert np.ptp(ours[LOADS]) > 500.0
    assert theirs[LOADS] == pytest.approx(ours[LOADS], rel=3e-3)
    assert theirs[DEFLECTIONS] == pytest.approx(ours[DEFLECTIONS], abs=1e-4)
    assert theirs[ANGLES] == pytest.approx(ours[ANGLES], abs=1e-4)
    assert theirs[RATIOS] == pytest.approx(ours[RATIOS], abs=1e-4)
    assert theirs[LATERAL] == pytest.approx(ours[LATERAL], rel=5e-3)


@pytest.mark.parametrize("name", OWN_CONTACTS)
def test_own_contacts_carry_and_guide_the_car_as_tyres_do(name):
    """Their friction has the tyre's slope at 15 m/s; in Exudyn that of the axle, in proportion to the wheel loads."""
    end, tyres = turn(name)[-1], turn("mujoco")[-1]
    assert end[LOADS] == pytest.approx(tyres[LOADS], rel=0.02)
    own, usual, loads = (np.reshape(f, (2, 2)) for f in (end[LATERAL], tyres[LATERAL], end[LOADS]))
    assert own.sum(axis=1) == pytest.approx(usual.sum(axis=1), rel=0.1)
    if name.startswith("exudyn"):
        usual = usual.sum(axis=1, keepdims=True) * loads / loads.sum(axis=1, keepdims=True)
    # The tolerance is for toe, which changes with travel.
    assert own == pytest.approx(usual, rel=0.2)
    assert end[ANGLES] == pytest.approx(tyres[ANGLES], rel=0.2)


@pytest.mark.parametrize("name", ENGINES)
def test_wheels_leave_the_ground_over_a_kerb_and_land_as_in_our_model(name):
    ours, theirs = kerb("own"), kerb(name)
    in_the_air = [np.mean(rows[:, LOADS] == 0.0) for rows in (ours, theirs)]
    assert in_the_air[0] > 0.1
    # Own contacts ignore how fast the ground rises, and their dampers have no limits: those of Exudyn can pull.
    assert in_the_air[1] == pytest.approx(in_the_air[0], abs=1e-2 if name == "exudyn, own contact" else 3e-3)
    bounds = (0.4, 0.2) if name in plants.OWN_CONTACTS else (0.07, 0.01)
    for columns, bound in zip((LOADS, DEFLECTIONS), bounds, strict=True):
        assert np.std((theirs - ours)[:, columns]) < bound * np.std(ours[:, columns])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("mujoco", (2e-3, 1e-3, 5e-4)),
        pytest.param("exudyn", (1e-3, 5e-4, 2.5e-4), marks=pytest.mark.slow),
        pytest.param("exudyn, own contact", (1e-3, 5e-4, 2.5e-4), marks=pytest.mark.slow),
    ],
)
def test_a_landing_converges_with_the_step(name, steps):
    rows = [kerb(name, h)[:: round(steps[0] / h)] for h in steps]
    finest = rows[-1][:, LOADS]
    coarse, fine = (np.std(found[:, LOADS] - finest) for found in rows[:-1])
    assert fine < 0.6 * coarse
    assert coarse < 0.1 * np.std(finest)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exudyn", "exudyn, own contact"])
def test_results_on_a_rough_road_hardly_change_with_half_the_step(name):
    ground = Ground(roughness="C", seed=1)
    coarse, fine = (drive(make_engine(name, h), ground, 2.0, 15.0, 0.03, h) for h in (1e-3, 5e-4))
    rough, difference = fine[1000::2], (coarse - fine[::2])[500:]
    for columns in (LOADS, DEFLECTIONS, ANGLES):
        assert np.std(difference[:, columns]) < 0.02 * np.std(rough[:, columns])


def test_slopes_are_refused():
    with pytest.raises(UsageError, match="level plane"):
        make_engine("mujoco").reset(InitialMotion(speed=15.0), Ground(slope=0.05))


def test_errors_of_all_wheels_are_scored_with_the_spread_of_the_truth():
    """Scores begin at 5 s. Deflections are 3 mm off; one wheel is in the air for a quarter of the scored time."""
    t = np.arange(0.0, 25.0, 1e-3)
    columns = {"vx": np.full_like(t, 10.0)}
    for w in WHEELS:
        columns |= {f"suspension.{w}.deflection": 0.02 * np.sin(2 * np.pi * t), f"slip.{w}.ratio": 0.0 * t}
        columns |= {f"tyre.{w}.fz": 2000.0 + 0.0 * t, f"slip.{w}.angle": 0.01 + 0.0 * t}
    columns["tyre.rl.fz"][t >= 20.0] = 0.0
    track = Track(t, columns, 9.81)
    estimates = {name: column[::4].copy() for name, column in columns.items()}
    for w in WHEELS:
        estimates[f"suspension.{w}.deflection"] += 0.003
        estimates[f"slip.{w}.ratio"] += 0.5 * (t[::4] < 4.9)
    table = Table(np.round(t[::4] * 1e9).astype(np.int64), estimates, Problems("estimates"))
    row = suspension.score(table, track)
    assert row["rmse"] == pytest.approx(
        {"deflection": 0.003, "load": 0.0, "slip_angle": 0.0, "slip_ratio": 0.0}, abs=1e-9
    )
    assert row["spread"]["deflection"] == pytest.approx(0.02 / math.sqrt(2), rel=1e-3)
    assert row["spread"]["slip_angle"] == pytest.approx(0.0, abs=1e-9)
    # One of four wheels has 2000 N for three quarters of the time, then none.
    assert row["spread"]["load"] == pytest.approx(2000.0 * math.sqrt(0.25 * 0.75 / 4), rel=1e-3)
    assert row["airborne"] == pytest.approx(0.25 / 4, rel=1e-3)


def test_unknown_plants_and_roads_are_refused(capsys):
    assert main(["bench", "suspension", "--plant", "lego"]) == 2
    assert "--plant: expected one of own" in capsys.readouterr().err
    assert main(["bench", "suspension", "--plant", "own", "--road", "moon"]) == 2
    assert "--road: expected one of flat; class B" in capsys.readouterr().err


@pytest.mark.slow
def test_estimates_of_the_car_in_mujoco_are_as_good_as_in_our_model():
    """With the same tyres on an even road, where travel, loads and slip follow from the motion of the car."""
    pytest.importorskip("mujoco")
    ours, theirs = (suspension.run_job(suspension.SuspensionJob(p, "flat", 0)) for p in ("own", "mujoco"))
    for quantity, spread in ours["spread"].items():
        assert theirs["spread"][quantity] == pytest.approx(spread, rel=0.03)
        assert ours["rmse"][quantity] < 0.6 * spread
        assert theirs["rmse"][quantity] < 1.1 * ours["rmse"][quantity]
        assert theirs["rmse_with_torques"][quantity] < 1.1 * theirs["rmse"][quantity]
