"""How much of something is taken per second: a token bucket, whose clock is that of the caller."""

_SECOND = 1e9


class TokenBucket:
    """Fills at `rate` tokens per second up to `burst`, with which it starts. What finds too few is not taken."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate / _SECOND
        self._burst = burst
        self._tokens = burst
        self._filled_ns: int | None = None

    def take(self, now_ns: int, tokens: float = 1.0) -> bool:
        """Whether there were so many tokens at `now_ns` (ns, a clock that does not go back); they are then gone."""
        self._fill(now_ns)
        if self._tokens < tokens:
            return False
        self._tokens -= tokens
        return True

    def wait_s(self, now_ns: int) -> float:
        """Seconds until there is a token, 0 if there is one."""
        self._fill(now_ns)
        return max(0.0, (1.0 - self._tokens) / self._rate / _SECOND)

    def _fill(self, now_ns: int) -> None:
        if self._filled_ns is not None:
            self._tokens = min(self._burst, self._tokens + (now_ns - self._filled_ns) * self._rate)
        self._filled_ns = now_ns
