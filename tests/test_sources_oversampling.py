"""Variances of samples that come at more than 400 Hz."""

import numpy as np
import pytest
from estimator_rig import Run, bends, prototype, steps
from kernel_rig import KernelRig

from replay.faults import Multiply
from vehicled.sources.imu.oversampling import Oversampling
from vehicled.sources.imu.rate_differences import LONG_AGO
from vehicled.studies.faults.offline import spoil
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program

ALL = (0, 1, 2)


class Factors(KernelRig):
    """Takes samples of three axes."""

    def __init__(self) -> None:
        program = Program(Graph())
        found = Oversampling(program, "interval")
        (t,) = program.array("t", 1)
        factor, stores = found.take(t, program.array("measured", len(ALL)))
        program.kernel("take", [*stores, *zip(program.array("factor", 1), [factor], strict=True)])
        super().__init__(program)
        self["interval.at"][:] = LONG_AGO

    def take(self, t: float, present: tuple[int, ...]) -> float:
        self["t"][:], self["measured"][:] = t, [float(k in present) for k in ALL]
        self.run("take")
        return self["factor"].item()


def find_factor(times, messages=(ALL,)) -> float:
    """The last factor, with each of the messages at each of the times (s)."""
    found = Factors()
    return [found.take(t, present) for t in times for present in messages][-1]


@pytest.mark.parametrize("rate", [10.0, 100.0, 250.0, 400.0])
def test_usual_rates_change_nothing(rate):
    assert find_factor(np.arange(2000) / rate) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(("rate", "factor"), [(1000.0, 2.5), (2500.0, 6.25)])
def test_the_variance_grows_in_proportion_to_the_rate(rate, factor):
    assert find_factor(np.arange(2000) / rate) == pytest.approx(factor, rel=0.01)


def test_axes_in_separate_messages_do_not_count_as_more_samples():
    assert find_factor(np.arange(2000) / 250.0, ((0, 1), (2,))) == 1.0


def test_messages_without_the_sensor_do_not_count_as_samples():
    found = Factors()
    for t in np.arange(2000) / 250.0:
        for present in (ALL, (), ()):
            found.take(t, present)
    assert found.take(8.0, ALL) == 1.0


def test_bursts_do_not_count_as_a_higher_rate():
    """Four samples at once, every 16 ms."""
    assert find_factor(0.016 * (np.arange(2000) // 4)) == 1.0


def test_the_factor_is_limited_if_times_are_equal_or_the_clock_is_set_back():
    assert 1.0 < find_factor(np.zeros(10_000)) < 1e3
    assert find_factor([*np.arange(1000) / 250.0, *np.arange(1000) / 250.0]) == 1.0


def test_ten_times_the_samples_do_not_count_ten_times():
    """The expected innovations about and along the vertical axis, mostly due to noise, are larger."""
    given = bends(2.0).measurements()
    tenfold = Multiply(channels=("imu.",), times=10, interval=0.0004)
    once, often = (Run(prototype(), steps(spoil(given, faults))) for faults in ([], [tenfold]))
    for kind in ("imu.gyro", "imu.accel"):
        usual, increased = (np.median([i.variance[2] for i in run.of(kind)[-250:]]) for run in (once, often))
        assert increased > 3.0 * usual
