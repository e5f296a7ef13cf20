"""What drives tell of parameters: found where they can be, named where not."""

import dataclasses

import pytest
from drives_rig import TEXT, changed, drive, mixed, prototype_file

from vehicled.configuration import configure
from vehicled.identification.vehicle.estimate import fit
from vehicled.identification.vehicle.names import PARAMETERS, apply
from vehicled.identification.vehicle.noise import NOISE
from vehicled.identification.vehicle.prediction_error import Drive, measure
from vehicled.simulation.manoeuvres import Initial
from vehicled.simulation.scenario import Inputs, Scenario

SPEED = 15.0


def silent(*_):
    pass


def kept(steps) -> Drive:
    return Drive.of(configure(prototype_file(), TEXT), steps)


def found(steps, *names):
    estimate = fit(prototype_file(), TEXT, [PARAMETERS[n] for n in names], [kept(steps)], silent)
    return estimate, {f.parameter.name: f for f in estimate.found}


@pytest.fixture(scope="module")
def corners():
    """A drive with corners of a car that is heavier and has other tyres than thought."""
    truth = changed(mass=0.12, front__tyre_stiffness=-0.15, rear__tyre_stiffness=0.1)
    return truth, drive(truth, mixed(16.0))


@pytest.fixture(scope="module")
def fitted(corners):
    truth, steps = corners
    return truth, *found(steps, "mass", "front.tyre_stiffness", "rear.tyre_stiffness")


@pytest.mark.parametrize("name", ["mass", "front.tyre_stiffness", "rear.tyre_stiffness"])
def test_a_perturbed_car_is_found(fitted, name):
    truth, _, parameters = fitted
    one, true = parameters[name], PARAMETERS[name].get(truth)
    assert one.identified
    assert abs(one.value - true) < 3 * one.sigma
    # Sixteen seconds, the first of them straight on.
    assert one.value == pytest.approx(true, rel=0.05)
    assert one.sigma < 0.25 * one.parameter.sigma * one.prior


def test_another_drive_is_predicted_better(fitted):
    truth, estimate, _ = fitted
    inputs = Inputs(
        rack=[(1.0, 0.0), (1.4, 0.012), (4.0, 0.012), (4.4, -0.01), (7.0, -0.01)], rear_torque=150.0
    )
    other = kept(drive(truth, Scenario(duration=8.0, initial=Initial(speed=SPEED), inputs=inputs), seed=9))
    before, after = (measure(configure(f, TEXT), other) for f in (prototype_file(), estimate.file))
    # By far more than a few units of chance, which three free numbers could make.
    assert after.criterion < before.criterion - 50.0


def test_straight_on_tells_nothing_of_friction():
    inputs = Inputs(rear_torque=[(1.0, 100.0), (2.0, 500.0), (6.0, 500.0), (7.0, 0.0)])
    steps = drive(prototype_file(), Scenario(duration=8.0, initial=Initial(speed=SPEED), inputs=inputs))
    _, parameters = found(steps, "mass", "front.friction", "steering.offset")
    friction = parameters["front.friction"]
    assert not friction.identified
    assert "less" in friction.reason
    assert friction.value == friction.prior
    assert parameters["mass"].identified


def test_what_only_a_combination_tells_is_named(corners):
    _, steps = corners
    # The same number twice.
    doubled = dataclasses.replace(PARAMETERS["front.tyre_stiffness"], name="again")
    both = [PARAMETERS["front.tyre_stiffness"], doubled]
    estimate = fit(prototype_file(), TEXT, both, [kept(steps)], silent)
    (left,) = [f for f in estimate.found if not f.identified]
    (kept_one,) = [f for f in estimate.found if f.identified]
    assert "only together" in left.reason
    assert left.value == pytest.approx(kept_one.value)  # it is the same number, found through the other
    (combination,) = estimate.combinations
    assert set(combination.weights) == {"front.tyre_stiffness", "again"}
    first, second = combination.weights.values()
    assert first == pytest.approx(-second)


def test_noise_is_found():
    """Sensors of known noise, settings that think otherwise."""
    scenario = Scenario(
        duration=9.0, initial=Initial(speed=SPEED), inputs=Inputs(rack=[(1.0, 0.0), (2.0, 0.005)])
    )
    steps = drive(prototype_file(), scenario)
    names = ["gyro.noise", "accel.noise", "vehicle_speed.noise"]
    parameters = [NOISE[n] for n in names]
    wrong = apply(prototype_file(), parameters, [1.0, 1.0, -1.0])
    estimate = fit(wrong, TEXT, parameters, [Drive.of(configure(wrong, TEXT), steps)], silent)
    values = {f.parameter.name: f for f in estimate.found}
    # What the simulated sensors have; the accelerometer's own, as settings say, and quantisation of the speed.
    for name, true in (("gyro.noise", 0.002), ("accel.noise", 0.05), ("vehicle_speed.noise", 0.03)):
        assert values[name].value == pytest.approx(true, rel=0.15), name
    for sensor in ("imu.gyro", "imu.accel", "vehicle.speed"):
        assert abs(estimate.after.sensors[sensor].mean_nis - 1.0) < 0.25
        assert abs(estimate.before.sensors[sensor].mean_nis - 1.0) > 0.3
