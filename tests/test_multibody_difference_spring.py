"""A spring on the difference of two distances: closed form, energy, reactions, and mistakes."""

import numpy as np
import pytest
from mechanism_rig import advance, describe, energy, mechanism

from vehicled.errors import SettingsError
from vehicled.multibody import problems, switches
from vehicled.multibody.reactions import calc_reactions

MASS, SPRING, BAR = 2.0, 90.0, 55.0
TEXT = f"""
space: planar
ground: {{points: {{O: 0 0 m, U: 0 1 m}}}}
points: {{A: 1 0 m, B: 1.2 1 m}}
distances:
  a: {{points: [O, A], along: x}}
  b: {{points: [U, B], along: x}}
bodies:
  left: {{kind: point_mass, point: A, mass: {MASS} kg}}
  right: {{kind: point_mass, point: B, mass: {MASS} kg}}
joints:
  low: {{kind: point_on_line, points: [O, A], axis: x}}
  high: {{kind: point_on_line, points: [U, B], axis: x}}
forces:
  one: {{kind: spring, points: [O, A], stiffness: {SPRING} N/m, free_length: 1.1 m}}
  other: {{kind: spring, points: [U, B], stiffness: {SPRING} N/m, free_length: 1.1 m}}
  bar: {{kind: difference_spring, distances: [a, b], stiffness: {BAR} N/m}}
independent: [a, b]
"""


def test_masses_in_opposite_phase_swing_at_the_frequency_of_both_springs():
    """In phase only their own springs act; in opposite phase the stiffness is k + 2 k_bar."""
    m = mechanism(TEXT)
    start = energy(m)
    advance(m, 1e-4, 0.3)
    expected = 0.1 * np.cos(np.sqrt((SPRING + 2.0 * BAR) / MASS) * m.t)
    assert m.q[m.index("a")] - 1.1 == pytest.approx(-expected, abs=1e-6)
    assert m.q[m.index("b")] - 1.1 == pytest.approx(expected, abs=1e-6)
    assert energy(m) == pytest.approx(start, rel=1e-7)


def test_the_lock_of_one_mass_carries_the_forces_of_spring_and_bar():
    m = mechanism(TEXT)
    switches.lock(m, "a")
    advance(m, 1e-4, 0.05)
    problems.solve_dynamics(m)
    held = -m.multipliers[m.constraint_names.index("hold a")]
    a, b = (m.q[m.index(s)] for s in "ab")
    assert held == pytest.approx(SPRING * (a - 1.1) + BAR * (a - b), abs=1e-9)
    found = {r.joint: r for r in calc_reactions(m)}
    # The guides carry no load, because all forces act along them.
    assert found["low"].force == pytest.approx(np.zeros(3), abs=1e-6)
    assert found["high"].force == pytest.approx(np.zeros(3), abs=1e-6)


def test_an_unknown_distance_is_refused():
    with pytest.raises(
        SettingsError, match=r"forces\.bar\.distances: unknown distance 'c'; known here: a, b"
    ):
        describe(TEXT.replace("[a, b], stiffness", "[a, c], stiffness"))
