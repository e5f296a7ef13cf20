"""The suspensions' errors as optional states."""

import dataclasses

import numpy as np
import pytest

from vehicled.configuration import load_configuration
from vehicled.errors import UsageError
from vehicled.estimator import Estimator
from vehicled.filter.settings import Suspension
from vehicled.vehicle.car import Car


@pytest.fixture(scope="module")
def configuration():
    return load_configuration("prototype")


def test_correct_suspension_changes_travel_and_rate_by_its_arguments(configuration):
    car = Car(configuration.vehicle)
    car.report()
    before = car.corner_output("suspension.deflection").copy()
    travel, rate = np.array([1e-3, -1e-3, 2e-3, 0.0]), np.array([0.01, 0.0, -0.03, 0.02])
    car.correct_suspension(travel, rate)
    car.report()
    assert car.corner_output("suspension.deflection") - before == pytest.approx(travel, abs=2e-6)
    assert car.corner_output("suspension.rate") == pytest.approx(rate, abs=2e-4)


def test_the_constraint_violation_is_of_second_order_in_the_travel(configuration):
    losses = []
    for size in (1e-3, 2e-3):
        car = Car(configuration.vehicle)
        car.correct_suspension(np.full(4, size), np.zeros(4))
        car.call(car.kernels.step.recover)
        losses.append(car.constraint_violation())
    assert losses[1] / losses[0] == pytest.approx(4.0, rel=0.1)


def test_states_cannot_be_added_or_removed_while_the_filter_runs(configuration):
    estimator = Estimator(configuration)
    arguments = configuration.noise_arguments()
    arguments["filter"]["suspension"] = dataclasses.asdict(Suspension())
    with pytest.raises(UsageError, match=r"suspension.*takes a restart"):
        estimator.command("reload_noise", arguments)
    arguments = configuration.noise_arguments()
    arguments["filter"]["unknowns"]["steering_offset"] = 0.0
    with pytest.raises(UsageError, match="steering_offset, which takes a restart"):
        estimator.command("reload_noise", arguments)
