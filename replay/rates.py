"""Sample rates of a log, found from its beginning."""

from collections.abc import Iterable

from vehicled.messages import Measurement

_SLOWEST = 0.9
"""Hz: every car has a faster sensor, if only a receiver with one fix per second."""
_INTERVALS = 5
"""Number of intervals from which a channel's rate is known."""
_MOST = 1000
"""Most measurements that are read."""


def find_slow_clock(name: str, measurements: Iterable[Measurement]) -> str | None:
    """Warn if the fastest channel of a log is so slow that its time may be in another unit; else None.

    Reads no more than the first measurements: a few where the rates are usual ones.
    """
    begun: dict[str, int] = {}
    counts: dict[str, int] = {}
    highest = 0.0
    for number, m in enumerate(measurements):
        if number == _MOST:
            break
        for channel in m.values:
            first = begun.setdefault(channel, m.t)
            intervals = counts[channel] = counts.get(channel, -1) + 1
            if intervals < _INTERVALS:
                continue
            if m.t - first < intervals / _SLOWEST * 1e9:
                return None
            highest = max(highest, intervals * 1e9 / (m.t - first))
    if not highest:
        return None
    return (
        f"{name}: {highest:.3g} Hz is the highest rate: is the time in another unit? (vehicled check --log)"
    )
