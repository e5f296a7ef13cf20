"""The host's monotonic clock, and sleeping until an absolute time on it."""

import ctypes
import time
from typing import Protocol


class Clock(Protocol):
    """The time source of the estimator loop; tests use one that they advance themselves."""

    def now(self) -> int:
        """Present time, ns."""

    def sleep_until(self, deadline: int) -> None:
        """Return at `deadline`, ns, or at once when that has passed."""

    def suspended(self) -> int:
        """Total time, ns, for which the machine has been suspended; `now` does not include it."""


class MonotonicClock:
    """CLOCK_MONOTONIC of this host, the clock of every `t` and `arrival` in the program."""

    now = staticmethod(time.monotonic_ns)

    def sleep_until(self, deadline: int) -> None:
        """Return at the deadline (ns), at once if it has passed."""
        # `time.sleep` is itself an absolute clock_nanosleep on this clock, so it is late only by the few
        # hundred nanoseconds between reading the clock here and there. Measured, it is no later than a ctypes
        # call of clock_nanosleep.
        delay = deadline - time.monotonic_ns()
        if delay > 0:
            time.sleep(delay * 1e-9)

    def suspended(self) -> int:
        """Total time of suspension by CLOCK_BOOTTIME, ns."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - time.monotonic_ns()


_PR_SET_TIMERSLACK = 29


def tighten_timers() -> None:
    """Have the kernel wake the calling thread on time, not up to 50 µs later to save power."""
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(1), 0, 0, 0)
