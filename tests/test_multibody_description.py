"""Mistakes in a mechanism's file are reported in one line that names the body, joint or key."""

from __future__ import annotations

import dataclasses

import pytest
from mechanism_rig import describe, mechanism

from vehicled.cli import main
from vehicled.errors import SettingsError, UsageError
from vehicled.multibody.checks import calc_topology
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import Description, load_description
from vehicled.multibody.elements import Bar, GroundBody
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import MechanismError

PLANAR = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m, B: 3 0 m}}
points: {P: 0 1 m, Q: 3 1 m}
vectors: {u: 1 0}
angles: {theta: {between: [x, [A, P]], start: 90 deg}}
distances: {s: {points: [A, Q]}}
parameters: {k: 3 N/m}
bodies:
  left: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}
  middle: {kind: rigid, points: [P, Q], vectors: [u], mass: 1 kg, center_of_mass: 1 1 m, inertia: 1 kg·m²}
  right: {kind: bar, points: [B, Q], length: 1 m, mass: 1 kg}
joints:
  rod: {kind: distance, points: [A, B]}
forces:
  push: {kind: on_coordinate, coordinate: theta, force: -k*theta}
independent: [theta]
"""
SOUND = PLANAR.replace("joints:\n  rod: {kind: distance, points: [A, B]}\n", "")

SPATIAL = """
space: spatial
ground: {points: {A: 0 0 0 m}}
points: {P: 1 0 0 m}
vectors: {u: 0 0 1, n: 0 1 0}
bodies:
  arm:
    kind: rigid
    points: [P]
    vectors: [u, n]
    mass: 1 kg
    center_of_mass: 1 0 0 m
    inertia: 1 1 1 kg·m²
joints:
  hinge: {kind: revolute, points: [A, P], axes: [z, u]}
"""


def test_the_descriptions_without_mistakes_have_one_degree_of_freedom():
    assert calc_topology(mechanism(SOUND)).degrees_of_freedom == 1
    assert calc_topology(mechanism(SPATIAL)).degrees_of_freedom == 1


IN_THE_FILE = [
    ("space: planar", "space: flat", "space: expected planar or spatial, got 'flat'"),
    (
        "gravity: 0 -9.81 m/s²",
        "gravity: 0 0 -9.81 m/s²",
        "gravity: expected 2 numbers in a planar mechanism, got 3",
    ),
    ("gravity: 0 -9.81 m/s²", "gravity: 0 -9.81 m", "gravity: expected"),
    ("P: 0 1 m", "P: 0 1 2 m", "points.P: expected 2 numbers in a planar mechanism, got 3"),
    ("u: 1 0}", "u: 0 0}", "vectors.u: expected a direction, got the zero vector"),
    ("Q: 3 1 m", "A: 3 1 m", "points.A: 'A' stands in ground.points already"),
    (
        "forces:",
        "joints: {left: {kind: distance, points: [A, Q]}}\nforces:",
        "joints.left: 'left' stands in bodies already",
    ),
    (
        "forces:",
        "joints: {P: {kind: distance, points: [A, Q]}}\nforces:",
        "joints.P: 'P' stands in points already",
    ),
    ("{P: 0 1 m", "{x: 0 1 m", "points.x: 'x' stands in the ground's directions already"),
    ("{k: 3 N/m}", "{sin: 3 N/m}", "parameters.sin: expected a name of letters, digits and _, got 'sin'"),
    (
        "{k: 3 N/m}",
        "{t: 3 N/m}",
        "parameters.t: expected a name of letters, digits and _, got 't', a word of expressions",
    ),
    ("  right: {", '  "ri\\nght": {', "bodies: expected names of one line of characters, got 'ri\\nght'"),
    ("{k: 3 N/m}", "{k: 3 Nx}", "parameters: 'Nx' is not a unit"),
    ("{k: 3 N/m}", "{k: 1 2 m}", "parameters: expected one number and a unit, got '1 2 m'"),
    (
        "points: [A, P], length: 1 m, mass",
        "points: [A, X], length: 1 m, mass",
        "bodies.left: unknown point 'X'",
    ),
    (
        "points: [A, P], length",
        "points: [A, A], length",
        "bodies.left.points: expected points that are not",
    ),
    ("vectors: [u], mass", "vectors: [v], mass", "bodies.middle.vectors: unknown vector 'v'"),
    ("mass: 1 kg, center", "mass: -1 kg, center", "bodies.middle.mass: expected at least 0 kg"),
    (
        "length: 1 m, mass: 1 kg}\n  middle",
        "length: 0 m, mass: 1 kg}\n  middle",
        "bodies.left.length: expected",
    ),
    (
        "inertia: 1 kg·m²",
        "inertia: -1 kg·m²",
        "bodies.middle.inertia: no body has a negative moment of inertia",
    ),
    ("inertia: 1 kg·m²", "inertia: 1 1 1 kg·m²", "bodies.middle.inertia: expected one number, Izz"),
    ("[x, [A, P]]", "[x, [A, X]]", "angles.theta: unknown point 'X'"),
    ("[x, [A, P]]", "[w, [A, P]]", "angles.theta: unknown vector 'w'"),
    ("{points: [A, Q]}", "{points: [A, X]}", "distances.s: unknown point 'X'"),
    ("  left: ", "  ground: ", "bodies.ground: expected another name"),
    (
        "left: {kind: bar, points: [A, P], length: 1 m",
        "left: {kind: bar, points: [A, P], length: 1e308 m",
        "bodies.left",
    ),
    ("[x, [A, P]]", "[x, [P, P]]", "angles.theta: expected two points, got P twice"),
    ("{points: [A, Q]}", "{points: [Q, Q]}", "distances.s: expected two points, got Q twice"),
    (
        "push: {kind: on_coordinate, coordinate: theta, force: -k*theta}",
        "push: {kind: spring, points: [P, P], stiffness: 1 N/m}",
        "forces.push.points: expected two points, got P twice",
    ),
    (
        "independent: [theta]",
        "joints: {j: {kind: revolute, points: [Q, Q]}}",
        "joints.j.points: expected two points, got Q twice",
    ),
    ("coordinate: theta", "coordinate: phi", "forces.push.coordinate: unknown coordinate 'phi'"),
    ("kind: on_coordinate", "kind: on_cordinate", "forces.push.kind: expected spring, torsion_spring"),
    ("independent: [theta]", "independent: [phi]", "independent: unknown coordinate 'phi'; known here: P.x"),
    ("independent: [theta]", "drives: {phi: t}", "drives: unknown coordinate 'phi'"),
    ("independent: [theta]", "velocities: {A: 1 0 m/s}", "velocities.A: unknown point 'A'"),
    ("independent: [theta]", "joints: {j: {kind: revolute, points: [P, X]}}", "joints.j: unknown point 'X'"),
    (
        "independent: [theta]",
        "joints: {j: {kind: prismatic, points: [P, Q], axes: [u, w]}}",
        "joints.j: unknown vector 'w'",
    ),
    (
        "independent: [theta]",
        "joints: {j: {kind: universal, points: [P, Q], axes: [u, u]}}",
        "joints.j.kind: a universal joint needs space, this mechanism is planar",
    ),
    (
        "push: {kind: on_coordinate, coordinate: theta, force: -k*theta}",
        "push: {kind: torsion_spring, angle: s}",
        "forces.push.angle: unknown angle 's'",
    ),
    (
        "push: {kind: on_coordinate, coordinate: theta, force: -k*theta}",
        "push: {kind: torque, body: arm, torque: [1]}",
        "forces.push.body: unknown body 'arm'",
    ),
    (
        "push: {kind: on_coordinate, coordinate: theta, force: -k*theta}",
        "push: {kind: torque, body: middle, torque: [1, 2, 3]}",
        "forces.push.torque: expected 1 component",
    ),
    (
        "push: {kind: on_coordinate, coordinate: theta, force: -k*theta}",
        "push: {kind: force, point: P, force: [1]}",
        "forces.push.force: expected 2 components",
    ),
]


@pytest.mark.parametrize(("old", "new", "says"), IN_THE_FILE)
def test_a_mistake_in_the_file_is_reported_with_line_and_key(old, new, says):
    assert SOUND.count(old) == 1
    with pytest.raises(SettingsError) as error:
        describe(SOUND.replace(old, new))
    where, line, message = str(error.value).split(":", 2)
    assert where == "test.yaml"
    assert int(line) > 0
    assert message.strip().startswith(says)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("axes: [z, u]", "axes: [z, q]", "joints.hinge: unknown vector 'q'"),
        (", axes: [z, u]", "", "joints.hinge.axes: missing; expected the two axes"),
        ("kind: revolute", "kind: rigid", "joints.hinge.normals: missing; expected two directions"),
        ("inertia: 1 1 1", "inertia: 1 1 2.1", "bodies.arm.inertia: no body has these moments"),
        ("inertia: 1 1 1", "inertia: 1 1 -1", "bodies.arm.inertia: no body has a negative moment"),
        (
            "inertia: 1 1 1 kg·m²",
            "inertia: 1 1 1 kg·m²\n    products: 2 0 0 kg·m²",
            "bodies.arm.inertia: no body has a negative moment of inertia, here -1 kg·m²",
        ),
        (
            "joints:",
            "angles: {phi: {between: [y, n]}}\njoints:",
            "angles.phi.about: missing; expected the axis",
        ),
    ],
)
def test_a_mistake_in_a_spatial_file_is_reported(old, new, says):
    assert SPATIAL.count(old) == 1
    with pytest.raises(SettingsError) as error:
        describe(SPATIAL.replace(old, new))
    assert str(error.value).split(":", 2)[2].strip().startswith(says)


NO_MECHANISM = [
    # Description, text to replace, its replacement, and the message.
    (
        SOUND,
        "length: 1 m, mass: 1 kg}\n  middle",
        "length: 9 m, mass: 1 kg}\n  middle",
        "cannot be assembled: 'left: length of A–P' is furthest from the places given; the rest fits without it",
    ),
    (
        SOUND,
        "[theta]",
        "[theta, s]",
        "over-determined: 1 degrees of freedom, 2 declared by independent (theta, s): left, middle, right",
    ),
    (
        SOUND,
        "[theta]",
        "[]\ndegrees_of_freedom: 0",
        "under-determined: 1 degrees of freedom, 0 declared; left",
    ),
    (
        SOUND,
        "  right: {kind: bar, points: [B, Q], length: 1 m, mass: 1 kg}\n",
        "",
        "under-determined: 2 degrees of freedom, 1 declared by independent (theta); middle can move",
    ),
    (PLANAR, "[A, B]}", "[A, B], length: 4 m}", "rod: length: cannot be met, because nothing in it can move"),
    (
        SOUND,
        "independent",
        "joints: {again: {kind: distance, points: [A, P]}, rod: {kind: distance, points: [A, Q]}}\nindependent",
        "over-determined: 0 degrees of freedom, 1 declared by independent (theta); 'again: length' follows from",
    ),
    (
        SOUND,
        "start: 90 deg",
        "start: -90 deg",
        "cannot be assembled: angle theta is -1.571 rad at the start, but the places of the points lie on the other",
    ),
    (
        SOUND,
        "force: -k*theta",
        "force: 1/(theta - pi/2)",
        "forces: no finite force on theta at the start; check push",
    ),
    (SOUND, "force: -k*theta", "force: -kk*theta", "forces.push.force: unknown name 'kk'; did you mean 'k'?"),
    (
        SOUND,
        "length: 1 m, mass: 1 kg}\n  middle",
        "length: 1 m, mass: 1 kg}\n  twin: {kind: bar, points: [A, P], length: 1.1 m, mass: 1 kg}\n  middle",
        "twin: the length of A–P differs from that in left, which also has them",
    ),
    (
        SOUND,
        "points: {P: 0 1 m, Q: 3 1 m}",
        "points: {P: 3 1 m, Q: 3 1 m}",
        "middle: P and Q lie at one place of the body",
    ),
    (
        SPATIAL,
        "kind: revolute, points: [A, P], axes: [z, u]",
        "kind: rigid, points: [A, P], axes: [z, u], normals: [z, n]",
        "hinge: z is not at right angles to z",
    ),
    (
        SPATIAL,
        "kind: revolute, points: [A, P], axes: [z, u]",
        "kind: rigid, points: [A, P], axes: [z, u], normals: [n, y]",
        "hinge: no body has z and n",
    ),
    (
        SPATIAL,
        "joints:",
        "  rod: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}\n"
        "forces: {turn: {kind: torque, body: rod, torque: [1, 0, 0]}}\njoints:",
        "forces.turn.body: rod has no orientation, so that no torque can act",
    ),
    (
        SPATIAL.replace("space: spatial", "space: spatial\ncoordinates: relative"),
        "joints:",
        "forces: {pull: {kind: spring, points: [A, P], stiffness: 1 N/m}}\njoints:",
        "forces.pull.points: A and P are always at one place, so that no line",
    ),
    (
        SPATIAL.replace("ground: {points: {A: 0 0 0 m}}\n", ""),
        "joints:",
        "angles: {tilt: {between: [[A, T], s], about: z}}\n"
        "ground: {points: {A: 0 0 0 m, T: 1 0 1 m}, vectors: {s: 0 1 1}}\njoints:",
        "angles.tilt.about: expected it at right angles to one of the two directions at least, got 45° and 45°",
    ),
    (
        SPATIAL.replace("bodies:", "bodies:\n  rod: {kind: bar, points: [A, Q], length: 1 m, mass: 1 kg}"),
        "points: {P: 1 0 0 m}",
        "points: {P: 1 0 0 m, Q: 0 0 0 m}",
        "cannot be assembled: 'rod: length of A–Q' cannot be approached from places that coincide at the start",
    ),
]


@pytest.mark.parametrize(("text", "old", "new", "says"), NO_MECHANISM)
def test_a_description_of_no_possible_mechanism_is_refused_with_the_part_named(text, old, new, says):
    description = describe(text.replace(old, new))
    with pytest.raises(UsageError) as error:
        Mechanism(CompiledMechanism(description))
    assert str(error.value).startswith(says)
    assert "\n" not in str(error.value)


def test_a_joint_between_fixed_points_adds_no_constraint():
    m = mechanism(PLANAR)
    assert "rod: length" not in m.constraint_names
    assert calc_topology(m).redundant == []


def test_motion_without_mass_is_refused_with_the_body_named():
    text = SOUND.replace("P: 0 1 m, Q: 3 1 m", "P: 0 1 m, Q: 3 1 m, L: 4 0 m")
    text = text.replace("independent: [theta]\n", "")
    loose = "  loose: {kind: bar, points: [B, L], length: 1 m, mass: 0 kg}\n  right"
    with pytest.raises(UsageError) as error:
        mechanism(text.replace("  right", loose))
    assert str(error.value) == "the mass matrix is singular: loose can move without moving any mass"
    assert (
        calc_topology(mechanism(text.replace("  right", loose.replace("0 kg", "1 kg")))).degrees_of_freedom
        == 2
    )


def test_independent_coordinates_must_determine_the_position():
    text = """
space: planar
ground: {points: {A: 0 0 m}}
points: {P: 1 0 m}
bodies: {bar: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}}
independent: [P.x]
"""
    with pytest.raises(UsageError, match=r"^independent: bar can move while P.x stay"):
        mechanism(text)
    assert calc_topology(mechanism(text.replace("P.x", "P.y"))).independent == ["P.y"]


SCOTCH_YOKE = """
space: planar
ground: {points: {O: 0 0 m, R: 0 -0.5 m}}
points: {P: 0.2 0 m, S: 0.2 -0.5 m}
vectors: {slot: 0 1, rail: 1 0}
angles: {phi: {between: [x, [O, P]], start: 0 rad}}
distances: {stroke: {points: [R, S], along: x}}
bodies:
  crank: {kind: bar, points: [O, P], length: 0.2 m, mass: 1 kg}
  yoke: {kind: rigid, points: [S], vectors: [slot, rail], mass: 3 kg, center_of_mass: 0.2 -0.4 m, inertia: 1 kg·m²}
joints:
  guide: {kind: prismatic, points: [R, S], axes: [x, rail]}
  pin: {kind: point_on_line, points: [S, P], axis: slot}
independent: [stroke]
"""


def test_a_stroke_does_not_determine_a_crank_at_dead_centre():
    with pytest.raises(UsageError, match=r"^independent: crank can move while stroke stays$"):
        mechanism(SCOTCH_YOKE)
    calc_topology(mechanism(SCOTCH_YOKE.replace("[stroke]", "[phi]")))


@pytest.mark.parametrize("place", ["1e308", "-2e9"])
def test_a_position_beyond_1e9_m_is_refused_before_anything_is_computed(place):
    with pytest.raises(SettingsError, match=r"points\.Q: expected at least -1e\+09 m and at most 1e\+09 m"):
        describe(SOUND.replace("Q: 3 1 m", f"Q: {place} 1 m"))


def test_descriptions_made_in_a_program_are_checked_too():
    sound = Description(
        space="planar",
        ground=GroundBody(points={"A": (0.0, 0.0)}),
        points={"P": (1.0, 0.0)},
        bodies={"bar": Bar(kind="bar", points=("A", "P"), length=1.0, mass=1.0)},
    )
    assert calc_topology(Mechanism(CompiledMechanism(sound))).degrees_of_freedom == 1
    for change, says in (
        (
            {"bodies": {"bar": Bar(kind="bar", points=("A", "P"), length=1.0, mass=-1.0)}},
            "bodies.bar.mass: expected",
        ),
        ({"points": {"Q": (1.0, 0.0)}}, "bodies.bar: unknown point 'P'"),
        ({"points": {"P": (1.0, float("nan"))}}, "points.P: expected a number"),
    ):
        with pytest.raises(UsageError) as error:
            CompiledMechanism(dataclasses.replace(sound, **change))
        assert str(error.value).startswith(says)


@pytest.mark.parametrize("form", ["Relative", "polar", "auto"])
def test_an_unknown_form_is_refused(form):
    with pytest.raises(UsageError, match=f"^form: expected natural or relative, got '{form}'$"):
        Mechanism.load("four_bar", form=form)


@pytest.mark.parametrize(
    ("value", "says"), [(float("nan"), "a finite number"), (-1.0, "a mass of at least 0 kg")]
)
def test_an_impossible_parameter_value_is_refused_and_nothing_is_written(value, says):
    m = mechanism(SOUND)
    with pytest.raises(UsageError, match=rf"^parameter 'left\.mass': expected {says}, got"):
        m.set_parameters({"right.mass": 2.0, "left.mass": value})
    assert m.get_parameter("right.mass") == 1.0
    m.set_parameters({"right.mass": 2.0, "k": -3.0})
    assert (m.get_parameter("right.mass"), m.get_parameter("k")) == (2.0, -3.0)


@pytest.mark.parametrize("formulation", ["ali3p", "penalty"])
@pytest.mark.parametrize("h", [0.0, float("nan")])
def test_a_time_step_of_zero_or_nan_is_refused(formulation, h):
    with pytest.raises(UsageError, match=r"^step: expected a time step other than 0 s, got"):
        make_stepper(formulation, "trapezoidal").step(mechanism(SOUND), h)


def test_a_file_with_bodies_is_checked_as_a_mechanism_even_without_its_space(tmp_path, capsys):
    path = tmp_path / "bodies.yaml"
    path.write_text(SOUND.replace("space: planar\n", ""))
    assert main(["check", str(path)]) == 2
    assert capsys.readouterr().err == f"vehicled: {path}:2: space: missing; expected planar or spatial\n"


def test_an_expression_of_thousands_of_terms_is_refused_as_too_long():
    with pytest.raises(UsageError, match=r"^forces\.push\.force: .* is too long, or nested too deeply"):
        mechanism(SOUND.replace("-k*theta", "+".join(["theta"] * 5000)))


def test_an_unknown_name_is_refused_with_the_names_of_shipped_mechanisms():
    with pytest.raises(SettingsError, match=r"shipped .*five_bar, .*four_bar, .*pendulum, .*slider_crank"):
        load_description("fourbar")


def test_a_distance_joint_between_markers_needs_a_length(tmp_path):
    text = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m, B: 3 0 m}}
points: {P: 1 0 m, Q: 2 0 m}
bodies:
  left: {kind: rigid, points: [A, P], markers: {M: 0.5 0.2 m},
    mass: 1 kg, center_of_mass: 0.5 0 m, inertia: 0.1 kg·m²}
  right: {kind: rigid, points: [B, Q], markers: {N: 2.5 0.2 m},
    mass: 1 kg, center_of_mass: 2.5 0 m, inertia: 0.1 kg·m²}
joints: {rod: {kind: distance, points: [M, N]}}
"""
    path = tmp_path / "markers.yaml"
    path.write_text(text)
    with pytest.raises(MechanismError, match="rod: expected a length, as M is a marker"):
        Mechanism.load(path)
    path.write_text(text.replace("points: [M, N]", "points: [M, N], length: 2 m"))
    assert len(Mechanism.load(path).independent) == 1
