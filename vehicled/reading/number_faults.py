"""Faults in the numbers of settings that were not read from a file."""

import dataclasses
import math
from typing import Any, get_args

from vehicled.reading.expectations import find_metadata, join_path, type_hints
from vehicled.units import Range, Unit


def find_fault(instance: Any, path: str = "") -> str | None:
    """A fault in the numbers of a dataclass that was not read from a file; None if there is none."""
    return _fault(instance, (), path)


def _fault(value: Any, metadata: tuple[Any, ...], path: str) -> str | None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = type_hints(type(value))
        for field in dataclasses.fields(value):
            hint = hints[field.name]
            own = getattr(hint, "__metadata__", ())
            below = tuple(m for part in get_args(hint) for m in getattr(part, "__metadata__", ()))
            fault = _fault(getattr(value, field.name), (*own, *below), join_path(path, field.name))
            if fault is not None:
                return fault
        check = getattr(value, "check", None)
        together = check() if callable(check) else ()
        return next((f"{join_path(path, where)}: {message}" for where, message in together), None)
    if isinstance(value, (tuple, list)):
        return next((f for v in value if (f := _fault(v, metadata, path)) is not None), None)
    if isinstance(value, dict):
        return next(
            (f for k, v in value.items() if (f := _fault(v, metadata, join_path(path, k))) is not None), None
        )
    if isinstance(value, float):
        bounds = find_metadata(metadata, Range)
        if not math.isfinite(value) or (bounds is not None and value not in bounds):
            wanted = "" if bounds is None else bounds.describe(Unit("1"))
            return f"{path}: expected a number {wanted or 'that is finite'}, got {value:g}"
    return None
