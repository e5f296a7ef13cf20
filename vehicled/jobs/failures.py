"""Failures of an executor. They are no RunError, which is what work raises: a filter that diverges is a result."""

from vehicled.errors import VehicledError


class ExecutorError(VehicledError):
    """Where the work should be done it cannot be."""


class WorkerLostError(ExecutorError):
    """A job whose process was killed each time that it was begun."""

    def __init__(self) -> None:
        super().__init__("its process was killed each time that it was begun; is there enough memory?")

    def __reduce__(self) -> tuple[type["WorkerLostError"], tuple[()]]:
        return WorkerLostError, ()
