"""Scales a mechanism in length and mass, and in time such that the acceleration of gravity stays the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from vehicled.multibody.description import Description
from vehicled.units import parse_unit

_UNITS = {
    **dict.fromkeys(("points", "markers", "center_of_mass", "length", "free_length", "start"), "m"),
    **dict.fromkeys(("velocities", "rate", "friction_rate"), "m/s"),
    **dict.fromkeys(("inertia", "products"), "kg·m²"),
    **{"mass": "kg", "gravity": "m/s²", "stiffness": "N/m", "damping": "N·s/m", "friction": "N"},
}
_OF_ANGLES = {
    **{"start": "1", "free_angle": "1", "rate": "1/s", "friction_rate": "1/s"},
    **{"stiffness": "N·m", "damping": "N·m·s", "friction": "N·m"},
}


class Scaling:
    """Factors of length, time and mass."""

    def __init__(self, length: float, mass: float = 1.0) -> None:
        self.length, self.time, self.mass = length, length**0.5, mass

    def factor(self, unit: str) -> float:
        """Factor of a quantity in this unit."""
        mass, length, time, _ = parse_unit(unit)[1]
        return float(self.mass**mass * self.length**length * self.time**time)

    def description(self, description: Description) -> Description:
        units = description.parameter_units()
        values = description.parameter_values()
        parameters = {name: value * self.factor(units[name]) for name, value in values.items()}
        return dataclasses.replace(self._part(description), parameters=parameters)

    def _part(self, part: Any) -> Any:
        of_angle = type(part).__name__ in ("Angle", "TorsionSpring")
        changed = {}
        for f in dataclasses.fields(part):
            value = getattr(part, f.name)
            unit = (of_angle and _OF_ANGLES.get(f.name)) or _UNITS.get(f.name)
            if f.name not in ("parameters", "between"):
                changed[f.name] = self._value(value, unit)
        return dataclasses.replace(part, **changed)

    def _value(self, value: Any, unit: str | None) -> Any:
        if dataclasses.is_dataclass(value):
            return self._part(value)
        if isinstance(value, Mapping):
            return {k: self._value(v, unit) for k, v in value.items()}
        if unit and isinstance(value, float):
            return value * self.factor(unit)
        if unit and isinstance(value, tuple) and all(isinstance(v, float) for v in value):
            return tuple(v * self.factor(unit) for v in value)
        return value
