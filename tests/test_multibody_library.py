"""Mechanisms from files: their motion in every formulation, against closed forms and against each other."""

from __future__ import annotations

import numpy as np
import pytest

from vehicled.multibody.checks import calc_topology
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism

FITTING = [
    ("ali3p", "trapezoidal", 2),
    *((f, i, o) for f in ("matrix_r", "penalty", "lagrange") for i, o in
      (("trapezoidal", 2), ("forward_euler", 1), ("runge_kutta_4", 4))),
]  # fmt: skip


def run(name, formulation, integrator, h, duration):
    mechanism = Mechanism.load(name)
    stepper = make_stepper(formulation, integrator)
    for _ in range(round(duration / h)):
        stepper.step(mechanism, h).require(f"{formulation} with {integrator}")
    return mechanism


@pytest.mark.parametrize(
    ("name", "dof", "coordinates"),
    [
        ("pendulum", 1, 3),
        ("four_bar", 1, 5),
        ("five_bar", 2, 8),
        ("slider_crank", 1, 6),
        ("suspension_corner", 1, 23),
    ],
)
def test_shipped_mechanisms_assemble_with_their_degrees_of_freedom(name, dof, coordinates):
    m = Mechanism.load(name)
    topology = calc_topology(m)
    assert topology.degrees_of_freedom == dof
    assert len(topology.coordinates) == coordinates and topology.redundant == []
    assert np.abs(m.calc_constraints()).max() < 1e-12
    assert np.abs(m.calc_jacobian() @ m.qd + m.calc_drift()).max() < 1e-10
    assert np.abs(m.calc_jacobian() @ m.qdd - m.calc_gamma()).max() < 1e-8


@pytest.mark.parametrize(("name", "z5", "zd5", "z10"), [
    ("four_bar", [-2.3566429020], [6.5139719886], [-4.9125774679]),
    ("five_bar", [-1.2732066879, 4.3152559486], [-10.6928676494, 4.4420285747], [-3.4635363421, 5.6758245402]),
])  # fmt: skip
def test_matrix_r_with_the_trapezoidal_rule_follows_the_published_linkages(name, z5, zd5, z10):
    """A published toolbox's own figures for these linkages at 5 ms; its iteration stops at 1e-10."""
    m = Mechanism.load(name)
    stepper = make_stepper("matrix_r")
    for n in range(2000):
        stepper.step(m, 5e-3).require("step")
        if n == 999:
            assert m.z == pytest.approx(z5, abs=2e-7)
            assert m.zd == pytest.approx(zd5, abs=2e-7)
    assert m.z == pytest.approx(z10, abs=2e-7)
