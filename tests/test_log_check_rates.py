"""Sample rates that `vehicled check --log` shows."""

import pytest

from vehicled.log_check.check import LogChecker
from vehicled.messages import Measurement


def test_the_rate_of_a_sensor_with_two_messages_counts_the_samples_of_both() -> None:
    """Front and rear wheels have messages of their own at 100 Hz, 3 ms apart; half a second of both is missing."""
    checker = LogChecker(None)
    for k in range(2000):
        for late, wheel in ((0, "fl"), (3_000_000, "rl")):
            t = 10_000_000 * k + late
            if not 5_000_000_000 <= t < 5_500_000_000:
                checker.take(Measurement("can", t, t, {f"wheel.{wheel}.speed": 20.0 + 0.001 * (k % 9)}))
    (rate,) = checker.find().rates
    assert rate.rate == pytest.approx(200.0, rel=0.01)
    assert (rate.samples, rate.pauses) == (3900, 1)
