"""Sizes of tyres as they stand on the sidewall."""

import re

_SIZE = re.compile(
    r"\s*(?:P|LT)?\s*(\d{2,3})\s*/\s*(\d{2,3})\s*-?\s*Z?RF?\s*(\d{1,2})(?:\s*[A-Z]?\s*\d{2,3}.*)?\s*",
    re.IGNORECASE,
)
_INCH = 0.0254

EXPECTED = "a size such as '205/55 R16': width in mm / height in % of it, rim in inches"


def calc_radius(size: str) -> float:
    """Radius of the undeformed tyre, m: half the rim and the sidewall.

    Raises ValueError with what was expected.
    """
    found = _SIZE.fullmatch(size)
    if found is None:
        raise ValueError(f"expected {EXPECTED}, got {size!r}")
    width, height, rim = map(int, found.groups())
    if not (75 <= width <= 455 and 20 <= height <= 105 and 4 <= rim <= 26):
        raise ValueError(f"expected {EXPECTED}; no car has {size!r}")
    return 0.5 * rim * _INCH + 1e-3 * width * 1e-2 * height
