"""Commands to a running estimator: set_position, reset, reload_noise."""

import math

import numpy as np
import pytest
from estimator_rig import (
    PERIOD,
    SECOND,
    Run,
    mixed,
    parked,
    prototype,
    steps,
)

from vehicled.errors import UsageError
from vehicled.estimator import Estimator
from vehicled.messages import Estimate

SECONDS = 10.0
DEGREES_PER_METRE = 1 / 111e3


@pytest.fixture
def run() -> Run:
    """A run of a parked car; tests continue its estimator."""
    return Run(prototype(), steps(parked(2.0).measurements()))


@pytest.fixture
def running(run) -> Estimator:
    return run.estimator


def step_on(run: Run, n: int = 5) -> Estimate:
    estimate = None
    for k in range(1, n + 1):
        estimate = run.estimator.step(run.summary.ended_ns + k * PERIOD, [])
    assert estimate is not None
    return estimate


def test_set_position_moves_the_car_to_the_given_position(run, running):
    assert running.command("set_position", {"x": 12.0, "y": -7.0, "yaw": 1.2, "sigma": 0.5}) == {}
    estimate = step_on(run)
    assert (estimate["x"], estimate["y"], estimate["yaw"]) == pytest.approx((12.0, -7.0, 1.2), abs=1e-3)
    assert estimate["sigma.x"] == pytest.approx(0.5, rel=1e-2)
    assert running.status()["position_sets"] == 1
    assert running.status()["state"] == "running"


def test_set_position_does_not_depend_on_the_latency_of_fixes():
    """The estimated latency of fixes does not shift a position that is set by command."""
    given = steps(mixed(12.5).measurements(1, gnss="rtk"))
    estimator, begin = Estimator(prototype()), 12.02 * SECOND
    for t, measurements, _ in given:
        if t > begin:
            estimator.command("set_position", {"x": 100.0, "y": 50.0, "yaw": 2.0, "sigma": 0.05})
            break
        estimator.step(t, measurements)
    estimate = estimator.step(t, [])
    assert estimate is not None
    way = PERIOD / SECOND * estimator.speed * np.array([np.cos(2.0), np.sin(2.0)])
    assert np.array([estimate["x"], estimate["y"]]) - way == pytest.approx([100.0, 50.0], abs=0.003)


def test_set_position_accepts_latitude_and_longitude(run, running):
    running.command("set_position", {"lat": 43.33 + 100 * DEGREES_PER_METRE, "lon": -8.41})
    estimate = step_on(run)
    assert (estimate["x"], estimate["y"]) == pytest.approx((0.0, 100.0), abs=0.2)
    assert estimate["lat"] == pytest.approx(43.33 + 100 * DEGREES_PER_METRE, abs=1e-8)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"x": 1.0},
        {"lat": 43.0},
        {"x": "a", "y": 0.0},
        {"x": 1.0, "y": 2.0, "colour": 3},
        {"x": None, "y": 1.0},
    ],
)
def test_set_position_reports_invalid_arguments(run, running, arguments):
    with pytest.raises(UsageError, match="set_position: "):
        running.command("set_position", arguments)
    assert np.isfinite(step_on(run)["x"])


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": math.nan, "y": 0.0},
        {"x": 0.0, "y": 0.0, "yaw": math.inf},
        {"lat": 500.0, "lon": 0.0},
        {"x": 0.0, "y": 0.0, "sigma": -1.0},
    ],
)
def test_set_position_rejects_impossible_numbers(running, arguments):
    with pytest.raises(UsageError, match="set_position: "):
        running.command("set_position", arguments)


def test_set_position_before_the_start_and_unknown_commands_are_rejected():
    e = Estimator(prototype())
    with pytest.raises(UsageError, match="has not started"):
        e.command("set_position", {"x": 0.0, "y": 0.0})
    with pytest.raises(UsageError, match=r"unknown command 'sing'.*reload_noise"):
        e.command("sing", {})


def test_reset_waits_for_a_new_start(running):
    running.command("reset", {})
    assert running.status()["state"] == "waiting"
    assert running.step(running_time := 10 * SECOND, []) is None
    assert running.step(running_time + PERIOD, []) is None
    assert running.status()["restarts"] == 1


def test_reloaded_start_settings_apply_to_the_first_fix():
    """The filter starts without a receiver; the first fix then comes after the position's σ has been reloaded."""
    given = steps(m for m in parked(5.0).measurements() if "gnss.lat" not in m.values or m.t > 4 * SECOND)
    e = Estimator(prototype())
    Run(prototype(), given[:900], estimator=e)
    arguments = prototype().noise_arguments()
    arguments["filter"]["start"]["position_sigma"] = 50.0
    e.command("reload_noise", arguments)
    first = next(i for i in Run(prototype(), given[900:], estimator=e).of("gnss.position") if i.variance)
    assert first.variance[0] == pytest.approx(50.0**2, rel=0.01)


def test_reload_noise_changes_the_noise_and_nothing_else():
    given = steps(parked(2.0).measurements())
    halves = given[:300], given[300:]
    runs = []
    for noisier in (False, True):
        e = Estimator(prototype())
        Run(prototype(), halves[0], estimator=e)
        arguments = prototype().noise_arguments()
        if noisier:
            arguments["sensors"]["vehicle_speed"]["noise"] = 3.0
        e.command("reload_noise", arguments)
        runs.append(Run(prototype(), halves[1], estimator=e))
    plain = Run(prototype(), given)
    assert runs[0].values.tobytes() == plain.values[-len(runs[0].t) :].tobytes()
    before, after = (r.of("vehicle.speed")[-1].variance[0] for r in runs)
    assert after - before == pytest.approx(9.0, rel=0.01)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"sensors": {}},
        {"sensors": 3, "filter": {}},
        {"sensors": {"imu": {"gyroscopes": {"noise": "loud"}}}, "filter": {}},
        {"sensors": {"imu": {"gyroscopes": {"noise": -1.0}}}, "filter": {}},
        {"sensors": {"vehicle_speed": {"noise": math.nan}}, "filter": {}},
    ],
)
def test_reload_noise_reports_invalid_arguments_and_estimation_continues(run, running, arguments):
    with pytest.raises(UsageError, match="reload_noise: "):
        running.command("reload_noise", arguments)
    assert np.isfinite(step_on(run)["x"])
