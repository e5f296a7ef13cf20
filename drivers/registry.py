"""Which driver speaks to which kind of device."""

from importlib import import_module
from importlib.metadata import entry_points

from drivers.base import Driver
from vehicled.errors import UsageError

GROUP = "vehicled.drivers"
"""Entry point group under which other distributions add drivers of their own."""

_BUILT_IN = {
    "can": "drivers.can:Can",
    "nmea": "drivers.nmea:Nmea",
    "vectornav": "drivers.vectornav:VectorNav",
    "xsens": "drivers.xsens:Xsens",
}
"""Known without any installation; cannot be replaced from outside."""


def known_drivers() -> list[str]:
    return sorted({*_BUILT_IN, *(e.name for e in entry_points(group=GROUP))})


def load_driver(kind: str) -> type[Driver]:
    """The driver class for a kind of device. Raises UsageError if there is none, or it cannot be loaded."""
    try:
        if kind in _BUILT_IN:
            module, _, name = _BUILT_IN[kind].partition(":")
            return getattr(import_module(module), name)
        for entry in entry_points(group=GROUP, name=kind):
            driver = entry.load()
            if isinstance(driver, type) and issubclass(driver, Driver):
                return driver
            raise UsageError(f"driver {kind!r}: {entry.value} is not a subclass of drivers.base.Driver")
    except (ImportError, AttributeError) as error:
        raise UsageError(f"driver {kind!r} cannot be loaded: {error}") from error
    raise UsageError(f"no driver {kind!r}: expected one of {', '.join(known_drivers())}")
