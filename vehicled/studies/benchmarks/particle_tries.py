"""One try to find a four-bar linkage that starts anywhere: the source's experiment, and its settings.

The linkage is released from rest at a random crank angle, unknown to the filter, whose particles start wherever it
could be; a gyroscope is on the crank. A try has converged when the estimate of the crank's angle is within 5° of the
truth after 1.020 s. The estimate is the circular mean of the heaviest cluster; that of all particles, which lies
between clusters while there are several, is reported beside it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from vehicled.maths.angles import wrap
from vehicled.particles.filter import MotionNoise, ParticleFilter
from vehicled.particles.instruments import RateInstrument
from vehicled.particles.swarm import Swarm
from vehicled.particles.weights import circular_deviation
from vehicled.studies.benchmarks import four_bar

CRANK = "crank"
STEP = 6e-3
"""s"""
TOLERANCE = np.radians(5.0)


@dataclass(frozen=True)
class Experiment:
    """The settings of a try; the defaults are the source's."""

    lengths: tuple[float, float, float, float] = (2.0, 4.0, 3.0, 4.0)
    count: int = 200
    motion: float = 0.02
    """rad, standard deviation of the noise on the crank's angle in every step"""
    resampling: float = 0.02
    """rad/s, standard deviation of the noise on the crank's speed after every resampling"""
    gyroscope: float = 0.01
    """rad/s, standard deviation of the gyroscope's noise"""
    multiplier: float = 10.0
    """The gyroscope's noise in the filter over the true one."""
    steps: int = 170
    step: float = STEP
    """Time between readings, s; the equations of motion are integrated in steps of at most 6 ms."""
    keeps_covariance: bool = False
    """Whether the noise of motion preserves the covariance of the particles, or adds to it."""
    both_branches: bool = False
    """Whether linkage and particles may be assembled either way, or only one way."""


SETTLED = Experiment(count=500, motion=0.01, resampling=0.0, multiplier=2.0, keeps_covariance=True)
"""Settings that converge whenever the readings determine the state. The source's filter assumes such an
inaccurate gyroscope that different starts become indistinguishable; its noise after every resampling is
larger than the information on the speeds; and its motion noise, accumulated over a second, makes particles
from wrong initial states indistinguishable from the true one, for any number of particles and any accuracy of
their weights (`WANDERING`, `NUMEROUS`)."""
PUBLISHED = Experiment()
WANDERING = replace(SETTLED, resampling=0.005, keeps_covariance=False)
NUMEROUS = replace(SETTLED, count=10_000, multiplier=1.0, keeps_covariance=False)
"""Nearly the exact filter for a linkage that is disturbed by this noise in every step."""


@dataclass(frozen=True)
class Outcome:
    """Result of a try."""

    error: float
    """rad, error of the crank's angle by the particles' circular mean"""
    peak_error: float
    """rad, error by the heaviest cluster's circular mean, which is the estimate"""
    deviation: float
    """rad, circular standard deviation of the particles"""
    start: float
    """rad, angle of the release"""
    branch: float
    seconds: float
    """Processor time of the particles only, s."""

    @property
    def converged(self) -> bool:
        """Whether the mean angle at the end is within the tolerance."""
        return bool(abs(self.error) <= TOLERANCE)

    @property
    def peak_converged(self) -> bool:
        """Whether the heaviest cluster's angle at the end is within the tolerance."""
        return bool(abs(self.peak_error) <= TOLERANCE)


class Try:
    """A linkage that is released, and the filter that estimates its motion. Reproducible by its seed."""

    def __init__(self, experiment: Experiment, seed: int) -> None:
        self.experiment = experiment
        # The readings are the same for any filter.
        x, (plant, random) = experiment, np.random.default_rng(seed).spawn(2)
        description = four_bar.describe(x.lengths)
        self.truth, self.swarm = Swarm(description, 1), Swarm(description, x.count, [CRANK])
        self.start, self.branch = (float(a[0]) for a in release(self.truth, experiment, plant))
        release(self.swarm, experiment, random)
        gyroscope = RateInstrument(CRANK, x.gyroscope, x.multiplier)
        noise = MotionNoise(motion=x.motion, resampling=x.resampling, keeps_covariance=x.keeps_covariance)
        self.filter = ParticleFilter(self.swarm, [gyroscope], noise, random)
        self._plant = plant
        self.readings: list[float] = []
        """rad/s"""
        self.seconds = 0.0

    @property
    def angle(self) -> float:
        """Angle of the true crank, rad."""
        return float(self.truth.get_angles(CRANK)[0])

    def read(self) -> float:
        """Advance the linkage by a step. Returns the gyroscope's reading, rad/s."""
        advance(self.truth, self.experiment.step)
        rate = self.truth.get_rates(CRANK)[0] + self.experiment.gyroscope * self._plant.standard_normal()
        self.readings.append(float(rate))
        return self.readings[-1]

    def step(self) -> None:
        """Move the linkage, and update the filter with the gyroscope's reading; only the filter is timed."""
        reading = self.read()
        begin = time.process_time()
        part = advance(self.swarm, self.experiment.step, but=1)
        self.filter.step(part, [reading])
        self.seconds += time.process_time() - begin

    def run(self) -> Outcome:
        """Run all steps of the experiment; returns the result."""
        for _ in range(self.experiment.steps):
            self.step()
        error = float(wrap(self.filter.estimate_angle(CRANK) - self.angle))
        peak_error = float(wrap(self.filter.find_peak(CRANK) - self.angle))
        deviation = circular_deviation(self.swarm.get_angles(CRANK), self.filter.weights)
        return Outcome(error, peak_error, deviation, self.start, self.branch, self.seconds)


def advance(swarm: Swarm, step: float, but: int = 0) -> float:
    """Advance by a step (s) in equal parts of at most STEP, without the last `but`; returns a part's length, s."""
    parts = max(1, ceil(step / STEP - 1e-9))
    for _ in range(parts - but):
        swarm.advance(step / parts)
    return step / parts


def release(swarm: Swarm, x: Experiment, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Put all particles at rest at random possible angles: (N,) angles and branches."""
    angles = four_bar.random_angles(x.lengths, swarm.count, random)
    branches = np.ones(swarm.count)
    if x.both_branches:
        branches = four_bar.random_branches(swarm.count, random)
    swarm.set_states(*four_bar.assemble(x.lengths, angles, branches))
    return angles, branches
