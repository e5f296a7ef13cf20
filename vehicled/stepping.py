"""The step loop of daemon, replay, identification and tuning: an estimator on the steps of a drive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from vehicled.backoff import Backoff
from vehicled.drive_summary import Summary
from vehicled.messages import AnyEstimate, Condition, Innovation, Measurement, SlowState, Step

RESET = "reset"
"""The command that resets an estimator after a failure."""
MARK = "mark"
"""The command that only notes a time, with `Mark` for its arguments. The estimator does not receive it."""


E = TypeVar("E", bound=AnyEstimate)
"""Type of the estimate: `Estimate` of a car, `ParticleEstimate` of another mechanism."""
E_co = TypeVar("E_co", bound=AnyEstimate, covariant=True)


class SteppedEstimator(Protocol[E_co]):
    """Interface of an estimator to a step loop; all of it is called from one thread."""

    @property
    def condition(self) -> Condition:
        """The present condition; the same object until it changes."""

    def step(self, t_ns: int, measurements: list[Measurement]) -> E_co | None:
        """Advance to `t_ns` with the measurements since the last step; None while there is no estimate.

        The estimate now belongs to the caller: other threads read it later.
        """

    def innovations(self) -> list[Innovation]:
        """Records of the last step, which also belong to the caller."""

    def status(self) -> dict[str, Any]:
        """Counters of the estimator."""

    def parameters(self) -> dict[str, SlowState]:
        """Estimated parameters of car and sensors, by name."""

    def command(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Execute a command between two steps; `Estimator.command` has the names. Raises VehicledError."""


@dataclass(slots=True)
class StepResult(Generic[E]):
    """The result of a step."""

    t: int
    """ns"""
    measurements: list[Measurement]
    estimate: E | None = None
    innovations: list[Innovation] = field(default_factory=list)
    error: Exception | None = None
    """Error raised by the estimator, which is reset before one of the next steps."""


class EstimatorStepper(Generic[E]):
    """Steps an estimator. After a step in which it failed, it is reset, and continues.

    An estimator that fails repeatedly is not stepped for some time.
    """

    def __init__(self, estimator: SteppedEstimator[E]) -> None:
        self._estimator = estimator
        self._backoff = Backoff()
        self._failure: Condition | None = None
        """Condition since the estimator failed, until it is reset."""
        self._reset_due = 0

    def is_reset_due(self, t_ns: int) -> bool:
        """Whether the estimator has failed, and has to be reset before the step at that time."""
        return self._failure is not None and t_ns >= self._reset_due

    @property
    def condition(self) -> Condition:
        """What the estimator is doing; the same object until that changes."""
        return self._estimator.condition if self._failure is None else self._failure

    def execute(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Execute a command before the next step. Raises what the estimator raises."""
        if name == MARK:
            return {}
        if name == RESET:
            self._failure = None
        return self._estimator.command(name, arguments)

    def step(self, t_ns: int, measurements: list[Measurement]) -> StepResult[E]:
        """Make one step. An error is in the result."""
        # Without [E]: calling an alias of a generic class raises and catches an exception each time.
        result: StepResult[E] = StepResult(t_ns, measurements)
        if self._failure is not None:
            return result
        try:
            result.estimate = self._estimator.step(t_ns, measurements)
            result.innovations = self._estimator.innovations()
        except Exception as error:
            self._reset_due = self._backoff.schedule(t_ns)
            reason = f"{type(error).__name__}: {error}"
            if self._reset_due > t_ns:
                reason += f"; failed again, restart in {(self._reset_due - t_ns) * 1e-9:g} s"
            self._failure = Condition("failed", t_ns, reason)
            result.error = error
        return result


OnCommand = Callable[[int, str, dict[str, Any], Exception | None], None]
"""A function that receives an executed command: time of its step, name, arguments, and its error if it failed."""


def run_steps(
    estimator: SteppedEstimator[E],
    steps: Iterable[Step],
    on_command: OnCommand | None = None,
    raises: bool = False,
) -> Iterator[StepResult[E]]:
    """Step an estimator through a drive, with the recorded commands.

    With `raises`, errors of the estimator in a step are raised here; otherwise they are in the result, and
    the drive continues.
    """
    stepper = EstimatorStepper(estimator)
    for t, measurements, commands in steps:
        if stepper.is_reset_due(t) and all(c.name != RESET for c in commands):
            stepper.execute(RESET, {})
        for command in commands:
            failure: Exception | None = None
            try:
                stepper.execute(command.name, command.arguments)
            except Exception as error:
                failure = error
            if on_command is not None:
                on_command(t, command.name, command.arguments, failure)
        result = stepper.step(t, measurements)
        if raises and result.error is not None:
            raise result.error
        yield result


Sink = Callable[[int, list[Measurement], E | None, list[Innovation]], None]
"""A function that receives a step: its time, measurements, estimate, and innovations."""


def play_back(
    estimator: SteppedEstimator[E],
    steps: Iterable[Step],
    sinks: Iterable[Sink[E]] = (),
    record_command: Callable[[int, str, dict[str, Any]], None] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Summary:
    """Step an estimator through a drive and pass the results to sinks; `progress` receives the seconds done."""
    summary = Summary()
    sinks = tuple(sinks)
    begun = time.perf_counter()

    def on_command(t: int, name: str, arguments: dict[str, Any], failure: Exception | None) -> None:
        if failure is not None:
            summary.errors += 1
            summary.last_error = str(failure)
        if record_command is not None:
            record_command(t, name, arguments)

    for result in run_steps(estimator, steps, on_command):
        if summary.steps == 0:
            summary.begun_ns = result.t
        if result.error is not None:
            summary.errors += 1
            summary.last_error = f"{type(result.error).__name__}: {result.error}"
        summary.take_innovations(result.innovations)
        summary.take_condition(result.t, estimator.condition)
        for sink in sinks:
            sink(result.t, result.measurements, result.estimate, result.innovations)
        summary.steps += 1
        summary.measurements += len(result.measurements)
        for measurement in result.measurements:
            summary.channels.update(measurement.values)
        summary.estimates += result.estimate is not None
        summary.ended_ns = result.t
        if progress is not None and summary.steps % 50 == 0:
            progress(summary.drive_seconds)
    summary.seconds = time.perf_counter() - begun
    summary.finish(estimator.status(), estimator.parameters())
    return summary
