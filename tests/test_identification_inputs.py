"""Interpolation of recorded inputs between their samples."""

import numpy as np
import pytest
from drives_rig import TEXT, prototype_file

from vehicled.configuration import configure
from vehicled.identification.vehicle.recorded_inputs import (
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
