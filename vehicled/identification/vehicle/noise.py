"""Settings of noise that may be found from innovations: of the sensors, and of what the model gets wrong.

All are positive. The accuracy that a receiver reports is left to it, and what a standing car shows (the lateral
acceleration at standstill) to the file: only moving is counted.
"""

from __future__ import annotations

from vehicled.configuration import File
from vehicled.filter.states import CAR, MODEL
from vehicled.identification.vehicle.names import Parameter, at, get_at, put_at
from vehicled.sources.sensors import find_kinds

_SIGMA = 1.0
"""Prior of a logarithm: within a factor of three either way."""

_OF_MODEL = [setting for group in (*CAR, *MODEL) for setting in group.settings]
_OF_SENSORS = [setting for kind in find_kinds().values() for setting in kind.NOISE]

NOISE = {
    s.name: Parameter(s.name, s.meaning, s.unit, *at(*s.path), _SIGMA)
    for s in (*_OF_SENSORS, *_OF_MODEL)
    if s.name
}
"""By name: sensors first, then the model in the order of its error states."""


def scale_plant(file: File, factor: float) -> File:
    """The configuration that trusts its model more or less.

    Scaled are standard deviations of all that the model gets wrong, but for what drives the car where nothing
    measures it.
    """
    for setting in _OF_MODEL:
        value = get_at(file, setting.path)
        if value is not None and setting.is_model_error:
            file = put_at(file, setting.path, value * factor)
    return file
