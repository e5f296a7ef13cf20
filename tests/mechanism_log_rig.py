"""Logs of mechanisms that a controller moves: forward dynamics, with encoder noise and force noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vehicled.identification.mechanism.estimate import Recorded
from vehicled.identification.mechanism.unknowns import MechanismUnknowns
from vehicled.identification.regressors import Regressor, spring_columns
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism

STEP = 1e-3
EVERY = 4
"""Number of steps between samples."""

ARM = """\
# An arm with a return spring.
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m}}
points: {P: 0.5 0 m}
angles: {theta: {between: [x, [A, P]], start: 0 deg}}
bodies:
  arm:
    kind: rigid
    points: {A: 0 0 m, P: 0.5 0 m}
    mass: 1 kg                          # weighed
    center_of_mass: 200 50 mm
    inertia: 0.05 kg·m²
  tip: {kind: point_mass, point: P, mass: 0.3 kg}
forces:
  return: {kind: torsion_spring, angle: theta, stiffness: 8 N·m/rad, damping: 0.3 N·m·s/rad, free_angle: 30 deg}
independent: [theta]
"""


def make_unknowns(mechanism: Mechanism) -> MechanismUnknowns:
    """All parameters of the file."""
    return MechanismUnknowns(Regressor(mechanism, spring_columns(mechanism)))


def record(
    mechanism: Mechanism,
    seed: int,
    duration: float = 3.0,
    reach: float = 0.4,
    stiffness: float = 3000.0,
    angle_noise: float = 1e-4,
    force_noise: float = 0.02,
) -> Recorded:
    """A PD controller makes the independent coordinates follow sines; the mechanism's state is restored afterwards.

    `force_noise`: as a share of each force's root mean square.
    """
    random = np.random.default_rng(seed)
    state, f = mechanism.get_state(), len(mechanism.independent)
    home = mechanism.z
    rates = 2.0 * np.pi * random.uniform(0.3, 1.6, (4, f))
    sizes = reach * random.uniform(0.15, 0.3, (4, f))
    stepper = make_stepper("ali3p", "trapezoidal")
    mechanism.set_independent_state(home, np.zeros(f)).require("the start")
    rows = []
    for k in range(int(duration / STEP)):
        t = k * STEP
        wanted = home + np.sum(sizes * np.sin(rates * t), axis=0)
        wanted_rate = np.sum(sizes * rates * np.cos(rates * t), axis=0)
        force = stiffness * (wanted - mechanism.z) + 0.05 * stiffness * (wanted_rate - mechanism.zd)
        mechanism.applied[mechanism.independent] = force
        stepper.step(mechanism, STEP).require("step")
        # On average, a step's force acts in the middle of the step; forces of two steps are averaged below.
        rows.append((mechanism.t, mechanism.z, force))
    mechanism.applied[:] = 0.0
    mechanism.set_state(state)
    t, z, force = (np.array(part) for part in zip(*rows, strict=True))
    middle = slice(500, -1, EVERY)
    t, z, force = t[middle], z[middle], 0.5 * (force[middle] + force[501::EVERY][: len(t[middle])])
    rms = np.sqrt(np.mean(force**2, axis=0))
    z = z + angle_noise * random.normal(size=z.shape)
    return Recorded(f"seed {seed}", t, z, force + force_noise * rms * random.normal(size=force.shape))


def write_log(path: Path, mechanism: Mechanism, run: Recorded) -> Path:
    """The run as a CSV log."""
    names = [mechanism.coordinate_names[k] for k in mechanism.independent]
    header = ",".join(["t", *names, *(f"{name}.force" for name in names)])
    np.savetxt(path, np.column_stack([run.t, run.z, run.forces]), "%.9g", ",", header=header, comments="")
    return path
