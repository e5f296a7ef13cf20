"""Moving mechanisms and encoder readings of them, for tests of particle filters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from mechanism_rig import shipped

from vehicled.maths.angles import wrap
from vehicled.messages import Condition, Measurement, ParticleEstimate
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.particles.configuration import load_particles_configuration
from vehicled.particles.tracker import MechanismTracker

DT = 0.02
SIGMA = float(np.radians(0.2))
"""Standard deviation of an encoder, rad."""


@dataclass
class Motion:
    """Motion of a mechanism, sampled every DT."""

    q: dict[str, np.ndarray]
    qd: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(next(iter(self.q.values())))


def move(mechanism: Mechanism, seconds: float, h: float = 5e-4) -> Motion:
    """Simulate with another formulation than the particles use."""
    stepper = make_stepper("ali3p", "trapezoidal")
    q, qd = [], []
    for _ in range(round(seconds / DT)):
        q.append(mechanism.q.copy())
        qd.append(mechanism.qd.copy())
        for _ in range(round(DT / h)):
            stepper.step(mechanism, h).require("step")
    names = mechanism.coordinate_names
    return Motion(*(dict(zip(names, np.array(x).T, strict=True)) for x in (q, qd)))


@dataclass
class Followed:
    """A tracker that has followed a motion."""

    tracker: MechanismTracker
    motion: Motion
    estimates: list[ParticleEstimate] = field(default_factory=list)
    fused: list[list[bool]] = field(default_factory=list)
    """For each step: whether each reading was fused."""
    conditions: list[Condition] = field(default_factory=list)
    """Successive conditions, without repetitions."""

    def errors(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Errors of an angle: in rad, and in its standard deviations."""
        found = [e.coordinates[name] for e in self.estimates]
        off = wrap(np.array([c.value for c in found]) - self.motion.q[name][: len(found)])
        return off, off / np.array([c.sigma for c in found])

    def rate_errors(self, name: str) -> np.ndarray:
        """Errors of a rate in its standard deviations."""
        found = [e.coordinates[name] for e in self.estimates]
        off = np.array([c.rate for c in found]) - self.motion.qd[name][: len(found)]
        return off / np.maximum([c.rate_sigma for c in found], 1e-9)  # known exactly at the start

    @property
    def refused(self) -> float:
        """Share of readings that were not fused."""
        return 1.0 - float(np.mean([fused for step in self.fused for fused in step]))


def make_tracker(folder: Path, text: str, name: str) -> MechanismTracker:
    """A tracker of a shipped mechanism, with this text as its configuration."""
    path = folder / "devices.yaml"
    path.write_text(text)
    return MechanismTracker(shipped(name), load_particles_configuration(path))


def follow(
    tracker: MechanismTracker,
    motion: Motion,
    sensors: dict[str, str],
    seed: int,
    changed: Callable[[int, str, float], float] = lambda k, channel, reading: reading,
) -> Followed:
    """Track the motion from noisy encoder readings.

    `sensors`: coordinate by channel. `changed`: modifies readings by step and channel.
    """
    followed, random = Followed(tracker, motion), np.random.default_rng(seed)
    for k in range(len(motion)):
        t = 10**9 + round(k * DT * 1e9)
        values = {
            channel: changed(k, channel, float(motion.q[name][k] + SIGMA * random.standard_normal()))
            for channel, name in sensors.items()
        }
        estimate = tracker.step(t, [Measurement("can", t, t, values)])
        followed.fused.append([r.fused for r in tracker.innovations()])
        if estimate is not None:
            followed.estimates.append(estimate)
        if not followed.conditions or tracker.condition is not followed.conditions[-1]:
            followed.conditions.append(tracker.condition)
    return followed
