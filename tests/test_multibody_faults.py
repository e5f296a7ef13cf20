"""Mistakes in a mechanism's file that are found only when its equations are built are reported with their line."""

from __future__ import annotations

import pytest
from mechanism_rig import mechanism
from test_multibody_description import SOUND, SPATIAL

from vehicled.errors import SettingsError
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import MechanismError


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("force: -k*theta", "force: -kk*theta", "forces.push.force: unknown name 'kk'; did you mean 'k'?"),
        ("force: -k*theta", "force: 3 N·m", "forces.push.force: '3 N·m' is not an expression"),
        (
            "independent: [theta]",
            "independent: []\ndrives: {theta: t*}",
            "drives.theta: 't*' is not an expression",
        ),
    ],
)
def test_a_mistake_found_when_the_equations_are_built_is_reported_with_its_line(old, new, says):
    text = SOUND.replace(old, new)
    line = text[: text.index(new) + len(new)].count("\n") + 1
    with pytest.raises(SettingsError) as error:
        Mechanism.parse(text)
    assert str(error.value) == f"mechanism:{line}: {says}"


def test_a_name_that_would_give_a_parameter_two_values_is_refused():
    """Before, a marker named center_of_mass replaced the centre of mass."""
    text = SPATIAL.replace(
        "center_of_mass: 1 0 0 m", "center_of_mass: 1 0 0 m\n    markers: {center_of_mass: 2 0 0 m}"
    )
    says = r"^arm\.center_of_mass\.x stands for two numbers, 1 and 2, as two parts"
    with pytest.raises(MechanismError, match=says):
        mechanism(text)
    line = text[: text.index("center_of_mass")].count("\n") + 1
    with pytest.raises(SettingsError, match=rf"^mechanism:{line}: bodies\.arm\.center_of_mass: {says[1:]}"):
        Mechanism.parse(text)


def test_a_name_clash_is_reported_with_the_line_of_the_part_that_has_the_name():
    """A body named `design`, the prefix of design positions, has a point with other coordinates in its own axes."""
    text = SPATIAL.replace("  arm:", "  other: {kind: bar, points: [A, P], mass: 1 kg}\n  design:")
    text = text.replace("points: [P]", "points: {P: 2 0 0 m}").replace(
        "vectors: [u, n]", "vectors: {u: 0 0 1, n: 0 1 0}"
    )
    line = text[: text.index("design:")].count("\n") + 2
    with pytest.raises(SettingsError) as error:
        Mechanism.parse(text)
    says = f"mechanism:{line}: bodies.design: design.P.x stands for two numbers, 1 and 2, as two parts"
    assert str(error.value).startswith(says)


@pytest.mark.parametrize("expression", ["1/P.x", "sqrt(P.y - 2)", "exp(1e6*Q.x)"])
def test_an_equation_without_a_finite_value_is_refused(expression):
    text = SOUND.replace(
        "independent", f"joints: {{odd: {{kind: equation, expression: {expression}}}}}\nindependent"
    )
    with pytest.raises(
        MechanismError, match=r"^cannot be assembled: 'odd' has no finite value about the start$"
    ):
        mechanism(text)


@pytest.mark.parametrize(("apart", "fits"), [(1e-15, True), (1e-8, False)])
def test_the_tolerance_for_parts_that_cannot_move_scales_with_the_mechanisms_size(apart, fits):
    """The mechanism is 1 µm large, so that a gap of 10 nm is a hundredth of its size."""
    text = f"""
space: planar
ground: {{points: {{A: 0 0 m, B: {apart} 0 m}}}}
points: {{P: 1e-6 0 m}}
bodies: {{arm: {{kind: bar, points: [A, P], mass: 1 kg}}}}
joints: {{weld: {{kind: spherical, points: [A, B]}}}}
"""
    if fits:
        assert mechanism(text).size == pytest.approx(1e-6)
    else:
        with pytest.raises(MechanismError, match=r"^weld: A and B along x: cannot be met, because nothing"):
            mechanism(text)


@pytest.mark.parametrize("mass", [1e-4, 1e-7, 1e-13])
def test_a_body_far_lighter_than_others_falls_correctly_or_is_refused(mass):
    """Solving the equations to 1e-12 of the largest mass would leave a lighter body without acceleration."""
    text = f"""
space: planar
gravity: 0 -9.81 m/s²
ground: {{points: {{A: 0 0 m, B: 5 0 m}}}}
points: {{P: 1 0 m, Q: 6 0 m}}
bodies:
  hair: {{kind: bar, points: [A, P], mass: {mass} kg}}
  beam: {{kind: bar, points: [B, Q], mass: 1000 kg}}
"""
    if mass < 1e-7:
        with pytest.raises(
            SettingsError, match=r"^mechanism:7: bodies\.hair: the mass matrix is singular: hair can "
        ):
            Mechanism.parse(text)
        return
    m = Mechanism.parse(text)
    assert m.qdd[m.index("P.y")] == pytest.approx(-1.5 * 9.81, rel=1e-6)
