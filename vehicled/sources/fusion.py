"""Each observation's life: judged, then fused or refused, and always recorded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from vehicled.filter.covariance import UNSEEN
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import Innovation, Measurement
from vehicled.sources.settings import Gate
from vehicled.sources.source import Source

Believe = Callable[[np.ndarray, np.ndarray], None]
"""Takes what a source says that keeps failing: innovation (m,), and its noise variances (m,), UNSEEN for missing."""


class Fusion:
    """Judges the observations of a filter, by the gates of their sources."""

    def __init__(self, filter: VehicleFilter):
        self._filter = filter
        self.sources: dict[str, Source] = {}
        """By kind of observation, such as `imu.gyro`."""
        self._before: dict[str, Source] = {}
        self._believe: dict[str, Believe] = {}
        self.records: list[Innovation] = []
        """Of the step in hand."""
        self.step_ns = 0
        """Its time."""

    def reconfigure(self) -> None:
        """Sources are about to be added anew; those that were there keep their counters."""
        self._before, self.sources, self._believe = self.sources, {}, {}

    def add(self, name: str, gate: Gate, believe: Believe | None = None) -> None:
        """A source. `believe` makes the filter begin anew from it where the gate's policy says so; by default the
        states that it sees are opened to what it says."""
        source = self._before.get(name)
        if source is None:
            source = Source(gate)
        else:
            source.set_gate(gate)
        self.sources[name] = source
        self._believe[name] = self._open if believe is None else believe

    def fuse(
        self,
        m: Measurement,
        name: str,
        value: list[float],
        noise: list[float],
        present: Sequence[int] | None = None,
    ) -> None:
        """Judge one observation; fuse it, refuse it, or begin anew from it; record it.

        `noise`: variances; `present`: which of the components were measured, if not all.
        """
        source, f = self.sources[name], self._filter
        source.heard(m.t)
        nis = f.judge(name, m.t, value, noise)
        if nis is None:
            self.refuse(m, name, value if present is None else [value[k] for k in present], "too old")
            return
        size = len(value)
        innovation, variance = f.ekf.innovation[:size].tolist(), f.ekf.variance[:size].tolist()
        if present is not None:
            value, innovation, variance = ([x[k] for k in present] for x in (value, innovation, variance))
        ratio = nis / source.thresholds[len(value) - 1]
        reason = "fused" if ratio <= 1.0 else "gate"
        if reason == "fused":
            f.ekf.fuse(size)
            source.accept()
        elif source.fail():
            self._believe[name](f.ekf.innovation[:size].copy(), np.array(noise))
            reason = "reset"
        predicted = [v - i for v, i in zip(value, innovation, strict=True)]
        fused = reason != "gate"
        self.records.append(
            Innovation(
                m.t,
                self.step_ns,
                name,
                m.source,
                value,
                predicted,
                innovation,
                variance,
                nis,
                ratio,
                fused,
                reason,
            )
        )

    def refuse(self, m: Measurement, name: str, value: list[float], reason: str) -> None:
        """A measurement that cannot be judged."""
        source = self.sources[name]
        source.heard(m.t)
        source.refuse(reason)
        self.record(m, name, value, reason)

    def record(self, m: Measurement, name: str, value: list[float], reason: str) -> None:
        """Of something that was not judged."""
        nan = math.nan
        self.records.append(
            Innovation(m.t, self.step_ns, name, m.source, value, [], [], [], nan, nan, False, reason)
        )

    def look(self, now_ns: int) -> None:
        """See which sources have fallen silent."""
        for source in self.sources.values():
            source.look(now_ns)

    def is_filter_lost(self) -> bool:
        """Whether most of the sensors that speak have long been failing their gates: then it is the filter that
        has lost its way, and not they."""
        failing = [s for s in self.sources.values() if s.failures >= s.gate.persistent]
        if len(failing) < 2:
            return False
        speaking = [s for s in self.sources.values() if s.state in ("active", "distrusted")]
        lost = [s for s in failing if s in speaking]
        return len(lost) >= 2 and 2 * len(lost) > len(speaking)

    def forgive(self) -> None:
        """Failures of the past do not count any more."""
        for source in self.sources.values():
            source.failures = 0

    def _open(self, innovation: np.ndarray, noise: np.ndarray) -> None:
        """Open the states that it sees to what it says, and let it in again."""
        ekf, seen = self._filter.ekf, noise < UNSEEN
        variances, rows = ekf.variances, ekf.rows[: len(noise)][seen]
        surprise = float(innovation[seen] @ innovation[seen])
        for i in map(int, np.flatnonzero(np.abs(rows).max(axis=0) > 0.1)):
            ekf.set_variance(i, float(variances[i] + surprise))
