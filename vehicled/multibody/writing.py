"""The text of a mechanism's file, from its description."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import yaml

from vehicled.multibody.description import Description
from vehicled.reading.expectations import find_metadata, type_hints
from vehicled.units import Unit

_WIDTH = 118


def write_description(description: Description) -> str:
    """YAML that `parse_description` reads as the same description; default values are omitted."""
    return yaml.safe_dump(
        _plain(description, None), allow_unicode=True, default_flow_style=None, sort_keys=False, width=_WIDTH
    )


def _plain(value: Any, unit: Unit | None) -> Any:
    """A value as for YAML: numbers with a unit become text."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        hints = type_hints(type(value))
        return {
            f.name: _plain(getattr(value, f.name), _find_unit(hints[f.name]))
            for f in dataclasses.fields(value)
            if getattr(value, f.name) != _default(f)
        }
    if isinstance(value, dict):
        return {name: _plain(v, unit) for name, v in value.items()}
    if isinstance(value, (tuple, list)):
        if unit is None or not all(isinstance(v, float) for v in value):
            return [_plain(v, unit) for v in value]
        return _quantity(value, unit)
    return _quantity([value], unit) if unit is not None and isinstance(value, float) else value


def _quantity(numbers: tuple[float, ...] | list[float], unit: Unit) -> str:
    return " ".join(
        [*(repr(x / unit.factor) for x in numbers), *([] if unit.symbol == "1" else [unit.symbol])]
    )


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _find_unit(hint: Any) -> Unit | None:
    """Unit of the numbers in a field: of its own annotation, or of a nested one."""
    own = find_metadata(getattr(hint, "__metadata__", ()), Unit)
    return own or next((unit for part in get_args(hint) if (unit := _find_unit(part)) is not None), None)
