"""An estimator whose steps are timed, by parts."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

from vehicled.daemon.histogram import Histogram
from vehicled.estimator import Estimator
from vehicled.messages import Condition, Estimate, Innovation, Measurement, SlowState

PARTS = {
    "predict": ("predict",),
    "update": ("update", "run_chain"),
    "correct": ("apply_corrections",),
    "adapt": ("update_road", "limit_rotation", "adapt_noise", "widen_parameters"),
    "output": ("output",),
}
"""For each part of a step, the methods of the filter that belong to it; none of them calls another. The rest
is `sources`."""


class ProfiledEstimator:
    """Steps an estimator and measures the parts of a step's time, in constant memory. Costs about 10 µs per step."""

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._part_ns = dict.fromkeys(PARTS, 0)
        names = (*PARTS, "sources", "step", "waiting", "begun_after")
        self._histograms = {name: Histogram() for name in names}
        for part, names in PARTS.items():
            for name in names:
                setattr(estimator.filter, name, self._time(part, getattr(estimator.filter, name)))

    def _time(self, part: str, method: Callable[..., Any]) -> Callable[..., Any]:
        spent, clock = self._part_ns, time.perf_counter_ns

        @functools.wraps(method)
        def timed(*arguments: Any, **options: Any) -> Any:
            begin = clock()
            try:
                return method(*arguments, **options)
            finally:
                spent[part] += clock() - begin

        return timed

    def step(self, t_ns: int, measurements: list[Measurement]) -> Estimate | None:
        """As `Estimator.step`; counted only if it gives an estimate."""
        for part in PARTS:
            self._part_ns[part] = 0
        begin, cpu = time.monotonic_ns(), time.thread_time_ns()
        estimate = self._estimator.step(t_ns, measurements)
        cpu, end = time.thread_time_ns() - cpu, time.monotonic_ns()
        if estimate is not None:
            took, histograms = end - begin, self._histograms
            for part, spent in self._part_ns.items():
                histograms[part].add(spent)
            histograms["sources"].add(took - sum(self._part_ns.values()))
            histograms["step"].add(took)
            histograms["waiting"].add(took - cpu)
            histograms["begun_after"].add(begin - t_ns)
        return estimate

    @property
    def condition(self) -> Condition:
        """Condition of the estimator."""
        return self._estimator.condition

    def innovations(self) -> list[Innovation]:
        """Innovations of the estimator."""
        return self._estimator.innovations()

    def status(self) -> dict[str, Any]:
        """Status of the estimator."""
        return self._estimator.status()

    def parameters(self) -> dict[str, SlowState]:
        """Parameters of the estimator."""
        return self._estimator.parameters()

    def command(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run a command of the estimator."""
        return self._estimator.command(name, arguments)

    def summaries_us(self) -> dict[str, dict[str, float | None]]:
        """Times over all steps with an estimate, µs: for each part as `Histogram.summary_us`.

        `sources` is the remainder of `step`; `waiting`, included in these, is for the interpreter or a
        processor; `begun_after` is from the time of the step to its start, which is meaningful only if the
        steps are live.
        """
        return {name: histogram.summary_us() for name, histogram in self._histograms.items()}
