"""Weights of particles, kept as logarithms, and averages by them."""

from __future__ import annotations

import numpy as np

from vehicled.maths.angles import wrap


def normalised(log_weights: np.ndarray) -> np.ndarray:
    """(N,) weights that sum to one from (N,) logarithms, of any size and scale; −∞ is a weight of zero.

    Raises FloatingPointError when no weight is left.
    """
    largest = np.max(log_weights)
    if not np.isfinite(largest):
        raise FloatingPointError("no particle has a weight above zero")
    weights = np.exp(log_weights - largest)
    normalised: np.ndarray = weights / np.sum(weights)
    return normalised


def effective_fraction(weights: np.ndarray) -> float:
    """Effective sample size as a fraction of N: (Σw)² / (N Σw²), from 1/N to 1."""
    return float(np.sum(weights) ** 2 / (len(weights) * np.dot(weights, weights)))


def circular_mean(angles: np.ndarray, weights: np.ndarray) -> float:
    """Direction of the weighted sum of unit vectors, rad in (−π, π]."""
    return float(np.arctan2(weights @ np.sin(angles), weights @ np.cos(angles)))


def circular_deviation(angles: np.ndarray, weights: np.ndarray) -> float:
    """Circular standard deviation √(−2 ln R) of weighted angles, rad; R is the length of their mean vector.

    Mardia and Jupp, Directional Statistics, section 2.3.
    """
    total = np.sum(weights)
    length = np.hypot(weights @ np.sin(angles), weights @ np.cos(angles)) / total
    return float(np.sqrt(-2.0 * np.log(np.clip(length, np.finfo(float).tiny, 1.0))))


def circular_mode(angles: np.ndarray, weights: np.ndarray, bandwidth: float = 0.1) -> float:
    """Where weighted angles lie densest, rad in (−π, π]: of several clusters the mean is in none of them."""
    near = find_densest(angles, weights, bandwidth)
    return circular_mean(angles[near], weights[near])


def find_densest(angles: np.ndarray, weights: np.ndarray, bandwidth: float) -> np.ndarray:
    """(N,) which of weighted angles lie within three bandwidths of where they are densest.

    That is the peak of their density by a normal kernel of that `bandwidth` (rad).
    """
    bins = int(np.ceil(4.0 * np.pi / bandwidth))
    place = np.floor(wrap(angles) * (0.5 * bins / np.pi)).astype(int) % bins
    counts = np.bincount(place, weights, bins)
    order = np.arange(bins // 2 + 1)
    density = np.fft.irfft(np.fft.rfft(counts) * np.exp(-0.5 * (order * bandwidth) ** 2), bins)
    peak = (np.argmax(density) + 0.5) * 2.0 * np.pi / bins
    near: np.ndarray = np.abs(wrap(angles - peak)) < 3.0 * bandwidth
    return near
