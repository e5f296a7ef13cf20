"""Mechanisms in relative coordinates: the same motion as in natural ones, closed forms, observers."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import mechanism_rig as rig
import numpy as np
import pytest
from codegen_rig import LoadedPython, compare_with_machine_code, load_python
from identification_rig import draw_motion
from mechanism_log_rig import record
from operator_rig import CHAIN, DUMBBELL, FREE, JOINTS
from relative_rig import DOUBLE

from vehicled.cli import main
from vehicled.errors import UsageError
from vehicled.identification import base
from vehicled.identification.mechanism.estimate import calc_equations, estimate
from vehicled.identification.mechanism.unknowns import MechanismUnknowns
from vehicled.identification.motions import observe
from vehicled.identification.regressors import Regressor, spring_columns
from vehicled.identification.symbolic_base import find_symbolic_base
from vehicled.multibody import body_operators, operators, problems, switches
from vehicled.multibody.batch import MechanismBatch
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import Description, load_description
from vehicled.multibody.forms import FormCounts, choose_form, count_forms
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.library import make_library
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import MechanismError
from vehicled.multibody.reactions import calc_reactions
from vehicled.multibody.sensors import Encoder, Gyroscope, SensorSet
from vehicled.studies.observers.error_state import ErrorStateObserver
from vehicled.studies.observers.linkage_errors import ExactLinkageErrors
from vehicled.studies.observers.noise import calc_free_slope, discretise, make_units

PLANAR = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m, G: 1 -0.5 m}, vectors: {up: 1 2}}
points: {A1: 0 0 m, P1: 0.5 0.5 m, P2: 0.5 0.5 m, Q: 1.4 0.3 m, S: 1.4 0.3 m, T: 1.6 0.6 m, F: 3 0 m, E: 3 1 m,
         L: -1 -1 m, W: 0 -1 m}
vectors: {s: 1 2, w: 3 -1}
angles:
  theta: {between: [x, [A1, P1]], start: 45 deg, rate: 2 rad/s}
  knee: {between: [[A1, P1], [P2, Q]]}
  free: {between: [y, [F, E]]}
distances:
  height: {points: [G, S], along: up}
parameters: {motor: 3 N·m}
bodies:
  crank: {kind: rigid, points: {A1: 0.1 0.2 m, P1: 0.6 0.7 m}, markers: {M: 0.3 0 m},
          mass: 2 kg, center_of_mass: 0.3 0.1 m, inertia: 0.2 kg·m²}
  rod: {kind: bar, points: [P2, Q], mass: 1 kg}
  slide: {kind: rigid, points: [S, T], vectors: [s], mass: 3 kg, center_of_mass: 1.5 0.4 m, inertia: 0.4 kg·m²}
  bob: {kind: point_mass, point: T, mass: 0.7 kg}
  loose: {kind: rigid, points: {F: 0 0 m, E: 0 1 m}, directions: {e: 3 -1}, mass: 1.5 kg, center_of_mass: 0 0.5 m,
          inertia: 0.1 kg·m²}
  lone: {kind: point_mass, point: L, mass: 1.1 kg}
  weight: {kind: rigid, points: {W: 0 0.1 m}, vectors: {w: 3 4}, mass: 1 kg, center_of_mass: 0.1 0.1 m,
           inertia: 0.1 kg·m²}
joints:
  at_A: {kind: revolute, points: [A, A1]}
  at_P: {kind: spherical, points: [P2, P1]}
  guide: {kind: prismatic, points: [G, S], axes: [up, s]}
  weld: {kind: rigid, points: [F, W], axes: [e, w]}
forces:
  spring: {kind: spring, points: [M, T], stiffness: 300 N/m, damping: 5 N·s/m, free_length: 1 m}
  tie: {kind: spring, points: [E, T], stiffness: 30 N/m, damping: 5 N·s/m, free_length: 1 m}
  lift: {kind: spring, points: [L, A], stiffness: 30 N/m, damping: 5 N·s/m, free_length: 1 m}
  twist: {kind: torsion_spring, angle: knee, stiffness: 4 N·m/rad, damping: 1 N·m·s/rad, free_angle: 0.2 rad}
  turn: {kind: torque, body: rod, torque: [2]}
  push: {kind: force, point: M, force: ["3 + Q.x", "-rate(theta)"]}
  motor: {kind: on_coordinate, coordinate: theta, force: motor}
  jack: {kind: actuator, points: [P2, S], force: "5*length"}
  ram: {kind: on_coordinate, coordinate: height, force: 2}
"""
"""Every kind of planar element: joints between two points and at a shared one, a slide, loads of all kinds."""

SPATIAL = """
space: spatial
gravity: 1 2 -9.81 m/s²
ground: {points: {O: 0.3 -0.2 0.5 m}, vectors: {a: 1 2 2, b: 2 1 -2}}
points: {P: 0.3 -0.2 0.5 m, Q: 1 0 0.5 m, R: 1 0 0.5 m, S: 2 0 0 m}
vectors: {u: 1 2 2, n: 2 1 -2, w: 0 1 0, k: 1 0 1, k2: 1 0 1, l: 1 0 -1, l2: 1 0 -1, w2: 0 1 0}
angles: {turn: {between: [b, n], about: a, rate: 1 rad/s}}
bodies:
  body: {kind: rigid, points: [P, Q], vectors: [u, n, w], mass: 2 kg, center_of_mass: 0.8 0.1 0.4 m,
         inertia: 0.2 0.3 0.4 kg·m², products: 0.02 0.03 -0.01 kg·m²}
  arm: {kind: rigid, points: {R: 0 0 0.1 m}, vectors: {w2: 1 2 3, k: -2 1 0, l: -3 -6 5},
        markers: {T: 0.3 0.2 0.1 m}, mass: 1 kg, center_of_mass: 0.1 0.2 0.3 m, inertia: 0.02 0.03 0.04 kg·m²}
  block: {kind: rigid, points: {S: 0 0.1 0 m}, vectors: {k2: 0 0 1, l2: 1 0 0}, mass: 0.5 kg,
          center_of_mass: 0 0 0 m, inertia: 0.02 0.02 0.03 kg·m²}
joints:
  first: {kind: cylindrical, points: [O, P], axes: [a, u]}
  second: {kind: revolute, points: [Q, R], axes: [w, w2]}
  third: {kind: prismatic, points: [T, S], axes: [k, k2], normals: [l, l2]}
forces:
  spring: {kind: spring, points: [O, S], stiffness: 30 N/m, damping: 5 N·s/m, free_length: 1 m}
  torque: {kind: torque, body: arm, torque: [2, 1, 3]}
  motor: {kind: on_coordinate, coordinate: turn, force: 2}
"""
CLOSED = ("four_bar", "five_bar", "slider_crank", "suspension_corner")
OPEN = {"planar": PLANAR, "spatial": SPATIAL}
CHAINS = {f"chain, {joint}": CHAIN.format(joint=text, v="0 1 0", w="0 0 1") for joint, text in JOINTS.items()}
TEXTS = OPEN | CHAINS
SLOW = ("spatial", "bricard", "front_suspension", *CHAINS)


def describe(name: str) -> Description:
    return rig.describe(TEXTS[name]) if name in TEXTS else load_description(name)


@cache
def compiled(name: str, form: str) -> CompiledMechanism:
    return CompiledMechanism(replace(describe(name), coordinates=form))


def relative(name: str) -> Mechanism:
    return Mechanism(compiled(name, "relative"))


def copy_state(there: Mechanism, here: Mechanism) -> None:
    """Set `there`, in natural coordinates, to the position and velocity of `here`, in relative coordinates."""
    positions, velocities, placement = (
        here.calc_point_positions(),
        here.calc_point_velocities(),
        here.placement,
    )
    known, rates = there.q.copy(), np.zeros(len(there.q))
    weights = np.full(len(there.q), 1e-8)
    for k, name in enumerate(there.coordinate_names):
        vector, _, axis = name.rpartition(".")
        if vector in positions:
            axis = "xyz".index(axis)
            known[k], rates[k] = positions[vector][axis], velocities[vector][axis]
        elif vector in placement.vectors:
            axis = "xyz".index(axis)
            known[k] = placement.vector(vector, here.q)[axis]
            rates[k] = placement.vectors[vector][axis] @ here.qd
        elif name in here.coordinate_names:
            known[k], rates[k] = here.q[here.index(name)], here.qd[here.index(name)]
        else:
            continue
        weights[k] = 1.0
    problems.assemble(there, known, weights=weights).require("assembly")
    motions = problems.nullspace(there.calc_jacobian())
    there.set_independent(problems.choose_independent(motions, np.flatnonzero(weights == 1.0)))
    problems.solve_velocity(there, rates[there.independent])
    problems.solve_dynamics(there)


def pair(name: str, duration: float = 0.025) -> tuple[Mechanism, Mechanism]:
    """A mechanism in natural and in relative coordinates, both simulated from the same state."""
    here, there = relative(name), Mechanism(compiled(name, "natural"))
    copy_state(there, here)
    for m in (there, here):
        stepper = make_stepper("matrix_r", "runge_kutta_4")
        for _ in range(round(duration / 5e-4)):
            stepper.step(m, 5e-4).require("step")
        problems.solve_dynamics(m)
    return there, here


@pytest.mark.parametrize(
    "name", [*CLOSED, "planar", *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)]
)
def test_both_forms_move_the_same_with_the_same_reactions(name):
    there, here = pair(name)
    assert len(here.q) < len(there.q)
    for calc in ("calc_point_positions", "calc_point_velocities", "calc_point_accelerations"):
        found, expected = getattr(here, calc)(), getattr(there, calc)()
        assert found.keys() == expected.keys()
        for p, value in expected.items():
            assert found[p] == pytest.approx(value, rel=1e-7, abs=1e-7), (calc, p)
    assert here.calc_kinetic_energy() == pytest.approx(there.calc_kinetic_energy(), rel=1e-8, abs=1e-8)
    assert here.calc_potential_energy() == pytest.approx(there.calc_potential_energy(), rel=1e-8, abs=1e-8)
    for calc in (operators.calc_momentum, operators.calc_mass_properties):
        for found, expected in zip(vars(calc(here)).values(), vars(calc(there)).values(), strict=True):
            assert found == pytest.approx(expected, rel=1e-7, abs=1e-7)
    accelerations = [operators.calc_center_of_mass_acceleration(m) for m in (here, there)]
    assert accelerations[0] == pytest.approx(accelerations[1], rel=1e-6, abs=1e-7)
    found, expected = (calc_reactions(m) for m in (here, there))
    assert [(r.joint, r.body, r.point) for r in found if r.joint in here.description.joints] == [
        (r.joint, r.body, r.point) for r in expected if r.joint in here.description.joints
    ]
    by_place = {(r.joint, r.body, r.point): r for r in found}
    assert len(by_place) == len(expected)
    for r in expected if name != "bricard" else ():  # its constraints are redundant
        mine = by_place[r.joint, r.body, r.point]
        assert mine.force == pytest.approx(r.force, rel=1e-5, abs=1e-5)
        assert mine.torque == pytest.approx(r.torque, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", ["four_bar", "planar"])
def test_error_of_ali3p_falls_with_the_square_of_the_step(name):
    exact = relative(name)
    fine = make_stepper("matrix_r", "runge_kutta_4")
    for _ in range(80):
        fine.step(exact, 2.5e-3).require("step")
    errors = []
    for h in (5e-3, 2.5e-3):
        m = rig.advance(relative(name), h, 0.2)
        errors.append(float(np.abs(m.q - exact.q).max()))
        assert np.abs(m.calc_constraints()).max(initial=0.0) < 1e-9
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


def test_a_double_pendulum_obeys_lagranges_equations():
    """In the absolute angle of the upper body and the relative angle of the lower one."""
    m = rig.mechanism(DOUBLE)
    assert m.coordinate_names == ["upper_angle", "elbow"]
    assert m.constraint_names == []
    l1, m1, m2, r, izz = 1.1, 1.3, 2.0, 0.3, 0.3
    for q1, q2, v1, v2 in ((0.3, 0.7, 1.0, -2.0), (-1.2, 2.5, 0.0, 3.0)):
        m.set_independent_state(np.array([q1, q2]), np.array([v1, v2])).require("state")
        coupling = m2 * l1 * r * np.cos(q2)
        inner = m1 * l1**2 / 3 + izz + m2 * (l1**2 + r**2) + 2 * coupling
        outer = izz + m2 * r**2
        mass = [[inner, outer + coupling], [outer + coupling, outer]]
        twist = m2 * l1 * r * np.sin(q2)
        weights = [(0.5 * m1 + m2) * l1 * np.cos(q1) + m2 * r * np.cos(q1 + q2), m2 * r * np.cos(q1 + q2)]
        forces = [twist * v2 * (2 * v1 + v2), -twist * v1**2] - rig.G * np.array(weights)
        assert m.mass == pytest.approx(np.array(mass), rel=1e-12)
        assert m.qdd == pytest.approx(np.linalg.solve(mass, forces), rel=1e-10)


def test_a_free_body_conserves_energy_and_angular_momentum():
    """A thrown, tumbling body; its linear momentum changes by its weight."""
    m = Mechanism(CompiledMechanism(replace(rig.describe(FREE), coordinates="relative")))
    assert m.coordinate_names == [f"body.{c}" for c in ("x", "y", "z", "angle_x", "angle_y", "angle_z")]
    m.set_independent_state(m.z, np.array([1.0, -2.0, 0.5, 3.0, 1.0, -2.0])).require("state")
    before, energy = operators.calc_central_momentum(m), rig.energy(m)
    rig.advance(m, 2e-3, 0.2, "matrix_r", "runge_kutta_4")
    after = operators.calc_central_momentum(m)
    assert after.angular == pytest.approx(before.angular, abs=1e-9)
    assert after.linear - before.linear == pytest.approx(2.0 * 0.2 * np.array([0.3, -0.2, -rig.G]), abs=1e-9)
    assert rig.energy(m) == pytest.approx(energy, abs=1e-9)


@pytest.mark.parametrize("name", ["four_bar", "planar", "spatial"])
def test_regressor_and_jacobians_of_the_accelerations_in_relative_coordinates(name):
    m = relative(name)
    rig.advance(m, 1e-3, 0.02, "matrix_r")
    problems.solve_dynamics(m)
    regressor = Regressor(m, spring_columns(m))
    needed = m.mass @ m.qdd - m.calc_forces() + regressor.calc_known_forces()
    assert regressor.calc() @ regressor.values == pytest.approx(needed, rel=1e-10, abs=1e-10)
    z, zd, state, f = m.z, m.zd, m.get_state(), len(m.independent)
    exact = np.hstack(problems.calc_acceleration_jacobians(m))
    differences = np.zeros((f, 2 * f))
    for k in range(2 * f):
        ends = []
        for away in (1e-6, -1e-6):
            m.set_state(state)
            shift = np.zeros(2 * f)
            shift[k] = away
            m.set_independent_state(z + shift[:f], zd + shift[f:]).require("state")
            ends.append(m.zdd)
        differences[:, k] = (ends[0] - ends[1]) / 2e-6
    assert exact == pytest.approx(differences, rel=1e-6, abs=1e-6 * np.abs(exact).max())


def test_far_positions_are_reached_in_the_same_assembly():
    """A slider-crank in closed form."""
    m, r, length = relative("slider_crank"), 0.06, 0.18
    for theta in (-3.0, 0.0, 3.0, -1.5, 2.0):
        m.set_independent_state(np.array([theta]), np.array([40.0])).require("position")
        sin, cos = np.sin(theta), np.cos(theta)
        root = np.sqrt(length**2 - (r * sin) ** 2)
        k = m.index("stroke")
        assert m.q[k] == pytest.approx(r * cos + root, abs=1e-12)
        assert m.qd[k] == pytest.approx((-r * sin - r * r * sin * cos / root) * 40.0, abs=1e-10)


def test_instances_of_a_batch_accelerate_as_each_alone():
    m = relative("four_bar")
    batch = MechanismBatch(m, 2)
    z, zd = np.array([[1.1], [1.4]]), np.array([[0.5], [-2.0]])
    assert batch.set_independent_state(z, zd)
    for k in range(2):
        m.set_independent_state(z[k], zd[k]).require("state")
        assert batch.zdd[k] == pytest.approx(m.zdd, rel=1e-9)


def test_base_parameters_are_those_of_natural_coordinates():
    m = relative("four_bar")
    found = base.find_base_by_svd(observe(Regressor(m), draw_motion(m, 60, 0.2)).stacked)
    expected = find_symbolic_base(Mechanism(compiled("four_bar", "natural"))).base
    assert found.null.tolist() == expected.null.tolist()
    assert base.calc_space_distance(expected, found) < 1e-8


def test_masses_of_a_recorded_motion_are_found_in_either_form():
    forms = [Mechanism(compiled("five_bar", form)) for form in ("natural", "relative")]
    heavier = {"left_coupler.mass": 1.3, "right_crank.mass": 2.5}
    forms[0].set_parameters(heavier)
    run = record(forms[0], 3)
    forms[0].set_parameters({"left_coupler.mass": 1.0, "right_crank.mass": 3.0})
    found = []
    for m in forms:
        unknowns = MechanismUnknowns(Regressor(m, spring_columns(m)))
        found.append(
            {q.quantity.name: q for q in estimate(unknowns, [calc_equations(unknowns, run)]).quantities}
        )
    assert found[0].keys() == found[1].keys()
    for name, quantity in found[0].items():
        assert found[1][name].value == pytest.approx(quantity.value, rel=1e-6)
        assert found[1][name].sigma == pytest.approx(quantity.sigma, rel=1e-4)
    for name, value in heavier.items():
        assert abs(found[1][name].value - value) < 4.0 * found[1][name].sigma


@pytest.mark.parametrize("form", ["natural", "relative"])
def test_an_error_state_filter_on_a_four_bar_converges(form):
    h, sensors = 5e-3, SensorSet((Encoder("theta", 0.01), Gyroscope(("A", "P"), 0.01)))
    both = CompiledMechanism(replace(load_description("four_bar"), coordinates=form), (sensors,))
    true, m, stepper = Mechanism(both), Mechanism(both), make_stepper("ali3p")
    m.set_independent_state(m.z + 0.2, m.zd + 0.5).require("state")
    noise = discretise(calc_free_slope(1), 0.01 * make_units(2, [1]).sum(axis=0), h)
    observer = ErrorStateObserver(ExactLinkageErrors(m, sensors, noise), h, np.diag([0.04, 0.25]))
    random, errors = np.random.default_rng(5), []
    for _ in range(200):
        stepper.step(true, h).require("step")
        observer.step(sensors.calc_readings(true) + 0.01 * random.normal(size=2))
        errors.append(float(observer.z[0] - true.z[0]))
    assert np.sqrt(np.mean(np.square(errors[100:]))) < 0.005
    assert np.abs(m.calc_constraints()).max() < 1e-3


def test_a_joint_can_be_held_and_driven():
    m = relative("planar")
    switches.prescribe(m, "knee", m.q[m.index("knee")], 0.3)
    problems.solve_velocity(m, m.zd)
    stepper, start = make_stepper("ali3p"), float(m.q[m.index("knee")])
    for k in range(1, 21):
        switches.prescribe(m, "knee", start + 0.3 * 1e-3 * k, 0.3)
        stepper.step(m, 1e-3).require("step")
    assert m.q[m.index("knee")] == pytest.approx(start + 0.006, abs=1e-12)
    k = m.constraint_names.index("hold knee")
    problems.solve_dynamics(m)
    # The same torque as an applied force gives the same acceleration.
    torque, qdd = -m.multipliers[k], m.qdd.copy()
    switches.release(m, "knee")
    m.applied[m.index("knee")] = torque
    problems.solve_dynamics(m)
    assert m.qdd == pytest.approx(qdd, rel=1e-8, abs=1e-8)


def test_a_joint_of_the_tree_cannot_be_disabled():
    m = relative("planar")
    with pytest.raises(UsageError, match="at_A has no constraints of its own"):
        switches.disable(m, "at_A")


def test_generated_code_computes_the_same(tmp_path):
    path = tmp_path / "double.yaml"
    path.write_text(DOUBLE)
    library = make_library(path)
    compare_with_machine_code(library, LoadedPython(library, load_python(library)))


def test_forces_at_places_of_bodies_do_the_same_work():
    there, here = Mechanism(compiled("four_bar", "natural")), relative("four_bar")
    for m in (there, here):
        forces = body_operators.Forces(m)
        forces.add_force("coupler", [3.0, 0.5, 0.0], [100.0, -40.0, 0.0])
        forces.add_torque("rocker", [0.0, 0.0, 60.0])
        m.applied[:] = forces.generalised
        problems.solve_dynamics(m)
    assert here.zdd == pytest.approx(there.zdd, rel=1e-9)


def test_auto_takes_the_cheaper_form_and_check_shows_both(tmp_path, capsys):
    path = tmp_path / "double.yaml"
    path.write_text(DOUBLE.replace("coordinates: relative", "coordinates: auto"))
    counts = count_forms(load_description(path))
    assert counts["relative"].step < counts["natural"].step
    assert (counts["relative"].coordinates, counts["relative"].constraints) == (2, 0)
    m = Mechanism.load(path)
    assert m.description.coordinates == "relative"
    assert main(["check", str(path)]) == 0
    printed = capsys.readouterr().out
    for counted in counts.values():
        assert (
            f"residual {counted.residual:,}, step {counted.step:,} with {counted.functions} functions"
            in printed
        )
    assert "relative coordinates" in printed.splitlines()[-1]
    assert main(["check", "four_bar", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["form"] == "natural"
    assert found["forms"]["natural"]["coordinates"] == found["coordinates"] == 5
    assert found["forms"]["relative"]["constraints"] == 2


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("pendulum", "relative"),
        ("four_bar", "natural"),
        ("five_bar", "natural"),
        ("slider_crank", "relative"),
    ],
)
def test_check_shows_the_form_that_auto_takes_and_its_cost(capsys, name, form):
    """The cost counts a function as 20 operations; unweighted, relative would be cheaper for the four-bar."""
    description = load_description(name)
    assert choose_form(description) == form
    assert main(["check", name, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    costs = {k: counts["step"] + 19 * counts["functions"] for k, counts in found["forms"].items()}
    assert costs == {k: counts["cost"] for k, counts in found["forms"].items()}
    assert found["auto"] == min(costs, key=costs.get) == form
    assert main(["check", name]) == 0
    assert f"auto would take      {form} coordinates" in capsys.readouterr().out


def test_a_caller_can_ask_for_a_form(tmp_path):
    """Particles need natural coordinates, whatever the file says."""
    path = tmp_path / "double.yaml"
    path.write_text(DOUBLE)
    assert "Q.y" in Mechanism.load(path, form="natural").coordinate_names


def test_natural_coordinates_are_the_default_and_replace_impossible_relative_ones():
    assert load_description("four_bar").coordinates == "natural"
    bar = rig.describe(DUMBBELL)
    counts = count_forms(bar)
    assert isinstance(counts["natural"], FormCounts)
    assert "rod: a bar in space" in counts["relative"]
    assert choose_form(replace(bar, coordinates="auto")) == "natural"
    with pytest.raises(MechanismError, match="unknown point 'lower_ball'"):
        count_forms(replace(load_description("suspension_corner"), points={}))
