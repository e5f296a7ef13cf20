"""What is known of a log beside its measurements."""

from typing import NamedTuple


class LogAbout(NamedTuple):
    """What is known about a log in addition to its measurements, for writers that can store it."""

    utc_offset_ns: int = 0
    """Time of day minus the clock of the measurements, 0 if that is not known."""
    configuration: str | None = None
    """Text of the configuration that it was recorded with."""
