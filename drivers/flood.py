"""How often a device may measure: what comes more often is decimated before the filter has to spend time on it."""

from collections.abc import Hashable

from vehicled.token_bucket import TokenBucket

MAX_RATES = {"imu": 1000.0, "reference": 1000.0, "gnss": 100.0, "gnss2": 100.0}
"""By first part of a channel's name, Hz: what the fastest IMUs and receivers on the market send."""
MAX_RATE = 250.0
"""Of all other channels, Hz: control units send at 10 to 100 Hz."""
_MARGIN = 1.2
"""A device's clock may run fast, and its messages come unevenly."""
_BURST_S = 0.5
"""What a device may send at once after a pause of its own or of the thread that reads it, as time at the full rate.
On a busy machine threads wait for some tenths of a second, and what a line has kept meanwhile must not be lost."""
_FOR_NEWS = 0.1
"""Share of that which samples leave that repeat the one before. Of a device that sends each of its samples ten times,
those would otherwise be admitted that are late, and not the first ones."""
_REMEMBERED_NS = 2_000_000_000


class FloodGuard:
    """Admits the measurements of one device up to a rate, each channel by itself."""

    def __init__(self, max_rate: float | None = None) -> None:
        """`max_rate`: Hz, of every channel; without, by kind of channel."""
        self._max_rate = max_rate
        self._buckets: dict[Hashable, tuple[TokenBucket, float]] = {}
        """With how many of its tokens are left to samples that are new."""
        self._last: dict[Hashable, object] = {}
        self._exceeded_ns: int | None = None

    def admits(self, key: Hashable, channel: str, now_ns: int, sample: object) -> bool:
        """Whether one more of `key` is within the rate of `channel`. `now_ns`: host monotonic clock.

        `sample`: what it says, by which it is compared with the one before.
        """
        found = self._buckets.get(key)
        if found is None:
            rate = _MARGIN * (self._max_rate or MAX_RATES.get(channel.partition(".")[0], MAX_RATE))
            burst = max(_BURST_S * rate, 1.0)
            found = self._buckets[key] = TokenBucket(rate, burst), _FOR_NEWS * burst
        bucket, left = found
        admitted = bucket.take(now_ns, left=left if sample == self._last.get(key) else 0.0)
        self._last[key] = sample
        if not admitted:
            self.exceeded(now_ns)
        return admitted

    def exceeded(self, now_ns: int) -> None:
        """The device has sent too much in another way."""
        self._exceeded_ns = now_ns

    def is_flooding(self, now_ns: int) -> bool:
        """Whether something was too much within the last two seconds."""
        return self._exceeded_ns is not None and now_ns - self._exceeded_ns < _REMEMBERED_NS
