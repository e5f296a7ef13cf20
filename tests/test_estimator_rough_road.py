"""Suspension travel that a rough road adds to the estimate, on simulated drives."""

import dataclasses
from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, RoadRun, Run, prototype, rms, steps, without
from true_loads_rig import TrueLoads

from vehicled.estimator import Estimator
from vehicled.filter.settings import Suspension
from vehicled.messages import ESTIMATE_COLUMNS, LOAD_COLUMNS, WHEELS
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.road import Edge
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Ground, Scenario
from vehicled.simulation.sensor_settings import Errors, SimulatedImu
from vehicled.smoothing.smoother import Smoother
from vehicled.sources.imu.road_travel import ROAD_PLACES
from vehicled.sources.imu.statistics import AddedTravel
from vehicled.sources.inputs.unmeasured_drive import Additions
from vehicled.stepping import play_back

SECONDS = 8.0


@lru_cache
def drive(roughness: str | None = "C") -> Drive:
    return Drive(scenario(roughness))


def scenario(roughness: str | None) -> Scenario:
    """15 m/s through a bend; the plant is off by the standard errors."""
    inputs = DriveInputs(rack=[(2.0, 0.0), (3.0, 0.004), (6.0, 0.004)], rear_torque=120.0)
    return Scenario(
        duration=SECONDS,
        initial=InitialMotion(speed=15.0, yaw=0.5),
        inputs=inputs,
        plant=STANDARD_ERRORS,
        ground=Ground(roughness=roughness, seed=4),
    )


@lru_cache
def followed(roughness: str | None = "C") -> RoadRun:
    return RoadRun(prototype(), steps(drive(roughness).measurements(5)))


def errors(run: Run, of: Drive, what: str) -> np.ndarray:
    """Errors (estimates, 4) of one suspension column, by wheel."""
    return np.stack([run.error(of, f"suspension.{w}.{what}") for w in WHEELS], axis=1)


@pytest.mark.parametrize(
    ("k", "what", "most"), [(0, "deflection", 0.55), (1, "rate", 0.7), (2, "force", 0.7)]
)
def test_added_travel_reduces_the_errors_on_a_rough_road(k, what, most):
    """More of the error of rates and forces remains, as samples are late for fast motion and wheels vibrate."""
    run, of = followed(), drive()
    moving = run.t > 2 * SECOND
    error = errors(run, of, what)[moving]
    added = run.added[moving][:, 4 * k : 4 * k + 4]
    assert rms(error) < most * rms(error - added)


@pytest.mark.slow
def test_joint_loads_include_forces_by_the_road_in_springs_dampers_and_bars(monkeypatch):
    """Errors of loads decrease to these shares of the errors without the added forces; none increases."""
    with_loads = dataclasses.replace(prototype(), loads=True)
    given, truth = steps(drive().measurements(5)), TrueLoads(scenario("C"))
    run = Run(with_loads, given)
    monkeypatch.setattr(Additions, "forces", 0.0)
    lacking = Run(with_loads, given)
    moving = (run.t > 2 * SECOND) & (run.t < SECONDS * SECOND)
    most = {
        "lower_ball_joint.{}.fz": 0.7,
        "lower_hinge.{}.fy": 0.85,
        "lower_hinge.{}.fz": 0.75,
        "upper_ball_joint.{}.fy": 0.85,
        "wheel_bearing.{}.fz": 0.8,
        "spring.{}.force": 0.8,
        "damper.{}.force": 0.7,
        "anti_roll_bar.{}.force": 0.85,
    }
    for column in {name.replace(".fl.", ".{}.") for name in LOAD_COLUMNS if ".fl." in name}:
        errors, before = (rms(np.subtract(*truth.compare(r, column, moving))) for r in (run, lacking))
        assert errors <= most.get(column, 1.02) * before + 1e-6, column


def test_almost_no_travel_is_added_on_an_even_road():
    run = followed(None)
    moving = run.t > 2 * SECOND
    assert rms(run.added[moving][:, :4]) < 2e-4
    assert rms(followed().added[moving][:, :4]) > 1e-3


def test_a_vibrating_imu_is_not_taken_for_a_rough_road():
    """The noise of the IMU is 20 and 10 times that of its settings, and would be taken for 3 mm of travel."""
    imu = SimulatedImu(accelerometer=Errors(noise=1.0), gyro=Errors(noise=0.02))
    run = RoadRun(prototype(), steps(drive(None).begin(5.0).measurements(5, imu=imu)))
    assert rms(run.added[run.t > 2 * SECOND][:, :4]) < 6e-4


def test_added_travel_does_not_change_the_filter(monkeypatch):
    """All other columns are the same as without added travel."""
    monkeypatch.setattr(AddedTravel, "add", lambda self, t: None)
    plain = Run(prototype(), steps(drive().measurements(5)))
    others = np.setdiff1d(np.arange(len(ESTIMATE_COLUMNS)), ROAD_PLACES)
    run = followed()
    assert plain.values[:, others].tobytes() == run.values[:, others].tobytes()
    added = run.added[:, : len(ROAD_PLACES)]
    np.testing.assert_array_equal(plain.values[:, ROAD_PLACES] + added, run.values[:, ROAD_PLACES])


def test_added_travel_is_deterministic_and_ends_with_a_reset():
    run = RoadRun(prototype(), steps(drive().measurements(5)))
    assert run.values.tobytes() == followed().values.tobytes()
    end = round(SECONDS * SECOND)
    assert any(run.estimator.calc_added(end))
    run.estimator.command("reset", {})
    assert not any(run.estimator.calc_added(end))


@pytest.mark.parametrize("lost", ["imu.a", pytest.param("imu.", marks=pytest.mark.slow)])
def test_added_travel_fades_without_accelerometers(lost):
    measured = drive().begin(7.0).measurements(5)
    until = 5 * SECOND
    given = [m for m in measured if m.t < until] + without([m for m in measured if m.t >= until], lost)
    run = RoadRun(prototype(), steps(given))
    size = np.abs(run.added[:, :4]).max(axis=1)
    assert size[(run.t > until - SECOND) & (run.t < until)].max() > 2e-3
    assert size[run.t > until + 1.5 * SECOND].max() < 1e-6


@pytest.mark.slow
def test_no_travel_is_added_if_the_filter_has_states_of_the_suspensions():
    settings = dataclasses.replace(prototype().filter, suspension=Suspension())
    estimator = Estimator(dataclasses.replace(prototype(), filter=settings))
    run = Run(prototype(), steps(drive().begin(3.0).measurements(5)), estimator=estimator)
    assert not any(estimator.calc_added(int(run.t[-1])))


@pytest.mark.slow
def test_a_smoothed_drive_includes_the_added_travel():
    with Smoother(prototype()) as smoother:
        run = RoadRun(prototype(), [], estimator=smoother.estimator)
        play_back(smoother.estimator, steps(drive().begin(4.0).measurements(5)), [smoother.take, run._take])
        smoothed = list(smoother.smooth())
    last, filtered = smoothed[-1].values[ROAD_PLACES], run.estimates[-1].values[ROAD_PLACES]
    scale = np.abs(run.added).max()
    assert np.abs(run.added[-1][:4]).max() > 1e-4
    assert last[:4] == pytest.approx(filtered[:4], abs=1e-5)
    assert last[8:] == pytest.approx(filtered[8:], abs=1e-2 * scale)


def test_a_step_in_the_road_is_not_taken_for_a_latency_of_the_receiver():
    # When the car hits the step, the antenna on the roof swings. Its velocity changes within ten milliseconds, as
    # much as the clocks of gyroscope and receiver may differ. At constant speed nothing else determines the latency.
    step = Ground(edges=[Edge(at=20.0, height=0.05)])
    inputs, initial = DriveInputs(rear_torque=60.0), InitialMotion(speed=12.0)
    drive = Drive(Scenario(duration=6.0, initial=initial, inputs=inputs, ground=step, plant=STANDARD_ERRORS))
    for seed in (4, 7):
        run = Run(prototype(), steps(drive.measurements(seed=seed, gnss="rtk")))
        assert np.abs(run.error(drive, "x")).max() < 0.35
        latency = run.estimator.parameters()["gnss_latency"]
        assert abs(latency.value) < 2.0 * latency.sigma
