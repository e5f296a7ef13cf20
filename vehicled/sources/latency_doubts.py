"""Latencies that may exceed the filter's memory: such late measurements are too old to be used."""

from __future__ import annotations

import math

from vehicled.sources.sensors import Sensors

_SIGMAS = 3.0
_STEP = 0.1
"""s: the proposed memory is a multiple of this."""


def find_latency_doubts(sensors: Sensors, memory: float) -> list[tuple[str, str]]:
    """(key below `sensors`, what is doubtful). `memory`: for how long the filter remembers its past, s."""
    found = []
    for name, settings in sensors.items():
        latest = settings.latency + _SIGMAS * getattr(settings, "latency_sigma", 0.0)
        if latest > memory:
            needed = _STEP * math.ceil(latest / _STEP + 1.0)
            text = (
                f"measurements may be {latest:.3g} s old ({_SIGMAS:g} σ), and are left out beyond filter.memory "
                f"({memory:g} s): expected memory: {needed:.1f} s"
            )
            found.append((f"{name}.latency", text))
    return found
