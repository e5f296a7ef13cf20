"""Repair of covariances."""

import numpy as np
import pytest

from vehicled.filter.definite import factorise


def test_a_positive_definite_covariance_is_not_changed():
    p = np.array([[4.0, 1.0], [1.0, 2.0]])
    root, repaired = factorise(p)
    assert not repaired
    assert root @ root.T == pytest.approx(p)


def test_an_indefinite_covariance_is_repaired_in_the_units_of_each_state():
    scale = np.array([1e-3, 1.0, 1e3])
    correlation = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.9], [0.1, 0.9, 1.0]])
    assert np.linalg.eigvalsh(correlation).min() < -0.1
    root, repaired = factorise(np.outer(scale, scale) * correlation)
    assert repaired
    whole = (root @ root.T) / np.outer(scale, scale)
    # The nearest semidefinite correlation, whatever the units.
    values, vectors = np.linalg.eigh(correlation)
    assert whole == pytest.approx((vectors * np.maximum(values, 0.0)) @ vectors.T, abs=1e-9)


def test_a_covariance_that_is_not_finite_has_no_root():
    root, repaired = factorise(np.array([[np.nan, 0.0], [0.0, 1.0]]))
    assert repaired
    assert np.isnan(root).all()


def test_a_negative_variance_does_not_become_zero():
    p = np.array([[-1e-4, 0.05], [0.05, 1.0]])
    root, repaired = factorise(p)
    assert repaired
    assert (root @ root.T)[0, 0] > 1e-4
