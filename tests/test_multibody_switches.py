"""Held coordinates and disabled constraints, against mechanisms whose descriptions say the same."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from mechanism_rig import G, energy, shipped
from operator_rig import chain
from rigid_reference import rigid_bodies

from vehicled.errors import UsageError
from vehicled.multibody import operators, problems, switches
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.reactions import calc_generalised_reaction

FORMULATIONS = [("ali3p", "trapezoidal"), ("matrix_r", "trapezoidal"), ("lagrange", "trapezoidal")]
FORMULATIONS += [("penalty", "trapezoidal"), ("matrix_r", "runge_kutta_4")]


def five_bars(drive: str) -> tuple[Mechanism, Mechanism]:
    """A mechanism to be switched, and one whose description drives the coordinate."""
    m = shipped("five_bar")
    driven = dataclasses.replace(m.description, drives={"theta2": drive}, independent=["theta1"])
    return m, Mechanism(CompiledMechanism(driven))


@pytest.mark.parametrize(("formulation", "integrator"), FORMULATIONS)
def test_locked_coordinate_is_the_same_as_one_driven_to_a_constant(formulation, integrator):
    m, driven = five_bars("pi")
    switches.lock(m, "theta2")
    assert operators.get_counts(m).degrees_of_freedom == 1
    assert m.constraint_names[-1] == "hold theta2"
    assert [m.coordinate_names[k] for k in m.independent] == ["theta1"]
    problems.solve_dynamics(m)
    assert m.qdd == pytest.approx(driven.qdd, abs=1e-9)
    assert m.multipliers[-1] == pytest.approx(driven.multipliers[-1], rel=1e-8)
    steppers = [make_stepper(formulation, integrator) for _ in range(2)]
    for _ in range(100):
        for stepper, x in zip(steppers, (m, driven), strict=True):
            stepper.step(x, 2e-3).require(formulation)
    assert abs(m.z[0] - driven.guess[m.index("theta1")]) > 0.1
    # To the violation of constraints that each formulation permits.
    assert m.q == pytest.approx(driven.q, abs=2e-4)
    assert m.q[m.index("theta2")] == pytest.approx(np.pi, abs=1e-5)
    assert m.qd == pytest.approx(driven.qd, abs=2e-3)
    assert m.multipliers[-1] == pytest.approx(driven.multipliers[-1], rel=2e-2)


def test_prescribed_coordinate_follows_and_reports_its_torque():
    """Against a drive in the description, and against a more accurate integrator."""
    m, driven = five_bars("pi + 0.3*sin(4*t)")
    drive = driven.constraint_names.index("drive theta2")
    exact, h = Mechanism(driven.compiled), 1e-3
    switches.prescribe(m, "theta2", np.pi, 1.2)
    problems.solve_velocity(m, m.zd)
    problems.solve_dynamics(m)
    steppers = [make_stepper("ali3p"), make_stepper("ali3p"), make_stepper("matrix_r", "runge_kutta_4")]
    for k in range(1, 301):
        t = k * h
        targets = np.pi + 0.3 * np.sin(4 * t), 1.2 * np.cos(4 * t), -4.8 * np.sin(4 * t)
        switches.prescribe(m, "theta2", *targets)
        for stepper, x in zip(steppers, (m, driven, exact), strict=True):
            stepper.step(x, h).require("step")
    assert [x[m.index("theta2")] for x in (m.q, m.qd, m.qdd)] == pytest.approx(targets, abs=1e-12)
    assert m.q == pytest.approx(driven.q, abs=1e-8)
    assert m.q == pytest.approx(exact.q, abs=1e-5)
    assert m.multipliers[-1] == pytest.approx(driven.multipliers[drive], rel=1e-5)
    problems.solve_dynamics(m)
    assert m.multipliers[-1] == pytest.approx(exact.multipliers[drive], rel=1e-4)
    assert operators.calc_coordinate_maps(m).b == pytest.approx(
        operators.calc_coordinate_maps(driven).b, abs=1e-4
    )


def test_locking_keeps_the_other_independent_coordinates():
    m = shipped("five_bar")
    m.set_independent(np.array([m.index("Q.x"), m.index("theta2")]))
    switches.lock(m, "theta2")
    assert [m.coordinate_names[k] for k in m.independent] == ["Q.x"]


def test_coordinate_locked_again_starts_with_a_multiplier_of_zero():
    m = shipped("five_bar")
    switches.lock(m, "theta2")
    problems.solve_dynamics(m)
    assert m.multipliers[-1] != 0.0
    switches.release(m, "theta2")
    switches.lock(m, "theta2")
    assert m.multipliers[-1] == 0.0


def test_released_coordinate_is_free_again():
    m, free = shipped("five_bar"), shipped("five_bar")
    switches.lock(m, "theta2")
    switches.release(m, "theta2")
    assert list(m.independent) == list(free.independent)
    for x in (m, free):
        problems.solve_dynamics(x)
        stepper = make_stepper("ali3p")
        for _ in range(10):
            stepper.step(x, 1e-3).require("step")
    assert np.array_equal(m.q, free.q)


@pytest.mark.parametrize(("formulation", "integrator"), FORMULATIONS)
def test_disabled_joint_lets_the_second_body_fall(formulation, integrator):
    m = chain("spherical")
    switches.disable(m, "elbow")
    assert operators.get_counts(m).degrees_of_freedom == 7
    assert not any(name.startswith("elbow") for name in m.constraint_names)
    problems.solve_dynamics(m)
    start = rigid_bodies(m)["second"]
    spin = start.angular_momentum
    stepper, h, n = make_stepper(formulation, integrator), 1e-3, 100
    for _ in range(n):
        stepper.step(m, h).require(formulation)
    end, t = rigid_bodies(m)["second"], h * n
    fallen = start.centre + t * start.velocity + [0.0, 0.0, -0.5 * G * t * t]
    assert end.centre == pytest.approx(fallen, abs=1e-5)
    assert end.angular_momentum == pytest.approx(spin, rel=1e-3, abs=1e-3)
    with pytest.raises(UsageError, match="unknown constraint 'shoulder'"):
        switches.disable(m, "shoulder")


def test_one_constraint_may_be_disabled_and_enabled():
    m = chain("revolute")
    dof = operators.get_counts(m).degrees_of_freedom
    label = next(n for n in m.constraint_names if n.startswith("elbow: v along e"))
    before, energy_before = m.qdd.copy(), energy(m)
    switches.disable(m, label)
    assert operators.get_counts(m).degrees_of_freedom == dof + 1
    problems.solve_dynamics(m)
    assert np.abs(m.qdd - before).max() > 1e-3
    assert calc_generalised_reaction(m, label) == pytest.approx(0.0, abs=0)
    switches.enable(m, label)
    problems.solve_dynamics(m)
    assert m.qdd == pytest.approx(before, abs=1e-9)
    assert energy(m) == energy_before


def test_switches_belong_to_the_state():
    m = shipped("five_bar")
    free = m.get_state()
    switches.lock(m, "theta2")
    switches.disable(m, "angle theta1")
    problems.solve_dynamics(m)
    locked, names = m.get_state(), m.constraint_names
    m.set_state(free)
    assert m.constraint_names == m.compiled.constraints
    assert not m.held.any()
    assert m.multipliers == pytest.approx(free.multipliers, abs=0)
    m.set_state(locked)
    assert m.constraint_names == names
    assert m.multipliers == pytest.approx(locked.multipliers, abs=0)
    assert m.calc_jacobian().shape == (len(names), len(m.q))
    with pytest.raises(ValueError, match="read-only"):
        m.multipliers[0] = 1.0
    with pytest.raises(UsageError, match=r"unknown coordinate 'theta3'; known here: P\.x"):
        switches.lock(m, "theta3")


def test_a_prescribed_value_that_cannot_be_reached_does_not_converge():
    m = shipped("four_bar")
    switches.prescribe(m, "Q.x", 20.0)
    assert not problems.solve_position(m, m.z).converged
