"""The estimator's thread: one filter step per period, with absolute deadlines; it goes on after failures."""

import gc
import logging
import os
import sys
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Annotated, Any, Protocol

from vehicled.daemon.clock import Clock, tighten_timers
from vehicled.daemon.histogram import Histogram
from vehicled.daemon.phase import Phase
from vehicled.daemon.queue import MeasurementQueue
from vehicled.errors import VehicledError
from vehicled.garbage import collector_off
from vehicled.messages import (
    AnyEstimate,
    Condition,
    Innovation,
    Measurement,
    Parameters,
    SlowState,
    SourceFault,
    Status,
)
from vehicled.stepping import RESET, EstimatorStepper, SteppedEstimator
from vehicled.units import Hertz, Range

_log = logging.getLogger(__name__)

_SECOND = 1_000_000_000
_MAILBOX = 16
_REPORT_EVERY_NS = 50_000_000
"""Least time between reports of changes."""
_SWITCH_INTERVAL_S = 0.0002
"""A thread that waits for the interpreter's lock requests it after this long, not after Python's default 5 ms."""
_SUSPENDED_NS = 500_000_000
"""After a longer suspension the car may be anywhere."""
_COLLECT_ALL_EVERY = 60
"""Status periods between collections of all generations."""


class StepPublisher(Protocol):
    """Receives results for subscribers; must neither block nor change them."""

    def publish_step(self, estimate: AnyEstimate | None, innovations: list[Innovation]) -> None:
        """Take one step's result; None when it gave no estimate."""

    def publish_status(self, status: Status) -> None:
        """Take the status, once a second and where it changes."""

    def publish_parameters(self, parameters: Parameters) -> None:
        """Take the filter's slow states, once a second."""

    def publish_command(self, step_ns: int, name: str, arguments: dict[str, Any]) -> None:
        """Take a command that was executed before the step at `step_ns`."""


class StepRecorder(Protocol):
    """Records all inputs and outputs; must neither block nor change them."""

    def record_step(
        self,
        step_ns: int,
        measurements: list[Measurement],
        estimate: AnyEstimate | None,
        innovations: list[Innovation],
        duration_ns: int,
    ) -> None:
        """Take inputs, results and duration of the step at `step_ns`."""

    def record_command(self, step_ns: int, name: str, arguments: dict[str, Any]) -> None:
        """Take a command that was executed before the step at `step_ns`."""

    def record_status(self, status: Status) -> None:
        """Take the status, once a second and where it changes."""

    def record_parameters(self, parameters: Parameters) -> None:
        """Take the filter's slow states, once a second."""


@dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """When the filter steps, and with which scheduling."""

    rate: Annotated[Hertz, Range(1.0, 2000.0)] = 250.0
    """Filter steps per second."""
    realtime_priority: Annotated[int, Range(0, 99)] = 30
    """SCHED_FIFO priority of the estimator's thread if the system permits; 0 leaves it an ordinary thread."""
    cpu: Annotated[int, Range(0, 1023)] | None = None
    """Processor that the estimator's thread is bound to; without, the kernel chooses."""

    @property
    def period(self) -> int:
        """ns."""
        return round(_SECOND / self.rate)


class Loop:
    """Runs the filter at a fixed rate in the thread that calls `run`, with the phase at which samples wait least.

    A step that is more than a period late replaces the steps that were missed: they are counted, and the
    estimator integrates over the longer interval. A failing estimator is counted, logged and reset.
    """

    def __init__(
        self,
        estimator: SteppedEstimator[AnyEstimate],
        queue: MeasurementQueue,
        clock: Clock,
        options: LoopOptions,
        publisher: StepPublisher,
        recorder: StepRecorder | None = None,
        counters: Callable[[], dict[str, Any]] = dict,
        find_device_faults: Callable[[], tuple[SourceFault, ...]] = tuple,
    ) -> None:
        """`counters`: the other counters in `status`, by part: devices, publisher and so on.

        `find_device_faults`: devices that are not connected or silent; for every step.
        """
        self._estimator = estimator
        self._queue = queue
        self._clock = clock
        self._options = options
        self._publisher = publisher
        self._recorder = recorder
        self._other_counters = counters
        self._find_device_faults = find_device_faults
        self._device_faults: tuple[SourceFault, ...] = ()
        self._devices_since: int | None = None
        self._reported: Condition | None = None
        """Condition of the estimator in the last status."""
        self._mailbox: deque[tuple[str, dict[str, Any], Future[dict[str, Any]]]] = deque()
        self._stopping = False
        self._stepper = EstimatorStepper(estimator)
        self._scheduling = ""
        self._suspended = clock.suspended()
        self._warned: set[str] = set()
        """Channels whose wrong unit has been logged."""

        self.steps = 0
        """Steps done so far; the watchdog checks that this increases."""
        self.last_status: Status | None = None
        self.last_parameters: dict[str, SlowState] = {}
        """The last ones that the estimator has found, to be kept for the next drive."""
        self._missed = 0
        self._skipped = 0
        self._estimator_errors = 0
        self._output_errors = 0
        self._logged_error_at = -_SECOND
        self._phase = Phase(options.period)
        self._step_time = Histogram()
        self._waiting = Histogram()
        self._lateness = Histogram()
        self._collect_time = Histogram()
        self._statuses = 0

    def submit(self, name: str, arguments: dict[str, Any]) -> Future[dict[str, Any]]:
        """Have a command executed before the next step; from any thread. The future gets its result or error."""
        future: Future[dict[str, Any]] = Future()
        if self._stopping or len(self._mailbox) >= _MAILBOX:
            future.set_exception(RuntimeError("stopping" if self._stopping else "too many commands at once"))
        else:
            self._mailbox.append((name, arguments, future))
        return future

    def stop(self) -> None:
        """Have `run` return after the present step; from any thread."""
        self._stopping = True

    def run(self) -> None:
        """Step until `stop`."""
        self._claim_processor()
        switch_interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        try:
            with collector_off():  # it is run in idle time only
                self._run()
        finally:
            sys.setswitchinterval(switch_interval)
            self._stopping = True
            while self._mailbox:
                self._mailbox.popleft()[2].set_exception(RuntimeError("stopping"))

    def _run(self) -> None:
        clock, period = self._clock, self._options.period
        deadline = clock.now() + period
        status_due = change_due = deadline
        while not self._stopping:
            clock.sleep_until(deadline)
            begun = clock.now()
            self._tick(deadline)
            ended = clock.now()
            self._lateness.add(begun - deadline)
            self._step_time.add(ended - begun)
            self.steps += 1
            self._missed += ended > deadline + period
            if deadline >= status_due:
                self._report(deadline)
                status_due += ((deadline - status_due) // _SECOND + 1) * _SECOND
                change_due = deadline + _REPORT_EVERY_NS
                if clock.now() < deadline + period // 2:
                    self._collect_garbage()
            elif self._has_changed(deadline) and deadline >= change_due:
                self._report(deadline)
                change_due = deadline + _REPORT_EVERY_NS
            deadline += period + self._phase.shift()
            behind = (clock.now() - deadline) // period
            if behind > 0:
                self._skipped += behind
                self._missed += behind
                deadline += behind * period

    def _tick(self, t: int) -> None:
        suspended = self._clock.suspended()
        away, self._suspended = suspended - self._suspended, suspended
        if away > _SUSPENDED_NS:
            _log.warning("the machine was suspended for %.1f s: the filter begins anew", away * 1e-9)
        if away > _SUSPENDED_NS or self._stepper.is_reset_due(t):
            self._execute(t, RESET, {}, Future())
        while self._mailbox:
            self._execute(t, *self._mailbox.popleft())
        measurements = self._queue.drain(t)
        begun = self._clock.now()
        result = self._stepper.step(t, measurements)
        duration = self._clock.now() - begun
        if result.error is not None:
            self._estimator_errors += 1
            self._log_error(t, "the estimator failed and is reset", result.error)
        self._deliver(t, self._publisher.publish_step, result.estimate, result.innovations)
        if self._recorder is not None:
            self._deliver(
                t,
                self._recorder.record_step,
                t,
                measurements,
                result.estimate,
                result.innovations,
                duration,
            )
        self._phase.take(t, [m.arrival for m in measurements])
        for m in measurements:
            self._waiting.add(t - m.arrival)

    def _execute(self, t: int, name: str, arguments: dict[str, Any], future: Future[dict[str, Any]]) -> None:
        try:
            result = self._stepper.execute(name, arguments)
        except Exception as error:
            future.set_exception(error)
            if isinstance(error, VehicledError):  # the sender's mistake; the sender gets the same text
                _log.warning("the command %s was refused: %s", name, error)
            else:
                self._log_error(t, f"the command {name} failed", error)
            return
        future.set_result(result)
        self._deliver(t, self._publisher.publish_command, t, name, arguments)
        if self._recorder is not None:
            self._deliver(t, self._recorder.record_command, t, name, arguments)

    def _deliver(self, t: int, deliver: Callable[..., None], *what: object) -> None:
        try:
            deliver(*what)
        except Exception as error:
            self._output_errors += 1
            self._log_error(t, "results could not be delivered", error)

    def _has_changed(self, t: int) -> bool:
        """Whether state or faults have changed since the last status."""
        faults = self._find_device_faults()
        if faults != self._device_faults:
            self._device_faults, self._devices_since = faults, t
            self._reported = None
        return self._stepper.condition is not self._reported

    def _report(self, t: int) -> None:
        self._has_changed(t)
        self._reported = self._stepper.condition
        found: dict[str, SlowState] = {}
        try:
            estimator = self._estimator.status()
            found = self._estimator.parameters()
        except Exception as error:
            self._estimator_errors += 1
            self._log_error(t, "the estimator's status failed", error)
            estimator = {}
        self.last_parameters = found or self.last_parameters
        for channels, fault in estimator.get("units", {}).items():
            if channels not in self._warned:
                self._warned.add(channels)
                _log.warning("%s: %s", channels, fault)
        counters = {
            **self._other_counters(),
            "queue": self._queue.counters(),
            "loop": self.counters(),
            "estimator": estimator,
        }
        self.last_status = Status.of(t, self._calc_condition(self._reported), counters)
        self._statuses += 1
        self._deliver(t, self._publisher.publish_status, self.last_status)
        parameters = Parameters.of(t, found)
        self._deliver(t, self._publisher.publish_parameters, parameters)
        if self._recorder is not None:
            self._deliver(t, self._recorder.record_status, self.last_status)
            self._deliver(t, self._recorder.record_parameters, parameters)

    def _calc_condition(self, of_estimator: Condition) -> Condition:
        """Condition of estimator and devices together."""
        if not self._device_faults:
            return of_estimator
        state = "degraded" if of_estimator.state == "running" else of_estimator.state
        since = max(t for t in (of_estimator.since, self._devices_since) if t is not None)
        return Condition(state, since, of_estimator.reason, (*self._device_faults, *of_estimator.faults))

    def counters(self) -> dict[str, Any]:
        """`steps` done; `missed` deadlines, of which `skipped` steps were not done at all; times in µs.

        `waiting_us`: how long measurements have waited for their step.
        """
        late = self._lateness.summary_us()
        return {
            "rate_hz": self._options.rate,
            "steps": self.steps,
            "missed": self._missed,
            "skipped": self._skipped,
            "late_max_us": late["max"],
            "late_us": late,
            "step_us": self._step_time.summary_us(),
            "waiting_us": self._waiting.summary_us(),
            "collect_us": self._collect_time.summary_us(),
            "estimator_errors": self._estimator_errors,
            "output_errors": self._output_errors,
            "scheduling": self._scheduling,
        }

    def _collect_garbage(self) -> None:
        """Collect mostly the young generation, as hardly anything that a step allocates is part of a cycle."""
        begun = self._clock.now()
        gc.collect(2 if self._statuses % _COLLECT_ALL_EVERY == 0 else 0)
        self._collect_time.add(self._clock.now() - begun)

    def _log_error(self, t: int, what: str, error: Exception) -> None:
        """Log at most once a second: 250 lines a second would be a problem of their own."""
        if t - self._logged_error_at >= _SECOND:
            self._logged_error_at = t
            _log.error("%s: %s: %s", what, type(error).__name__, error, exc_info=error)

    def _claim_processor(self) -> None:
        tighten_timers()
        failures = []
        priority, cpu = self._options.realtime_priority, self._options.cpu
        if priority:
            try:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
            except OSError as error:
                failures.append(f"SCHED_FIFO {priority} refused: {error.strerror}")
        if cpu is not None:
            try:
                os.sched_setaffinity(0, {cpu})
            except OSError as error:
                failures.append(f"processor {cpu} refused: {error.strerror}")
        # Read the actual policy, as a service manager may have set it for the whole process.
        if os.sched_getscheduler(0) == os.SCHED_FIFO:
            policy = f"SCHED_FIFO {os.sched_getparam(0).sched_priority}"
        else:
            policy = "ordinary"
        processors = ", ".join(map(str, sorted(os.sched_getaffinity(0))))
        self._scheduling = "; ".join([f"{policy} on processors {processors}", *failures])
        if failures:
            _log.warning("the estimator's thread is %s", self._scheduling)
