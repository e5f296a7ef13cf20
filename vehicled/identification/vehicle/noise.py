"""Settings of noise that can be found from innovations: of the sensors, and of the model's errors.

All are positive. Accuracies that a receiver reports are not found, nor is noise that only a standing car
shows (the lateral acceleration at standstill): only the moving car is evaluated.
"""

from __future__ import annotations

from vehicled.configuration import File
from vehicled.filter.states import CAR, MODEL
from vehicled.identification.vehicle.names import Parameter, at, get_at, put_at
from vehicled.sources.sensors import find_kinds

_SIGMA = 1.0
"""Prior standard deviation of a logarithm: within a factor of three in either direction."""

_OF_MODEL = [setting for group in (*CAR, *MODEL) for setting in group.settings]
_OF_SENSORS = [setting for kind in find_kinds().values() for setting in kind.NOISE]

SETTINGS = {s.name: s for s in (*_OF_SENSORS, *_OF_MODEL) if s.name}
"""Settings by name: sensors first, then the model in the order of its error states."""
NOISE = {s.name: Parameter(s.name, s.meaning, s.unit, *at(*s.path), _SIGMA) for s in SETTINGS.values()}
OF_SENSORS = frozenset(s.name for s in _OF_SENSORS)
"""Names of the settings of sensors."""


def scale_plant(file: File, factor: float) -> File:
    """The configuration with its plant noise scaled.

    This scales the standard deviations of all errors of the model, except that of an unmeasured drive force.
    """
    for setting in _OF_MODEL:
        value = get_at(file, setting.path)
        if value is not None and setting.is_model_error:
            file = put_at(file, setting.path, value * factor)
    return file
