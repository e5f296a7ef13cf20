"""The errorEKF on the car as its source states it: transition, noise, sensor models, corrections, and a drive."""

import dataclasses
import math

import numpy as np
import pytest

from vehicled.configuration import load_configuration
from vehicled.simulation.scenario import find_scenario
from vehicled.studies.observers.noise import calc_free_slope, discretise
from vehicled.studies.robustness import drives
from vehicled.studies.robustness.cases import table_cases
from vehicled.studies.robustness.literal import COORDINATES, LiteralErrors, Reading
from vehicled.studies.robustness.literal_run import read
from vehicled.studies.robustness.runs import LITERAL, list_jobs, run_job

H = 4e-3
STATES = [f"Δ{name}" for name in COORDINATES] + [f"Δd{name}/dt" for name in COORDINATES]


@pytest.fixture(scope="module")
def cornering() -> LiteralErrors:
    model = LiteralErrors(load_configuration("prototype"))
    model.place(3.0, -2.0, 0.7, 15.0)
    model.car.inputs[0] = model.car.corner_inputs[0, :2] = 0.005
    for _ in range(150):
        model.simulate(H)
    return model


def test_the_states_are_those_of_the_source():
    printed = "r1x r1y r1z psi v1z v2z theta1 theta2 theta3 theta4"
    assert " ".join(COORDINATES) == printed


@pytest.mark.parametrize("h", [H, 0.01])
def test_the_transition_is_the_printed_one_entry_by_entry(cornering, h):
    """f_x = [[I, I Δt], [0, I]], independent of the motion of the car."""
    f = cornering.calc_transition(h).matrix
    assert f.shape == (20, 20)
    for i, of in enumerate(STATES):
        for j, by in enumerate(STATES):
            expected = 1.0 if of == by else h if by == f"Δd{of[1:]}/dt" else 0.0
            assert f[i, j] == expected, (of, by)


def test_the_noise_is_that_of_white_accelerations(cornering):
    noise = cornering.calc_transition(H).noise
    density = np.diag(noise)[10:] / H
    assert (density > 0).all()
    driven = np.diag(np.concatenate([np.zeros(10), density]))
    assert noise == pytest.approx(discretise(calc_free_slope(10), driven, H), rel=1e-9, abs=1e-20)


def test_a_correction_moves_each_coordinate_and_rate_alone(cornering):
    kept = cornering.car.workspace.copy()
    before = cornering.state
    for i in range(20):
        correction = np.zeros(20)
        correction[i] = 1e-3
        cornering.apply(correction)
        assert cornering.state - before == pytest.approx(correction, abs=1e-10)
        cornering.car.workspace[:] = kept


@pytest.mark.parametrize("kind", ["position", "velocity", "gyroscopes", "course", "wheels"])
def test_sensitivities_are_the_derivatives_of_readings_by_corrections(cornering, kind):
    kept = cornering.car.workspace.copy()
    _, jacobian = cornering.predict_reading(kind)
    step = 1e-5
    for i in range(20):
        found = []
        for way in (step, -step):
            correction = np.zeros(20)
            correction[i] = way
            cornering.apply(correction)
            found.append(cornering.predict_reading(kind)[0])
            cornering.car.workspace[:] = kept
        assert jacobian[:, i] == pytest.approx((found[0] - found[1]) / (2 * step), abs=1e-6)


def test_readings_are_those_of_the_car(cornering):
    car, sensors = cornering.car, load_configuration("prototype").sensors
    car.report()
    yaw, vx, vy, wz = (car.output(n) for n in ("yaw", "vx", "vy", "wz"))
    assert cornering.predict_reading("position")[0] == pytest.approx(car.locate(sensors.gnss.antenna))
    assert cornering.predict_reading("gyroscopes")[0][2] == pytest.approx(wz)
    assert cornering.predict_reading("course")[0] == pytest.approx([yaw])
    # Velocity of the antenna, which turns about the vehicle origin; roll and pitch are below a degree.
    ahead, left = vx, vy + wz * sensors.gnss.antenna[0]
    turned = [
        ahead * math.cos(yaw) - left * math.sin(yaw),
        ahead * math.sin(yaw) + left * math.cos(yaw),
    ]
    assert cornering.predict_reading("velocity")[0] == pytest.approx(turned, abs=0.05)


def test_a_course_is_compared_within_half_a_turn(cornering):
    yaw = cornering.state[3]
    reading = Reading("course", np.array([yaw + 0.1 + 2 * math.pi]), np.array([0.01]))
    assert cornering.observe(reading).innovation == pytest.approx([0.1])


def test_a_fix_gives_position_velocity_and_course():
    configuration = load_configuration("prototype")
    values = {"gnss.quality": 4.0, "gnss.speed": 10.0, "gnss.course": math.radians(30.0)}
    readings = {r.kind: r for r in read(configuration.sensors, None, values)}
    assert readings["velocity"].value == pytest.approx([5.0, 10.0 * math.cos(math.radians(30.0))])
    assert readings["course"].value == pytest.approx([math.radians(60.0)])
    assert readings["course"].sigma == pytest.approx([0.002])
    assert not list(read(configuration.sensors, None, values | {"gnss.quality": 0.0}))


def test_the_filter_follows_a_car_that_differs_from_its_model(monkeypatch):
    """More accurately than the receiver's 0.02 m on each axis, and with less than 3° of heading error."""
    short = dataclasses.replace(find_scenario("mixed_drive"), duration=9.0)
    monkeypatch.setitem(drives._SCENARIOS, drives.OWN, short)
    for cached in (drives.make_drive, drives._drive_own):
        cached.cache_clear()
    (job,) = list_jobs([next(iter(table_cases()))], ["rtk"], [LITERAL], [3])
    row = run_job(job)
    for cached in (drives.make_drive, drives._drive_own):
        cached.cache_clear()
    assert row["failed"] is None
    assert row["horizontal"] < 0.028
    assert row["yaw"] < math.radians(3.0)
    assert row["vx"] < 0.1
    assert row["nees"].keys() == {"x", "y", "yaw", "vx", "vy", "sideslip"}
