"""Which driver reads which kind of device: the entry points of the installed distributions, ours included."""

from importlib.metadata import entry_points

from drivers.base import Driver
from vehicled.errors import UsageError
from vehicled.reading.expectations import suggest

GROUP = "vehicled.drivers"
"""Entry point group. Ours are in pyproject.toml; other distributions may add drivers of their own."""


def known_drivers() -> list[str]:
    """Names of all drivers that installed distributions register, sorted."""
    return sorted({entry.name for entry in entry_points(group=GROUP)})


def load_driver(kind: str) -> type[Driver]:
    """The driver class for a kind of device. Raises UsageError if there is none, two, or it cannot be loaded."""
    found = list(entry_points(group=GROUP, name=kind))
    if not found:
        known = known_drivers()
        hint = suggest(kind, known) if known else "none is installed (pip install vehicled)"
        raise UsageError(f"no driver {kind!r}; {hint}")
    if len(found) > 1:
        raise UsageError(f"driver {kind!r} is registered twice: {', '.join(e.value for e in found)}")
    try:
        driver = found[0].load()
    except Exception as error:  # whatever is wrong in another package
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise UsageError(f"driver {kind!r} cannot be loaded: {what}") from error
    if not (isinstance(driver, type) and issubclass(driver, Driver)):
        raise UsageError(f"driver {kind!r}: {found[0].value} is not a subclass of drivers.base.Driver")
    return driver
