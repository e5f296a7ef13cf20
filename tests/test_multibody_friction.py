"""Oscillations damped by dry friction of springs, against their closed form."""

import numpy as np
import pytest

from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism

TWIST = """
space: planar
{form}
ground: {{points: {{A: 0 0 m}}}}
points: {{P: 0.5 0 m}}
angles: {{s: {{between: [x, [A, P]], start: 0 rad}}}}
bodies:
  arm: {{kind: rigid, points: {{A: 0 0 m, P: 0.5 0 m}}, mass: 1 kg, center_of_mass: 0 0 m, inertia: 0.05 kg·m²}}
forces:
  spring: {{kind: torsion_spring, angle: s, stiffness: 8 N·m/rad, free_angle: 0.5 rad, friction: 0.4 N·m}}
independent: [s]
"""
"""Released half a radian from where the spring has no force."""
STRETCH = """
space: planar
ground: {points: {O: 0 0 m}}
points: {M: 1.5 0 m}
distances: {s: {points: [O, M], along: x}}
bodies:
  mass: {kind: point_mass, point: M, mass: 0.05 kg}
joints: {guide: {kind: point_on_line, points: [O, M], axis: x}}
forces:
  spring: {kind: spring, points: [O, M], stiffness: 8 N/m, free_length: 1 m, friction: 0.4 N}
independent: [s]
"""


FRICTION_RATE = 0.01
"""Default value, rad/s or m/s."""


def spring_kinds():
    """Descriptions, each with the coordinate at which its spring has no force."""
    return pytest.mark.parametrize(
        ("text", "free"),
        [
            (TWIST.format(form=""), 0.5),
            (TWIST.format(form="coordinates: relative"), 0.5),
            (STRETCH, 1.0),
        ],
        ids=["torsion spring", "relative coordinates", "spring"],
    )


@spring_kinds()
def test_steps_converge_while_friction_changes_the_rate_by_less_than_friction_rate(text, free):
    """Within half a step, up to sticking. Without friction in the tangent, some steps would not converge."""
    mechanism = Mechanism.parse(text)
    stepper = make_stepper("ali3p", "trapezoidal")
    step = 0.9 * 2.0 * FRICTION_RATE * 0.05 / 0.4
    for _ in range(round(1.5 / step)):
        stepper.step(mechanism, step).require("step")
    assert mechanism.q[mechanism.index("s")] == pytest.approx(free, abs=0.05)


@spring_kinds()
def test_amplitudes_fall_by_twice_the_friction_over_the_stiffness_until_sticking(text, free):
    """In each half period π √(I/k); sticking begins where the spring is weaker than the friction."""
    mechanism = Mechanism.parse(text)
    stepper = make_stepper("ali3p", "trapezoidal")
    half = np.pi * np.sqrt(0.05 / 8.0)
    k, step = mechanism.index("s"), half / 400
    places = [mechanism.q[k] - free]
    for _ in range(400 * 7):
        stepper.step(mechanism, step).require("step")
        places.append(mechanism.q[k] - free)
    places = np.array(places)
    # Turning points 0.5, 0.4, 0.3 …, alternately on both sides; sticking within ±0.05.
    turns = places[::400][:5]
    assert np.abs(turns) == pytest.approx([0.5, 0.4, 0.3, 0.2, 0.1], abs=3e-3)
    assert abs(places[-1]) < 0.05
    assert np.ptp(places[-400:]) < 5e-3
