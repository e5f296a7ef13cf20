"""Particles give the same estimates for a mechanism of micrometres, metres or kilometres."""

from __future__ import annotations

import numpy as np
import pytest
from mechanism_rig import mechanism

from vehicled.messages import Measurement
from vehicled.particles.assembly import assemble
from vehicled.particles.configuration import load_particles_configuration
from vehicled.particles.swarm import Swarm
from vehicled.particles.tracker import MechanismTracker

SCALES = (2.0**-20, 2.0**-10, 1.0, 2.0**10)
"""Lengths, m: powers of two, because with others rounding sometimes selects other particles."""
RATE = np.sqrt(20.0)
"""Natural frequency of 1 kg on 20 N/m, whatever the lengths are, rad/s."""


def slide(length: float) -> str:
    """A mass on a spring along a line, which turns a crank by a rod."""
    return f"""
space: planar
ground: {{points: {{O: 0 0 m, A: {2 * length} 0 m}}}}
points: {{P: {length} 0 m, Q: {2 * length} {0.6 * length} m}}
distances: {{s: {{points: [O, P], along: x, start: {length} m}}}}
bodies:
  mass: {{kind: point_mass, point: P, mass: 1 kg}}
  crank: {{kind: bar, points: [A, Q], length: {0.6 * length} m, mass: 1e-6 kg}}
joints:
  line: {{kind: point_on_line, points: [O, P], axis: x}}
  rod: {{kind: distance, points: [P, Q], length: {1.2 * length} m}}
forces:
  spring: {{kind: spring, points: [O, P], stiffness: 20 N/m, free_length: {length} m}}
independent: [s]
"""


@pytest.mark.parametrize("length", SCALES)
def test_particles_are_assembled_at_the_given_positions(length):
    """Positions that the rods cannot reach are reported."""
    m = mechanism(slide(length))
    swarm = Swarm(m.description, 64, ["s"])
    wanted = length * np.linspace(0.5, 2.5, 64)[None]
    reached = assemble(swarm, m, wanted)
    # With a rod of 1.2 and a crank of 0.6 about a pivot at 2, positions from 0.2 to 1.4 can be reached.
    assert np.array_equal(reached, wanted[0] < 1.4 * length)
    assert np.abs(swarm.get("s") - wanted[0])[reached].max() < 2e-6 * length
    ends = swarm.get_q()
    places = {name: ends[k] / length for k, name in enumerate(swarm.coordinates)}
    rod = np.hypot(places["Q.x"] - places["P.x"], places["Q.y"] - places["P.y"])
    assert np.abs(rod - 1.2)[reached].max() < 1e-6


def find(folder, length: float) -> tuple[float, float]:
    """The last position and its standard deviation, as multiples of `length`, after 2 s of noisy readings."""
    path = folder / "devices.yaml"
    path.write_text(
        f"particles:\n  count: 300\n  coordinates:\n    s: {{low: {0.7 * length}, high: {1.3 * length}, "
        f"rate: {length}, motion: {1e-3 * length}, speed: {1e-3 * length}}}\n"
        f"sensors:\n  can: {{joint.1.distance: {{value: s, sigma: {0.02 * length}}}}}\n"
    )
    tracker = MechanismTracker(mechanism(slide(length)), load_particles_configuration(path))
    random, last = np.random.default_rng(3), None
    for k in range(200):
        t = k * 0.01
        there = 1.0 + 0.2 * np.sin(RATE * t) + 0.02 * random.standard_normal()
        reading = Measurement("can", round(t * 1e9), round(t * 1e9), {"joint.1.distance": there * length})
        last = tracker.step(round(t * 1e9), [reading]) or last
    s = last.coordinates["s"]
    return s.value / length, s.sigma / length


def test_a_mechanism_of_any_size_is_followed_equally_well(tmp_path):
    truth = 1.0 + 0.2 * np.sin(RATE * 1.99)
    found = {length: find(tmp_path, length) for length in SCALES}
    for length, (value, sigma) in found.items():
        assert abs(value - truth) < 0.02, length
        assert 0.001 < sigma < 0.02, length
        assert value == pytest.approx(found[1.0][0], abs=1e-12), length
