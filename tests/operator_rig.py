"""Mechanisms in random states that satisfy their constraints, for the tests of operators."""

from __future__ import annotations

import numpy as np
from mechanism_rig import mechanism, shipped

from vehicled.multibody import body_operators, problems
from vehicled.multibody.mechanism import Mechanism

FREE = """
space: spatial
gravity: 0.3 -0.2 -9.81 m/s²
points: {P: 0.3 -0.2 0.5 m}
vectors: {u: 1 2 2, w: 2 1 -2}
bodies:
  body:
    kind: rigid
    points: {P: 0.1 0.2 -0.1 m}
    vectors: {u: 2 1 -2, w: 1 2 2}
    markers: {M: 0.4 0.5 0.6 m}
    mass: 2 kg
    center_of_mass: 0.4 0.1 0.3 m
    inertia: 0.2 0.3 0.4 kg·m²
    products: 0.02 -0.05 0.03 kg·m²
"""
# A bar and a point mass in space have no orientation.
DUMBBELL = """
space: spatial
gravity: 0 0 -9.81 m/s²
points: {P: 0 0 0 m, Q: 0.6 0.8 0 m}
bodies:
  rod: {kind: bar, points: [P, Q], mass: 3 kg}
  ball: {kind: point_mass, point: Q, mass: 2 kg}
"""
MECHANISMS = ("four_bar", "five_bar", "slider_crank", "suspension_corner", "free")
LOOSE = {"free": FREE, "dumbbell": DUMBBELL}
SEEDS = (1, 2, 3)


def make(name: str, seed: int = 1, size: float = 0.03) -> Mechanism:
    """A mechanism with random inputs in a random state that satisfies its constraints, and the resulting q̈ and λ."""
    m = mechanism(LOOSE[name]) if name in LOOSE else shipped(name)
    rng = np.random.default_rng(seed)
    m.t = 0.2
    m.inputs[:] = rng.normal(scale=[0.005, 0.1, 1.0], size=m.inputs.shape)
    problems.assemble(m, m.q + size * rng.normal(size=m.q.shape)).require(name)
    problems.solve_velocity(m, rng.normal(size=len(m.independent)))
    problems.solve_dynamics(m)
    return m


def push(m: Mechanism, rng: np.random.Generator) -> body_operators.Forces:
    """Apply random forces of every kind and solve for the accelerations."""
    forces = body_operators.Forces(m)
    for name, body in m.placement.bodies.items():
        if body.has_orientation:
            forces.add_force(name, *in_plane(m, 0.2 * rng.normal(size=3), 50 * rng.normal(size=3)))
            forces.add_torque(name, 20 * rng.normal(size=3) * ([0, 0, 1] if planar(m) else 1))
    point = list(m.compiled.points)[-1]
    forces.add_point_force(point, *in_plane(m, 30 * rng.normal(size=3)))
    forces.add_coordinate_force(m.coordinate_names[int(m.independent[0])], 7.0)
    m.applied[:] = forces.generalised
    problems.solve_dynamics(m)
    return forces


def planar(m: Mechanism) -> bool:
    return m.description.dimension == 2


def in_plane(m: Mechanism, *vectors: np.ndarray) -> list[np.ndarray]:
    return [v * [1, 1, 0] if planar(m) else v for v in vectors]


CHAIN = """
space: spatial
gravity: 0 0 -9.81 m/s²
ground: {{points: {{O: 0 0 0 m}}, vectors: {{a: 1 2 2, b: 2 1 -2}}}}
points: {{P: 0 0 0 m, Q: 0.8 0.1 0.2 m}}
vectors: {{u: 1 2 2, n: 2 1 -2, v: {v}, w: {w}}}
bodies:
  first:
    kind: rigid
    points: [P]
    vectors: [u, n]
    markers: {{E: 0.8 0.1 0.2 m}}
    directions: {{e: 0 1 0, f: 0 0 1}}
    mass: 2 kg
    center_of_mass: 0.5 0.3 -0.1 m
    inertia: 0.2 0.3 0.4 kg·m²
    products: 0.02 -0.05 0.03 kg·m²
  second:
    kind: rigid
    points: [Q]
    vectors: [v, w]
    markers: {{T: 1.1 0.1 0.3 m}}
    mass: 3 kg
    center_of_mass: 0.9 0.4 0.1 m
    inertia: 0.3 0.5 0.4 kg·m²
joints:
  base: {{kind: revolute, points: [O, P], axes: [a, u]}}
  elbow: {{{joint}}}
"""
JOINTS = {
    "spherical": "kind: spherical, points: [E, Q]",
    "revolute": "kind: revolute, points: [E, Q], axes: [e, v]",
    "universal": "kind: universal, points: [E, Q], axes: [f, v]",
    "cylindrical": "kind: cylindrical, points: [E, Q], axes: [e, v]",
    "prismatic": "kind: prismatic, points: [E, Q], axes: [e, v], normals: [f, w]",
    "rigid": "kind: rigid, points: [E, Q], axes: [e, v], normals: [f, w]",
    "point_on_line": "kind: point_on_line, points: [E, Q], axis: e",
    "distance": "kind: distance, points: [E, T], length: 0.3 m",
}


def chain(joint: str, seed: int = 0, size: float = 0.2) -> Mechanism:
    m = mechanism(CHAIN.format(joint=JOINTS[joint], v="0 1 0", w="0 0 1"))
    rng = np.random.default_rng(seed)
    problems.assemble(m, m.q + size * rng.normal(size=m.q.shape)).require(joint)
    problems.solve_velocity(m, 2.0 * rng.normal(size=len(m.independent)))
    problems.solve_dynamics(m)
    return m
