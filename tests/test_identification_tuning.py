"""Tuning starts from the noise that samples show, leaves unexcited parameters, and keeps only validated values."""

import dataclasses

import numpy as np
import pytest
from drives_rig import TEXT, drive, mixed, prototype_file

from vehicled.configuration import configure
from vehicled.identification.vehicle.adapted import (
    DriveMotion,
    calc_excitation,
    calc_sample_variance,
    find_start,
    find_unexcited,
    observe,
)
from vehicled.identification.vehicle.estimate import FitResult, FoundParameter
from vehicled.identification.vehicle.names import apply, choose
from vehicled.identification.vehicle.noise import NOISE, OF_SENSORS, SETTINGS
from vehicled.identification.vehicle.plausibility import Channels
from vehicled.identification.vehicle.prediction_error import (
    PredictionError,
    ScoredDrive,
    SensorError,
    measure,
)
from vehicled.identification.vehicle.session import keep_validated
from vehicled.identification.vehicle.tuning import describe_bounds, tune
from vehicled.messages import Measurement, Step
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario

SPEED = SETTINGS["vehicle_speed.noise"]
TRUE = {"gyro.noise": 0.002, "accel.noise": 0.05, "vehicle_speed.noise": 0.03}
"""Noise of the simulated sensors."""


def samples(values, period: float = 0.01, channel: str = "vehicle.speed") -> Channels:
    times = [round(k * period * 1e9) for k in range(len(values))]
    measured = [Measurement("test", t, t, {channel: v}) for t, v in zip(times, values, strict=True)]
    return Channels([Step(m.t, [m], ()) for m in measured])


def braking(count: int) -> np.ndarray:
    t = 0.01 * np.arange(count)
    return 20.0 + 3.0 * np.sin(2.0 * t)


def test_noise_of_samples_is_separated_from_the_motion_of_the_car():
    noise = 0.03 * np.random.default_rng(0).standard_normal(3000)
    assert calc_sample_variance([samples(braking(3000) + noise)], SPEED) == pytest.approx(0.03**2, rel=0.1)
    noise[::500] += 30.0  # a few outliers
    assert calc_sample_variance([samples(braking(3000) + noise)], SPEED) == pytest.approx(0.03**2, rel=0.2)


def test_samples_without_visible_noise_give_no_start():
    assert calc_sample_variance([samples(np.full(3000, 7.0))], SPEED) is None
    assert calc_sample_variance([samples(braking(50))], SPEED) is None
    assert calc_sample_variance([samples(braking(3000), channel="imu.ax")], SPEED) is None
    # Errors by the teeth of a ring are not white.
    assert SETTINGS["wheel_angles.noise"].channels == ()


def motion(speed, yaw_rate) -> DriveMotion:
    count = 2500
    t = 4_000_000 * np.arange(1, count + 1)
    as_array = [np.broadcast_to(np.asarray(x, float), count) for x in (speed, yaw_rate)]
    return DriveMotion(t, *as_array, np.ones((count, 4)))


def test_parameters_that_a_drive_does_not_excite_are_named():
    parameters = list(NOISE.values())
    straight = find_unexcited(parameters, [motion(20.0, 0.001)])
    assert {"plant.yaw", "plant.roll", "unmodelled.lateral", "unmodelled.yaw"} <= straight.keys()
    assert {"plant.pitch", "plant.longitudinal", "unmodelled.longitudinal"} <= straight.keys()
    assert "turns" in straight["plant.yaw"]
    assert straight.keys().isdisjoint(OF_SENSORS)
    turning = find_unexcited(parameters, [motion(20.0, 0.2)])
    assert "plant.yaw" not in turning
    assert "accelerates" in turning["plant.pitch"]
    speeds = 10.0 + 2.0 * 0.004 * np.arange(2500)
    assert "plant.pitch" not in find_unexcited(parameters, [motion(speeds, 0.0)])
    assert calc_excitation([motion(speeds, 0.1)])["ahead"] == pytest.approx(2.0, rel=0.2)
    # One drive of several is enough.
    assert not find_unexcited(parameters, [motion(20.0, 0.0), motion(speeds, 0.5)])


class HeldOut:
    """A held-out drive on which each change of noise improves the prediction by its `worth`."""

    def __init__(self, **worth: float) -> None:
        self.file = prototype_file(tuning=True)
        self.worth = {name.replace("__", "."): w for name, w in worth.items()}
        found = [self._make_found(NOISE[name]) for name in self.worth]
        self.estimate = FitResult(
            found, [], apply(self.file, [f.parameter for f in found], [0.5] * len(found)), 1.0, 3, 1.0
        )

    def _make_found(self, parameter) -> FoundParameter:
        prior = parameter.get(self.file)
        return FoundParameter(parameter, prior, parameter.value(prior, 0.5), 0.01, True)

    def validate(self, file) -> PredictionError:
        gained = sum(w for n, w in self.worth.items() if NOISE[n].get(file) != NOISE[n].get(self.file))
        # Changes of the model's noise make the prediction of the few positions worse.
        model = any(NOISE[n].get(file) != NOISE[n].get(self.file) for n in self.worth if n not in OF_SENSORS)
        return PredictionError(
            {
                "imu.gyro": SensorError(count=1000, likelihood=-1000.0 * gained),
                "gnss.position": SensorError(count=10, likelihood=1.0 if model and gained > 1.0 else 0.0),
            }
        )

    def keep(self):
        return keep_validated(self.file, self.estimate, self.validate)


def identified(estimate: FitResult) -> set[str]:
    return {f.parameter.name for f in estimate.found if f.identified}


def test_noise_that_improves_the_prediction_is_kept():
    held_out = HeldOut(gyro__noise=0.1, plant__yaw=0.1)
    estimate, before, after, choices = held_out.keep()
    assert (choices, identified(estimate)) == (0, {"gyro.noise", "plant.yaw"})
    assert estimate.file == held_out.estimate.file
    assert after.mean < before.mean


@pytest.mark.parametrize("yaw", [-0.2, 2.0])
def test_noise_of_sensors_is_kept_without_that_of_the_model(yaw):
    """The noise of the model makes the whole prediction worse, or only that of the few positions."""
    held_out = HeldOut(gyro__noise=0.1, plant__yaw=yaw)
    estimate, before, after, choices = held_out.keep()
    assert (choices, identified(estimate)) == (1, {"gyro.noise"})
    assert NOISE["plant.yaw"].get(estimate.file) == NOISE["plant.yaw"].get(held_out.file)
    assert after.mean < before.mean
    (left,) = [f for f in estimate.found if not f.identified]
    assert "does not hold" in left.reason
    assert left.value == left.prior


def test_nothing_is_kept_that_makes_another_drive_worse():
    held_out = HeldOut(gyro__noise=-0.1, plant__yaw=-0.1)
    estimate, before, after, choices = held_out.keep()
    assert (choices, identified(estimate)) == (2, set())
    assert estimate.file == held_out.file
    assert dataclasses.asdict(after) == dataclasses.asdict(before)


def test_noise_at_its_lower_bound_is_reported():
    file = prototype_file()

    def found(name: str, factor: float) -> FoundParameter:
        prior = NOISE[name].get(file)
        return FoundParameter(NOISE[name], prior, factor * prior, 0.01, True)

    assert not describe_bounds([found("gyro.noise", 0.5), found("plant.roll", 0.51)])
    (note,) = describe_bounds([found("gyro.noise", 0.5), found("plant.roll", 0.51), found("plant.yaw", 0.5)])
    assert note.startswith("plant.yaw: the drives show less")


@pytest.fixture(scope="module")
def turns():
    inputs = DriveInputs(rack=[(1.0, 0.0), (2.0, 0.005)])
    return drive(prototype_file(), Scenario(duration=9.0, initial=InitialMotion(speed=15.0), inputs=inputs))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [5.0, 0.2])
@pytest.mark.parametrize("name", TRUE)
def test_noise_is_found_from_values_that_are_far_off(turns, name, factor):
    parameters = choose("*.noise,plant.yaw,plant.roll,unmodelled.lateral", prototype_file(tuning=True), NOISE)
    wrong = apply(prototype_file(tuning=True), [NOISE[name]], [np.log(factor)])
    seen = observe(configure(wrong, TEXT), ScoredDrive(turns, frozenset()))
    drives = [ScoredDrive(turns, seen.counting)]
    start, unexcited = find_start(parameters, wrong, drives, [seen]), find_unexcited(parameters, [seen])
    assert "plant.yaw" not in unexcited
    estimate = tune(wrong, TEXT, parameters, drives, lambda *_: None, start, unexcited)
    found = {f.parameter.name: f for f in estimate.found}
    for each, true in TRUE.items():
        assert found[each].identified
        assert true / 1.5 < found[each].value < 1.5 * true, each
    before, after = (measure(configure(f, TEXT), drives[0]) for f in (wrong, estimate.file))
    assert after.is_better_than(before)
    assert 0.6 < after.sensors["vehicle.speed"].mean_nis < 1.4


@pytest.mark.slow
def test_a_parameter_that_is_not_excited_keeps_its_value():
    steps = drive(
        prototype_file(), Scenario(duration=6.0, initial=InitialMotion(speed=20.0), inputs=DriveInputs())
    )
    file = prototype_file(tuning=True)
    parameters = choose("gyro.noise,unmodelled.lateral", file, NOISE)
    seen = observe(configure(file, TEXT), ScoredDrive(steps, frozenset()))
    unexcited = find_unexcited(parameters, [seen])
    drives = [ScoredDrive(steps, seen.counting)]
    start = find_start(parameters, file, drives, [seen])
    estimate = tune(file, TEXT, parameters, drives, lambda *_: None, start, unexcited)
    gyro, lateral = estimate.found
    assert gyro.identified
    assert (lateral.value, lateral.identified) == (lateral.prior, False)
    assert "turns" in lateral.reason


@pytest.mark.slow
def test_the_same_noise_is_found_from_different_values_of_the_file():
    """The files have a third of the prototype's noise, and three times as much."""
    steps = drive(prototype_file(), mixed(14.0))
    values = []
    for factor in (1 / 3, 3.0):
        names = [NOISE[n] for n in TRUE]
        given = apply(prototype_file(tuning=True), names, [np.log(factor)] * len(names))
        seen = observe(configure(given, TEXT), ScoredDrive(steps, frozenset()))
        drives = [ScoredDrive(steps, seen.counting)]
        start = find_start(names, given, drives, [seen])
        estimate = tune(given, TEXT, names, drives, lambda *_: None, start, {})
        values.append([f.value for f in estimate.found])
    assert values[0] == pytest.approx(values[1], rel=0.1)
