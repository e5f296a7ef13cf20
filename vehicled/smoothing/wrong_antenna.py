"""Antennas that a whole drive shows to be elsewhere than configured: σ with which the drive is smoothed again.

A filter that finds a displaced antenna late has first taken the place of its fixes for the car's, with the small σ
of a configured antenna. Its later information cannot undo that, as σ was widened only then. An antenna does not move
during a drive, so the σ of its place should have been wider from the start.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from vehicled.configuration import Configuration
from vehicled.messages import SlowState
from vehicled.smoothing.smoother import Smoother

_CONTRADICTED = 7.0
"""Distance from the configured place, in its σ, that contradicts it: that of the filter (`gnss/model.py`)."""


def widen_antennas(configuration: Configuration, parameters: Mapping[str, SlowState]) -> Configuration | None:
    """The configuration with σ of the antennas as far as they were found to be away; None if none was.

    `parameters`: at the end of the drive, by name. Heights are not considered, as roll and pitch alone show them.
    """
    sensors, found = configuration.sensors, {}
    for name in ("gnss", "gnss2"):
        settings = getattr(sensors, name)
        prefix = "antenna" if name == "gnss" else f"{name}_antenna"
        away = [parameters[f"{prefix}.{axis}"] for axis in "xy" if f"{prefix}.{axis}" in parameters]
        if settings is None or not away:
            continue
        if math.hypot(*(state.value for state in away)) > _CONTRADICTED * settings.antenna_sigma:
            sigma = max(math.hypot(state.value, state.sigma) for state in away)
            found[name] = replace(settings, antenna_sigma=sigma)
    return replace(configuration, sensors=replace(sensors, **found)) if found else None


@contextmanager
def run_smoother(configuration: Configuration, run: Callable[[Smoother, bool], None]) -> Iterator[Smoother]:
    """A smoother that `run` has taken through a drive; again from the beginning if an antenna was found elsewhere.

    `run` gets the smoother, and whether it is the second one.
    """
    with Smoother(configuration) as smoother:
        run(smoother, False)
        wider = widen_antennas(configuration, smoother.estimator.parameters())
        if wider is None:
            yield smoother
            return
    with Smoother(wider) as smoother:
        run(smoother, True)
        yield smoother
