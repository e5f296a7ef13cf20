"""The particle filter: weights, noise, reproducible runs, and finding a crank."""

import numpy as np
import pytest

from vehicled.maths.angles import wrap
from vehicled.particles.filter import MotionNoise, ParticleFilter
from vehicled.particles.instruments import CoordinateInstrument, PositionInstrument, RateInstrument
from vehicled.particles.resampling import RESAMPLERS
from vehicled.particles.swarm import Swarm
from vehicled.studies.benchmarks import four_bar

LENGTHS = (4.0, 2.0, 3.0, 4.0)
H = 6e-3


def start(count, seed=1, speeds=0.0):
    random = np.random.default_rng(seed)
    swarm = Swarm(four_bar.describe(LENGTHS), count, ["crank"])
    angles = four_bar.random_angles(LENGTHS, count, random)
    swarm.set_states(*four_bar.assemble(LENGTHS, angles, np.ones(count), speeds))
    return swarm, random


def test_weights_are_the_product_of_all_instruments_normal_densities():
    swarm, random = start(12, speeds=np.linspace(-1.0, 1.0, 12))
    instruments = [
        RateInstrument("crank", 0.3, 2.0),
        CoordinateInstrument("crank", 0.5),
        PositionInstrument("Q", 0.7),
    ]
    readings = [0.2, 3.0, np.array([3.0, 2.5])]
    pf = ParticleFilter(swarm, instruments, MotionNoise(), random)
    pf.weigh(readings)
    angle, (_, _, *q) = swarm.get_angles("crank"), swarm.get_q()
    density = np.exp(-0.5 * ((0.2 - swarm.get_rates("crank")) / 0.6) ** 2)
    density *= np.exp(-0.5 * ((np.angle(np.exp(1j * (3.0 - angle)))) / 0.5) ** 2)
    density *= np.exp(-0.5 * sum((r - x) ** 2 for r, x in zip(readings[2], q, strict=True)) / 0.7**2)
    assert pf.weights == pytest.approx(density / density.sum(), rel=1e-9)
    assert pf.effective == pytest.approx(density.sum() ** 2 / (12 * np.sum(density**2)))
    assert pf.log_weights.max() == 0.0


def test_a_changed_multiplier_applies_from_the_next_reading_on():
    swarm, random = start(2, speeds=np.array([0.0, 1.0]))
    gyroscope = RateInstrument("crank", 0.5)
    pf = ParticleFilter(swarm, [gyroscope], MotionNoise(), random)
    pf.weigh([0.0])
    assert np.log(pf.weights[1] / pf.weights[0]) == pytest.approx(-2.0)
    gyroscope.multiplier = 10.0
    pf.weigh([0.0])
    assert np.log(pf.weights[1] / pf.weights[0]) == pytest.approx(-2.02)


def test_without_a_reading_the_weights_stay_equal():
    swarm, random = start(20)
    pf = ParticleFilter(swarm, [RateInstrument("crank", 0.1)], MotionNoise(motion=0.01), random)
    for _ in range(5):
        pf.step(H, [None])
    assert np.all(pf.weights == 1.0 / 20)
    assert pf.resamplings == 0
    assert swarm.t == pytest.approx(5 * H)
    with pytest.raises(ValueError, match="zip"):
        pf.step(H, [])


def test_a_lost_particle_has_no_weight():
    swarm, random = start(9)
    q, qd = swarm.get_q(), swarm.get_qd()
    q[:, 4] = np.nan
    swarm.set_states(q, qd)
    pf = ParticleFilter(
        swarm, [RateInstrument("crank", 0.1)], MotionNoise(motion=0.01), random, threshold=2.0
    )
    pf.step(H, [0.0])
    assert np.all(np.isfinite(swarm.get_q()))
    q[:] = np.nan
    swarm.set_states(q, qd)
    with pytest.raises(FloatingPointError):
        pf.step(H, [0.0])


@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_noise_of_motion_has_the_given_size(sigma):
    # All particles start at the same crank angle; a large move is made in parts.
    count = 4000
    swarm = Swarm(four_bar.describe(LENGTHS), count, ["crank"])
    swarm.set_states(*four_bar.assemble(LENGTHS, np.full(count, 0.9), np.ones(count)))
    pf = ParticleFilter(swarm, [], MotionNoise(motion=sigma), np.random.default_rng(3))
    before = swarm.get_angles("crank")
    pf.predict(0.0)
    moved = wrap(swarm.get_angles("crank") - before)
    assert moved.std() == pytest.approx(sigma, rel=0.1)
    assert abs(moved.mean()) < 0.1 * sigma + 4 * sigma / np.sqrt(count)


def test_an_unknown_resampler_is_refused():
    swarm, random = start(2)
    with pytest.raises(ValueError, match="expected one of systematic"):
        ParticleFilter(swarm, [], MotionNoise(), random, resampler="comb")


def run(resampler, seed):
    swarm, random = start(500, seed)
    truth = Swarm(swarm.description, 1)
    truth.set_states(*four_bar.assemble(LENGTHS, np.array([2.0]), np.ones(1)))
    noise = MotionNoise(motion=0.005, resampling=0.02)
    pf = ParticleFilter(swarm, [RateInstrument("crank", 0.01, 10.0)], noise, random, resampler)
    for _ in range(170):
        truth.advance(H)
        pf.step(H, [truth.get_rates("crank")[0] + 0.01 * random.standard_normal()])
    return pf, float(wrap(pf.estimate_angle("crank") - truth.get_angles("crank")[0]))


@pytest.mark.parametrize("resampler", RESAMPLERS)
def test_the_filter_finds_a_crank_that_may_be_anywhere(resampler):
    pf, error = run(resampler, 2)
    assert abs(error) < np.radians(5.0)
    assert pf.resamplings > 3


def test_a_run_is_reproduced_by_its_seed():
    (first, _), (again, _), (other, _) = run("systematic", 2), run("systematic", 2), run("systematic", 3)
    assert first.swarm.get_q().tolist() == again.swarm.get_q().tolist()
    assert first.weights.tolist() == again.weights.tolist()
    assert first.swarm.get_q().tolist() != other.swarm.get_q().tolist()
