"""Speeds in coarse steps, such as whole km/h."""

from types import SimpleNamespace

import numpy as np
import pytest
from estimator_rig import SECOND, Run, prototype, steps, without
from filter_rig import new_filter, place
from test_estimator_direction import backing, find_worst  # noqa: F401 (a fixture)

from vehicled.messages import Measurement
from vehicled.sources.imu.timing import ImuTiming
from vehicled.sources.source import Context
from vehicled.sources.speeds.coarse_speed import CoarseSpeed
from vehicled.sources.speeds.vehicle_speed import VehicleSpeed

KMH = 1.0 / 3.6
NOISE = 0.03**2


def weigh(readings, apart: float = 0.0) -> np.ndarray:
    """Variances of readings with a noise of 0.03 m/s; `apart`: estimate less reading, m/s."""
    found = CoarseSpeed()
    return np.array([found.find_variance(float(v), NOISE, float(v) + apart) for v in readings])


def test_a_run_of_equal_coarse_readings_counts_as_less_than_two_readings():
    given = np.round(np.arange(0.0, 20.0, 0.02) / KMH) * KMH
    assert np.sum(1.0 / weigh(given)[500:]) < 2.0 / (KMH**2 / 12.0) * (10.0 / KMH)


def test_the_variance_of_repeated_zeros_of_a_standing_car_is_limited():
    given = [*np.round(np.arange(5.0, 0.0, -0.02) / KMH) * KMH, *np.zeros(500)]
    assert weigh(given)[-1] == pytest.approx(100.0 * (NOISE + KMH**2 / 12.0))


def test_repeated_readings_count_fully_if_the_estimate_is_off_by_more_than_a_step():
    """A difference of 0.4 m/s is more than a step of 1 km/h, one of 0.2 m/s is not."""
    given = [*np.round(np.arange(5.0, 0.0, -0.02) / KMH) * KMH, *np.zeros(50)]
    assert weigh(given, apart=0.4)[-1] == pytest.approx(NOISE + KMH**2 / 12.0)
    assert weigh(given, apart=0.2)[-1] > 50.0 * KMH**2 / 12.0 * 0.9


@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_a_run_of_negative_readings_counts_like_one_of_positive_ones(sense):
    f, variances = new_filter(), []
    updates = SimpleNamespace(
        register=lambda *_, **__: None,
        reject=lambda *_: None,
        is_active=lambda kind: True,
        is_sliding=False,
        speed_doubt=0.0,
        update=lambda m, kind, value, variance: variances.append(*variance),
    )
    source = VehicleSpeed().make_source(Context(f, updates, None, None, ImuTiming()))
    for k, reading in enumerate(sense * KMH * np.array([*range(15), *[15] * 50])):
        place(f, np.zeros(3), 0.0, reading)
        source.observe(Measurement("log", k * SECOND, k * SECOND, {"vehicle.speed": float(reading)}))
    assert variances[-1] > 1000.0 * NOISE


@pytest.mark.parametrize("step", [0.0, 0.01, 0.1 * KMH])
def test_fine_readings_keep_the_variance_of_their_noise(step):
    given = 10.0 + np.cumsum(0.03 * np.random.default_rng(5).standard_normal(500))
    if step:
        given = np.round(given / step) * step
    assert (weigh(given) == NOISE).all()


def test_errors_stay_within_four_sigma_with_speeds_in_whole_km_h(backing):  # noqa: F811
    """Without wheel sensors, which would show slow motion precisely."""
    given = [
        Measurement(
            m.source,
            m.t,
            m.arrival,
            {c: round(v / KMH) * KMH if c == "vehicle.speed" else v for c, v in m.values.items()},
        )
        for m in without(backing.measurements(5, gnss="rtk"), "wheel.")
    ]
    run = Run(prototype(), steps(given))
    assert run.t[-1] > 6 * SECOND
    assert find_worst(run, backing, since=5.5) < 4.0
