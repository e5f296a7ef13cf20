"""Roll and pitch acceleration that the model lacks, as the gyroscopes show it."""

from __future__ import annotations

from collections import deque

from vehicled.sources.noise_floor import MEMORY, SPIKE

_WINDOW = 0.008
"""s over which rates are differenced: the noise of samples falls with it, and the delay, half of it, grows."""
_LONGEST = 0.021
"""s: samples further apart show no such acceleration."""


class Shaking:
    """Error of the model's angular acceleration about two axes, from the innovations of angular rates.

    An uneven road shakes the car, and an accelerometer beside the centre of mass measures that with its lever arm.
    Of the error, with variance Q, a difference of innovations has noise N = 2 σ²/Δt²: its best estimate by that is
    Q/(Q + N) of the difference, with variance Q N/(Q + N). On an even road Q, and so the estimate, is zero.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all samples."""
        self._samples: deque[tuple[float, float, float]] = deque(maxlen=8)
        self._found = [0.0, 0.0]
        self.interrupt()

    def interrupt(self) -> None:
        """There is no sample now."""
        self.value = [0.0, 0.0]
        """rad/s²"""
        self.variance = [0.0, 0.0]
        """(rad/s²)², of its error."""

    def expire(self, t: float) -> None:
        """At t (s), what was found holds only while samples come."""
        if self._samples and t - self._samples[-1][0] > _LONGEST:
            self.interrupt()

    def take(self, t: float, innovation: tuple[float, float], variance: float) -> None:
        """Innovations of a sample at t (s), rad/s, and the variance of its noise."""
        samples = self._samples
        latest, before = t - 0.9 * _WINDOW, None
        for sample in reversed(samples):
            if sample[0] <= latest:
                before = sample
                break
        samples.append((t, *innovation))
        if before is None or not 0.0 < t - before[0] <= _LONGEST:
            self.interrupt()
            return
        span = t - before[0]
        noise = 2.0 * variance / (span * span)
        for k in range(2):
            difference, found = (innovation[k] - before[1 + k]) / span, self._found[k]
            square, spike = difference * difference, SPIKE * ((found if found > 0.0 else 0.0) + noise)
            self._found[k] = found = found + ((square if square < spike else spike) - noise - found) / MEMORY
            share = found / (found + noise) if found > 0.0 else 0.0
            self.value[k], self.variance[k] = share * difference, share * noise
