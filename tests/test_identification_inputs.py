"""Interpolation of recorded inputs between their samples."""

import numpy as np
import pytest
from drives_rig import TEXT, prototype_file

from vehicled.configuration import configure
from vehicled.identification.vehicle import session
from vehicled.identification.vehicle.estimate import FitResult
from vehicled.identification.vehicle.names import put_at
from vehicled.identification.vehicle.prediction_error import ScoredDrive
from vehicled.identification.vehicle.recorded_inputs import (
    find_pressures,
    interpolate_inputs,
    with_smoothing,
    without_smoothing,
)
from vehicled.messages import Measurement, Step
from vehicled.sources.inputs.inputs import Inputs
from vehicled.vehicle.car import Car

PERIOD = 4_000_000
SMOOTHING = 0.02


def recording(seconds: float, signals, every: int = 3, noise: float = 0.0) -> list[Step]:
    """Steps with a sample of the inputs in every `every`-th one, which arrives a step after its measurement."""
    rng = np.random.default_rng(0)
    steps = []
    for k in range(round(seconds * 1e9 / PERIOD)):
        t = k * PERIOD
        measurements = [Measurement("imu", t, t, {"imu.ax": float(k)})]
        if k % every == 1:
            then = t - PERIOD
            values = {c: f(then * 1e-9) + noise * rng.normal() for c, f in signals.items()}
            measurements.append(Measurement("can", then, t, values | {"vehicle.speed": 20.0}))
        steps.append(Step(t, measurements))
    return steps


def inputs_of(steps: list[Step], channel: str) -> tuple[np.ndarray, np.ndarray]:
    found = [(s.t * 1e-9, m.values[channel]) for s in steps for m in s.measurements if channel in m.values]
    return tuple(np.array(x) for x in zip(*found, strict=True))


def test_inputs_between_samples_are_interpolated_without_delay():
    signals = {"steer.rack": lambda t: 0.02 * np.sin(6.0 * t), "torque.rl": lambda t: 300.0 * t}
    steps = interpolate_inputs(recording(2.0, signals), SMOOTHING)
    for channel, signal in signals.items():
        t, found = inputs_of(steps, channel)
        assert len(t) == len(steps)
        inside = (t > 0.05) & (t < 1.9)
        scale = np.ptp(signal(t))
        np.testing.assert_allclose(found[inside], signal(t[inside]), atol=3e-4 * scale)


def test_noise_of_the_steering_is_smoothed():
    steps = interpolate_inputs(recording(20.0, {"steer.rack": lambda t: 0.0}, noise=1e-4), SMOOTHING)
    _, found = inputs_of(steps, "steer.rack")
    assert 0.3e-4 < found.std() < 0.8e-4


def test_other_channels_and_times_stay_unchanged():
    given = recording(1.0, {"brake.pressure": lambda t: 1e5})
    steps = interpolate_inputs(given, SMOOTHING)
    assert [s.t for s in steps] == [s.t for s in given]
    for channel in ("imu.ax", "vehicle.speed"):
        for before, after in zip(inputs_of(given, channel), inputs_of(steps, channel), strict=True):
            np.testing.assert_array_equal(before, after)
    assert all(sum("brake.pressure" in m.values for m in s.measurements) == 1 for s in steps)


def test_without_inputs_nothing_changes():
    given = recording(1.0, {})
    assert interpolate_inputs(given, SMOOTHING) == given


def test_values_that_no_sensor_can_give_are_left_out():
    steps = recording(1.0, {"brake.pressure": lambda t: 1e30 if t > 0.5 else 1e5})
    _, found = inputs_of(interpolate_inputs(steps, SMOOTHING), "brake.pressure")
    assert set(found) == {1e5}


BRAKED = np.clip(np.sin(np.linspace(0.0, 20.0, 5000)) - 0.6, 0.0, None) * 5e6
"""Pa: the brakes are used three times, for a third of the time."""


@pytest.mark.parametrize("released", [0.0, 3e5])
@pytest.mark.parametrize("zero", [-2e4, 0.0, 2e4])
def test_released_brakes_have_no_pressure_and_used_ones_no_error_of_zero(zero: float, released: float):
    noise = 2e4 * np.random.default_rng(0).standard_normal(len(BRAKED))
    found = find_pressures(BRAKED + released + zero + noise, released) - released
    used, idle = BRAKED > 2e5, BRAKED == 0.0
    assert np.count_nonzero(found[idle]) < 5
    assert found[idle].mean() < 100.0  # with every positive reading counted, it would be 8 kPa and more
    assert (found - BRAKED)[used].mean() == pytest.approx(0.0, abs=1500.0)


def test_noise_of_a_pressure_sensor_that_gives_nothing_below_zero_does_not_brake():
    noise = 2e4 * np.random.default_rng(0).standard_normal(len(BRAKED))
    found = find_pressures(np.maximum(BRAKED + noise, 0.0), 0.0)
    assert found[BRAKED == 0.0].mean() < 100.0


def test_brakes_that_are_never_released_keep_their_pressure():
    readings = np.full(100, 2e5)
    np.testing.assert_array_equal(find_pressures(readings, 0.0), readings)
    assert find_pressures(np.zeros(0), 0.0).size == 0


def test_the_model_is_not_braked_by_the_noise_of_a_pressure_sensor():
    steps = recording(20.0, {"brake.pressure": lambda t: 4e6 if 12.0 < t < 14.0 else 1e4}, noise=2e4)
    t, found = inputs_of(interpolate_inputs(steps, SMOOTHING), "brake.pressure")
    assert found[t < 11.9].mean() < 100.0
    assert found[(t > 12.1) & (t < 13.9)].mean() == pytest.approx(3.99e6, abs=5e3)


def test_identify_finds_the_zero_of_the_pressure_beside_the_configured_one(monkeypatch):
    seen: list[ScoredDrive] = []

    def fit(file, text, parameters, drives, *others, **more) -> FitResult:
        seen.extend(drives)
        return FitResult([], [], file, 1.0, 0, 1.0)

    monkeypatch.setattr(session, "fit", fit)
    file = put_at(prototype_file(), ("sensors", "brake_pressure", "offset"), 3e5)
    steps = recording(4.0, {"brake.pressure": lambda t: 3.1e5}, noise=5e3)
    session.identify(file, TEXT, [], [ScoredDrive(steps, frozenset())], lambda *_: None)
    _, found = inputs_of(list(seen[0].steps), "brake.pressure")
    assert np.mean(found == 3e5) > 0.99


def test_interpolated_inputs_reach_the_model_without_smoothing():
    file = without_smoothing(prototype_file())
    sensors = configure(file, TEXT).sensors
    car = Car(file.vehicle)
    inputs = Inputs(car, sensors)
    for k in range(20):
        t = k * PERIOD
        inputs.take(t, {"steer.rack": 0.001 * k})
        inputs.apply(t * 1e-9)
        assert abs(car.inputs[0]) == pytest.approx(0.001 * k, abs=1e-12)
    assert abs(car.inputs[1]) == pytest.approx(0.25, rel=1e-6)
    smoothing = prototype_file().sensors.steering.smoothing
    assert with_smoothing(file, smoothing) == prototype_file()
