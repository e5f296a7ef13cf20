"""Receivers whose fixes and velocities are of different times."""

from dataclasses import replace

import numpy as np
import pytest
from estimator_rig import Run, mixed, prototype, rms, steps

from vehicled.messages import Measurement

LATE = 0.06
"""s."""


def smoothed(measurements, late: float):
    """The speed and course of each fix are those of `late` seconds before it."""
    at = [(m.t * 1e-9, m.values) for m in measurements if "gnss.speed" in m.values]
    series = {}
    for channel in ("gnss.speed", "gnss.course"):
        t, values = zip(
            *((t, v[channel]) for t, v in at if channel in v), strict=True
        )  # no course at standstill
        series[channel] = t, np.unwrap(values) if channel == "gnss.course" else values
    changed = []
    for m in measurements:
        found = {c: float(np.interp(m.t * 1e-9 - late, *series[c])) for c in series if c in m.values}
        if "gnss.course" in found:
            found["gnss.course"] %= 2 * np.pi
        changed.append(Measurement(m.source, m.t, m.arrival, m.values | found))
    return changed


@pytest.mark.parametrize("late", [0.0, LATE])
def test_velocities_that_lag_behind_their_fixes_are_found(late):
    given = prototype()
    gnss = replace(given.sensors.gnss, latency_sigma=0.05)
    configuration = replace(given, sensors=replace(given.sensors, gnss=gnss))
    drive = mixed(20.0)
    run = Run(configuration, steps(smoothed(drive.measurements(), late)))
    found = run.estimator.parameters()
    of_velocity, of_fixes = found["gnss_velocity_latency"], found["gnss_latency"]
    assert 0.0 < of_velocity.sigma < 0.01
    assert abs(of_velocity.value - late) < 4.0 * of_velocity.sigma
    assert abs(of_fixes.value) < 4.0 * of_fixes.sigma
    assert rms(run.error(drive, "vx")) < 0.03
