"""50 s straight on at constant speed: position and latency of the receiver cannot be distinguished."""

from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, prototype, steps

from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario

SECONDS = 50.0


@lru_cache
def drive() -> Drive:
    return Drive(
        Scenario(
            duration=SECONDS + 1.0,
            initial=InitialMotion(speed=33.0),
            inputs=DriveInputs(rear_torque=200.0),
            plant=STANDARD_ERRORS,
        )
    ).begin(SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_latency_and_position_do_not_drift_together(seed):
    """Each fix moves both in the direction in which they cannot be distinguished; such steps must not accumulate."""
    run = Run(prototype(), steps(drive().measurements(seed)))
    t = (run.t - run.t[0]) / SECOND
    along = run.error(drive(), "x")
    early, late = (along[(t > begin) & (t < begin + 4.0)].mean() for begin in (8.0, SECONDS - 5.0))
    assert abs(late - early) < 0.5  # 1 to 1.6 m if rows change with noise of the speed
    settled = (t > 8.0) & (t < SECONDS - 1.0)
    assert (np.abs(along) < 3.0 * run["sigma.x"])[settled].all()
