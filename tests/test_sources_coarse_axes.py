"""Gyroscopes and accelerometers whose readings come in coarse steps."""

import math

import numpy as np
import pytest
from estimator_rig import SECOND, Run, mixed, prototype, rms, steps

from vehicled.messages import Measurement
from vehicled.sources.imu.coarse_axes import CoarseAxes
from vehicled.sources.imu.imu import GYROSCOPES

GYRO, ACCEL = 0.003, 0.06
CONFIGURED = [GYRO**2] * 3 + [ACCEL**2] * 3
ALL = (1.0,) * 6
DEGREE = math.radians(1.0)


def run(found: CoarseAxes, samples: np.ndarray, measured: tuple[float, ...] = ALL) -> list[bool]:
    return [found.take([*map(float, sample)], measured) for sample in samples]


def make(step: float, seconds: float = 20.0, sent: int = 1) -> np.ndarray:
    """(n, 6) samples at 100 Hz of a car that turns, gyroscopes in steps, each sample `sent` times."""
    random, t = np.random.default_rng(7), np.arange(0.0, seconds, 0.01)
    samples = 0.1 * np.sin(np.outer(t, [0.5, 0.7, 0.3, 0.2, 0.6, 0.4]))
    samples += random.standard_normal(samples.shape) * np.repeat((GYRO, ACCEL), 3)
    if step:
        samples[:, :3] = np.round(samples[:, :3] / step) * step
    return np.repeat(samples, sent, axis=0)


def make_coarse() -> CoarseAxes:
    found = CoarseAxes()
    found.configure(CONFIGURED)
    return found


@pytest.mark.parametrize("degrees", [0.5, 1.0])
def test_gyroscopes_in_steps_beyond_their_noise_have_noise_as_large_as_a_step(degrees: float) -> None:
    found, step = make_coarse(), degrees * DEGREE
    run(found, make(step))
    assert min(found.variances[:3]) == pytest.approx(step**2)
    assert found.variances[3:] == CONFIGURED[3:]


@pytest.mark.parametrize(("degrees", "sent"), [(0.0, 1), (0.1, 1), (0.25, 1), (0.0, 2), (0.0, 10), (0.1, 10)])
def test_fine_readings_keep_their_noise_to_the_last_bit(degrees: float, sent: int) -> None:
    found = make_coarse()
    assert not any(run(found, make(degrees * DEGREE, sent=sent)))
    assert found.variances == CONFIGURED


def test_an_axis_that_is_found_to_be_coarse_is_named_once() -> None:
    found = make_coarse()
    run(found, make(DEGREE))
    assert sorted(found.found) == [(k, pytest.approx(DEGREE)) for k in range(3)]
    found.found.clear()
    run(found, make(DEGREE))
    assert found.found == []


def test_an_axis_that_has_not_changed_yet_has_the_step_of_the_others() -> None:
    found, samples = make_coarse(), make(DEGREE)
    samples[:, 2] = 0.0
    run(found, samples)
    assert found.variances[2] >= DEGREE**2 * (1.0 - 1e-9)


def test_a_fine_axis_beside_coarse_ones_keeps_its_noise() -> None:
    found, samples = make_coarse(), make(DEGREE)
    samples[:, 2] = make(0.0)[:, 2]
    run(found, samples)
    assert found.variances[2] == GYRO**2 < found.variances[1]


@pytest.mark.parametrize("measured", [(0.0, 0.0, 1.0, 0.0, 0.0, 0.0), (1.0, 1.0, 1.0, 0.0, 0.0, 0.0)])
def test_some_axes_alone_have_their_steps_too(measured: tuple[float, ...]) -> None:
    found, others = make_coarse(), tuple(1.0 - there for there in measured)
    for sample in make(DEGREE):
        values = [*map(float, sample)]
        found.take([v * there for v, there in zip(values, measured, strict=True)], measured)
        found.take([v * there for v, there in zip(values, others, strict=True)], others)
    assert found.variances[2] >= DEGREE**2 * (1.0 - 1e-9)
    assert found.variances[3:] == CONFIGURED[3:]


def test_a_car_with_gyroscopes_in_steps_of_a_degree_per_second_knows_how_well_it_knows_its_heading() -> None:
    """With the configured noise alone the heading is off by 0.5 degrees at 12 sigma."""
    given = [
        Measurement(
            m.source,
            m.t,
            m.arrival,
            {c: round(v / DEGREE) * DEGREE if c in GYROSCOPES else v for c, v in m.values.items()},
        )
        for m in mixed().measurements(537, gnss="rtk")
    ]
    run = Run(prototype(), steps(given))
    late = run.t > 5 * SECOND
    assert np.abs((run.error(mixed(), "yaw") / run["sigma.yaw"])[late]).max() < 4.0
    assert rms(run.error(mixed(), "yaw")[late]) < math.radians(0.25)
    assert not [i for i in run.of("imu.wz") if i.reason == "stuck"]
