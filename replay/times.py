"""Times of logs: seconds as text or floating-point numbers, dates, and integer nanoseconds."""

import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Annotated

import msgspec

LONGEST_S = 9e9
"""s: largest time of either sign, 285 years. In nanoseconds it fits into 64 bits, as files have them."""
LONGEST_NS = round(LONGEST_S * 1e9)
Nanoseconds = Annotated[int, msgspec.Meta(ge=-LONGEST_NS, le=LONGEST_NS)]
"""A time in a message, checked while it is decoded."""


def parse_seconds(text: str) -> int:
    """Decimal seconds to integer nanoseconds, exactly (a double loses them in times of day). ValueError."""
    whole, _, fraction = text.strip().partition(".")
    if whole.isascii() and whole.isdigit() and (not fraction or (fraction.isascii() and fraction.isdigit())):
        t = int(whole[:20]) * 1_000_000_000 + int(fraction[:9].ljust(9, "0"))
    else:
        try:
            value = Decimal(text.strip())
        except InvalidOperation:
            raise ValueError("not a number") from None
        if not value.is_finite():
            raise ValueError("not a time in seconds")
        t = LONGEST_NS + 1 if abs(value) > LONGEST_S else int((value * 1_000_000_000).to_integral_value())
    if abs(t) > LONGEST_NS:
        raise ValueError("too large for a time in seconds")
    return t


ISO_8601 = "iso8601"
"""In place of a unit: a date with time of day."""
_DATE = re.compile(
    r"(\d{4}-\d{2}-\d{2}|\d{2}\.\d{2}\.\d{4})[T ]"
    r"(\d{2}:\d{2})(?::(\d{2})(?:[.,](\d+))?)?\s*(Z|[+-]\d{2}(?::?\d{2})?)?",
    re.IGNORECASE | re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def is_date(text: str) -> bool:
    """Whether a text has the form that `parse_date` reads, even if no such day exists."""
    return _DATE.fullmatch(text.strip()) is not None


def parse_date(text: str) -> int:
    """A date with time of day to ns since 1970 UTC, exactly; one without a zone is UTC. ValueError.

    By ISO 8601, or with dots and the day first, as in 01.05.2026 12:00:00.
    """
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError("not a date and time such as 2026-05-01T12:00:00.250Z or 01.05.2026 12:00:00,250")
    day, minutes, seconds, fraction, zone = found.groups()
    if "." in day:
        day = "-".join(reversed(day.split(".")))
    leap = seconds == "60"  # which the clock of 1970 does not have
    whole = datetime.fromisoformat(
        f"{day}T{minutes}:{'59' if leap else seconds or '00'}{(zone or 'Z').upper()}"
    )
    since = (whole - _EPOCH) // timedelta(seconds=1) + leap
    return since * 1_000_000_000 + int((fraction or "0")[:9].ljust(9, "0"))


def round_seconds(seconds: float) -> int | None:
    """Seconds as integer nanoseconds; None if they are not finite or longer than `LONGEST_S`."""
    return round(seconds * 1e9) if abs(seconds) <= LONGEST_S else None


def format_seconds(t: int) -> str:
    """Integer nanoseconds as decimal seconds, without trailing zeros: `1.004`, `0`, `-0.5`."""
    sign, t = ("-", -t) if t < 0 else ("", t)
    whole, fraction = divmod(t, 1_000_000_000)
    return f"{sign}{whole}.{fraction:09d}".rstrip("0").rstrip(".")
