"""Speeds in coarse steps."""

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
    """Variances, of a noise of 0.03 m/s, beside estimates that are `apart` m/s off."""
    found = CoarseSpeed()
    return np.array([found.find_variance(float(v), NOISE, float(v) + apart) for v in readings])


def test_a_run_of_equal_coarse_readings_counts_less_than_twice():
    given = np.round(np.arange(0.0, 20.0, 0.02) / KMH) * KMH
    assert np.sum(1.0 / weigh(given)[500:]) < 2.0 / (KMH**2 / 12.0) * (10.0 / KMH)


def test_that_of_a_car_that_stands_goes_on_counting():
    given = [*np.round(np.arange(5.0, 0.0, -0.02) / KMH) * KMH, *np.zeros(500)]
    assert weigh(given)[-1] == pytest.approx(100.0 * (NOISE + KMH**2 / 12.0))


def test_readings_that_the_estimate_has_left_count_each():
    """Rounding does not explain it: 0.4 m/s are more than a step, 0.2 m/s are not."""
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
        update=lambda m, kind, value, variance: variances.append(*variance),
    )
    source = VehicleSpeed().make_source(Context(f, updates, None, None, ImuTiming()))
    for k, reading in enumerate(sense * KMH * np.array([*range(15), *[15] * 50])):
        place(f, np.zeros(3), 0.0, reading)
        source.observe(Measurement("log", k * SECOND, k * SECOND, {"vehicle.speed": float(reading)}))
    assert variances[-1] > 1000.0 * NOISE


@pytest.mark.parametrize("step", [0.0, 0.01, 0.1 * KMH])
def test_fine_readings_are_as_good_as_they_are_given(step):
    given = 10.0 + np.cumsum(0.03 * np.random.default_rng(5).standard_normal(500))
    if step:
        given = np.round(given / step) * step
    assert (weigh(given) == NOISE).all()


def test_whole_kilometres_per_hour_do_not_lead_the_place_astray(backing):  # noqa: F811
    """Without wheels, which would show how a car that hardly moves does so."""
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
