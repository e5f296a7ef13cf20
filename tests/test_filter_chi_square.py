"""Quantiles of the chi-square distribution: against scipy, and against known values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chdtrc, chdtri

from vehicled.filter.chi_square import calc_quantile

DIMENSIONS = (1, 2, 3)


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("probability", [0.5, 0.9, 0.95, 0.99, 0.997, 0.999, 0.9999, 0.99999, 1 - 1e-9])
def test_gates_are_those_of_scipy_to_rounding(dimension, probability):
    tail = 1.0 - probability
    assert calc_quantile(dimension, tail) == pytest.approx(float(chdtri(dimension, tail)), rel=4e-15)


@pytest.mark.parametrize("dimension", DIMENSIONS)
@given(tail=st.floats(1e-300, 1.0))
def test_the_tail_beyond_the_quantile(dimension, tail):
    quantile = calc_quantile(dimension, tail)
    assert math.isfinite(quantile)
    assert quantile >= 0.0
    assert float(chdtrc(dimension, quantile)) == pytest.approx(tail, rel=1e-12 * max(1.0, quantile))


@pytest.mark.parametrize(("dimension", "table"), [(1, 3.841459), (2, 5.991465), (3, 7.814728)])
def test_five_per_cent_as_in_printed_tables(dimension, table):
    assert calc_quantile(dimension, 0.05) == pytest.approx(table, abs=5e-7)


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_ends(dimension):
    assert calc_quantile(dimension, 0.0) == math.inf
    assert calc_quantile(dimension, 1.0) == 0.0


@pytest.mark.parametrize(("dimension", "tail"), [(0, 0.5), (4, 0.5), (2, -1e-9), (1, 1.5), (3, math.nan)])
def test_what_has_no_quantile(dimension, tail):
    with pytest.raises(ValueError, match="expected"):
        calc_quantile(dimension, tail)
