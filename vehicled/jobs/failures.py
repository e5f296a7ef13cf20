"""Failures of an executor. They are no RunError, which work raises: a filter that diverges is a result."""

from vehicled.errors import VehicledError


class ExecutorError(VehicledError):
    """The work cannot be done on the chosen executor."""


class WorkerLostError(ExecutorError):
    """A job whose process was killed at every attempt."""

    def __init__(self) -> None:
        super().__init__("its process was killed each time that it was begun; is there enough memory?")

    def __reduce__(self) -> tuple[type["WorkerLostError"], tuple[()]]:
        return WorkerLostError, ()
