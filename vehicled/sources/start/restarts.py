"""Restarts of the filter: how often they are allowed, and the resulting state of the estimator."""

from __future__ import annotations

from vehicled.backoff import Backoff
from vehicled.messages import Condition, SourceFault, State

_RECOVERY_NS = 1_000_000_000
"""Time after a restart until the estimate is normal again, with good data."""


class Restarts:
    """Allows two restarts in a minute; after that the filter has failed, and starts from nothing after a while."""

    def __init__(self) -> None:
        self._backoff = Backoff()
        self.reset()

    def reset(self) -> None:
        """Forget all restarts: the filter starts from nothing."""
        self._recent: tuple[int, str] | None = None
        """Time and reason of a recent restart."""
        self._failure: tuple[int, str] | None = None
        """Time of the next start, and reason for the wait."""

    @property
    def has_failed(self) -> bool:
        """Whether the filter must not be started at present."""
        return self._failure is not None

    def is_due(self, t_ns: int) -> bool:
        """Whether a failed filter is to be started now."""
        return self._failure is not None and t_ns >= self._failure[0]

    def request(self, t_ns: int, reason: str) -> bool:
        """Whether the filter may be restarted now; otherwise it has failed."""
        due = self._backoff.schedule(t_ns)
        if due > t_ns:
            wait = (due - t_ns) * 1e-9
            self._failure = due, f"{reason}; restarted twice within a minute, next start in {wait:g} s"
            return False
        self._recent = t_ns, reason
        return True

    def describe(
        self, known: Condition, t_ns: int, running: bool, aligned: bool, faults: tuple[SourceFault, ...]
    ) -> Condition:
        """The condition at a step; `known` itself where nothing has changed."""
        if self._recent is not None and t_ns - self._recent[0] > _RECOVERY_NS:
            self._recent = None
        state: State
        reason = None if self._recent is None else self._recent[1]
        if self._failure is not None:
            state, reason = "failed", self._failure[1]
        elif not running:
            state = "waiting"
        elif not aligned:
            state = "aligning"
        elif self._recent is not None:
            state = "recovering"
        else:
            state = "degraded" if faults else "running"
        if (
            faults is known.faults
            and (state, reason) == (known.state, known.reason)
            and known.since is not None
        ):
            return known
        # Faults that differ only in the numbers in their reasons are the same faults.
        kinds, before = {f.kind for f in faults}, {f.kind for f in known.faults}
        is_same = (state, reason, kinds) == (known.state, known.reason, before)
        since = known.since if is_same else None
        return Condition(state, t_ns if since is None else since, reason, faults)
