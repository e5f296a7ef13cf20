"""Libraries for single formats, which an extra of the package installs."""

import importlib
from pathlib import Path
from typing import Any

from vehicled.errors import UsageError


def require(module: str, extra: str, path: Path) -> Any:
    """Import a module; UsageError, naming the extra that installs it, if it is missing."""
    library = module.split(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != library:
            raise
        raise UsageError(
            f"{path}: needs {library}, which is not installed: pip install 'vehicled[{extra}]'"
        ) from None


def one_line(error: BaseException) -> str:
    """An exception of a library in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
