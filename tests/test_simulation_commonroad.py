"""A plant of another program: its outputs must be the motion of a rigid body in ISO 8855 axes."""

import math

import numpy as np
import pytest

from vehicled.errors import UsageError
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.points import rotations
from vehicled.simulation.commonroad import CommonRoadPlant, body_rates
from vehicled.simulation.drive import Track
from vehicled.simulation.driver import Controls
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import Ground
from vehicled.simulation.sensors import SensorPlaces, specific_force

DT = 1e-3
SPEED = 15.0


def rates_of(R: np.ndarray) -> np.ndarray:
    """Body rates of a rotation R (n, 3, 3) at equal steps, by differences."""
    turning = np.einsum("nji,njk->nik", R[1:-1], (R[2:] - R[:-2]) / (2 * DT))
    return np.stack([turning[:, 2, 1], turning[:, 0, 2], turning[:, 1, 0]], axis=1)


@pytest.fixture(scope="module", params=[1, 3])
def drive(request) -> tuple[CommonRoadPlant, np.ndarray]:
    """The plant and rows of truth: rolling straight on for a second, then turning left with drive torque."""
    pytest.importorskip("vehiclemodels")
    plant = CommonRoadPlant(request.param, SensorPlaces())
    plant.reset(InitialMotion(speed=SPEED, yaw=0.7, x=5.0, y=-3.0), Ground())
    rows = [plant.truth()]
    for k in range(3500):
        steer = 0.04 * min(max((k * DT - 1.0) / 0.4, 0.0), 1.0)
        plant.step(k * DT, DT, Controls(steer, 300.0 if k > 2000 else 0.0, 0.0))
        rows.append(plant.truth())
    return plant, np.array(rows)


def columns(rows: np.ndarray, *names: str) -> np.ndarray:
    return rows[:, [ESTIMATE_INDEX[n] for n in names]]


def test_a_drive_begins_settled_in_the_given_state(drive):
    plant, rows = drive
    assert columns(rows[:1], "x", "y", "yaw")[0] == pytest.approx([5.0, -3.0, 0.7], abs=1e-9)
    assert columns(rows[:1000], "vx") == pytest.approx(SPEED, abs=0.02)
    # Settled: the car neither heaves nor pitches while it rolls on.
    assert np.ptp(columns(rows[:1000], "z")) < 1e-3
    assert np.ptp(columns(rows[:1000], "pitch")) < 1e-3
    assert columns(rows[:1], "z")[0, 0] == pytest.approx(plant.parameters.h_cg, abs=0.03)


def test_rates_are_body_rates_and_not_derivatives_of_the_angles(drive):
    _, rows = drive
    R = rotations(*columns(rows, "roll", "pitch", "yaw").T)
    assert columns(rows, "wx", "wy", "wz")[1:-1] == pytest.approx(rates_of(R), abs=2e-4)
    # Roll makes the difference about the y axis while the car turns.
    angles = np.gradient(columns(rows, "pitch")[:, 0], DT)
    assert np.abs(columns(rows, "wy")[:, 0] - angles).max() > 0.01


def test_velocity_is_the_derivative_of_position(drive):
    _, rows = drive
    R = rotations(*columns(rows, "roll", "pitch", "yaw").T)
    travelled = np.gradient(columns(rows, "x", "y", "z"), DT, axis=0)
    velocity = np.einsum("nij,nj->ni", R, columns(rows, "vx", "vy", "vz"))
    # The model's own yaw frame does not tilt: its pitch and roll do not move its centre sideways.
    assert travelled[1:-1] == pytest.approx(velocity[1:-1], abs=2e-3)


def test_a_left_turn_has_the_signs_of_iso_axes(drive):
    plant, rows = drive
    end = dict(zip(ESTIMATE_INDEX, rows[-1], strict=True))
    assert end["yaw"] > 0.7 + 0.3
    assert end["wz"] == pytest.approx(0.04 * end["vx"] / plant.handling.wheelbase, rel=0.35)
    assert end["roll"] > math.radians(0.5)  # outwards
    left, right = ((end[f"wheel.f{s}.speed"] + end[f"wheel.r{s}.speed"]) / 2 for s in "lr")
    track = 0.5 * (plant.parameters.T_f + plant.parameters.T_r)
    assert (right - left) * plant.parameters.R_w == pytest.approx(end["wz"] * track, rel=0.1)
    assert plant.road_wheel_angles() == pytest.approx((0.04, 0.04), abs=1e-6)


def test_an_accelerometer_measures_gravity_and_the_turn(drive):
    _, rows = drive
    names = ("roll", "pitch", "yaw", "vx", "vy", "vz", "wx", "wy", "wz")
    track = Track(DT * np.arange(len(rows)), dict(zip(names, columns(rows, *names).T, strict=True)), 9.81)
    force = specific_force(track, (0.0, 0.0, 0.0))
    # This model sways by ±0.2° of roll at 1.75 Hz, also straight on and at any step size.
    assert force[500] == pytest.approx([0.0, 0.0, 9.81], abs=0.3)
    roll = columns(rows, "roll")[:, 0]
    across = force[:, 1] * np.cos(roll) - force[:, 2] * np.sin(roll)
    wz, vx = columns(rows, "wz", "vx").T
    turning = slice(-1140, None)  # two periods of it
    assert across[turning].mean() == pytest.approx((wz * vx)[turning].mean(), rel=0.02)
    assert across[-1] > 1.0


def test_wheel_angles_are_the_integrals_of_wheel_speeds(drive):
    _, rows = drive
    for w in WHEELS:
        angle, rate = columns(rows, f"wheel.{w}.angle", f"wheel.{w}.speed").T
        assert angle[-1] == pytest.approx(np.sum(0.5 * DT * (rate[1:] + rate[:-1])), rel=1e-6)


@pytest.mark.parametrize(("car", "torques"), [(1, [150.0, 150.0, 0.0, 0.0]), (3, [0.0, 0.0, 150.0, 150.0])])
def test_torque_goes_to_the_axle_that_the_model_drives(car, torques):
    pytest.importorskip("vehiclemodels")
    ends = []
    for controls in (Controls(0.0, 300.0, 0.0), Controls(0.0, 0.0, 0.0, front_torque=300.0)):
        plant = CommonRoadPlant(car, SensorPlaces())
        assert plant.wheel_torques(controls) == pytest.approx(torques)
        plant.reset(InitialMotion(speed=SPEED), Ground())
        for k in range(200):
            plant.step(k * DT, DT, controls)
        ends.append(plant.truth()[ESTIMATE_INDEX["vx"]])
    assert ends[0] == ends[1] > SPEED


def test_body_rates_at_a_known_attitude():
    # 30 °/s of yaw at 5° of roll: 2.6 °/s about y.
    found = np.degrees(body_rates(math.radians(5), 0.0, 0.0, 0.0, math.radians(30)))
    assert found == pytest.approx([0.0, 30 * math.sin(math.radians(5)), 30 * math.cos(math.radians(5))])


def test_standstill_and_slopes_are_refused():
    pytest.importorskip("vehiclemodels")
    plant = CommonRoadPlant(1, SensorPlaces())
    with pytest.raises(UsageError):
        plant.reset(InitialMotion(speed=0.0), Ground())
    with pytest.raises(UsageError):
        plant.reset(InitialMotion(speed=10.0), Ground(slope=0.05))
