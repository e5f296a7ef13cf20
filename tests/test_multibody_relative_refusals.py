"""Descriptions for which there are no relative coordinates are refused, with the part and the reason."""

from __future__ import annotations

from dataclasses import replace

import mechanism_rig as rig
import numpy as np
import pytest
from relative_rig import DOUBLE

from vehicled.errors import RunError, SettingsError
from vehicled.multibody.building import build_model
from vehicled.multibody.description import load_description
from vehicled.multibody.elements import CoordinateForce, Rigid
from vehicled.multibody.forms import choose_form, count_forms
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.model import MechanismError

PLATE = {"plate": Rigid(kind="rigid", points=["P", "Q"], mass=1.0, center_of_mass=(0.0, 0.0), inertia=(1.0,))}


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "four_bar",
            {"forces": {"f": CoordinateForce(kind="on_coordinate", coordinate="P.x", force=1)}},
            "P.x",
        ),
        ("four_bar", {"velocities": {"P": (1.0, 0.0)}}, r"velocities\.P: points have no coordinates"),
        ("four_bar", {"independent": ["P.x"]}, "independent: unknown coordinate 'P.x'"),
        ("four_bar", {"drives": {"P.x": "t"}}, "drives: unknown coordinate 'P.x'"),
        (
            "four_bar",
            {"points": {"P": (1, 1.7), "Q": (10, 5), "Z": (0, 0)}},
            r"points\.Z: expected in a body",
        ),
        ("four_bar", {"vectors": {"v": (1, 0)}}, r"vectors\.v: expected in a body"),
        (
            "four_bar",
            {"points": {"P": (1, 1.7), "Q": (1, 1.7)}, "bodies": PLATE},
            "plate: P and Q lie at one place",
        ),
        (
            "four_bar",
            {"points": {"P": (-1, -1.7), "Q": (10, 5)}},
            "angle theta is 1.047 rad at the start, but the places of the points lie on the other side",
        ),
    ],
)
def test_a_description_without_relative_coordinates_is_refused_with_the_part_named(name, changes, message):
    with pytest.raises(MechanismError, match=message):
        build_model(replace(load_description(name), coordinates="relative", **changes))


def test_a_mechanism_that_cannot_move_has_natural_coordinates_only():
    welded = """
space: planar
coordinates: relative
ground: {points: {A: 0 0 m}}
points: {O: 0 0 m}
vectors: {v: 1 0}
bodies: {block: {kind: rigid, points: [O], vectors: [v], mass: 1 kg, center_of_mass: 1 0 m, inertia: 1 kg·m²}}
joints: {weld: {kind: rigid, points: [A, O], axes: [x, v]}}
"""
    with pytest.raises(MechanismError, match="nothing can move"):
        build_model(rig.describe(welded))
    assert choose_form(rig.describe(welded)) == "natural"


TUMBLING = """
space: spatial
coordinates: relative
gravity: 0 0 -9.81 m/s²
ground: {points: {O: 0 0 0 m}}
points: {P: 0.3 0 0 m}
vectors: {k: 0 0 1}
bodies:
  top:
    kind: rigid
    points: [O, P]
    vectors: [k]
    mass: 2 kg
    center_of_mass: 0.15 0 0.02 m
    inertia: 0.01 0.03 0.025 kg·m²
"""


@pytest.mark.parametrize("formulation", ["ali3p", "matrix_r"])
def test_a_ball_joint_that_reaches_a_singularity_of_its_angles_is_named(formulation):
    m = rig.mechanism(TUMBLING)
    m.set_independent_state(np.array([0.3, 1.5707963, 0.2]), np.array([2.0, 1.0, 1.0]))
    solution = make_stepper(formulation, "trapezoidal").step(m, 5e-3)
    with pytest.raises(
        RunError, match=r"; top: its three angles are singular .*; expected coordinates: natural"
    ):
        solution.require("step")


def test_auto_takes_natural_coordinates_for_a_ball_joint_although_they_cost_more():
    counts = count_forms(rig.describe(TUMBLING))
    assert counts["relative"].cost < counts["natural"].cost
    assert (counts["relative"].singular, counts["natural"].singular) == (["top"], [])
    assert choose_form(rig.describe(TUMBLING)) == "natural"


def test_an_undeclared_degree_of_freedom_is_reported_with_the_body_that_can_move():
    with pytest.raises(
        MechanismError, match=r"under-determined: 2 degrees of freedom, 1 declared by .*; .*lower can move"
    ):
        rig.mechanism(DOUBLE.replace("[upper_angle, elbow]", "[upper_angle]"))


def test_a_form_that_does_not_exist_is_refused():
    with pytest.raises(SettingsError, match="coordinates: expected natural, relative or auto"):
        rig.describe(DOUBLE.replace("relative", "absolute"))
