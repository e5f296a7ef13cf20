"""Bounds of the slow states of a configuration, for checking parameters of an earlier drive."""

from __future__ import annotations

import numpy as np

from vehicled.filter.settings import Filter
from vehicled.filter.state_table import StateVector, make_table
from vehicled.filter.states import InitialConditions
from vehicled.requests import SlowBound
from vehicled.sources.sensors import Sensors

_MOST_SIGMAS, _MOST_SIGMAS_DOUBTED = 10.0, 50.0
"""Largest error, in σ of the prior, of a state without a limit of its own; and of a state whose configured
value may be wrong. For the latter, the prior says how well somebody has measured it, not how far off it can
be."""


def find_bounds(sensors: Sensors, settings: Filter) -> dict[str, SlowBound]:
    """Bounds of the filter's slow states, by name."""
    table = make_table(settings, sensors.make_setup().states)
    states = StateVector(table.groups)
    sigmas = np.sqrt(table.initial(InitialConditions(0.0, True, 0.0))).tolist()
    bounds = {}
    for group in table.groups:
        most = _MOST_SIGMAS if group.contradiction is None else _MOST_SIGMAS_DOUBTED
        for place in states.places(group):
            # States of an absent sensor have no σ, and take no parameters.
            if place >= states.count_of_car and sigmas[place] > 0.0:
                limit = most * sigmas[place] if group.limit is None else group.limit
                bounds[states.names[place]] = SlowBound(limit, group.unit)
    return bounds
