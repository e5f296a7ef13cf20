"""What is raised when processes are killed."""

from vehicled.errors import RunError

RETRIES = 3
"""How often a job is begun again after its process was killed: as often as Dask's schedulers do by default."""


class WorkerLostError(RunError):
    """A job whose process was killed each time that it was begun."""

    def __init__(self) -> None:
        super().__init__(f"its process was killed {RETRIES + 1} times; is there enough memory?")

    def __reduce__(self) -> tuple[type["WorkerLostError"], tuple[()]]:
        return WorkerLostError, ()
