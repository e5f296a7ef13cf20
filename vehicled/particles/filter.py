"""The particle filter: sequential importance resampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.particles import shrinkage
from vehicled.particles.instruments import Instrument
from vehicled.particles.resampling import RESAMPLERS
from vehicled.particles.swarm import Swarm
from vehicled.particles.weights import (
    circular_mean,
    circular_mode,
    effective_fraction,
    normalised,
)

_FAR = 0.075
"""Largest standard deviation of a single move, rad or extents of the mechanism. Larger moves are divided, and
each part is projected onto the constraints, because a projection converges up to about this distance."""
_FEW = 0.25
"""Effective share of particles below which a correction is divided into parts."""
_FAIR = 0.5
"""Least effective share of particles after each part."""
_PARTS = 60
"""Largest number of parts of corrections per second, but at least one for each reading; the first reading may
use all. Each part about halves the region of the particles, so these suffice for an angle, its rate and
several precise sensors. With more, resampling part after part would contract the particles at a wrong state
before another reading can show it."""
_BISECTIONS = 20
_FORGOTTEN = 2.0
"""Largest growth of the covariance between two readings, as a logarithm: a Kalman gain of 0.86."""


@dataclass
class MotionNoise:
    """Standard deviations of the noise: one for all noisy coordinates of the swarm, or one each."""

    motion: float | Sequence[float] = 0.0
    """Noise of the coordinate in every step, rad or m."""
    speed: float | Sequence[float] = 0.0
    """Noise of the rate in every step, rad/s or m/s."""
    resampling: float | Sequence[float] = 0.0
    """Noise of the rate after resampling, rad/s or m/s, so that copies differ."""
    keeps_covariance: bool = False
    """Whether the noise of motion and of speed moves the particles but preserves their covariance, see
    `shrinkage`: for a mechanism without plant noise. Otherwise it is plant noise."""
    memory: float = math.inf
    """Time, s, in which the covariance grows by a factor e although `keeps_covariance` is set: the older
    readings are, the less they count. A swarm that forgets nothing contracts without end, while its mean is
    only as good as the model and the random draws."""
    unexplained: float | Sequence[float] = 0.0
    """With `keeps_covariance`: density of plant noise of the rates, rad/s or m/s in √s; see `forgetting`."""


class ParticleFilter:
    """Particles that move by the equations of motion, are disturbed, weighted by instruments and resampled.

    The noise and the instruments' multipliers may be changed while it runs. All random numbers come from one
    generator, so that a run is reproduced by its seed. It advances only when `step` is called;
    `live.Follower` does so for live readings.
    """

    def __init__(
        self,
        swarm: Swarm,
        instruments: Sequence[Instrument],
        noise: MotionNoise,
        random: np.random.Generator,
        resampler: str = "systematic",
        threshold: float = 0.5,
    ) -> None:
        """Resamples if the effective sample size is below `threshold`, a share of N. Raises ValueError."""
        if resampler not in RESAMPLERS:
            raise ValueError(f"resampler {resampler!r}: expected one of {', '.join(RESAMPLERS)}")
        self.swarm, self.instruments, self.noise = swarm, tuple(instruments), noise
        self.threshold = threshold
        self.random = random
        self._resample = RESAMPLERS[resampler]
        self.log_weights = np.zeros(swarm.count)
        """(N,) the largest is 0."""
        self.weights = np.full(swarm.count, 1.0 / swarm.count)
        """(N,) their sum is 1."""
        self.effective = 1.0
        """Effective sample size after the last readings, before any resampling, as a fraction of N."""
        self.resamplings = 0
        self._undisturbed = 0.0
        """Time since noise last moved the particles, s."""
        self._forgotten = 0.0
        """Growth of the covariance since the last readings, its logarithm."""
        self._corrected = -math.inf
        """Time of the last readings that were taken into account gradually, s."""
        self.curtailed = False
        """Whether part of their likelihood was omitted, as it would have left too few particles."""

    def step(self, h: float, readings: Sequence[np.ndarray | float | None]) -> None:
        """Advance by h (s) to the time of the readings: one per instrument, None for no reading.

        Raises ValueError for a wrong number of readings, FloatingPointError if no valid particle is left.
        """
        self.predict(h)
        self.update(readings)

    def update(self, readings: Sequence[np.ndarray | float | None]) -> None:
        """Weight by readings of the present time, and resample if the effective sample size is low.

        Raises as `step`.
        """
        self.weigh(readings)
        if self.effective < self.threshold:
            self.resample()

    def predict(self, h: float, disturbed: bool = True) -> None:
        """Advance by h (s), and add the noise of motion if `disturbed`."""
        self._undisturbed += h
        if not disturbed:
            self.swarm.advance(h)
            return
        forgotten = min(self._undisturbed / self.noise.memory, _FORGOTTEN - self._forgotten)
        plant = self._sigmas(self.noise.unexplained) * math.sqrt(self._undisturbed)
        self._undisturbed, self._forgotten = 0.0, self._forgotten + forgotten
        motion, speed = self._sigmas(self.noise.motion), self._sigmas(self.noise.speed)
        parts = max(1, int(np.ceil(np.max(motion / self.swarm.units[:, 0], initial=0.0) / _FAR)))
        if self.noise.keeps_covariance and (np.any(motion) or np.any(speed)):
            self.swarm.advance(h)
            sigmas = np.array([motion, speed])
            moves, kicks = shrinkage.draw(self.swarm, self.weights, sigmas, self.random, math.exp(forgotten))
            drawn = self._draw(plant)
            if drawn is not None:
                kicks += drawn
            share = moves / parts
            self.swarm.shift(share, kicks)
            parts -= 1
        elif parts == 1:
            self.swarm.advance(h, self._draw(motion), self._draw(speed))
            return
        else:
            self.swarm.advance(h, None, self._draw(speed))
            drawn = self._draw(motion)
            assert drawn is not None, "there is noise"
            share = drawn / parts
        for _ in range(parts):
            self.swarm.shift(share)

    def weigh(self, readings: Sequence[np.ndarray | float | None]) -> None:
        """Take readings of the present time into account. A particle that is not a number has the weight zero."""
        self._weigh_by(self._calc_log_likelihoods(readings))

    def update_gradually(self, readings: Sequence[np.ndarray | float | None]) -> None:
        """As `update`, but readings that would leave few particles are taken into account in parts.

        Each part is a power of the likelihood that leaves a fair share of them; then they are resampled, and
        the copies moved apart by noise that preserves their covariance. So particles spread over a large
        region can follow a precise reading. Progressive correction: Musso, Oudjane and Le Gland (2001),
        Improving regularised particle filters, section 12.4. If readings come often, each has few parts; the
        remaining power is then omitted, as the next readings give the same information. Raises as `step`.
        """
        if all(reading is None for reading in readings):
            self.curtailed = False
            return
        interval = min(self.swarm.t - self._corrected, 1.0)
        self._corrected, self.curtailed = self.swarm.t, False
        likelihoods = self._calc_log_likelihoods(readings)
        if self._find_effective(likelihoods) < _FEW:
            left = 1.0
            for _ in range(max(1, math.ceil(_PARTS * interval))):
                share = self._find_share(likelihoods, left)
                if share == left:
                    break
                self._weigh_by(share * likelihoods)
                self.resample()
                self._move_apart()
                left -= share
                likelihoods = self._calc_log_likelihoods(readings)
            else:
                self.curtailed = True
                return
            likelihoods *= left
        self._weigh_by(likelihoods)
        if self.effective < self.threshold:
            self.resample()

    def _move_apart(self) -> None:
        """Move copies of a particle apart."""
        moves, kicks = shrinkage.redraw(self.swarm, self.weights, self.random)
        parts = max(1, int(np.ceil(np.max(np.abs(moves / self.swarm.units)) / (3.0 * _FAR))))
        self.swarm.shift(moves / parts, kicks)
        for _ in range(parts - 1):
            self.swarm.shift(moves / parts)

    def _find_share(self, likelihoods: np.ndarray, left: float) -> float:
        """The largest power of likelihoods (N,), up to `left`, that leaves a fair share of particles."""
        if self._find_effective(left * likelihoods) >= _FAIR:
            return left
        low, high = 0.0, left
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (
                (middle, high) if self._find_effective(middle * likelihoods) >= _FAIR else (low, middle)
            )
        return high

    def _find_effective(self, log_likelihoods: np.ndarray) -> float:
        """Effective share of particles after weighting by these likelihoods (N,)."""
        return effective_fraction(normalised(self.log_weights + log_likelihoods))

    def _calc_log_likelihoods(self, readings: Sequence[np.ndarray | float | None]) -> np.ndarray:
        """(N,) log-likelihoods of the particles; −∞ for NaN."""
        total = np.zeros(self.swarm.count)
        for instrument, reading in zip(self.instruments, readings, strict=True):
            if reading is None:
                continue
            self._forgotten = 0.0
            errors = instrument.calc_errors(self.swarm, np.asarray(reading, dtype=float))
            total -= 0.5 * np.sum(errors**2, axis=0) / instrument.multiplier**2
        return np.nan_to_num(total, copy=False, nan=-np.inf, neginf=-np.inf)

    def _weigh_by(self, log_likelihoods: np.ndarray) -> None:
        self.log_weights += log_likelihoods
        self.weights = normalised(self.log_weights)
        self.log_weights -= np.max(self.log_weights)
        self.effective = effective_fraction(self.weights)

    def resample(self) -> None:
        """Draw particles by their weights, then make the weights equal; disturb the copies."""
        self.swarm.select(self._resample(self.weights, self.random))
        self.equalise()
        self.resamplings += 1
        kicks = self._draw(self._sigmas(self.noise.resampling))
        if kicks is not None:
            self.swarm.shift(None, kicks)

    def resize(self, count: int) -> None:
        """Go on with another number of particles, drawn from the present ones by their weights."""
        if count == self.swarm.count:
            return
        self.swarm.select(self.random.choice(self.swarm.count, count, p=self.weights))
        self.equalise()

    def exclude(self, which: np.ndarray) -> None:
        """Set the weights of these particles (N,) to zero. Raises FloatingPointError if none is left."""
        if np.any(which):
            self._weigh_by(np.where(which, -np.inf, 0.0))

    def begin(self) -> None:
        """The particles were drawn anew: give all the same weight; the next correction may use all parts."""
        self.equalise()
        self._corrected = -math.inf

    def equalise(self) -> None:
        """Give all particles the same weight, as new ones have."""
        self.log_weights = np.zeros(self.swarm.count)
        self.weights = np.full(self.swarm.count, 1.0 / self.swarm.count)

    def estimate_angle(self, name: str) -> float:
        """Circular mean of an angle, rad."""
        return circular_mean(self.swarm.get_angles(name), self.weights)

    def find_peak(self, name: str) -> float:
        """Where an angle is most probable, rad: while there are several clusters the mean is in none of them."""
        return circular_mode(self.swarm.get_angles(name), self.weights)

    def _sigmas(self, sigma: float | Sequence[float]) -> np.ndarray:
        return np.broadcast_to(np.asarray(sigma, dtype=float), (len(self.swarm.noisy),))

    def _draw(self, sigmas: np.ndarray) -> np.ndarray | None:
        """(noisy, N) noise; None if all `sigmas` are zero."""
        if not np.any(sigmas):
            return None
        return sigmas[:, None] * self.random.standard_normal((len(sigmas), self.swarm.count))
