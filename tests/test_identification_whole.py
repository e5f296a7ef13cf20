"""Whole identification: a mechanism is driven, its motion is recorded, and its parameters are identified."""

import numpy as np
import pytest
from mechanism_rig import mechanism

from vehicled.identification import base
from vehicled.identification.least_squares import estimate
from vehicled.identification.motions import Motion, observe
from vehicled.identification.regressors import CoulombFriction, Regressor, ViscousFriction, spring_columns
from vehicled.identification.symbolic_base import find_symbolic_base
from vehicled.multibody.formulations import make_stepper

ARM = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m, C: -0.4 0.6 m}}
points: {P: 0.7 0.1 m, Q: 1.0 -0.3 m}
angles:
  shoulder: {between: [x, [A, P]]}
  elbow: {between: [[A, P], [P, Q]]}
bodies:
  upper: {kind: rigid, points: {A: 0 0 m, P: 0.7 0 m}, markers: {S: 0.3 0.05 m},
          mass: 3 kg, center_of_mass: 0.32 0.02 m, inertia: 0.14 kg·m²}
  lower: {kind: rigid, points: {P: 0 0 m, Q: 0.5 0 m}, mass: 1.4 kg, center_of_mass: 0.2 -0.01 m, inertia: 0.04 kg·m²}
forces:
  cord: {kind: spring, points: [C, S], stiffness: 90 N/m, damping: 3 N·s/m, free_length: 0.5 m}
FRICTION
independent: [shoulder, elbow]
"""
FRICTION = """
  oil: {kind: on_coordinate, coordinate: shoulder, force: -0.8*rate(shoulder)}
  seal: {kind: on_coordinate, coordinate: elbow, force: -0.5*tanh(1e5*rate(elbow))}
"""


@pytest.fixture(scope="module")
def recorded():
    """A motion by forward dynamics under torques at both joints, and these torques."""
    m = mechanism(ARM.replace("FRICTION", FRICTION))
    stepper = make_stepper("matrix_r", "runge_kutta_4")
    joints = [m.index("shoulder"), m.index("elbow")]
    rows, drives = [], []
    for k in range(600):
        m.applied[joints] = 8.0 * np.sin(3.1 * m.t) + 6.0, 3.0 * np.cos(4.3 * m.t)
        stepper.step(m, 5e-3).require("step")
        if k % 4 == 0:
            rows.append((m.t, m.q.copy(), m.qd.copy(), m.qdd.copy()))
            drives.append(m.applied[m.independent].copy())
    t, q, qd, qdd = (np.array(part) for part in zip(*rows, strict=True))
    return Motion(t, q, qd, qdd), np.array(drives)


def test_inertia_springs_and_friction_of_a_driven_arm_are_identified(recorded):
    """The description used for identification has no friction."""
    motion, drives = recorded
    m = mechanism(ARM.replace("FRICTION", ""))
    columns = [ViscousFriction("shoulder"), CoulombFriction("elbow"), *spring_columns(m)]
    regressor = Regressor(m, columns)
    observed = observe(regressor, motion, drives)
    rows, forces = observed.stacked, observed.forces.ravel()
    found = base.find_base_by_qr(rows)
    symbolic = find_symbolic_base(m).base
    # The further columns are independent of the inertial ones.
    assert len(found.independent) == len(symbolic.independent) + 4
    chosen = [*symbolic.independent, *range(regressor.inertial, rows.shape[1])]
    values = estimate(rows[:, chosen], forces).values
    inertial, others = np.split(values, [len(symbolic.independent)])
    assert inertial == pytest.approx(symbolic.combine(regressor.values[: regressor.inertial]), rel=1e-6)
    assert others == pytest.approx([0.8, 0.5, 90.0, 3.0], rel=1e-6)


def test_the_spread_of_estimates_by_noise_agrees_with_their_covariance(recorded):
    motion, drives = recorded
    m = mechanism(ARM.replace("FRICTION", ""))
    regressor = Regressor(m, [ViscousFriction("shoulder"), CoulombFriction("elbow"), *spring_columns(m)])
    symbolic = find_symbolic_base(m).base
    w, forces = observe(regressor, motion, drives).on_coordinates()
    chosen = [*symbolic.independent, *range(regressor.inertial, w.shape[-1])]
    true = [*symbolic.combine(regressor.values[: regressor.inertial]), 0.8, 0.5, 90.0, 3.0]
    random, sigma = np.random.default_rng(0), np.array([0.3, 0.1])
    scores = []
    for _ in range(200):
        noisy = forces + sigma * random.normal(size=forces.shape)
        found = estimate(w.reshape(-1, w.shape[-1])[:, chosen], noisy.ravel(), np.tile(sigma, len(w)))
        scores.append((found.values - true) / found.deviations)
    assert np.std(scores, axis=0) == pytest.approx(np.ones(len(chosen)), abs=0.2)
    assert np.mean(scores, axis=0) == pytest.approx(np.zeros(len(chosen)), abs=0.25)
