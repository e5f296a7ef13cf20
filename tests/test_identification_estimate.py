"""Estimation of parameters from drives: identifiable parameters are found, others are named."""

import dataclasses

import pytest
from drives_rig import TEXT, changed, drive, mixed, prototype_file

from vehicled.configuration import configure
from vehicled.identification.vehicle.estimate import fit
from vehicled.identification.vehicle.names import PARAMETERS, choose
from vehicled.identification.vehicle.prediction_error import ScoredDrive, measure
from vehicled.identification.vehicle.recorded_inputs import interpolate_inputs, without_smoothing
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario

SPEED = 15.0


def silent(*_):
    pass


def kept(steps) -> ScoredDrive:
    return ScoredDrive.of(configure(prototype_file(), TEXT), steps)


def found(steps, *names, considered=()):
    parameters, considered = (choose(",".join(n), prototype_file()) if n else [] for n in (names, considered))
    exact = dataclasses.replace(kept(steps), steps=interpolate_inputs(steps, 0.02))
    estimate = fit(without_smoothing(prototype_file()), TEXT, parameters, [exact], silent, considered)
    return estimate, {f.parameter.name: f for f in estimate.found}


@pytest.fixture(scope="module")
def corners():
    """A drive with corners of a car that is heavier and has other tyres than configured."""
    truth = changed(mass=0.12, front__tyre_stiffness=-0.15, rear__tyre_stiffness=0.1)
    return truth, drive(truth, mixed(16.0))


@pytest.fixture(scope="module")
def fitted(corners):
    truth, steps = corners
    return truth, *found(steps, "mass", "front.tyre_stiffness", "rear.tyre_stiffness")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mass", "front.tyre_stiffness", "rear.tyre_stiffness"])
def test_parameters_of_a_perturbed_car_are_found(fitted, name):
    truth, _, parameters = fitted
    one, true = parameters[name], PARAMETERS[name].get(truth)
    assert one.identified
    # 4 σ, not 3 σ, as σ does not include errors by the filter's approximations: 0.5 % of the mass.
    assert abs(one.value - true) < 4 * one.sigma
    # The drive has only 16 s, and begins straight on.
    assert one.value == pytest.approx(true, rel=0.02)
    assert one.sigma < 0.25 * one.parameter.sigma * one.prior


@pytest.mark.slow
def test_a_right_model_gives_a_small_plant_noise(fitted):
    _, estimate, _ = fitted
    assert estimate.plant_noise < 0.5


@pytest.mark.slow
def test_an_uncertain_torque_gain_increases_sigma_of_mass_and_tyres(corners, fitted):
    """A car with twice the mass and twice the forces would move in the same way, except for its springs."""
    _, steps = corners
    alone = fitted[2]
    names = ("mass", "front.tyre_stiffness", "rear.tyre_stiffness")
    _, with_doubt = found(steps, *names, considered=("torque_gain",))
    for name in names:
        one, doubt = alone[name], with_doubt[name]
        assert doubt.value == pytest.approx(one.value)
        relative = doubt.sigma / doubt.value
        assert relative > one.sigma / one.value
    mass = with_doubt["mass"]
    assert 0.4 * 0.005 < mass.sigma / mass.value < 2 * 0.005


@pytest.mark.slow
def test_another_drive_is_predicted_better(fitted):
    truth, estimate, _ = fitted
    inputs = DriveInputs(
        rack=[(1.0, 0.0), (1.4, 0.012), (4.0, 0.012), (4.4, -0.01), (7.0, -0.01)], rear_torque=150.0
    )
    other = kept(
        drive(truth, Scenario(duration=8.0, initial=InitialMotion(speed=SPEED), inputs=inputs), seed=9)
    )
    before, after = (measure(configure(f, TEXT), other) for f in (prototype_file(), estimate.file))
    # By far more than the few units that three free parameters can gain by chance.
    assert after.criterion < before.criterion - 50.0


@pytest.mark.slow
def test_friction_is_not_identified_when_driving_straight_on():
    inputs = DriveInputs(rear_torque=[(0.5, 100.0), (1.0, 500.0), (2.0, 500.0), (2.3, 0.0)])
    steps = drive(prototype_file(), Scenario(duration=2.5, initial=InitialMotion(speed=SPEED), inputs=inputs))
    _, parameters = found(steps, "mass", "front.friction")
    friction = parameters["front.friction"]
    assert not friction.identified
    assert "less" in friction.reason
    assert friction.value == friction.prior
    assert parameters["mass"].identified


@pytest.mark.slow
def test_parameters_identified_only_in_combination_are_named(corners):
    _, steps = corners
    # The same parameter twice.
    doubled = dataclasses.replace(PARAMETERS["front.tyre_stiffness"], name="again")
    both = [PARAMETERS["front.tyre_stiffness"], doubled]
    estimate = fit(prototype_file(), TEXT, both, [kept(steps)], silent)
    (left,) = [f for f in estimate.found if not f.identified]
    (kept_one,) = [f for f in estimate.found if f.identified]
    assert "only together" in left.reason
    assert left.value == pytest.approx(kept_one.value)  # it is the same parameter, found through the other
    (combination,) = estimate.combinations
    assert set(combination.weights) == {"front.tyre_stiffness", "again"}
    first, second = combination.weights.values()
    assert first == pytest.approx(-second, rel=0.05)
