"""Noise that keeps the covariance: each particle moves, but mean and covariance of the swarm do not change."""

import numpy as np
import pytest

from vehicled.maths.angles import wrap
from vehicled.particles import shrinkage
from vehicled.particles.filter import MotionNoise, ParticleFilter
from vehicled.particles.swarm import Swarm
from vehicled.studies.benchmarks import four_bar

LENGTHS = (2.0, 4.0, 3.0, 4.0)
COUNT = 3000


def filter_of(angles, speeds, branches=1.0, keeps=True, sigma=0.01, seed=1):
    swarm = Swarm(four_bar.describe(LENGTHS), len(angles), ["crank"])
    swarm.set_states(*four_bar.assemble(LENGTHS, angles, branches * np.ones(len(angles)), speeds))
    noise = MotionNoise(motion=sigma, keeps_covariance=keeps)
    return ParticleFilter(swarm, [], noise, np.random.default_rng(seed))


def states(pf):
    return np.array([pf.swarm.get_angles("crank"), pf.swarm.get_rates("crank")])


@pytest.mark.parametrize("centre", [0.5, np.pi])
def test_mean_and_covariance_stay_where_a_random_walk_would_spread(centre):
    random = np.random.default_rng(2)
    x = np.linalg.cholesky([[4e-3, 1.5e-2], [1.5e-2, 9e-2]]) @ random.standard_normal((2, COUNT))
    kept, walked = (filter_of(centre + x[0], 1.0 + x[1], keeps=k) for k in (True, False))
    before = states(kept)
    for _ in range(100):
        kept.predict(0.0)
        walked.predict(0.0)
    for pf, growth in ((kept, 0.0), (walked, 100 * 0.01**2)):
        angles, rates = states(pf)
        off = wrap(angles - centre)
        covariance = np.cov([off, rates])
        assert off.mean() == pytest.approx(0.0, abs=0.01)
        assert rates.mean() == pytest.approx(1.0, abs=0.03)
        assert covariance[0, 0] == pytest.approx(4e-3 + growth, rel=0.15)
        assert covariance[1, 1] == pytest.approx(9e-2, rel=0.1)
        assert covariance[0, 1] == pytest.approx(1.5e-2, rel=0.15)
    # Single particles nevertheless move far from their initial angles.
    moved = wrap(states(kept)[0] - before[0])
    assert moved.std() > 0.05


def test_noise_has_the_given_size_but_at_most_half_the_spread():
    random = np.random.default_rng(3)
    for spread, expected in ((0.2, 0.01), (0.004, 0.002)):
        pf = filter_of(0.5 + spread * random.standard_normal(COUNT), 0.0)
        before = states(pf)[0]
        pf.predict(0.0)
        moved = wrap(states(pf)[0] - before)
        # Of x' − x the noise is h, the pull towards the mean √(1 − h²) − 1.
        h = expected / min(spread, 16 * 0.01 / np.sqrt(12.0))
        assert moved.std() == pytest.approx(
            expected * np.sqrt(2.0 * (1.0 - np.sqrt(1.0 - h**2))) / h, rel=0.1
        )


def test_clusters_stay_apart():
    random = np.random.default_rng(4)
    centres = np.where(np.arange(COUNT) < COUNT // 3, 0.4, 0.9)
    pf = filter_of(centres + 0.01 * random.standard_normal(COUNT), 0.0)
    for _ in range(200):
        pf.predict(0.0)
    angles = states(pf)[0]
    for part, centre in ((angles[: COUNT // 3], 0.4), (angles[COUNT // 3 :], 0.9)):
        assert part.mean() == pytest.approx(centre, abs=6e-3)
        assert part.std() == pytest.approx(0.01, rel=0.2)


def test_particles_of_different_assemblies_stay_apart():
    """At the same crank angles, those of one assembly turn forwards and those of the other backwards."""
    random = np.random.default_rng(5)
    branches = np.where(np.arange(COUNT) % 2, 1.0, -1.0)
    pf = filter_of(1.0 + 0.05 * random.standard_normal(COUNT), branches, branches)
    for _ in range(100):
        pf.predict(0.0)
    _, rates = states(pf)
    # Except for few at the edge of the swarm, which cannot be distinguished.
    assert np.quantile(np.abs(rates - branches), 0.95) < 0.2


def test_weights_are_used_and_lost_particles_are_ignored():
    random = np.random.default_rng(6)
    angles = 1.0 + 0.05 * random.standard_normal(COUNT)
    pf = filter_of(angles, 0.0)
    weights = np.exp(-0.5 * ((angles - 1.05) / 0.03) ** 2)
    pf.weights = weights / weights.sum()
    q, qd = pf.swarm.get_q(), pf.swarm.get_qd()
    q[:, 7] = np.nan
    pf.swarm.set_states(q, qd)
    pf.weights[7] = 0.0
    mean = pf.weights @ angles
    for _ in range(20):
        pf.predict(0.0)
    now = states(pf)[0]
    assert np.isnan(now[7])
    assert np.isfinite(np.delete(now, 7)).all()
    now[7] = 0.0
    assert pf.weights @ now == pytest.approx(mean, abs=3e-3)


@pytest.mark.parametrize(("memory", "growth"), [(2e-3, np.e), (8e-3, np.exp(0.25)), (1e-5, np.exp(2.0))])
def test_with_a_memory_the_covariance_grows(memory, growth):
    """By a factor of e per memory, but by no more than e² until the next reading."""
    random = np.random.default_rng(7)
    pf = filter_of(0.5 + 1e-3 * random.standard_normal(COUNT), 0.01 * random.standard_normal(COUNT))
    pf.noise.memory = memory
    before = np.var(states(pf), axis=1)
    for _ in range(50):
        pf.predict(2e-3 / 50)  # in which the linkage hardly moves
    assert np.var(states(pf), axis=1) == pytest.approx(growth * before, rel=0.25)


def test_unexplained_accelerations_add_to_the_variance_of_rates():
    """By their density, whatever the length of the steps; the variance of angles is kept."""
    random = np.random.default_rng(8)
    for steps in (5, 20):
        pf = filter_of(0.5 + 0.1 * random.standard_normal(COUNT), 0.01 * random.standard_normal(COUNT))
        pf.noise.unexplained = 2.0
        before = np.var(states(pf), axis=1)
        for _ in range(steps):
            pf.predict(1e-3 / steps)
        now = np.var(states(pf), axis=1)
        assert now[1] == pytest.approx(before[1] + 4.0 * 1e-3, rel=0.2)
        assert now[0] == pytest.approx(before[0], rel=0.1)


@pytest.mark.parametrize("clusters", [[0.5], [3.14, -1.0, 1.0]])
def test_copies_are_redrawn_within_their_cluster(clusters):
    """1200 copies of 300 particles get different states, with the same mean and covariance."""
    random, count = np.random.default_rng(8), 1200
    kept = random.integers(0, 300, count)
    place = np.array(clusters)[kept % len(clusters)]
    angles = place + 0.01 * random.standard_normal(300)[kept]
    rates = 2.0 * (angles - place) + 0.005 * random.standard_normal(300)[kept]
    pf = filter_of(angles, rates)
    before = states(pf)
    moves, kicks = shrinkage.redraw(pf.swarm, pf.weights, random)
    pf.swarm.shift(moves, kicks)
    now = states(pf)
    assert len(np.unique(now[0])) == count
    for c, centre in enumerate(clusters):
        inside = kept % len(clusters) == c
        off, off_before = (wrap(x[0, inside] - centre) for x in (now, before))
        assert off.mean() == pytest.approx(off_before.mean(), abs=2e-3)
        assert np.cov(off, now[1, inside]) == pytest.approx(np.cov(off_before, before[1, inside]), rel=0.3)
    assert np.abs(wrap(now[0] - place)).max() < 0.1
