"""Steering, torque and pressure on their way into the model, and the life of a source."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vehicle_rig import vehicle
from vehicled.sources.settings import Gate, Sensors, SteeringInput, WheelTorques

from vehicled.sources.inputs import HORIZON, Inputs, Tracker
from vehicled.sources.source import Source
from vehicled.vehicle.car import Car
from vehicled.vehicle.sensor_models import add_sensor_kernels

SECOND = 1_000_000_000


def track(times, signal, memory: float = 0.02) -> Tracker:
    tracker = Tracker(memory)
    for t in times:
        tracker.update(t, signal(t))
    return tracker


def test_a_ramp_is_followed_without_lag_and_its_rate_is_found():
    tracker = track(np.arange(0.0, 0.5, 0.01), lambda t: 3.0 + 0.7 * t)
    assert tracker.at(0.495) == pytest.approx((3.0 + 0.7 * 0.495, 0.7), rel=1e-6)


@given(st.lists(st.floats(1e-3, 0.05), min_size=20, max_size=60))
@settings(max_examples=30, deadline=None)
def test_any_rate_of_samples_will_do(intervals):
    """The memory is a time: after 20 of its lengths nothing of the beginning is left."""
    times = np.cumsum(intervals)
    times *= 0.4 / times[-1]
    tracker = track(times, lambda t: 1.0 + 2.0 * t)
    assert tracker.at(times[-1])[0] == pytest.approx(1.0 + 2.0 * times[-1], abs=0.02)


def test_noise_is_smoothed_but_not_far():
    rng = np.random.default_rng(0)
    tracker, error = Tracker(0.02), []
    for k in range(2000):
        tracker.update(k * 0.01, rng.normal())
        error.append(tracker.at(k * 0.01)[0])
    assert 0.5 < np.std(error[100:]) < 1.0


def test_extrapolation_ends_and_holds():
    tracker = track(np.arange(0.0, 0.5, 0.01), lambda t: t)
    last = 0.49
    assert tracker.at(last + HORIZON)[0] == pytest.approx(last + HORIZON, rel=1e-3)
    assert tracker.at(last + 5.0) == pytest.approx((last + HORIZON, 0.0), rel=1e-3)


def test_samples_that_are_not_newer_are_left_out():
    tracker = track(np.arange(0.0, 0.5, 0.01), lambda t: t)
    before = tracker.at(0.49)
    tracker.update(0.49, 77.0)
    tracker.update(0.2, 77.0)
    assert tracker.at(0.49) == before


def test_without_a_sample_everything_is_straight():
    assert Tracker(0.02).at(3.0) == (0.0, 0.0)


@pytest.fixture(scope="module")
def car() -> Car:
    return Car(vehicle("prototype"), (add_sensor_kernels,))


def feed(inputs: Inputs, values: dict[str, float]) -> None:
    for k in range(30):
        inputs.take(k * 10_000_000, values)
    inputs.apply(0.29)


def test_each_source_of_steering_moves_the_same_rods(car):
    """A rack, the wheel that turns it, or the road wheels that it turns; each with its offset."""
    rack = 0.012
    geometry = Inputs(car, Sensors()).geometry
    rods = geometry.sign * rack
    angles = {f"steer.{w}": geometry.angle(n, rods) for n, w in enumerate(("fl", "fr"))}
    given = {
        "rack": ({"steer.rack": rack + 0.001}, 0.001),
        "wheel": ({"steer.wheel": rack / geometry.ratio - 0.2}, -0.2),
        "road_wheels": ({c: a + 0.02 for c, a in angles.items()}, 0.02),
    }
    others = {"steer.rack": 0.5, "steer.wheel": 3.0, "steer.fl": 0.5, "steer.fr": 0.5}
    for source, (values, offset) in given.items():
        inputs = Inputs(car, Sensors(steering=SteeringInput(source=source, offset=offset)))
        feed(inputs, others | values)
        assert car.corner_inputs[0, :2] == pytest.approx([rods, rods], abs=1e-7), source
        assert car.inputs[0] == pytest.approx(rods, abs=1e-7)
        assert car.corner_inputs[1, :2] == pytest.approx([0.0, 0.0], abs=1e-6)


def test_torque_and_pressure_are_held_and_negative_pressure_is_none(car):
    inputs = Inputs(car, Sensors())
    inputs.take(0, {"torque.rl": 100.0, "torque.rr": -50.0, "brake.pressure": 2e6})
    inputs.take(1_000_000_000, {"imu.ax": 3.0})
    inputs.apply(1.0)
    assert car.corner_inputs[3].tolist() == [0.0, 0.0, 100.0, -50.0]
    assert car.corner_inputs[4].tolist() == [2e6] * 4
    inputs.take(2_000_000_000, {"brake.pressure": -1e4})
    inputs.apply(2.0)
    assert not car.corner_inputs[4].any()


def test_torque_is_taken_in_true_scale(car):
    inputs = Inputs(car, Sensors(wheel_torques=WheelTorques(gain=1.02)))
    inputs.take(0, {"torque.rl": 100.0, "torque.rr": -50.0})
    inputs.apply(0.0)
    assert car.corner_inputs[3].tolist() == [0.0, 0.0, 102.0, -51.0]


def test_thresholds_let_the_configured_share_of_good_measurements_pass():
    rng = np.random.default_rng(1)
    source = Source(Gate(probability=0.99))
    for m in (1, 2, 3):
        nis = np.square(rng.normal(size=(100_000, m))).sum(axis=1)
        assert np.mean(nis <= source.thresholds[m - 1]) == pytest.approx(0.99, abs=0.002)


def test_a_source_from_waiting_over_active_to_lost_and_back():
    source = Source(Gate(timeout=1.0))
    assert source.state == "waiting"
    source.look(10 * SECOND)
    assert source.state == "waiting"
    source.heard(10 * SECOND)
    source.accept()
    source.look(11 * SECOND)
    assert source.state == "active"
    source.look(11 * SECOND + 1)
    assert source.state == "lost"
    source.heard(12 * SECOND)
    source.accept()
    assert source.state == "active"


@pytest.mark.parametrize("policy", ["reset", "distrust"])
def test_persistent_failures_in_a_row_make_the_policy_apply(policy):
    source = Source(Gate(persistent=3, policy=policy))
    source.accept()
    assert [source.fail(), source.fail()] == [False, False]
    source.accept()  # one good one, and counting begins anew
    wanted = [source.fail() for _ in range(6)]
    assert wanted == ([False, False, True] * 2 if policy == "reset" else [False] * 6)
    status = source.status()
    assert status["state"] == ("active" if policy == "reset" else "distrusted")
    assert status["resets"] == (2 if policy == "reset" else 0)
    assert (status["fused"], status["rejected"], status["reasons"]) == (2, 8, {"gate": 8})
