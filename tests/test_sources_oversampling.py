"""What samples tell that come more often than at 400 Hz."""

import numpy as np
import pytest
from estimator_rig import Run, bends, prototype, steps

from replay.faults import Multiply
from vehicled.sources.oversampling import Oversampling
from vehicled.studies.faults.offline import spoil


def find_factor(times, messages=(None,)) -> float:
    """The last one, where each of the messages comes at each time (s)."""
    found = Oversampling()
    return [found.take("imu.gyro", present, float(t)) for t in times for present in messages][-1]


@pytest.mark.parametrize("rate", [10.0, 100.0, 250.0, 400.0])
def test_usual_rates_change_nothing(rate):
    assert find_factor(np.arange(2000) / rate) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("rate", "factor"), [(1000.0, 2.5), (2500.0, 6.25)])
def test_the_variance_grows_as_the_rate(rate, factor):
    assert find_factor(np.arange(2000) / rate) == pytest.approx(factor, rel=0.01)


def test_axes_in_messages_of_their_own_are_not_more_samples():
    assert find_factor(np.arange(2000) / 250.0, ((0, 1), (2,))) == 1.0


def test_nor_are_bursts():
    """Four samples at once, every 16 ms."""
    assert find_factor(0.016 * (np.arange(2000) // 4)) == 1.0


def test_samples_of_one_time_and_a_clock_that_is_set_back_are_survived():
    assert 1.0 < find_factor(np.zeros(10_000)) < 1e3
    assert find_factor([*np.arange(1000) / 250.0, *np.arange(1000) / 250.0]) == 1.0


def test_ten_times_the_samples_do_not_count_ten_times():
    """Innovations about and along the vertical axis, mostly of noise, are expected to be larger."""
    given = bends(2.0).measurements()
    tenfold = Multiply(channels=("imu.",), times=10, interval=0.0004)
    once, often = (Run(prototype(), steps(spoil(given, faults))) for faults in ([], [tenfold]))
    for kind in ("imu.gyro", "imu.accel"):
        usual, increased = (np.median([i.variance[2] for i in run.of(kind)[-250:]]) for run in (once, often))
        assert increased > 3.0 * usual
