"""Values of options on a command line, with their units."""

from __future__ import annotations

from vehicled.errors import UsageError
from vehicled.units import UnitError, to_si


def read_quantity(option: str, text: str, unit: str) -> float:
    """What a word such as `20s` is in SI; `unit` is one of its dimension. A number without a unit is in SI.

    Raises UsageError, which names the option.
    """
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return to_si(text, unit)
    except UnitError as error:
        raise UsageError(f"{option} {text}: {error}") from None
