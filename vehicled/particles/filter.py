"""The particle filter: sequential importance resampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vehicled.particles import shrinkage
from vehicled.particles.instruments import Instrument
from vehicled.particles.resampling import RESAMPLERS
from vehicled.particles.swarm import Swarm
from vehicled.particles.weights import (
    circular_deviation,
    circular_mean,
    circular_mode,
    effective_fraction,
    normalised,
)

_FAR = 0.075
"""rad or m: standard deviation of a move that is made at once; larger ones are divided into parts, each projected
onto the constraints, because a projection converges up to about this distance."""
_FAIR = 0.25
"""Effective share of particles that a part of a correction leaves at least."""
_PARTS = 30
"""Of a correction, at most: each reduces the region of the particles to less than half, so that these are enough for
any sensor."""
_BISECTIONS = 20
_SPREAD = 0.1
"""By which share of their deviation copies are moved apart after a part of a correction."""
_UNIFORM = np.pi / 3.0**0.5
"""rad, standard deviation of angles all around a circle."""


@dataclass
class MotionNoise:
    """Standard deviations, the same for each of the swarm's noisy coordinates or one each."""

    motion: float | Sequence[float] = 0.0
    """Of its change in every step, rad or m."""
    speed: float | Sequence[float] = 0.0
    """Of its rate's change in every step, rad/s or m/s."""
    resampling: float | Sequence[float] = 0.0
    """Of its rate's change after resampling, so that copies differ, rad/s or m/s."""
    keeps_covariance: bool = False
    """Noise of motion and of speed moves the particles and preserves their covariance, see `shrinkage`: for a
    mechanism without plant noise. Otherwise it is plant noise."""


class ParticleFilter:
    """Particles that move by the equations of motion, are disturbed, weighted by instruments and resampled.

    The noise and the instruments' multipliers may be changed while it runs. All random numbers come from one
    generator, so that a run is reproduced by its seed. It advances when `step` is called and not otherwise; fed live,
    by `live.Follower`.
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
        """Resampled when the effective sample size is below `threshold` of the particles. Raises ValueError."""
        if resampler not in RESAMPLERS:
            raise ValueError(f"resampler {resampler!r}: expected one of {', '.join(RESAMPLERS)}")
        self.swarm, self.instruments, self.noise = swarm, tuple(instruments), noise
        self.threshold = threshold
        self.random = random
        self._resample = RESAMPLERS[resampler]
        self.log_weights = np.zeros(swarm.count)
        """(N,) of the largest 0."""
        self.weights = np.full(swarm.count, 1.0 / swarm.count)
        """(N,), of sum 1."""
        self.effective = 1.0
        """Effective sample size after the last readings, before any resampling, as a fraction of N."""
        self.resamplings = 0

    def step(self, h: float, readings: Sequence[np.ndarray | float | None]) -> None:
        """Advance by h (s), to when the readings were taken: one per instrument, None where there is none.

        Raises ValueError for another number of them, FloatingPointError when no particle is left that can move.
        """
        self.predict(h)
        self.update(readings)

    def update(self, readings: Sequence[np.ndarray | float | None]) -> None:
        """Take readings of the present time into account, and resample where the effective sample size is low.

        Raises as `step`.
        """
        self.weigh(readings)
        if self.effective < self.threshold:
            self.resample()

    def predict(self, h: float, disturbed: bool = True) -> None:
        """Advance, and disturb by the noise of motion."""
        if not disturbed:
            self.swarm.advance(h)
            return
        motion, speed = self._sigmas(self.noise.motion), self._sigmas(self.noise.speed)
        parts = max(1, int(np.ceil(np.max(motion, initial=0.0) / _FAR)))
        if self.noise.keeps_covariance and (np.any(motion) or np.any(speed)):
            self.swarm.advance(h)
            sigmas = np.array([motion, speed])
            moves, kicks = shrinkage.draw(self.swarm, self.weights, sigmas, self.random)
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

        Each part is a power of the likelihood that leaves a fair share of them; then they are resampled, and the
        copies moved by noise that preserves their covariance. So particles that may be anywhere find a
        precise reading. Progressive correction: Musso, Oudjane and Le Gland (2001), Improving regularised particle
        filters, section 12.4. Raises as `step`.
        """
        left = 1.0
        for _ in range(_PARTS):
            likelihoods = self._calc_log_likelihoods(readings)
            share = self._find_share(likelihoods, left)
            if share == left:
                break
            self._weigh_by(share * likelihoods)
            self.resample()
            self._spread()
            left -= share
        else:
            likelihoods = self._calc_log_likelihoods(readings)
        self._weigh_by(left * likelihoods)
        if self.effective < self.threshold:
            self.resample()

    def _spread(self) -> None:
        """Move copies apart by a share of the particles' deviations."""
        swarm, w = self.swarm, self.weights
        rates = np.array([swarm.get_rates(n) for n in swarm.noisy])
        positions = [
            min(circular_deviation(swarm.get(n), w), _UNIFORM) if n in swarm.angles else np.std(swarm.get(n))
            for n in swarm.noisy
        ]
        sigmas = _SPREAD * np.array([positions, np.std(rates, axis=1)])
        if not np.any(sigmas):
            return
        moves, kicks = shrinkage.draw(swarm, w, sigmas, self.random)
        parts = max(1, int(np.ceil(np.max(np.abs(moves)) / (3.0 * _FAR))))
        swarm.shift(moves / parts, kicks)
        for _ in range(parts - 1):
            swarm.shift(moves / parts)

    def _find_share(self, likelihoods: np.ndarray, left: float) -> float:
        """The largest power of likelihoods (N,), up to `left`, that leaves a fair share of particles."""

        def effective(share: float) -> float:
            return effective_fraction(normalised(self.log_weights + share * likelihoods))

        if effective(left) >= _FAIR:
            return left
        low, high = 0.0, left
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if effective(middle) >= _FAIR else (low, middle)
        return high

    def _calc_log_likelihoods(self, readings: Sequence[np.ndarray | float | None]) -> np.ndarray:
        """(N,) of the particles; −∞ of one that is not a number."""
        total = np.zeros(self.swarm.count)
        for instrument, reading in zip(self.instruments, readings, strict=True):
            if reading is None:
                continue
            errors = instrument.calc_errors(self.swarm, np.asarray(reading, dtype=float))
            total -= 0.5 * np.sum(errors**2, axis=0) / instrument.multiplier**2
        return np.nan_to_num(total, copy=False, nan=-np.inf, neginf=-np.inf)

    def _weigh_by(self, log_likelihoods: np.ndarray) -> None:
        self.log_weights += log_likelihoods
        self.weights = normalised(self.log_weights)
        self.log_weights -= np.max(self.log_weights)
        self.effective = effective_fraction(self.weights)

    def resample(self) -> None:
        """Draw particles by their weights, which are equal then; disturb the copies."""
        self.swarm.select(self._resample(self.weights, self.random))
        self.equalise()
        self.resamplings += 1
        kicks = self._draw(self._sigmas(self.noise.resampling))
        if kicks is not None:
            self.swarm.shift(None, kicks)

    def equalise(self) -> None:
        """Give all particles the same weight, as new ones have."""
        self.log_weights[:] = 0.0
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
        """(noisy, N); None when there is nothing to draw."""
        if not np.any(sigmas):
            return None
        return sigmas[:, None] * self.random.standard_normal((len(sigmas), self.swarm.count))
