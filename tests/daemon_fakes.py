"""Fakes of the daemon's parts: a clock that tests set, an estimator, and a publisher that is also the recorder."""

from typing import Any

import numpy as np

from vehicled.errors import RunError
from vehicled.messages import (
    ESTIMATE_COLUMNS,
    Condition,
    Estimate,
    Innovation,
    Measurement,
    Parameters,
    SlowState,
    Status,
)


class FakeClock:
    """Sleeping takes no time but moves the clock to the deadline, plus `oversleep`."""

    def __init__(self, now: int = 1_000_000_000) -> None:
        self.time = now
        self.oversleep = 0
        self.slept: list[int] = []
        self.away = 0
        """Time for which the machine was suspended, ns."""

    def suspended(self) -> int:
        return self.away

    def now(self) -> int:
        return self.time

    def sleep_until(self, deadline: int) -> None:
        self.slept.append(deadline)
        self.time = max(self.time, deadline) + self.oversleep


def make_innovation(t: int, source: str = "imu") -> Innovation:
    return Innovation(t, t, "imu.gyro", source, [0.1], [0.2], [-0.1], [0.04], 0.25, 0.05, True, "fused")


class FakeEstimator:
    """Estimates x as the count of its measurements; one innovation for each. `on_step(t)` may raise or take time."""

    def __init__(self, on_step: Any = None) -> None:
        self.on_step = on_step or (lambda t: None)
        self.condition = Condition()
        self.steps: list[tuple[int, list[Measurement]]] = []
        self.commands: list[tuple[str, dict[str, Any]]] = []
        self._records: list[Innovation] = []
        self._seen = 0

    def step(self, t_ns: int, measurements: list[Measurement]) -> Estimate | None:
        self.steps.append((t_ns, measurements))
        self._records = [make_innovation(m.t, m.source) for m in measurements]
        self._seen += len(measurements)
        if self._seen and self.condition.state == "waiting":
            self.condition = Condition("running", t_ns)
        self.on_step(t_ns)
        values = np.full(len(ESTIMATE_COLUMNS), np.nan)
        values[0] = self._seen
        return Estimate(t_ns, values) if self._seen else None

    def innovations(self) -> list[Innovation]:
        return self._records

    def parameters(self) -> dict[str, SlowState]:
        return {}

    def status(self) -> dict[str, Any]:
        return {"seen": self._seen}

    def command(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.commands.append((name, arguments))
        if name == "set_position" and arguments.get("x") == 13.0:
            raise RunError("no luck there")
        return {"executed": name}


class Collector:
    """Publisher and recorder in one: keeps everything in order of arrival."""

    def __init__(self) -> None:
        self.published: list[Estimate | None] = []
        self.innovations: list[Innovation] = []
        self.statuses: list[Status] = []
        self.parameters: list[Parameters] = []
        self.commands: list[tuple[int, str, dict[str, Any]]] = []
        self.recorded: list[tuple[Any, ...]] = []

    def publish_step(self, estimate: Estimate | None, innovations: list[Innovation]) -> None:
        self.published.append(estimate)
        self.innovations += innovations

    def publish_status(self, status: Status) -> None:
        self.statuses.append(status)

    def publish_parameters(self, parameters: Parameters) -> None:
        self.parameters.append(parameters)

    def publish_command(self, step_ns: int, name: str, arguments: dict[str, Any]) -> None:
        self.commands.append((step_ns, name, arguments))

    def record_parameters(self, parameters: Parameters) -> None:
        self.recorded.append(("parameters", parameters.t))

    def record_step(self, step_ns: int, measurements: list[Measurement], *_: object) -> None:
        self.recorded.append(("step", step_ns, len(measurements)))

    def record_command(self, step_ns: int, name: str, arguments: dict[str, Any]) -> None:
        self.recorded.append(("command", step_ns, name, arguments))

    def record_status(self, status: Status) -> None:
        self.recorded.append(("status", status.t))
