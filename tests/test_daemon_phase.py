"""The phase of the loop's steps: soon after samples arrive, whatever the sensors' rates and clocks."""

from itertools import pairwise

import numpy as np
import pytest
from daemon_fakes import Collector, FakeClock, FakeEstimator
from hypothesis import given, settings
from hypothesis import strategies as st

from vehicled.daemon.loop import Loop, LoopOptions
from vehicled.daemon.phase import Phase
from vehicled.daemon.queue import MeasurementQueue
from vehicled.messages import Measurement

PERIOD = 4_000_000
SECOND = 1_000_000_000


def drive(arrivals, seconds=6.0):
    """Deadlines of a loop whose samples arrive at these times, and how long each sample waits, ns."""
    phase, arrivals = Phase(PERIOD), np.sort(np.asarray(arrivals, dtype=np.int64))
    deadlines, waits, deadline, begin = [], [], PERIOD, 0
    while deadline < seconds * SECOND:
        end = int(np.searchsorted(arrivals, deadline, side="right"))
        taken = arrivals[begin:end]
        begin = end
        deadlines.append(deadline)
        waits += (deadline - taken).tolist()
        phase.take(deadline, taken.tolist())
        deadline += PERIOD + phase.shift()
    return np.array(deadlines), np.array(waits)


def sample(rate, seconds=6.0, begin=0.0, ppm=0.0, jitter=0.0, seed=0):
    """Arrival times of samples, ns. The sensor's clock is fast by `ppm`; random delays have the mean `jitter`, s."""
    t = begin + np.arange(round(rate * seconds)) / rate / (1.0 + 1e-6 * ppm)
    return np.round((t + np.random.default_rng(seed).exponential(1.0, len(t)) * jitter) * 1e9)


@settings(max_examples=40)
@given(st.integers(0, PERIOD - 1))
def test_samples_at_the_rate_of_the_loop_hardly_wait(begin):
    _, waits = drive(sample(250.0, begin=begin * 1e-9))
    settled = waits[len(waits) // 2 :]
    assert settled.max() < PERIOD // 25


def test_deadlines_stay_behind_samples_with_random_delays():
    deadlines, waits = drive(sample(250.0, begin=1.7e-3, jitter=60e-6))
    settled = waits[len(waits) // 2 :]
    assert np.median(settled) < PERIOD // 8
    assert np.mean(settled > PERIOD // 2) < 0.01  # samples that missed their step
    assert np.ptp(deadlines[len(deadlines) // 2 :] % PERIOD) < PERIOD // 8


@pytest.mark.parametrize("ppm", [-200.0, 200.0])
def test_deadlines_follow_a_sensor_whose_clock_drifts(ppm):
    _, waits = drive(sample(250.0, 20.0, 2e-3, ppm), 20.0)
    settled = waits[len(waits) // 4 :]
    assert np.percentile(settled, 99) < PERIOD // 4
    assert np.mean(settled) < PERIOD // 8


def test_the_phase_suits_several_sensors():
    """An IMU at the loop's rate, and a bus whose frames alternate between two phases of the period."""
    imu, bus = sample(250.0, begin=1.0e-3), sample(100.0, begin=1.3e-3)
    _, waits = drive(np.concatenate([imu, bus]))
    settled = waits[len(waits) // 2 :]
    # IMU samples wait for the frames that follow them. Otherwise half of the frames would wait for nearly a period.
    assert np.median(settled) < 0.45e6
    assert settled.max() < 2.5e6


@settings(max_examples=20)
@given(st.floats(20.0, 1000.0), st.floats(0.0, 1e-3), st.integers(0, 99))
def test_intervals_between_steps_vary_by_at_most_one_per_cent(rate, jitter, seed):
    deadlines, _ = drive(sample(rate, 4.0, jitter=jitter, seed=seed), 4.0)
    intervals = np.diff(deadlines)
    assert abs(intervals - PERIOD).max() <= PERIOD // 100


def test_deadlines_stay_if_no_phase_is_better():
    random = np.random.default_rng(1)
    deadlines, _ = drive(np.cumsum(random.exponential(SECOND / 1000.0, 10_000)), 9.0)
    moved = np.abs(np.diff(deadlines) - PERIOD).sum()
    assert moved < 2e-3 * deadlines[-1]


def test_the_loop_steps_soon_after_its_samples():
    clock, queue, collector = FakeClock(), MeasurementQueue(["imu"]), Collector()
    begin, steps = clock.time, 2000

    def on_step(t):
        if len(estimator.steps) == steps:
            loop.stop()

    estimator = FakeEstimator(on_step)
    loop = Loop(estimator, queue, clock, LoopOptions(realtime_priority=0), collector, collector)
    for k in range(steps):
        arrival = begin + k * PERIOD + 100_000  # 3.9 ms before the next deadline at first
        queue.put(Measurement("imu", arrival, arrival, {"imu.ax": 0.0}))
    loop.run()
    times = [t for t, _ in estimator.steps]
    taken = [(t, m.arrival) for t, ms in estimator.steps for m in ms]
    assert len(taken) > 0.99 * steps
    assert all(t - arrival < PERIOD // 25 for t, arrival in taken[steps // 2 :])
    assert max(abs(b - a - PERIOD) for a, b in pairwise(times)) <= PERIOD // 100
    assert loop.counters()["waiting_us"]["median"] < 125.0
