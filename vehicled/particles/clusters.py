"""The cluster of particles with the largest weight, and the mechanism's state estimated from it."""

from __future__ import annotations

import numpy as np

from vehicled.maths.angles import wrap
from vehicled.messages import CoordinateEstimate
from vehicled.particles.swarm import Swarm
from vehicled.particles.weights import circular_deviation, circular_mean, find_densest

_BANDWIDTH = 0.1
"""Bandwidth of the density: rad; for a distance, share of the range of the particles."""


def find_heaviest(swarm: Swarm, weights: np.ndarray) -> np.ndarray:
    """(N,) which particles belong to the heaviest cluster, found by one noisy coordinate after the other.

    Each coordinate divides the particles that the ones before have selected.
    """
    chosen = weights > 0.0
    for name in swarm.noisy:
        values = np.where(chosen, swarm.get(name), 0.0)
        if name not in swarm.angles:
            # Map a distance to an arc so short that its ends are not close to each other.
            low, high = np.min(values[chosen]), np.max(values[chosen])
            values = (values - low) / max(high - low, np.finfo(float).tiny) - 0.5
        chosen &= find_densest(values, np.where(chosen, weights, 0.0), _BANDWIDTH)
    return chosen


def describe_coordinate(
    swarm: Swarm, name: str, weights: np.ndarray, cluster: np.ndarray
) -> CoordinateEstimate:
    """Estimate of an angle or another coordinate; `cluster`: (N,) which particles belong to the heaviest."""
    # Particles of zero weight may be NaN, or so large that their squares overflow.
    values, rates = (np.where(weights > 0.0, x, 0.0) for x in (swarm.get(name), swarm.get_rates(name)))
    inside = np.where(cluster, weights, 0.0) / np.sum(weights[cluster])
    rate = float(inside @ rates)
    rate_sigma = float(np.sqrt(inside @ (rates - rate) ** 2))
    if name in swarm.angles:
        value = circular_mean(values, inside)
        sigma = float(np.sqrt(inside @ wrap(values - value) ** 2))
        mean, deviation = circular_mean(values, weights), circular_deviation(values, weights)
        return CoordinateEstimate("rad", value, sigma, rate, rate_sigma, mean, deviation)
    value, mean = float(inside @ values), float(weights @ values)
    sigma, deviation = (float(np.sqrt(w @ (values - m) ** 2)) for w, m in ((inside, value), (weights, mean)))
    return CoordinateEstimate("m", value, sigma, rate, rate_sigma, mean, deviation)


def calc_covariance(swarm: Swarm, weights: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """(2 noisy, 2 noisy) of the noisy coordinates, then of their rates, in a cluster."""
    inside = weights[cluster] / np.sum(weights[cluster])
    rows = []
    for name in swarm.noisy:
        values = swarm.get(name)[cluster]
        angle = name in swarm.angles
        rows.append(wrap(values - circular_mean(values, inside)) if angle else values - inside @ values)
    for name in swarm.noisy:
        rates = swarm.get_rates(name)[cluster]
        rows.append(rates - inside @ rates)
    off = np.array(rows)
    covariance: np.ndarray = (off * inside) @ off.T
    return covariance
