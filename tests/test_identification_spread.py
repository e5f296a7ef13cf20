"""Monte Carlo study of `identify`: errors compared with their standard deviations.

A search in each drive takes minutes. Near the truth the criterion is quadratic: Gauss–Newton steps lead to the
estimate, and the derivatives there give the standard deviations that a fit reports. Those at the truth would be twice
as large: a bias of the steering that is not estimated affects all parameters, with the opposite sign in each bend.
"""

import dataclasses

import numpy as np
import pytest
from drives_rig import TEXT, drive, prototype_file

from vehicled.configuration import configure
from vehicled.identification.vehicle.estimate import Search, make_result
from vehicled.identification.vehicle.names import PARAMETERS, choose
from vehicled.identification.vehicle.prediction_error import ScoredDrive
from vehicled.identification.vehicle.recorded_inputs import interpolate_inputs, without_smoothing
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SEEDS = range(12)
PLANT_NOISE = 0.03
"""Plant noise that `identify` finds on such drives of a plant without errors."""


def winding() -> Scenario:
    """12 s of bends to both sides from 15 m/s, accelerating and braking, with all errors of the sensors."""
    rack = [
        *((0.5, 0.0), (1.0, 6e-3), (2.0, 6e-3), (2.6, -7e-3), (3.6, -7e-3), (4.2, 4e-3), (5.5, 4e-3)),
        *((6.0, -8e-3), (7.0, -8e-3), (7.5, 7e-3), (8.5, 7e-3), (9.2, 0.0), (10.0, -6e-3), (11.0, -6e-3)),
        (12.0, 6e-3),
    ]
    torque = [
        *((0.0, 0.0), (1.5, 500.0), (4.0, 500.0), (4.2, 0.0), (7.0, 0.0), (7.3, 600.0)),
        *((10.0, 600.0), (10.2, 100.0)),
    ]
    brief = [(4.5, 0.0), (4.8, 25e5), (6.2, 25e5), (6.4, 0.0)]
    inputs = DriveInputs(
        rack=rack,
        rear_torque=torque,
        brake_pressure=[*brief, (10.4, 0.0), (10.6, 20e5), (11.5, 20e5), (11.7, 0.0)],
    )
    return Scenario(duration=12.0, initial=InitialMotion(speed=15.0, yaw=0.5), inputs=inputs)


def calc_errors(search: Search, seed: int) -> np.ndarray:
    """(p,) errors of the estimates in standard deviations. The file's values have random errors of their own σ.

    Without the offset of the steering, whose true value is the drawn bias.
    """
    free = np.ones(len(search.parameters), bool)
    precision = np.diag(1.0 / search.sigma**2)
    off = search.sigma * np.random.default_rng(seed).standard_normal(len(free))
    for _ in range(2):
        _, derivatives = search.evaluate(search.theta, free)
        search.redundancy = search.find_redundancy(derivatives)
        own = search.of_free(derivatives)
        right = precision @ (off - search.theta) - own.gradient / search.redundancy
        step = np.linalg.solve(own.information / search.redundancy + precision, right)
        found = make_result(search, derivatives, free, {}, []).found
        search.theta = search.theta + step
    kept = [k for k, p in enumerate(search.parameters) if p.positive]
    return search.theta[kept] / [found[k].sigma / found[k].value for k in kept]


def test_errors_of_identified_parameters_are_consistent_with_sigma() -> None:
    """σ is right to a quarter over all parameters; twelve drives allow only wider bounds for a single parameter."""
    file = without_smoothing(prototype_file())
    names = "mass", "inertia.yaw", "front.tyre_stiffness", "rear.tyre_stiffness"
    errors = []
    for seed in SEEDS:
        steps = drive(prototype_file(), winding(), seed)
        scored = ScoredDrive.of(configure(prototype_file(), TEXT), steps)
        inputs = interpolate_inputs(steps, prototype_file().sensors.steering.smoothing)
        exact = dataclasses.replace(scored, steps=inputs)
        parameters, considered = (
            [PARAMETERS[n] for n in (*names, "steering.offset")],
            choose("torque_gain", file),
        )
        search = Search(file, TEXT, parameters, considered, [exact], lambda *_: None, None)
        search.plant_noise = PLANT_NOISE
        errors.append(calc_errors(search, seed))
    assert 0.75 < np.sqrt(np.mean(np.square(errors))) < 1.25
    spread = dict(zip(names, np.sqrt(np.mean(np.square(errors), axis=0)), strict=True))
    assert all(0.45 < s < 1.5 for s in spread.values()), spread
    assert np.abs(errors).max() < 3.5
