"""The regression of a device's clock onto the host's, with simulated devices."""

import pickle
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivers.clock import DeviceClock

PERIOD_NS = 10_000_000


def simulate(
    clock, *, seconds, tick_ns, start=0, wrap=None, skew=0.0, jitter_ns=500_000.0, stalls=0.0, t0=10**12
):
    """Feed 100 Hz samples; returns the errors of the results, ns. The least delay is 0.

    Delays are exponential, plus 50 ms of stall in a share `stalls` of the samples.
    """
    rng = random.Random(1)
    errors = []
    arrival = 0
    for i in range(int(seconds * 100)):
        true = t0 + i * PERIOD_NS
        ticks = start + int(i * PERIOD_NS / (1 + skew) / tick_ns)
        delay = rng.expovariate(1 / jitter_ns) + (50e6 if rng.random() < stalls else 0.0)
        arrival = max(arrival, true + round(delay))
        result = clock.to_host(ticks if wrap is None else ticks % wrap, arrival)
        assert result <= arrival
        errors.append(result - true)
    return errors


@pytest.mark.parametrize("skew", [0.0, 50e-6, -50e-6])
def test_jitter_and_stalls_are_removed_and_skew_is_found(skew):
    clock = DeviceClock(tick_ns=100_000)
    errors = simulate(clock, seconds=90, tick_ns=100_000, skew=skew, stalls=0.05)
    settled = errors[3000:]
    assert clock.skew == pytest.approx(skew, abs=5e-6)
    # The counter's 0.1 ms cannot be distinguished from delay; the jitter itself is 0.5 ms, stalls are 50 ms.
    assert max(map(abs, settled)) < 250_000
    assert clock.restarts == 0


@pytest.mark.parametrize("skew", [0.01, -0.01, 0.018])
def test_a_clock_at_a_wrong_rate_is_followed_after_a_few_seconds(skew):
    """`skew`: host seconds per device second, minus one; a device that is 1 % slow has 0.01."""
    clock = DeviceClock(tick_ns=100_000)
    errors = simulate(clock, seconds=90, tick_ns=100_000, skew=skew, stalls=0.05)
    assert max(map(abs, errors[:500])) < abs(skew) * 5e9  # drift until then
    assert max(map(abs, errors[500:])) < 1_000_000
    assert clock.skew == pytest.approx(skew, abs=5e-5)
    assert clock.restarts == 0


@pytest.mark.parametrize("rate", [1, 5, 50])
@pytest.mark.parametrize("ppm", [500.0, -500.0])
def test_a_slewed_clock_of_the_host_is_followed(ppm, rate):
    """For a minute, as NTP does it; before, the error grew to 15 ms, as for that long the line had a bend."""
    clock, rng, errors, host = DeviceClock(tick_ns=1), random.Random(3), [], 1e12
    for i in range(240 * rate):
        host += 1e9 / rate * (1 + 1e-6 * ppm * (60 * rate < i <= 120 * rate))
        result = clock.to_host(i * 10**9 // rate, round(host + rng.expovariate(1 / 500_000)))
        errors.append(result - host)
    assert -6e6 < min(errors) < max(errors[10 * rate :]) < 2e6
    assert max(map(abs, errors[180 * rate :])) < 500_000
    assert clock.restarts == 0


@pytest.mark.parametrize("jitter_ns", [1e6, 5e6, 20e6])
def test_late_messages_of_a_slow_device_are_no_change_of_rate(jitter_ns):
    """At 1 Hz there is one message in a stretch; the errors stay far below the delays."""
    clock, rng, errors = DeviceClock(tick_ns=1), random.Random(4), []
    for i in range(3600):
        true = 10**12 + i * 10**9
        errors.append(clock.to_host(i * 10**9, true + round(rng.expovariate(1 / jitter_ns))) - true)
    assert max(map(abs, errors[60:])) < 0.6 * jitter_ns


def test_a_clock_set_back_a_little_is_not_taken_for_a_slow_one():
    clock = DeviceClock(tick_ns=1)
    simulate(clock, seconds=50, tick_ns=1, start=50 * 10**9)
    simulate(clock, seconds=50, tick_ns=1, start=round(99.95e9), t0=10**12 + 50 * 10**9)
    assert abs(clock.skew) <= 300e-6


@pytest.mark.parametrize(
    ("tick_ns", "wrap"), [(1_000, 2**32), (100_000, 2**32), (1_000_000, 2**16), (1, 86_400_000_000_000)]
)
def test_a_wrap_of_the_counter_does_not_change_the_results(tick_ns, wrap):
    start = wrap - 3_000_000_000 // tick_ns
    errors = simulate(
        DeviceClock(tick_ns=tick_ns, wrap=wrap), seconds=10, tick_ns=tick_ns, start=start, wrap=wrap
    )
    plain = simulate(DeviceClock(tick_ns=tick_ns), seconds=10, tick_ns=tick_ns, start=start)
    assert errors == plain


def test_a_restart_of_the_device_starts_over_and_is_counted():
    clock = DeviceClock(tick_ns=1_000, wrap=2**32)
    simulate(clock, seconds=20, tick_ns=1_000, start=2_000_000_000)
    errors = simulate(clock, seconds=20, tick_ns=1_000, start=0, t0=10**12 + 21 * 10**9)
    assert clock.restarts == 1
    assert max(map(abs, errors[500:])) < 300_000


@pytest.mark.parametrize("shift_s", [4.0, 1.0, 0.05, -0.5])
def test_a_clock_that_is_set_a_little_is_followed_at_once(shift_s):
    """A leap second sets clocks of UTC back by one second."""
    clock = DeviceClock(tick_ns=1)
    simulate(clock, seconds=20, tick_ns=1, start=50 * 10**9)
    errors = simulate(clock, seconds=20, tick_ns=1, start=int((70 - shift_s) * 10**9), t0=10**12 + 20 * 10**9)
    assert clock.restarts == 1
    assert max(map(abs, errors)) < 5_000_000  # jitter


@pytest.mark.parametrize("period_ns", [200_000_000, 1_000_000_000])
def test_a_step_back_by_less_than_the_interval_of_stamps_is_detected(period_ns):
    clock = DeviceClock(tick_ns=1)
    results = []
    for i in range(40):
        arrival = i * period_ns
        results.append(clock.to_host(arrival - (150_000_000 if i >= 20 else 0), arrival) - arrival)
    assert clock.restarts == 1
    assert results[:20] + results[34:] == [0] * 26


def test_a_stall_and_stamps_out_of_order_are_not_taken_for_a_step():
    clock = DeviceClock(tick_ns=1)
    simulate(clock, seconds=20, tick_ns=1, start=0)
    arrival = 10**12 + 24 * 10**9
    results = [clock.to_host(i * PERIOD_NS, arrival + i) for i in range(2000, 2400)]  # after 4 s, all at once
    results += [clock.to_host(i * PERIOD_NS, arrival + i * 1_000_000) for i in (2402, 2401, 2403)]
    for i, result in zip([*range(2000, 2400), 2402, 2401, 2403], results, strict=True):
        assert result == pytest.approx(10**12 + i * PERIOD_NS, abs=1_000_000)
    assert clock.restarts == 0


def test_results_do_not_go_back_and_latency_is_subtracted():
    clock = DeviceClock(tick_ns=1, latency_ns=5_000_000)
    assert clock.to_host(0, 100_000_000) == 95_000_000
    results = [clock.to_host(i * PERIOD_NS, 100_000_000) for i in range(1, 5)]  # a backlog arrives at once
    assert results == [95_000_000] * 4


def test_memory_is_bounded_and_an_hour_of_silence_resets_the_clock():
    clock = DeviceClock(tick_ns=1_000, wrap=2**32)
    simulate(clock, seconds=100, tick_ns=1_000)
    size = len(pickle.dumps(clock))
    simulate(clock, seconds=100, tick_ns=1_000, start=100 * 10**6, t0=10**12 + 100 * 10**9)
    assert len(pickle.dumps(clock)) < 1.1 * size
    hour = 3600 * 10**9
    assert clock.to_host(123, 10**12 + hour) == 10**12 + hour
    assert clock.restarts == 0


@settings(max_examples=100)
@given(
    samples=st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 10**10)), max_size=60),
    wrap=st.sampled_from([None, 2**16, 2**32]),
)
def test_any_stamps_at_all_give_times_not_after_the_arrival(samples, wrap):
    clock = DeviceClock(tick_ns=1_000, wrap=wrap, latency_ns=1_000_000)
    arrival = 0
    for ticks, pause in samples:
        arrival += pause
        assert clock.to_host(ticks, arrival) <= arrival - 1_000_000
