"""How much of something is taken per second: a token bucket, whose clock is that of the caller."""

_SECOND = 1e9


class TokenBucket:
    """Fills at `rate` tokens per second up to `burst`, with which it starts. What finds too few is not taken."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate / _SECOND
        self._burst = burst
        self._tokens = burst
        self._filled_ns: int | None = None

    def take(self, now_ns: int, tokens: float = 1.0, left: float = 0.0) -> bool:
        """Whether there were so many tokens at `now_ns` (ns, a clock that does not go back); they are then gone.

        `left`: how many more there have to be, which stay.
        """
        present = self._tokens
        if self._filled_ns is not None:
            present += (now_ns - self._filled_ns) * self._rate
            if present > self._burst:
                present = self._burst
        self._filled_ns, self._tokens = now_ns, present
        if present < tokens + left:
            return False
        self._tokens = present - tokens
        return True

    def wait_s(self, now_ns: int) -> float:
        """Seconds until there is a token, 0 if there is one."""
        self.take(now_ns, 0.0)
        return max(0.0, (1.0 - self._tokens) / self._rate / _SECOND)
