"""A device's own clock, related to the host's monotonic clock from the arrival of its messages alone.

A message stamped `d` by the device arrives at `offset + (1 + skew)·d + delay` with a delay that is never
negative and often close to its minimum. So the line to find is the *lower envelope* of arrival against
device time: of all lines below every point, the one closest to them on average. It is an edge of the lower
convex hull, the one over the mean abscissa (Moon, Skelly, Towsley: Estimation and removal of clock skew from
network delay measurements, INFOCOM 1999). An average would follow every stall of the host; this does not.

Arrivals alone do not determine the minimum of the delay itself: it is the `latency` to configure.
"""

from collections import deque
from itertools import pairwise

_BUCKET_NS = 1_000_000_000
"""Length of a stretch: one point of the envelope is kept for each."""
_BUCKETS = 60
"""Length of the memory, in stretches."""
_SKEW_SPAN_NS = 5_000_000_000
"""A skew is not estimated from less than this: jitter over a short span is a large slope."""
_MAX_SKEW = 300e-6
"""Larger than the skew of any intact quartz."""
_MAX_WRONG_RATE = 0.02
"""Largest skew of a clock without a quartz, or with a broken one; accepted only if it is plain (see
`_PLAIN_RATIO`)."""
_PLAIN_SPAN_NS = 2_500_000_000
_PLAIN_DRIFT_NS = 15_000_000
_PLAIN_RATIO = 20
"""A wrong rate is plain when its drift is larger than `_PLAIN_DRIFT_NS` and than this many times the scatter
of the points about the line. A clock that was set once leaves a step: points are as far from any line as the
step is high."""
_AHEAD_NS = 100_000_000
_BEHIND_NS = 5_000_000_000
"""A message earlier than the envelope by more than `_AHEAD_NS`, or later by more than this: the device's
clock was set."""
_SET_BACK_NS = 30_000_000
"""If a message arrives this much after its predecessor with a stamp that is not later, the device's clock was
set back: a stall of the host leaves stamps in order, and datagrams that overtake each other arrive closer
together."""
_SHIFT_NS = 100_000_000
_SHIFT_BUCKETS = 2
"""If all messages of this many stretches are later than the envelope by more than `_SHIFT_NS`, the device's
clock was set back by less than the time between two messages."""
_BENT_BUCKETS, _BENT_NS, _BENT_RATIO = 5, 2_000_000, 6
"""If the points of so many stretches in a row are above the line by more than the second number, ns, and the third
times the usual difference of neighbouring points, the rate has changed: NTP slews the host's monotonic clock by up
to 500 ppm while it corrects the time of day. Older points are then of another line."""


class DeviceClock:
    """Turns the time stamps of one device into host time; memory and work per call are bounded.

    tick_ns: length of one tick of the device's counter, ns. wrap: number of ticks after which the counter
    starts again at 0, None if it never does. latency_ns: the least time from measurement to arrival, ns.
    """

    def __init__(self, *, tick_ns: int, wrap: int | None = None, latency_ns: int = 0) -> None:
        self.restarts = 0
        """How often the device's clock jumped and the estimate started over."""
        self._tick_ns = tick_ns
        self._period_ns = None if wrap is None else wrap * tick_ns
        self._latency_ns = latency_ns
        self._points: deque[tuple[int, int]] = deque(maxlen=_BUCKETS)  # lowest (x, y) of each stretch
        self._last: tuple[int, int, int] | None = None  # device, arrival, result of the newest call
        self._start(0, 0)

    @property
    def skew(self) -> float:
        """Host seconds per device second, minus one."""
        return self._skew

    def to_host(self, ticks: int, arrival_ns: int) -> int:
        """When a sample stamped `ticks` by the device was measured, ns, host monotonic clock.

        Never later than `arrival_ns` minus the latency, and not before the result for an earlier device time.
        """
        device = ticks * self._tick_ns
        if self._last is None or arrival_ns - self._last[1] > _BUCKETS * _BUCKET_NS:
            self._start(device, arrival_ns)
        else:
            if self._period_ns is not None:
                missing = self._last[0] + arrival_ns - self._last[1] - device
                device += (2 * missing + self._period_ns) // (2 * self._period_ns) * self._period_ns
            delay = self._delay(device - self._device0, arrival_ns - self._arrival0)
            advance, passed = device - self._last[0], arrival_ns - self._last[1]
            is_set_back = advance <= 0 and passed - advance > _SET_BACK_NS
            if is_set_back or not -_AHEAD_NS <= delay <= _BEHIND_NS or self._late_buckets >= _SHIFT_BUCKETS:
                self.restarts += 1
                self._start(device, arrival_ns)
        x = device - self._device0
        self._add(x, arrival_ns - self._arrival0 - x, arrival_ns)
        measured = self._arrival0 + x + round(self._offset + self._skew * x)
        result = min(measured, arrival_ns) - self._latency_ns
        if self._last is not None and device >= self._last[0]:
            result = min(max(result, self._last[2]), arrival_ns - self._latency_ns)
        self._last = device, arrival_ns, result
        return result

    def _start(self, device: int, arrival_ns: int) -> None:
        # Coordinates from here on: x, device time; y, arrival less device time. Both start at 0.
        self._device0, self._arrival0 = device, arrival_ns
        self._points.clear()
        self._bucket_end = arrival_ns
        self._late_buckets = 0
        self._skew, self._offset = 0.0, 0.0
        self._last = None

    def _delay(self, x: int, arrival: int) -> float:
        """How far a point lies above the envelope, ns."""
        return arrival - x - self._offset - self._skew * x

    def _add(self, x: int, y: int, arrival_ns: int) -> None:
        height = y - self._skew * x
        if not self._points or arrival_ns >= self._bucket_end:
            if self._points:
                self._close_bucket()
            self._points.append((x, y))
            self._bucket_end = arrival_ns + _BUCKET_NS
        elif height < self._points[-1][1] - self._skew * self._points[-1][0]:
            self._points[-1] = x, y
        self._offset = min(self._offset, y - self._skew * x)

    def _close_bucket(self) -> None:
        x, y = self._points[-1]
        late = y - self._skew * x - self._offset > _SHIFT_NS
        self._late_buckets = self._late_buckets + 1 if late else 0
        if not late:
            self._leave_bend()
            self._fit()

    def _leave_bend(self) -> None:
        """Forget the points from before a change of rate."""
        heights = [y - self._skew * x - self._offset for x, y in self._points]
        recent = heights[-_BENT_BUCKETS:]
        if len(heights) < 2 * _BENT_BUCKETS or min(recent) < _BENT_NS:
            return
        apart = sorted(abs(b - a) for a, b in pairwise(heights))
        if min(recent) > _BENT_RATIO * apart[len(apart) // 2]:
            while len(self._points) > _BENT_BUCKETS:
                self._points.popleft()

    def _fit(self) -> None:
        points = sorted(self._points)
        span = points[-1][0] - points[0][0]
        slope = _calc_slope(points) if span >= _PLAIN_SPAN_NS else None
        if slope is not None and abs(slope) <= _MAX_WRONG_RATE and _is_plain(points, slope):
            self._skew = slope
        elif slope is not None and span >= _SKEW_SPAN_NS:
            self._skew = min(max(slope, -_MAX_SKEW), _MAX_SKEW)
        self._offset = min(y - self._skew * x for x, y in points)


def _calc_slope(points: list[tuple[int, int]]) -> float | None:
    """Slope of the lower envelope over the mean abscissa; the points are in order of x."""
    mean = sum(x for x, _ in points) / len(points)
    hull: list[tuple[int, int]] = []
    for p in points:
        while len(hull) > 1 and _turns_right(hull[-2], hull[-1], p):
            hull.pop()
        hull.append(p)
    for (x0, y0), (x1, y1) in pairwise(hull):
        if x0 <= mean <= x1 and x1 > x0:
            return (y1 - y0) / (x1 - x0)
    return None


def _is_plain(points: list[tuple[int, int]], slope: float) -> bool:
    """Whether a slope too large for a quartz is nevertheless the true rate of the clock."""
    drift = abs(slope) * (points[-1][0] - points[0][0])
    heights = sorted(y - slope * x for x, y in points)
    scatter = heights[len(heights) // 2] - heights[0]
    return abs(slope) > _MAX_SKEW and drift > max(_PLAIN_DRIFT_NS, _PLAIN_RATIO * scatter)


def _turns_right(a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]) -> bool:
    """Whether b lies on or above the line from a to c, so that it is no corner of the lower hull."""
    return (b[0] - a[0]) * (c[1] - a[1]) <= (b[1] - a[1]) * (c[0] - a[0])
