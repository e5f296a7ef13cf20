"""Times of logs: seconds as text or floating-point numbers, and integer nanoseconds."""

from decimal import Decimal, InvalidOperation

LONGEST_S = 9e9
"""s, of either sign, 285 years: as nanoseconds such a time fits into 64 bits, in which files have it."""
LONGEST_NS = round(LONGEST_S * 1e9)


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


def round_seconds(seconds: float) -> int | None:
    """Seconds as integer nanoseconds; None if they are not finite or longer than `LONGEST_S`."""
    return round(seconds * 1e9) if abs(seconds) <= LONGEST_S else None


def format_seconds(t: int) -> str:
    """Integer nanoseconds as decimal seconds, without trailing zeros: `1.004`, `0`, `-0.5`."""
    sign, t = ("-", -t) if t < 0 else ("", t)
    whole, fraction = divmod(t, 1_000_000_000)
    return f"{sign}{whole}.{fraction:09d}".rstrip("0").rstrip(".")
