"""A mechanism of micrometres or kilometres behaves as the same mechanism of metres.

Times are scaled by the square root of lengths, so that gravity is unchanged; masses are scaled independently. All
quantities without unit are then the same: angles, positions relative to the size, iterations, redundant constraints.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mechanism_rig import FITTING, describe, energy
from scaling_rig import Scaling

from vehicled.multibody import equilibrium, problems, projections
from vehicled.multibody.checks import calc_topology
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import Description, load_description
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.reactions import calc_reactions, find_undetermined

QUARTER_CAR = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {road: 0 0 m}}
points: {W: 0 0.3 m, B: 0 0.8 m}
distances:
  wheel: {points: [road, W], along: y}
  body: {points: [road, B], along: y}
bodies:
  unsprung: {kind: point_mass, point: W, mass: 40 kg}
  sprung: {kind: point_mass, point: B, mass: 300 kg}
joints:
  wheel_guide: {kind: point_on_line, points: [road, W], axis: y}
  body_guide: {kind: point_on_line, points: [road, B], axis: y}
forces:
  strut: {kind: spring, points: [W, B], stiffness: 20 kN/m, damping: 1.5 kN·s/m, free_length: 0.65 m}
  tyre: {kind: spring, points: [road, W], stiffness: 200 kN/m, free_length: 0.32 m}
independent: [wheel, body]
"""
DOOR = """
space: spatial
gravity: 0 0 -9.81 m/s²
ground: {points: {A: 0 0 0 m, B: 0 0 2 m}}
bodies:
  door:
    kind: rigid
    points: {A: 0 0 0 m, B: 0 0 2 m}
    markers: {handle: 1 0 1 m}
    mass: 20 kg
    center_of_mass: 0.5 0 1 m
    inertia: 6.7 8.4 1.7 kg·m²
"""
SOURCES = {"quarter_car": QUARTER_CAR, "door": DOOR}
MECHANISMS = ("pendulum", "four_bar", "slider_crank", "suspension_corner", "quarter_car")
SCALES = (1e-6, 1e-3, 1e3)
STEP, STEPS = 1e-3, 30


@lru_cache(maxsize=64)
def build(name: str, form: str, length: float, mass: float = 1.0) -> CompiledMechanism:
    found: Description = describe(SOURCES[name]) if name in SOURCES else load_description(name)
    scaled = Scaling(length, mass).description(replace(found, coordinates=form))
    return CompiledMechanism(scaled, optimisation=0)


def places(m: Mechanism, length: float) -> np.ndarray:
    return np.array([x / length for x in m.calc_point_positions().values()])


@lru_cache(maxsize=128)
def move(
    name: str, form: str, length: float, mass: float, formulation: str, rule: str, steps: int = STEPS
) -> tuple[np.ndarray, int, float]:
    """Positions at the end over the scale, iterations, and the change of energy in scaled units."""
    m, scaling = Mechanism(build(name, form, length, mass)), Scaling(length, mass)
    stepper, start, count = make_stepper(formulation, rule), energy(m), 0
    for _ in range(steps):
        count += stepper.step(m, STEP * scaling.time).require(formulation).iterations
    unit = scaling.factor("J")
    return places(m, length), count, (energy(m) - start) / unit


@pytest.mark.parametrize(("formulation", "rule"), [(f, r) for f, r, _ in FITTING])
@pytest.mark.parametrize("form", ["natural", pytest.param("relative", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_mechanism_of_any_size_moves_the_same(name, form, formulation, rule):
    expected, iterations, gain = move(name, form, 1.0, 1.0, formulation, rule)
    for length in SCALES:
        found, count, its_gain = move(name, form, length, 1.0, formulation, rule)
        assert np.abs(found - expected).max() <= 1e-8 * np.abs(expected).max(), length
        assert abs(count - iterations) <= 0.05 * iterations, length
        assert its_gain == pytest.approx(gain, rel=1e-5, abs=1e-7), length


@pytest.mark.parametrize("formulation", ["ali3p", "matrix_r", "penalty", "lagrange"])
def test_a_mechanism_of_any_mass_moves_the_same(formulation):
    expected, iterations, _ = move("four_bar", "natural", 1.0, 1.0, formulation, "trapezoidal")
    for mass in (1e-15, 1e9):
        for length in SCALES:
            found, count, _ = move("four_bar", "natural", length, mass, formulation, "trapezoidal")
            assert np.abs(found - expected).max() <= 1e-8 * np.abs(expected).max()
            assert abs(count - iterations) <= 0.05 * iterations


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(MECHANISMS),
    form=st.sampled_from(["natural", "relative"]),
    length=st.floats(-6.0, 3.0).map(lambda power: 10.0**power),
    mass=st.floats(-12.0, 9.0).map(lambda power: 10.0**power),
    formulation=st.sampled_from(["ali3p", "matrix_r", "penalty", "lagrange"]),
)
def test_mechanisms_of_random_size_and_mass_move_the_same(name, form, length, mass, formulation):
    expected, _, _ = move(name, form, 1.0, 1.0, formulation, "trapezoidal", 20)
    found, _, _ = move(name, form, length, mass, formulation, "trapezoidal", 20)
    assert np.abs(found - expected).max() <= 1e-8 * np.abs(expected).max()


@pytest.mark.parametrize("length", SCALES)
@pytest.mark.parametrize("form", ["natural", "relative"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_topology_is_the_same_at_any_size(name, form, length):
    one, other = (calc_topology(Mechanism(build(name, form, s))) for s in (1.0, length))
    assert one == other


@pytest.mark.parametrize("length", SCALES)
@pytest.mark.parametrize("form", ["natural", "relative"])
def test_static_deflection_is_weight_over_stiffness_at_any_size(form, length):
    """At any scale the springs are compressed by m g / k, relative to the size."""
    m = Mechanism(build("quarter_car", form, length))
    assert equilibrium.solve_equilibrium(m).require("equilibrium").iterations <= 20
    wheel, body = m.q[m.index("wheel")] / length, m.q[m.index("body")] / length
    assert wheel == pytest.approx(0.32 - 340.0 * 9.81 / 200e3, rel=1e-12)
    assert body - wheel == pytest.approx(0.65 - 300.0 * 9.81 / 20e3, rel=1e-12)
    assert equilibrium.is_stable(m)


@pytest.mark.parametrize("length", SCALES)
@pytest.mark.parametrize("name", ["four_bar", "suspension_corner"])
def test_reactions_scale_with_weights_and_lengths(name, length):
    """With the same masses, forces are unchanged and torques are proportional to lengths."""
    ones, others = (calc_reactions(Mechanism(build(name, "natural", s))) for s in (1.0, length))
    most = max(np.abs(r.force).max() for r in ones)
    for one, other in zip(ones, others, strict=True):
        assert one.joint == other.joint
        assert np.abs(other.force - one.force).max() <= 1e-8 * most
        assert np.abs(other.torque / length - one.torque).max() <= 1e-8 * most


@pytest.mark.parametrize("length", [1.0, *SCALES])
def test_undetermined_reactions_are_the_same_at_any_size(length):
    """Two ball joints can share the weight of a door in any ratio."""
    assert find_undetermined(Mechanism(build("door", "natural", length))) == ["A", "B"]
    assert find_undetermined(Mechanism(build("four_bar", "natural", length))) == []


@pytest.mark.parametrize("length", [1.0, *SCALES])
def test_the_accuracy_of_a_projection_is_relative_to_the_size(length):
    m = Mechanism(build("four_bar", "natural", length))
    expected = places(m, length)
    m.q *= 1.0 + 1e-3 * np.random.default_rng(1).normal(size=len(m.q))
    projections.project_positions(m).require("projection")
    assert problems.calc_violation(m) <= 1e-10
    assert np.abs(places(m, length) - expected).max() < 0.1
    # Assembly converges to rounding.
    assert problems.assemble(m, m.q.copy()).converged


@pytest.mark.parametrize("formulation", ["ali3p", "matrix_r", "penalty", "lagrange"])
@pytest.mark.parametrize("form", ["natural", "relative"])
@pytest.mark.parametrize("name", ["four_bar", "slider_crank"])
def test_a_mechanism_far_from_the_origin_moves_the_same(name, form, formulation):
    """As in map coordinates, to their rounding, which is here about 1e-10 of the mechanism's size."""
    ends = []
    for away in (0.0, 1e5):
        described = replace(load_description(name), coordinates=form)
        ground = replace(described.ground, points=shift(described.ground.points, away))
        moved = replace(described, ground=ground, points=shift(described.points, away))
        m, stepper = Mechanism(CompiledMechanism(moved, optimisation=0)), make_stepper(formulation)
        for _ in range(100):
            assert stepper.step(m, 1e-3).require(formulation)
        ends.append(np.array(list(m.calc_point_positions().values()))[:, :2] - away)
    assert np.abs(ends[1] - ends[0]).max() < 1e-6 * m.size


def shift(places: dict[str, tuple[float, ...]], away: float) -> dict[str, tuple[float, ...]]:
    return {name: tuple(x + away for x in place) for name, place in places.items()}
