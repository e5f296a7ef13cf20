"""An IMU that the engine shakes, in all axes at once."""

from collections.abc import Iterable

import numpy as np
import pytest
from estimator_rig import Run, mixed, parked, prototype, steps

from vehicled.messages import Measurement
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES

SHAKEN = {**dict.fromkeys(ACCELEROMETERS, 0.25), **dict.fromkeys(GYROSCOPES, 0.005)}
"""m/s² and rad/s."""


def shake(measurements: Iterable[Measurement], frequency: float, seed: int) -> list[Measurement]:
    """The axes of the IMU shaken at a frequency, Hz, each of them at a phase of its own."""
    phases = dict(zip(SHAKEN, np.random.default_rng(seed).uniform(0.0, 2.0 * np.pi, 6), strict=True))
    shaken = []
    for m in measurements:
        values = {
            c: v + SHAKEN[c] * np.sin(2e-9 * np.pi * frequency * m.t + phases[c]) if c in SHAKEN else v
            for c, v in m.values.items()
        }
        shaken.append(Measurement(m.source, m.t, m.arrival, values))
    return shaken


@pytest.mark.parametrize("seed", [1, 2])
def test_an_imu_that_is_shaken_at_a_traffic_light_is_not_found_turned(seed):
    """Estimated forces follow the shaking a little: what they had to do with it was found as a rotation."""
    run = Run(prototype(), steps(shake(parked().measurements(seed), 27.0, seed)))
    found = run.estimator.parameters()
    # The others share the bias that the accelerometers have.
    assert abs(found["imu_alignment.z"].value) < 0.015


@pytest.mark.parametrize("seed", [3, 4])
def test_an_imu_that_is_shaken_while_driving_is_not_found_turned(seed):
    """Forces of the moment correlate with the next innovations. With these, it was found turned by 0.3 rad."""
    run = Run(prototype(), steps(shake(mixed().measurements(seed, gnss="conventional"), 27.0, seed)))
    assert abs(run.estimator.parameters()["imu_alignment.z"].value) < 0.03
