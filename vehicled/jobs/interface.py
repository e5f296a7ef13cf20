"""Interface of executors."""

from abc import abstractmethod
from concurrent.futures import Executor
from typing import Any


class SharingExecutor(Executor):
    """An executor that sends a large value once, for all jobs that take it."""

    @abstractmethod
    def share(self, value: Any) -> Any:
        """An argument for `submit` that replaces the value."""
