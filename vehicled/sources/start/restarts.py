"""Restarts of the filter: how soon after one another, and the state that an estimator is in."""

from __future__ import annotations

from vehicled.backoff import Backoff
from vehicled.messages import Condition, SourceFault, State

_RECOVERY_NS = 1_000_000_000
"""After a restart with good data the estimate is normal again."""


class Restarts:
    """Allows two in a minute at once; after that the filter has failed, and is started from nothing after a while."""

    def __init__(self) -> None:
        self._backoff = Backoff()
        self.reset()

    def reset(self) -> None:
        """The filter begins anew from nothing."""
        self._recent: tuple[int, str] | None = None
        """Time and reason of a restart that is not long ago."""
        self._failure: tuple[int, str] | None = None
        """When to start again, and why not at once."""

    @property
    def has_failed(self) -> bool:
        """Whether the filter is not to be started at present."""
        return self._failure is not None

    def is_due(self, t_ns: int) -> bool:
        """Whether a filter that has failed is to be started now."""
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
        # Faults of which only numbers in their reasons have changed are those that were there.
        kinds, before = {f.kind for f in faults}, {f.kind for f in known.faults}
        is_same = (state, reason, kinds) == (known.state, known.reason, before)
        since = known.since if is_same else None
        return Condition(state, t_ns if since is None else since, reason, faults)
