"""Libraries that only some formats need, and that an extra of the package installs."""

import importlib
from pathlib import Path
from typing import Any

from vehicled.errors import UsageError


def require(module: str, extra: str, path: Path) -> Any:
    """The module; UsageError, naming the extra that installs it, where it is missing."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or module.split(".")[0] != error.name.split(".")[0]:
            raise
        raise UsageError(
            f"{path}: needs {error.name}, which is not installed: pip install 'vehicled[{extra}]'"
        ) from None


def one_line(error: BaseException) -> str:
    """An exception of a library in a line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
