"""Why a mechanism cannot be assembled: wrong counts and conflicts first, then the parts that do not fit."""

from __future__ import annotations

import pytest

from vehicled.errors import UsageError
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import parse_description
from vehicled.multibody.files import mechanisms_folder
from vehicled.multibody.mechanism import Mechanism

FOUR_BAR = (mechanisms_folder() / "four_bar.yaml").read_text()
PLATFORM = """
space: planar
ground: {points: {A: 0 0 m, B: 1 0 m, C: 2 0 m}}
points: {P: 0 1 m, Q: 1 1 m, R: 2 1 m}
angles: {theta: {between: [x, [A, P]], start: 90 deg}}
bodies:
  a: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}
  b: {kind: bar, points: [B, Q], length: 1 m, mass: 1 kg}
  c: {kind: bar, points: [C, R], length: 1 m, mass: 1 kg}
  platform: {kind: rigid, points: [P, Q, R], mass: 2 kg, center_of_mass: 1 1 m, inertia: 0.5 kg·m²}
independent: [theta]
"""
SWINGS = """
space: planar
ground: {points: {A: 0 0 m, B: 1 0 m}}
points: {P: 0 1 m, Q: 1 1 m}
bodies:
  a: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}
  b: {kind: bar, points: [B, Q], length: 1 m, mass: 1 kg}
joints: {rod: {kind: distance, points: [P, Q]}}
"""


def refuse(text: str) -> str:
    with pytest.raises(UsageError) as error:
        Mechanism(CompiledMechanism(parse_description(text)))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "old", "new", "says"),
    [
        (
            FOUR_BAR,
            "independent: [theta]",
            "independent: [theta, P.x]",
            "over-determined: 1 degrees of freedom, 2 declared by independent (theta, P.x): crank, coupler, rocker "
            "leave no more",
        ),
        (
            FOUR_BAR,
            "independent: [theta]",
            "independent: [theta]\ndrives: {theta: 1 + t}",
            "mechanism:12: drives.theta: theta is also independent: a coordinate is either driven or independent",
        ),
        (
            FOUR_BAR,
            "independent: [theta]",
            "independent: [theta, theta]",
            "mechanism:11: independent: expected each coordinate once, got theta again",
        ),
        (
            FOUR_BAR,
            "independent: [theta]",
            "independent: [P.x]\ndrives: {theta: pi/3 + t}",
            "over-determined: 0 degrees of freedom, 1 declared by independent (P.x): drive theta leaves no more",
        ),
        (
            FOUR_BAR,
            "independent: [theta]",
            "joints: {rod: {kind: distance, points: [A, Q], length: 9.5 m}}\nindependent: [theta]",
            "over-determined: 0 degrees of freedom, 1 declared by independent (theta): rod leaves no more; "
            "'rod: length' is furthest from the places given; the rest fits without it, or without coupler, crank, ",
        ),
        (
            FOUR_BAR,
            "length: 8 m",
            "length: 80 m",
            "cannot be assembled: 'coupler: length of P–Q' is furthest from the places given; the rest fits without "
            "it, or without crank, rocker",
        ),
        (
            FOUR_BAR.replace("length: 2 m", "length: 4 m").replace("length: 5 m", "length: 4 m"),
            "length: 8 m, mass: 8 kg",
            "length: 4 m, mass: 8 kg",
            "angles.theta.start: with 1.571 rad it cannot be assembled, the nearest is ",
        ),
        (
            PLATFORM,
            "[C, R], length: 1 m",
            "[C, R], length: 1.1 m",
            "cannot be assembled: 'c: length of C–R' is furthest from the places given; the rest fits without it, or "
            "without a, b, platform",
        ),
        (
            SWINGS,
            "[P, Q]}",
            "[P, Q], length: 5 m}",
            "cannot be assembled: 'rod: length' is furthest from the places given; the rest fits without it, or "
            "without a, b",
        ),
        (
            SWINGS,
            "rod: {kind: distance, points: [P, Q]}",
            "rod: {kind: distance, points: [P, Q], length: 5 m}, "
            "other: {kind: distance, points: [P, Q], length: 6 m}",
            "cannot be assembled: no single part is in the way; '",
        ),
    ],
)
def test_a_mechanism_that_cannot_be_assembled_is_refused_with_the_reason(text, old, new, says):
    assert text.count(old) == 1
    text = text.replace("start: 60 deg", "start: 90 deg") if "angles.theta.start" in says else text
    assert refuse(text.replace(old, new)).startswith(says)


def test_a_conflict_does_not_name_unconnected_parts():
    """A second pair of swings in the same file has no conflict."""
    both = SWINGS.replace("B: 1 0 m", "B: 1 0 m, C: 9 0 m, D: 10 0 m").replace(
        "Q: 1 1 m", "Q: 1 1 m, R: 9 1 m, S: 10 1 m"
    )
    both = both.replace(
        "joints: {",
        "  c: {kind: bar, points: [C, R], length: 1 m, mass: 1 kg}\n"
        "  d: {kind: bar, points: [D, S], length: 1 m, mass: 1 kg}\n"
        "joints: {sound: {kind: distance, points: [R, S]}, ",
    )
    assert len(Mechanism(CompiledMechanism(parse_description(both))).independent) == 2
    says = refuse(both.replace("points: [P, Q]}", "points: [P, Q], length: 5 m}"))
    assert says.endswith(
        "'rod: length' is furthest from the places given; the rest fits without it, or without a, b"
    )


def test_relative_coordinates_name_the_joint_that_closes_the_loop():
    text = "coordinates: relative\n" + (mechanisms_folder() / "suspension_corner.yaml").read_text()
    old = "points: [tie_inner, tie_outer]}"
    assert text.count(old) == 1
    assert "'tie_rod: length'" in refuse(text.replace(old, "points: [tie_inner, tie_outer], length: 3 m}"))
