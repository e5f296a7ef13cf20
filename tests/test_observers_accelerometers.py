"""Accelerometers in every kind of observer: readings depend on the state through the equations of motion too."""

import numpy as np
import pytest

import vehicled
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import Accelerometer, Encoder, SensorSet
from vehicled.studies.observers.factory import KINDS
from vehicled.studies.observers.linearised import calc_state_sensitivity

PANTOGRAPH = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {O: 0 0 m, K: -0.5 -1.2 m}}
points: {A: 0.5 0.3 m, B: -0.1 -0.7 m, C: 0.4 -0.4 m, P: 0.3 -1.1 m}
angles: {a: {between: [x, [O, A]]}, b: {between: [x, [O, B]]}}
bodies:
  left: {kind: bar, points: [O, A], mass: 1.2 kg}
  right: {kind: bar, points: [O, B], mass: 2 kg}
  long: {kind: rigid, points: {A: 0.5 0.3 m, C: 0.4 -0.4 m, P: 0.3 -1.1 m}, mass: 1.5 kg,
    center_of_mass: 0.4 -0.4 m, inertia: 0.25 kg·m²}
  cross: {kind: bar, points: [B, C], mass: 0.6 kg}
forces:
  spring: {kind: spring, points: [P, K], stiffness: 30 N/m, damping: 0.4 N·s/m, free_length: 0.4 m}
  hinge: {kind: torsion_spring, angle: a, stiffness: 12 N·m/rad, damping: 0.3 N·m·s/rad, free_angle: 60 deg}
independent: [a, b]
"""
STEP = 5e-3


def make_sensors() -> SensorSet:
    return SensorSet([Encoder("a", np.radians(0.5)), Accelerometer("P", ("A", "P"), 0.1)])


def test_sensitivity_to_the_state_is_that_of_whole_readings() -> None:
    sensors = make_sensors()
    m = Mechanism.parse(PANTOGRAPH, [sensors])
    z, zd = m.z.copy(), np.array([0.7, -1.1])

    def read(state: np.ndarray) -> np.ndarray:
        m.set_independent_state(state[:2], state[2:]).require("there")
        return sensors.calc_readings(m)

    state, step = np.concatenate([z, zd]), 1e-6
    differences = [(read(state + e) - read(state - e)) / (2.0 * step) for e in step * np.eye(4)]
    read(state)
    np.testing.assert_allclose(calc_state_sensitivity(m, sensors).T, differences, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_consistent_with_an_accelerometer(kind: str) -> None:
    sensors = make_sensors()
    truth, model = (Mechanism.parse(PANTOGRAPH, [sensors]) for _ in range(2))
    rng = np.random.default_rng(77)
    offsets = 0.05 * rng.standard_normal((2, 2))
    model.set_independent_state(model.z + offsets[0], model.zd + offsets[1]).require("the start")
    density = 10.0 if kind in ("errorEKF_FE", "errorEKF_AFE", "errorEKF_SFE") else 0.5
    observer = vehicled.make_observer(
        kind, model, sensors, STEP, start_sigma=0.05, density=density, euler_density=1e-4
    )
    stepper, nees = vehicled.make_stepper("ali3p"), []
    for k in range(500):
        stepper.step(truth, STEP).require("the truth")
        noise = sensors.sigma * rng.standard_normal(2)
        observer.step(sensors.calc_readings(truth) + noise if k % 2 == 0 else None)
        if k >= 100:
            nees.append(np.mean(((observer.z - truth.z) / observer.z_deviation) ** 2))
    assert np.mean(nees) < 4.0
