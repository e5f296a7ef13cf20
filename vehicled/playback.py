"""Recorded steps through the estimator: what replay, benchmarks and tests share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from replay.steps import Step
from vehicled.errors import VehicledError
from vehicled.estimator import Estimator
from vehicled.messages import Estimate, Innovation, Measurement


@dataclass
class Summary:
    """What became of a log."""

    steps: int = 0
    measurements: int = 0
    estimates: int = 0
    errors: int = 0
    """Steps in which the estimator failed; it was then reset, as in the daemon."""
    last_error: str = ""
    begun_ns: int = 0
    ended_ns: int = 0
    """Of the log."""
    seconds: float = 0.0
    """That it took."""
    sensors: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def drive_seconds(self) -> float:
        return (self.ended_ns - self.begun_ns) * 1e-9

    def line(self) -> str:
        speed = self.drive_seconds / self.seconds if self.seconds > 0 else 0.0
        refused = sum(s["rejected"] for s in self.sensors.values())
        text = (
            f"{self.drive_seconds:.3f} s, {self.steps} steps, {self.measurements} measurements, "
            f"{self.estimates} estimates, {refused} observations not fused, {speed:.1f} × real time"
        )
        return text + (f", {self.errors} errors (last: {self.last_error})" if self.errors else "")


Sink = Callable[[int, list[Measurement], Estimate | None, list[Innovation]], None]
"""Takes a step: its time, what it consumed, its estimate, its innovations."""


def run_steps(
    estimator: Estimator,
    steps: Iterable[Step],
    sinks: Iterable[Sink] = (),
    on_command: Callable[[int, str, dict[str, Any]], None] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Summary:
    """Feed steps to an estimator and hand the results on, exactly as the daemon's loop does."""
    summary = Summary()
    sinks = tuple(sinks)
    begun = time.perf_counter()
    for t, measurements, commands in steps:
        if summary.steps == 0:
            summary.begun_ns = t
        for command in commands:
            try:
                estimator.command(command.name, command.arguments)
            except VehicledError as error:
                summary.errors += 1
                summary.last_error = str(error)
            if on_command is not None:
                on_command(t, command.name, command.arguments)
        estimate: Estimate | None = None
        innovations: list[Innovation] = []
        try:
            estimate = estimator.step(t, measurements)
            innovations = estimator.innovations()
        except Exception as error:
            # The live loop survives this too; it resets the estimator before the next step.
            summary.errors += 1
            summary.last_error = f"{type(error).__name__}: {error}"
            estimator.command("reset", {})
        for sink in sinks:
            sink(t, measurements, estimate, innovations)
        summary.steps += 1
        summary.measurements += len(measurements)
        summary.estimates += estimate is not None
        summary.ended_ns = t
        if progress is not None and summary.steps % 50 == 0:
            progress(summary.drive_seconds)
    summary.seconds = time.perf_counter() - begun
    summary.sensors = estimator.status()["sensors"]
    return summary
