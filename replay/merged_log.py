"""Logs of several loggers of one drive, read as one."""

import heapq
from collections.abc import Iterator, Sequence

from replay.log import Log
from replay.problems import Problems
from replay.steps import sort_by_arrival
from vehicled.errors import UsageError
from vehicled.messages import Measurement


class MergedLog:
    """The measurements of logs whose times are of one clock, in order of arrival."""

    recorded = False

    def __init__(self, logs: Sequence[Log]) -> None:
        """Raises UsageError for a recording, for logs of different times, and for the same one twice."""
        for k, log in enumerate(logs):
            if any(log.path.samefile(other.path) for other in logs[:k]):
                raise UsageError(f"{log.path}: expected each log once")
            if log.recorded:
                raise UsageError(f"{log.path}: expected logs of measurements, got a recording of the daemon")
        self._logs = logs
        self.path = logs[0].path
        self.problems = Problems(", ".join(log.path.name for log in logs))
        spans = [_find_span(log) for log in logs]
        if max(begin for begin, _ in spans) > min(end for _, end in spans):
            texts = (
                f"{log.path.name}: {begin * 1e-9:.3f} s to {end * 1e-9:.3f} s"
                for log, (begin, end) in zip(logs, spans, strict=True)
            )
            raise UsageError(
                f"expected logs of the same time, got {', '.join(texts)}: first convert one of them with "
                "--mapping FILE, in it `time: {offset: … s}`"
            )

    def measurements(self) -> Iterator[Measurement]:
        """Yield the measurements of all logs."""
        self.problems.clear()
        parts = [sort_by_arrival(log.measurements(), log.problems) for log in self._logs]
        yield from heapq.merge(*parts, key=lambda m: m.arrival)
        for log in self._logs:
            self.problems.extend(log.problems)


def _find_span(log: Log) -> tuple[int, int]:
    """Times of the first and last measurement, ns."""
    begin = end = None
    for m in log.measurements():
        begin = m.t if begin is None else min(begin, m.t)
        end = m.t if end is None else max(end, m.t)
    if begin is None or end is None:
        raise UsageError(f"{log.path}: no measurements in it")
    return begin, end
