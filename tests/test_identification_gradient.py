"""Derivatives of the prediction error, in one pass, against differences of whole drives."""

import numpy as np
import pytest
from drives_rig import TEXT, bend, changed, drive, prototype_file

from vehicled.configuration import configure
from vehicled.identification.vehicle.names import PARAMETERS, apply
from vehicled.identification.vehicle.noise import NOISE
from vehicled.identification.vehicle.observed import Change
from vehicled.identification.vehicle.prediction_error import ScoredDrive, differentiate, measure

KNOWN = PARAMETERS | NOISE
NAMES = (
    *("mass", "center_of_mass.z", "front.tyre_stiffness", "rear.wheel_radius"),
    *("imu.yaw", "gyro_offset.z", "gyro.noise", "plant.yaw"),
)
"""As many parameters as the narrowest code for derivatives has room for; other tests use the same code."""


def configuration(name: str, theta: float):
    return configure(apply(prototype_file(), [KNOWN[name]], [theta]), TEXT)


@pytest.fixture(scope="module")
def pass_of_all():
    """A drive, its prediction error, and gradient and information at the prototype's values."""
    steps = drive(changed(front__tyre_stiffness=-0.1), bend(3.5), seed=7)
    file = configure(prototype_file(), TEXT)
    kept = ScoredDrive.of(file, steps)
    changes = [Change(configuration(n, KNOWN[n].step), KNOWN[n].step) for n in NAMES]
    error, derivatives = differentiate(file, changes, kept)
    return kept, error, derivatives


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_gradient_is_that_of_central_differences(pass_of_all, name):
    kept, _, derivatives = pass_of_all
    k = NAMES.index(name)
    # A small part of the standard deviation, so that no gate opens or closes in between; with a tenth of it, rounding
    # in the criterion makes 0.1 % of the difference.
    step = min(1e-3 / np.sqrt(derivatives.information[k, k]), KNOWN[name].step)
    ends = [measure(configuration(name, sign * step), kept).criterion for sign in (1.0, -1.0)]
    difference = (ends[0] - ends[1]) / (2 * step)
    scale = np.sqrt(derivatives.information[k, k])
    assert derivatives.gradient[k] == pytest.approx(difference, rel=2e-3, abs=2e-3 * scale)


@pytest.mark.slow
def test_the_differentiated_estimator_predicts_the_same_as_the_plain_one(pass_of_all):
    kept, error, _ = pass_of_all
    plain = measure(configure(prototype_file(), TEXT), kept)
    assert error.criterion == pytest.approx(plain.criterion, rel=1e-9)
    assert {n: s.count for n, s in error.sensors.items()} == {n: s.count for n, s in plain.sensors.items()}


@pytest.mark.slow
def test_blocks_of_the_gradient_add_up(pass_of_all):
    _, _, derivatives = pass_of_all
    np.testing.assert_allclose(derivatives.blocks.sum(axis=0), derivatives.gradient, rtol=1e-9)
    # Each block is a second; the first second is left out.
    assert len(derivatives.blocks) >= 3
