"""Further outputs of a replay in addition to a table: a recording, subscribers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Generic

from replay.log import Log, describe_log
from vehicled.daemon.daemon import DaemonOptions
from vehicled.daemon.endpoints import Endpoints
from vehicled.daemon.publisher import Publisher
from vehicled.daemon.recorder import Recorder
from vehicled.daemon.recording_file import Contents, RecordRates
from vehicled.foxglove.scene import Scene
from vehicled.messages import AnyEstimate, Condition, Innovation, Measurement, Parameters, Status
from vehicled.stepping import E, Sink, SteppedEstimator
from vehicled.terminal.output_files import writing

_STATUS_EVERY_NS = 1_000_000_000


_Report = Callable[[Status, Parameters], None]


class _StatusSink:
    """Reports the estimator's status and parameters as the daemon does, and at the end of the drive.

    That is once per second of the drive, and when the condition changes.
    """

    def __init__(self, estimator: SteppedEstimator[AnyEstimate], report: _Report) -> None:
        self._estimator, self._report = estimator, report
        self._due: int | None = None
        self._condition: Condition | None = None
        self._t: int | None = None
        """Time of the last step, if its status has not been reported."""

    def take(self, t: int, *_: object) -> None:
        """Take a step at t, ns."""
        self._t = t
        is_due = self._due is None or t >= self._due
        if is_due:
            self._due = t + _STATUS_EVERY_NS
        if is_due or self._estimator.condition is not self._condition:
            self.finish()

    def finish(self) -> None:
        """Report the last status of the drive."""
        if self._t is not None:
            self._condition = self._estimator.condition
            status = Status.of(self._t, self._condition, {"estimator": self._estimator.status()})
            self._report(status, Parameters.of(self._t, self._estimator.parameters()))
            self._t = None


class ReplayOutputs(Generic[E]):
    """Receivers of the results of `play_back`: `sinks` and `on_command`."""

    def __init__(self, stack: ExitStack, estimator: SteppedEstimator[E]) -> None:
        """`stack` closes what is opened here."""
        self._stack, self._estimator = stack, estimator
        self.sinks: list[Sink[E]] = []
        self._take_command: list[Callable[[int, str, dict[str, Any]], None]] = []

    def on_command(self, t: int, name: str, arguments: dict[str, Any]) -> None:
        """Take a recorded command that was executed before the step at t, ns."""
        for take in self._take_command:
            take(t, name, arguments)

    def record(
        self, path: Path, log: Log, daemon: DaemonOptions, configuration: str, scene: Scene | None = None
    ) -> None:
        """Record all inputs and outputs to a file. Raises OSError."""
        offset = describe_log(log).utc_offset_ns
        self._stack.enter_context(writing(path))
        rates = RecordRates() if daemon.record is None else daemon.record.rates
        recorder = self._stack.enter_context(
            Recorder(path, configuration, 0, offset, contents=Contents(rates, scene))
        )
        self.sinks.append(recorder.record_step)

        def report(status: Status, parameters: Parameters) -> None:
            recorder.record_status(status)
            recorder.record_parameters(parameters)

        self._report(report)
        self._take_command.append(recorder.record_command)

    def publish(self, endpoint: str, daemon: DaemonOptions) -> None:
        """Publish as the daemon does. Raises UsageError."""
        options = dataclasses.replace(daemon.publish, endpoint=endpoint)
        endpoints = Endpoints(options)
        self._stack.callback(endpoints.close)
        publisher = Publisher(endpoints, options)
        publisher.start()
        self._stack.callback(publisher.close)

        def take(
            t: int, measurements: list[Measurement], estimate: E | None, innovations: list[Innovation]
        ) -> None:
            publisher.publish_step(estimate, innovations)

        def report(status: Status, parameters: Parameters) -> None:
            publisher.publish_status(status)
            publisher.publish_parameters(parameters)

        self.sinks.append(take)
        self._report(report)
        self._take_command.append(publisher.publish_command)

    def _report(self, report: _Report) -> None:
        statuses = _StatusSink(self._estimator, report)
        self.sinks.append(statuses.take)
        self._stack.callback(statuses.finish)
