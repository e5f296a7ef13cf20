"""Reports of steps that are too long for a stiff spring, and whether such steps behave as reported."""

from __future__ import annotations

import json

import numpy as np
import pytest
from mechanism_rig import energy, mechanism, shipped

from vehicled.cli import main
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.step_length import find_fast_motion

ELBOW = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {O: 0 0 m}}
points: {P: 1 0 m, Q: 2 0 m}
angles: {a: {between: [x, [O, P]]}, b: {between: [[O, P], [P, Q]], start: 0.02 rad}}
bodies:
  upper: {kind: bar, points: [O, P], length: 1 m, mass: 1 kg}
  lower: {kind: bar, points: [P, Q], length: 1 m, mass: 0.5 kg}
forces:
  shoulder: {kind: torsion_spring, angle: a, stiffness: 1 N·m/rad}
  elbow: {kind: torsion_spring, angle: b, stiffness: 5000 N·m/rad}
independent: [a, b]
"""
STORED = 0.5 * 5000.0 * 0.02**2
"""Energy of the elbow's spring at the start, J."""
SHIPPED = (
    *("bricard", "five_bar", "flyball_governor", "four_bar", "front_suspension", "pendulum"),
    *("simple_pendulum", "slider_crank", "squeezer", "suspension_corner"),
)


def find_rate() -> float:
    return find_fast_motion(mechanism(ELBOW), 1.0).rate


def lose(h: float, formulation: str, rule: str, periods: float = 10.0) -> float:
    """Share of the elbow's energy that is lost per period."""
    m, stepper = mechanism(ELBOW), make_stepper(formulation, rule)
    before = energy(m)
    for _ in range(round(periods * 2.0 * np.pi / find_rate() / h)):
        stepper.step(m, h).require(formulation)
    left = 1.0 - (before - energy(m)) / STORED
    return float(1.0 - left ** (1.0 / periods))


def test_the_fastest_motion_is_that_of_the_stiff_spring():
    """Its rate follows from the mass matrix of two hinged bars in line."""
    # T = ½ ż M z; the spring acts on b alone, so that ω² = k (M⁻¹)_bb; gravity and shoulder add less than 1e-3.
    one, two = 1.0, 0.5
    mass = np.array([[one / 3 + two * (1 + 1 / 3 + 1), two * (1 / 3 + 0.5)], [two * (1 / 3 + 0.5), two / 3]])
    expected = np.sqrt(5000.0 * np.linalg.inv(mass)[1, 1])
    fast = find_fast_motion(mechanism(ELBOW), 0.1)
    assert fast.rate == pytest.approx(expected, rel=1e-3)
    assert fast.springs[0] == "elbow"
    way = np.linalg.inv(mass)[1]
    upper = 0.5 * one / 3 * way[0] ** 2
    assert fast.moves == ("upper" if upper > 0.25 * way @ mass @ way else "lower")


@pytest.mark.parametrize("turn", [0.8, 1.0, 1.2])
@pytest.mark.parametrize("formulation", ["matrix_r", "lagrange"])
def test_a_step_loses_the_reported_share_of_energy(formulation, turn):
    h = turn / find_rate()
    fast = find_fast_motion(mechanism(ELBOW), h, formulation, "runge_kutta_4")
    said = float(fast.why.split()[2]) / 100.0
    assert fast.why == f"it loses {100 * said:.2g} % of its energy per period"
    assert lose(h, formulation, "runge_kutta_4") == pytest.approx(said, rel=0.1)
    # The advised step is as long as possible: it loses about 1 %, and not far less.
    assert 0.005 < lose(fast.longest, formulation, "runge_kutta_4") < 0.011
    assert find_fast_motion(mechanism(ELBOW), fast.longest, formulation, "runge_kutta_4") is None


def test_a_step_that_loses_no_energy_is_not_reported():
    """The trapezoidal rule loses none; it is reported at about two steps per period."""
    for turn in (0.5, 1.0, 2.0):
        h = turn / find_rate()
        assert find_fast_motion(mechanism(ELBOW), h) is None
        assert abs(lose(h, "ali3p", "trapezoidal")) < 0.01
    assert find_fast_motion(mechanism(ELBOW), 3.2 / find_rate()).why == "it has 2 steps per period"


def test_steps_that_diverge_or_do_not_converge_are_reported():
    rate = find_rate()
    assert "not converge" in find_fast_motion(mechanism(ELBOW), 1.7 / rate, "penalty").why
    m, stepper = mechanism(ELBOW), make_stepper("penalty")
    assert not all(stepper.step(m, 1.9 / rate).converged for _ in range(100))
    diverging = find_fast_motion(mechanism(ELBOW), 3.0 / rate, "matrix_r", "runge_kutta_4")
    assert "diverge" in diverging.why
    assert diverging.longest < 0.7 / rate


@pytest.mark.parametrize("formulation", ["matrix_r", "penalty", "lagrange"])
@pytest.mark.parametrize("rule", ["runge_kutta_4", "forward_euler"])
def test_a_step_to_a_state_that_is_not_finite_has_not_converged(formulation, rule):
    """Before, rules without iterations reported convergence."""
    m, stepper = mechanism(ELBOW), make_stepper(formulation, rule)
    with np.errstate(all="ignore"):
        for _ in range(200):
            converged = stepper.step(m, 0.1).converged
            assert not converged or (np.isfinite(m.q).all() and np.isfinite(m.qd).all())
    assert not converged


@pytest.mark.parametrize(
    ("damping", "says"), [(0.1, "it loses"), (1.0, None), (20.0, None), (100.0, "its steps diverge")]
)
def test_a_loss_is_reported_only_if_it_matters_beside_that_of_a_damper(damping, says):
    """2 % per period is negligible if the damper takes a fifth; a heavy damper is too stiff itself."""
    text = ELBOW.replace(
        "stiffness: 5000 N·m/rad}", f"stiffness: 5000 N·m/rad, damping: {damping} N·m·s/rad}}"
    )
    h = 0.75 / find_rate()
    fast = find_fast_motion(mechanism(text), h, "matrix_r", "runge_kutta_4")
    assert (fast is None) if says is None else fast.why.startswith(says)


def test_state_and_parameters_of_the_mechanism_are_left_unchanged():
    m = mechanism(ELBOW)
    make_stepper("ali3p").step(m, 1e-3)
    before, values = m.get_state(), m.view("parameters").copy()
    assert find_fast_motion(m, 0.1) is not None
    after = m.get_state()
    for name in ("t", "q", "qd", "qdd", "multipliers"):
        assert np.array_equal(getattr(before, name), getattr(after, name)), name
    assert np.array_equal(values, m.view("parameters"))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_mechanisms_have_a_default_step_that_is_short_enough(name):
    assert find_fast_motion(shipped(name), 1e-3) is None


def test_check_reports_a_step_that_is_too_long(tmp_path, capsys):
    path = tmp_path / "elbow.yaml"
    path.write_text(ELBOW)
    step = ["--step", "0.003", "--integrator", "runge_kutta_4"]
    assert main(["check", str(path), *step, "--json"]) == 0
    (doubt,) = json.loads(capsys.readouterr().out)["doubtful"]
    assert doubt["key"] == "step"
    assert doubt["text"].startswith("0.003 s is too long for the motion of upper at 3")
    assert " by elbow: it loses " in doubt["text"]
    assert main(["check", str(path), *step]) == 0
    assert f"doubtful: step: {doubt['text']}" in capsys.readouterr().out.splitlines()
    assert main(["check", str(path)]) == 0
    assert "doubtful" not in capsys.readouterr().out
    assert main(["check", str(path), "--step", "0"]) == 2
    assert main(["check", "prototype", "--step", "0.1"]) == 2


@pytest.mark.parametrize("steps", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("rule", ["runge_kutta_4", "forward_euler"])
def test_steps_far_too_long_diverge(rule, steps):
    """The step is much longer than a period."""
    fast = find_fast_motion(mechanism(ELBOW), steps / find_rate(), "matrix_r", rule)
    assert fast.why == "its steps diverge"
