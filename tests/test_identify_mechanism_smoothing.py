"""Rates and accelerations of sampled coordinates of mechanisms, for `vehicled identify --mechanism`."""

import numpy as np
import pytest

from vehicled.errors import UsageError
from vehicled.identification.mechanism.smoothing import smooth


@pytest.mark.parametrize(
    ("noise", "rate_error", "acceleration_error"), [(0.0, 1e-5, 1e-3), (1e-4, 0.005, 0.03)]
)
def test_rates_and_accelerations_of_noisy_samples_are_accurate(noise, rate_error, acceleration_error):
    random = np.random.default_rng(0)
    t = np.linspace(0.0, 5.0, 1001) + 1e-4 * random.uniform(-1.0, 1.0, 1001)
    w = np.array([6.0, 9.0])
    z = np.sin(np.outer(t, w))
    found = smooth(t, z + noise * random.normal(size=z.shape))
    assert len(found.used) > 900
    assert found.z == pytest.approx(z[found.used], abs=max(2.0 * noise, 1e-7))
    assert found.zd == pytest.approx((w * np.cos(np.outer(t, w)))[found.used], abs=rate_error * 9.0)
    assert found.zdd == pytest.approx((-w * w * z)[found.used], abs=acceleration_error * 9.0)


def test_a_coordinate_at_rest_has_no_rate():
    found = smooth(np.arange(50.0), np.full((50, 1), 0.3))
    assert found.z == pytest.approx(0.3)
    assert found.zd == pytest.approx(0.0, abs=1e-12)


def test_pieces_of_a_run_are_smoothed_separately():
    """With one spline over a pause, its knots would be as far apart as the pause is long."""
    t = np.arange(0.0, 8.0, 0.004)
    t = t[(t < 2.0) | (t > 6.0)]
    t = t[(t < 1.0) | (t > 1.2) | (np.abs(t - 1.1) < 0.02)]  # a piece of ten samples is not used
    found = smooth(t, np.sin(6.0 * t)[:, None])
    there = t[found.used]
    assert len(there) > 800
    assert not np.any((there > 1.05) & (there < 1.15))
    assert found.zdd[:, 0] == pytest.approx(-36.0 * np.sin(6.0 * there), abs=0.01)


@pytest.mark.parametrize("gap", [3, 6, 9, 12, 15, 18])
def test_samples_determine_the_splines_beside_short_gaps(gap):
    """Knots inside a gap would leave coefficients without samples: the joint estimate has no solution then."""
    k = np.arange(1000)
    missing = (k > 300) & (k <= 300 + gap) | (k > 500) & (k <= 500 + gap) & (k != 500 + gap // 2)
    t = 0.005 * k[~missing & (k != 1)]
    found = smooth(t, np.sin(60.0 * t)[:, None] + 1e-4 * np.random.default_rng(gap).normal(size=(len(t), 1)))
    basis = found.errors.on_samples.toarray()
    assert np.linalg.matrix_rank(basis) == basis.shape[1]
    error = found.zdd[:, 0] + 3600.0 * np.sin(60.0 * t[found.used])
    assert np.sqrt(np.mean(error**2)) < 0.02 * 3600.0


@pytest.mark.parametrize(
    ("t", "words"),
    [(np.arange(10.0), "at least 20"), (np.array([*range(30), 28.0]), "increasing.*28 s after 29 s")],
)
def test_samples_that_cannot_be_smoothed_are_refused(t, words):
    with pytest.raises(UsageError, match=words):
        smooth(t, np.zeros((len(t), 1)))
