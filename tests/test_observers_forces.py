"""Force estimation: errorEKF_FE with accelerometers, adapted, and with a shaping filter."""

from functools import cache

import numpy as np
import pytest

from vehicled.multibody import problems
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.formulations import Ali3p
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import Accelerometer, Encoder, Gyroscope, SensorSet
from vehicled.studies.benchmarks import observers as bench
from vehicled.studies.benchmarks.observer_cases import ObserverRun
from vehicled.studies.observers.error_state import ErrorStateObserver
from vehicled.studies.observers.likelihood import AdaptedNoise
from vehicled.studies.observers.linkage_errors import ForceLinkageErrors, ShapedForceLinkageErrors
from vehicled.studies.observers.noise import make_units

pytestmark = pytest.mark.slow

H = 5e-3
ENCODER = Encoder("theta", 0.01)
ACCELEROMETER = Accelerometer("Q", ("P", "Q"), 0.05)
KINDS = {ForceLinkageErrors: 3, ShapedForceLinkageErrors: 4}


@cache
def compile_four_bar(*sensors):
    instruments = SensorSet(sensors)
    return instruments, CompiledMechanism(load_description("four_bar"), (instruments,))


def make(kind, *sensors):
    instruments, compiled = compile_four_bar(*sensors)
    m = Mechanism(compiled)
    f, states = len(m.independent), KINDS[kind] * len(m.independent)
    driven = range(2 * f, states)
    noise = AdaptedNoise(make_units(states, driven), np.full(len(driven), 0.5))
    return ErrorStateObserver(kind(m, instruments, noise), H, 1e-2 * np.eye(states))


@pytest.mark.parametrize("kind", KINDS)
def test_observation_is_the_derivative_of_readings_through_the_dynamics(kind):
    o = make(kind, ENCODER, ACCELEROMETER, Gyroscope(("P", "Q"), 1e-3))
    m = o.mechanism
    for _ in range(40):
        o.step(None)
    problems.solve_dynamics(m)
    z, zd, state, force = m.z, m.zd, m.get_state(), m.applied.copy()

    def read(away):
        m.set_state(state)
        m.applied[:] = force
        problems.solve_position(m, z + away[:1])
        problems.solve_velocity(m, zd + away[1:2])
        r, _ = problems.calc_velocity_map(m)
        m.applied[m.independent] += r.T @ m.mass @ r @ away[2:3]
        problems.solve_dynamics(m)
        return o.model.sensors.calc_readings(m)

    read(np.zeros(4))
    observation = o.model.calc_observation()
    assert observation.shape == (3, KINDS[kind])
    for k in range(3):
        away = np.zeros(4)
        away[k] = 1e-5
        assert observation[:, k] == pytest.approx((read(away) - read(-away)) / 2e-5, rel=1e-4, abs=1e-4)
    assert not observation[:, 3:].any()


def shake(o, seconds=3.0):
    """Run an observer on a four-bar with a force that its model lacks. Return the errors of z, ż, z̈ and force (as
    acceleration) at each step, and the NIS of the innovations."""
    true, stepper, rng = Mechanism(o.mechanism.compiled), Ali3p(), np.random.default_rng(3)
    errors, nis = [], []
    for k in range(round(seconds / H)):
        r, _ = problems.calc_velocity_map(true)
        mass = r.T @ true.mass @ r
        lacking = 3.0 + 2.0 * np.sin(2.0 * k * H)
        true.applied[true.independent] = mass @ [lacking]
        stepper.step(true, H).require("four-bar")
        readings = o.model.sensors.calc_readings(true)
        nis.append(o.step(readings + o.model.sensors.sigma * rng.normal(size=len(readings))).nis)
        r, _ = problems.calc_velocity_map(o.mechanism)
        found = np.linalg.solve(r.T @ o.mechanism.mass @ r, o.mechanism.applied[o.mechanism.independent])
        pairs = ((o.z, true.z), (o.zd, true.zd), (o.zdd, true.zdd), (found, [lacking]))
        errors.append([float(a[0] - b[0]) for a, b in pairs])
    return np.array(errors), np.array(nis)


@pytest.mark.parametrize("kind", KINDS)
def test_an_accelerometer_improves_the_estimates_of_state_and_force(kind):
    without, _ = shake(make(kind, ENCODER))
    errors, nis = shake(make(kind, ENCODER, ACCELEROMETER))
    better = np.sqrt(np.mean(errors[200:] ** 2, axis=0) / np.mean(without[200:] ** 2, axis=0))
    assert (better < [0.8, 0.6, 0.6, 0.6]).all()
    # The force causes 1 to 5 rad/s²; its noise density is not known beforehand.
    assert np.sqrt(np.mean(errors[200:, 3] ** 2)) < 0.6
    assert 1.4 < np.mean(nis[200:]) < 2.8


@pytest.mark.parametrize(
    ("mechanism", "sensors", "rate"), [("four_bar", "crank_gyros", 10), ("five_bar", "coupler_gyros", 20)]
)
def test_force_estimation_is_better_on_linkages_with_wrong_forces(mechanism, sensors, rate):
    plain, *forces = (
        bench.run_case(ObserverRun(mechanism, sensors, rate, "L2", name, 3))
        for name in ("errorEKF", "errorEKF_FE", "errorEKF_AFE", "errorEKF_SFE")
    )
    for row in forces:
        assert row["position_rmse"] < 0.8 * plain["position_rmse"]
        assert row["velocity_rmse"] < 0.8 * plain["velocity_rmse"]
        assert row["repairs"] == 0
