"""An IMU with vibration by the engine, in all axes at once."""

from collections.abc import Iterable

import numpy as np
import pytest
from estimator_rig import Run, mixed, parked, prototype, steps

from vehicled.messages import Measurement
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES

SHAKEN = {**dict.fromkeys(ACCELEROMETERS, 0.25), **dict.fromkeys(GYROSCOPES, 0.005)}
"""Amplitudes, m/s² and rad/s."""


def shake(measurements: Iterable[Measurement], frequency: float, seed: int) -> list[Measurement]:
    """Measurements with a vibration of this frequency, Hz, on each axis of the IMU, each with another phase."""
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
def test_vibration_at_standstill_is_not_taken_for_a_rotation_of_the_imu(seed):
    """Estimated forces follow the vibration a little. Before, this correlation was taken for a rotation."""
    run = Run(prototype(), steps(shake(parked().measurements(seed), 27.0, seed)))
    found = run.estimator.parameters()
    # The other two angles share the bias of the accelerometers.
    assert abs(found["imu_alignment.z"].value) < 0.015


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_vibration_while_driving_is_not_taken_for_a_rotation_of_the_imu(seed):
    """Present forces correlate with the next innovations. Before, with these, a rotation of 0.3 rad was found."""
    run = Run(prototype(), steps(shake(mixed().measurements(seed, gnss="conventional"), 27.0, seed)))
    assert abs(run.estimator.parameters()["imu_alignment.z"].value) < 0.03
