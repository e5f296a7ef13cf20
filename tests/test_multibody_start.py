"""Start of a mechanism: angles, distances and rates of the file count, whichever coordinates are independent."""

import numpy as np
import pytest
from mechanism_rig import mechanism

from vehicled.errors import RunError, VehicledError
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import MechanismError

PENDULUM = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {O: 0 0 m}}
points: {P: 1 0 m}
angles: {theta: {between: [x, [O, P]], start: 30 deg, rate: 2 rad/s}}
bodies: {rod: {kind: bar, points: [O, P], length: 1 m, mass: 1 kg}}
"""
# Two shafts at an angle with a universal joint, turned by the first one.
SHAFTS = """
space: spatial
ground: {points: {O: 0 0 0 m}, vectors: {out: 0.8 0.6 0}}
vectors: {s: 0 1 0, k: 0 0 1}
angles:
  a: {between: [y, s], about: x, rate: 5 rad/s}
  b: {between: [z, k], about: out}
bodies:
  first: {kind: rigid, points: {O: 0 0 0 m}, vectors: {x: 1 0 0, s: 0 1 0}, mass: 1 kg,
    center_of_mass: 0 0 0 m, inertia: 0.01 0.02 0.02 kg·m²}
  second: {kind: rigid, points: {O: 0 0 0 m}, vectors: {out: 0.8 0.6 0, k: 0 0 1}, mass: 1 kg,
    center_of_mass: 0 0 0 m, inertia: 0.01 0.02 0.02 kg·m²}
joints: {cross: {kind: universal, points: [O, O], axes: [s, k]}}
"""


@pytest.mark.parametrize("form", ["natural", "relative"])
def test_a_given_start_counts_without_independent_coordinates(form: str) -> None:
    m = Mechanism.parse(f"{PENDULUM}coordinates: {form}\n")
    assert m.q[m.index("theta")] == pytest.approx(np.radians(30.0), abs=1e-12)
    assert m.qd[m.index("theta")] == pytest.approx(2.0)


@pytest.mark.parametrize("form", ["natural", "relative"])
def test_a_given_rate_counts_whichever_coordinates_could_be_independent(form: str) -> None:
    m = Mechanism.parse(f"{SHAFTS}coordinates: {form}\n")
    assert [m.coordinate_names[k] for k in m.independent] == ["a"]
    # The second shaft turns 1/cos as fast where the first fork lies in the plane of the shafts.
    assert m.qd[m.index("a")] == pytest.approx(5.0)
    assert m.qd[m.index("b")] == pytest.approx(5.0 / 0.8)


def test_a_given_velocity_of_a_point_counts_without_independent_coordinates() -> None:
    text = PENDULUM.replace(", start: 30 deg, rate: 2 rad/s", "") + "velocities: {P: 0 -3 m/s}\n"
    m = Mechanism.parse(text)
    assert m.qd[m.index("theta")] == pytest.approx(-3.0)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (PENDULUM + "independent: [P.y]\n", "angles.theta.rate: expected 0 rad/s"),
        (SHAFTS.replace("about: out}", "about: out, rate: 5 rad/s}"), r"rate: expected .* got 5 rad/s"),
    ],
)
def test_rates_that_contradict_each_other_are_refused(text: str, told: str) -> None:
    with pytest.raises(VehicledError, match=told):
        Mechanism.parse(text)


PARALLELOGRAM = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m, D: 2 0 m}}
points: {B: %s, C: %s}
angles: {theta: {between: [x, [A, B]]}}
bodies:
  crank: {kind: bar, points: [A, B], length: 1 m, mass: 1 kg}
  coupler: {kind: bar, points: [B, C], length: 2 m, mass: 1 kg}
  rocker: {kind: bar, points: [D, C], length: 1 m, mass: 1 kg}
"""


@pytest.mark.parametrize("independent", ["", "independent: [theta]"])
def test_a_start_where_a_linkage_can_change_its_branch_is_refused(independent: str) -> None:
    told = "singular at the start, .*: 2 degrees of freedom there, 1 beside it; expected a start beside it"
    with pytest.raises(MechanismError, match=told):
        mechanism(PARALLELOGRAM % ("1 0 m", "3 0 m") + independent)
    beside = mechanism(PARALLELOGRAM % ("1 0.1 m", "3 0.1 m") + independent)
    assert len(beside.independent) == 1


@pytest.mark.parametrize("formulation", ["penalty", "lagrange"])
def test_a_formulation_that_does_not_pass_a_change_point_says_so(formulation: str) -> None:
    m = mechanism(PARALLELOGRAM % ("0.5 0.866 m", "1.9 -0.9 m"))
    m.set_independent_state(m.z, np.array([-2.0]))
    stepper = make_stepper(formulation)
    failed = next(s for s in (stepper.step(m, 1e-3) for _ in range(800)) if not s.converged)
    with pytest.raises(
        RunError, match=r"near a singular position, .*expected another motion, or .* ali3p or"
    ):
        failed.require("step")


def test_rough_starts_still_choose_the_way_of_assembly() -> None:
    text = """
space: planar
ground: {points: {A: 0 0 m, D: 4 0 m}}
points: {B: 1 0.2 m, C: 3 2 m}
angles:
  crank: {between: [x, [A, B]], start: 60 deg}
  rocker: {between: [x, [D, C]], start: 100 deg}
bodies:
  crank: {kind: bar, points: [A, B], length: 1 m, mass: 1 kg}
  coupler: {kind: bar, points: [B, C], length: 4 m, mass: 1 kg}
  rocker: {kind: bar, points: [C, D], length: 3 m, mass: 1 kg}
"""
    m = Mechanism.parse(text)  # both starts at once are impossible
    assert m.q[m.index("rocker")] > 0
    exact = Mechanism.parse(text + "independent: [crank]\n")
    assert exact.q[exact.index("crank")] == pytest.approx(np.radians(60.0))
