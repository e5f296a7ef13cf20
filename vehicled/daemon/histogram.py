"""Percentiles of durations over any length of run, in constant memory."""

from array import array

_SUB_BITS = 4
_SUB = 1 << _SUB_BITS
_LARGEST_BITS = 40
_LARGEST = (1 << _LARGEST_BITS) - 1


class Histogram:
    """Counts durations in buckets that each span a sixteenth of a power of two: percentiles within 6 %."""

    def __init__(self) -> None:
        self._counts = array("Q", [0]) * ((_LARGEST_BITS - _SUB_BITS + 1) * _SUB)
        self._total = 0
        self._max = 0

    def add(self, duration: int) -> None:
        """Count a duration, ns; a negative one counts as 0, one beyond 18 minutes as that."""
        # Called several times in every step: comparisons take half as long as calls of `min` and `max`.
        value = duration if 0 < duration <= _LARGEST else 0 if duration <= 0 else _LARGEST
        exponent = value.bit_length() - _SUB_BITS - 1
        if exponent < 0:
            exponent = 0
        self._counts[(exponent << _SUB_BITS) + (value >> exponent)] += 1
        self._total += 1
        if value > self._max:
            self._max = value

    def percentile(self, fraction: float) -> int | None:
        """Smallest bound, ns, that at least this fraction of the durations does not exceed; None without any."""
        if self._total == 0:
            return None
        wanted = fraction * self._total
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if count and seen >= wanted:
                exponent = max((index >> _SUB_BITS) - 1, 0)
                bound = ((index - (exponent << _SUB_BITS) + 1) << exponent) - 1
                return min(bound, self._max)
        return self._max

    def summary_us(self) -> dict[str, float | None]:
        """`median`, `p99`, `p999` and `max` in µs; None while there are no durations."""
        points = {
            "median": self.percentile(0.5),
            "p99": self.percentile(0.99),
            "p999": self.percentile(0.999),
            "max": self._max if self._total else None,
        }
        return {name: None if ns is None else ns / 1000 for name, ns in points.items()}
