"""Dates as receivers send them, and the channel of the time of day."""

from datetime import UTC, datetime

UTC_CHANNEL = "gnss.utc"
"""The time of day at which a measurement was made, s since 1970 UTC."""


def find_utc_ns(
    year: int, month: int, day: int, hour: int, minute: int, second: int, nano: int
) -> int | None:
    """ns since 1970 UTC; None for a date that does not exist. second: 60 is a leap second. nano: may be negative."""
    try:
        whole = datetime(year, month, day, hour, minute, tzinfo=UTC)
    except ValueError:
        return None
    return (round(whole.timestamp()) + second) * 1_000_000_000 + nano
