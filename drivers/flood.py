"""How often a device may measure: what comes more often is decimated before the filter has to spend time on it."""

from collections.abc import Hashable
from dataclasses import dataclass

from vehicled.trust.token_bucket import TokenBucket

MAX_RATES = {"imu": 1000.0, "reference": 1000.0, "gnss": 100.0, "gnss2": 100.0}
"""Highest rate by first part of the channel's name, Hz: that of the fastest IMUs and receivers sold."""
MAX_RATE = 250.0
"""Highest rate of all other channels, Hz: control units send at 10 to 100 Hz."""
_MARGIN = 1.2
"""Factor on the rates: a device's clock may run fast, and its messages come unevenly."""
_BURST_S = 0.5
"""Burst that is admitted after a pause of the device or of the reading thread, as time at the full rate. On a
busy machine threads wait for a few tenths of a second, and what was buffered in the meantime must not be
lost."""
_RESERVED = 0.1
"""Share of the burst reserved for samples that differ from the one before. If a device sends each sample ten
times, late copies would otherwise be admitted instead of the first one."""
_REMEMBERED_NS = 2_000_000_000


@dataclass(slots=True)
class _Flow:
    """Limiter of one key."""

    bucket: TokenBucket
    reserved: float
    """Tokens that must remain after a copy of the last sample is admitted."""
    last: object = None


class FloodGuard:
    """Admits the measurements of one device up to a rate, each channel by itself."""

    def __init__(self, max_rate: float | None = None) -> None:
        """`max_rate`: Hz, for every channel; None: by kind of channel."""
        self._max_rate = max_rate
        self._flows: dict[Hashable, _Flow] = {}
        self._exceeded_ns: int | None = None

    def admits(self, key: Hashable, channel: str, now_ns: int, sample: object) -> bool:
        """Whether one more of `key` is within the rate of `channel`. `now_ns`: host monotonic clock.

        `sample`: its values; a copy of the sample before is admitted only while tokens are plentiful.
        """
        flow = self._flows.get(key)
        if flow is None:
            rate = _MARGIN * (self._max_rate or MAX_RATES.get(channel.partition(".")[0], MAX_RATE))
            burst = max(_BURST_S * rate, 1.0)
            flow = self._flows[key] = _Flow(TokenBucket(rate, burst), _RESERVED * burst)
        admitted = flow.bucket.take(now_ns, left=flow.reserved if sample == flow.last else 0.0)
        flow.last = sample
        if not admitted:
            self.exceeded(now_ns)
        return admitted

    def exceeded(self, now_ns: int) -> None:
        """Note that the device exceeded a limit other than the rate of measurements."""
        self._exceeded_ns = now_ns

    def is_flooding(self, now_ns: int) -> bool:
        """Whether a limit was exceeded within the last two seconds."""
        return self._exceeded_ns is not None and now_ns - self._exceeded_ns < _REMEMBERED_NS
