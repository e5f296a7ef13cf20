"""Observers on linkages reproduce the figures of a published toolbox with the same algorithm, noise and options."""

from decimal import Decimal

import numpy as np
import pytest

from vehicled.multibody.mechanism import Mechanism
from vehicled.studies.benchmarks.observer_cases import STEPS, H, ObserverRun, calc_truth
from vehicled.studies.benchmarks.observer_published import FIGURES, read_published
from vehicled.studies.benchmarks.observers import calc_rmse, run_case, run_filter

BROKEN = {
    ("four_bar", "coupler_gyros", 10, "SCKF"),
    ("four_bar", "coupler_gyros", 10, "CEKF"),
    ("five_bar", "crank_gyros", 10, "DIEKFpm"),
    ("five_bar", "coupler_gyros", 200, "CEKF"),
}
"""Published runs that ended with an indefinite covariance, so that their figures depend on rounding."""
QUICK = {
    ("four_bar", "coupler_gyros", "errorEKF_FE"),
    ("four_bar", "coupler_gyros", "SCKF"),
}
"""Quick cases; the others are other combinations of filter, mechanism and sensors."""


def is_slow(mechanism, sensors, rate, name):
    """Cases with few readings take as long as those with many, and differ only in the number of updates."""
    return rate == 10 or (mechanism, sensors, name) not in QUICK


CASES = [
    pytest.param(*setup, published, marks=pytest.mark.slow if is_slow(*setup) else ())
    for setup, published in read_published().items()
    if published["failed_step"] is None and setup not in BROKEN
]
LOST = [(setup, p) for setup, p in read_published().items() if p["failed_step"] or setup in BROKEN]


@pytest.mark.parametrize(("mechanism", "sensors", "rate", "name", "published"), CASES)
def test_filters_give_the_published_figures(mechanism, sensors, rate, name, published):
    row = run_case(ObserverRun(mechanism, sensors, rate, "L2", name, 10, literal=True))
    for figure in FIGURES:
        text = published[figure]
        if text is not None:
            last_digit = 10.0 ** Decimal(text).as_tuple().exponent
            assert row[figure] == pytest.approx(float(text), rel=0.01, abs=0.51 * last_digit), figure


@pytest.mark.slow
@pytest.mark.parametrize(("setup", "published"), LOST)
def test_filters_break_down_where_the_published_ones_did(setup, published):
    """As in the published runs, the covariance loses its definiteness first."""
    mechanism, sensors, rate, name = setup
    row = run_case(ObserverRun(mechanism, sensors, rate, "L2", name, 10, literal=True))
    assert row["repairs"] > 0
    if published["failed_step"]:
        assert row["failed_at"] is not None
    if name == "CEKF" and published["indefinite_steps"]:
        # Indefinite from the same step on, that of the first reading.
        assert round(row["failed_at"] / H) - row["repairs"] == STEPS - published["indefinite_steps"] + 1


@pytest.mark.parametrize(
    ("mechanism", "level", "figures"),
    [
        ("four_bar", "L2", [7.24]),
        ("four_bar", "L1", [2.85]),
        ("five_bar", "L2", [1.92, 1.22]),
        ("five_bar", "L1", [1.01, 0.70]),
    ],
)
def test_the_wrong_model_without_a_filter_has_the_published_error(mechanism, level, figures):
    trace = run_filter(ObserverRun(mechanism, "encoders", 10, level, "none", 10))
    assert calc_rmse(trace.position) == pytest.approx(np.mean(figures), rel=0.01)
    assert not trace.updates
    assert trace.failed_at is None


@pytest.mark.parametrize(
    ("mechanism", "seconds", "z", "zd"),
    [
        ("four_bar", 5, [-2.3566429020], [6.5139719886]),
        ("four_bar", 10, [-4.9125774679], [0.0329274555]),
        ("five_bar", 5, [-1.2732066879, 4.3152559486], [-10.6928676494, 4.4420285747]),
        ("five_bar", 10, [-3.4635363421, 5.6758245402], None),
    ],
)
def test_the_true_motion_is_the_published_one(mechanism, seconds, z, zd):
    """Matrix R by the trapezoidal rule at 5 ms; the toolbox's own iteration stops at 1e-10."""
    state = calc_truth(mechanism)[round(seconds / H) - 1]
    independent = Mechanism.load(mechanism).independent
    assert state.q[independent] == pytest.approx(z, abs=2e-7)
    if zd:
        assert state.qd[independent] == pytest.approx(zd, abs=2e-7)
    assert len(calc_truth(mechanism)) == STEPS
