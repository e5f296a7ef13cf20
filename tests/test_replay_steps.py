"""Steps from a stream of measurements: order, grid, gaps, pacing."""

import time
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from replay.problems import Problems
from replay.rates import find_slow_clock
from replay.steps import LOOK_AHEAD_NS, MAX_GAP_NS, make_steps, play, sort_by_arrival
from vehicled.messages import Measurement, Step

PERIOD = 4_000_000


def sample(arrival: int, t: int | None = None, source: str = "imu") -> Measurement:
    return Measurement(source, arrival if t is None else t, arrival, {"imu.ax": 1.0})


@given(st.lists(st.integers(0, LOOK_AHEAD_NS // 3), max_size=50), st.integers(0, LOOK_AHEAD_NS // 3))
def test_samples_out_of_order_within_the_window_are_sorted(jitter: list[int], latency: int) -> None:
    samples = [sample(i * PERIOD + j + latency, i * PERIOD + j) for i, j in enumerate(jitter)]
    problems = Problems("log")
    ordered = list(sort_by_arrival(samples, problems))
    assert [m.arrival for m in ordered] == sorted(m.arrival for m in samples)
    assert not problems


def test_samples_that_arrived_together_keep_their_order() -> None:
    samples = [sample(0, source=str(i)) for i in range(20)]
    assert list(sort_by_arrival(samples, Problems("log"))) == samples


def test_problems_of_a_log_since_1970_name_their_times_exactly() -> None:
    day = 1_777_636_800_000_000_000
    problems = Problems("log")
    samples = [
        sample(day + 10_000_000),
        sample(day + 3_000_000_000),
        sample(day),
        sample(day + 20_000_000_000),
    ]
    list(make_steps(sort_by_arrival(samples, problems), PERIOD, problems))
    assert [detail.split(":")[0] for detail in problems.details] == [
        "t = 1777636800 s",
        "t = 1777636803.002 s",
    ]


def test_a_sample_far_too_late_arrives_at_its_place_in_the_log() -> None:
    times = [i * PERIOD for i in range(1000)]
    problems = Problems("log")
    ordered = list(sort_by_arrival([*map(sample, times), sample(0, source="late")], problems))
    assert len(ordered) == 1001
    assert [m.arrival for m in ordered] == sorted(m.arrival for m in ordered)
    late = next(m for m in ordered if m.source == "late")
    assert late.t == 0
    assert late.arrival > 0
    assert problems.counts == {"out of order": 1}


@given(st.lists(st.integers(0, 3 * MAX_GAP_NS // 2), min_size=1, max_size=6), st.integers(-(10**12), 10**12))
@settings(max_examples=20)
def test_every_measurement_is_consumed_once_at_the_first_step_after_its_arrival(
    pauses: list[int], start: int
) -> None:
    arrivals = [start]
    for pause in pauses:
        arrivals.append(arrivals[-1] + pause)
    period = 100_000_000
    steps = list(make_steps(map(sample, arrivals), period, Problems("log")))
    later = [arrival for arrival in arrivals if arrival > start]
    if later and later[0] > start + MAX_GAP_NS:  # a single first instant before a gap is left out
        arrivals, start = later, later[0]
    assert [m.arrival for step in steps for m in step.measurements] == arrivals
    for step in steps:
        assert all(step.t - period < m.arrival <= step.t for m in step.measurements)
    assert steps[0].t == start
    assert all((step.t - start) % period == 0 for step in steps)
    assert all(a.t < b.t for a, b in pairwise(steps))


def test_pauses_shorter_than_a_gap_have_steps() -> None:
    problems = Problems("log")
    steps = list(make_steps([sample(0), sample(10 * PERIOD + 1)], PERIOD, problems))
    assert [s.t for s in steps] == [i * PERIOD for i in range(12)]
    assert not problems


def test_a_gap_is_reported_and_not_filled() -> None:
    problems = Problems("log")
    steps = list(make_steps([sample(0), sample(PERIOD), sample(10**18)], PERIOD, problems))
    assert len(steps) == 3
    assert problems.counts == {"gap": 1}


def test_a_single_wrong_time_before_all_others_is_left_out() -> None:
    begin, problems = 400_000_000_000, Problems("log")
    steps = list(make_steps([sample(0), *(sample(begin + k * PERIOD) for k in range(9))], PERIOD, problems))
    assert (steps[0].t, len(steps)) == (begin, 9)
    assert problems.counts == {"absurd time": 1}
    slow = [sample(k * 20_000_000_000) for k in range(9)]
    assert sum(len(step.measurements) for step in make_steps(slow, PERIOD, Problems("log"))) == 8


def test_a_single_wrong_time_in_the_first_second_is_not_the_start_of_the_log() -> None:
    begin, problems = 400_000_000_000, Problems("log")
    samples = [sample(begin + k * PERIOD) for k in range(500)]
    samples.insert(100, sample(0))
    ordered = list(sort_by_arrival(samples, problems))
    assert ordered[0].arrival == begin
    assert [m.arrival for m in ordered] == sorted(m.arrival for m in ordered)
    assert problems.counts == {"out of order": 1}


def test_an_empty_log_gives_no_steps() -> None:
    assert list(make_steps([], PERIOD, Problems("log"))) == []


def test_play_never_yields_a_step_early() -> None:
    steps = [Step(i * 10_000_000, []) for i in range(6)]
    begun = time.monotonic_ns()
    played = [(step, time.monotonic_ns() - begun) for step in play(steps, rate=2.0)]
    assert [step for step, _ in played] == steps
    assert all(at >= step.t / 2 for step, at in played)


def test_a_log_whose_fastest_channel_is_too_slow_gets_a_warning() -> None:
    def speed(t: float) -> Measurement:
        return Measurement("speed", round(t * 1e9), round(t * 1e9), {"vehicle.speed": 1.0})

    milliseconds = [m for k in range(20) for m in (sample(k * 4_000_000_000), speed(7.0 * k))]
    warning = "p.csv: 0.25 Hz is the highest rate: is the time in another unit? (vehicled check --log)"
    assert find_slow_clock("p.csv", milliseconds) == warning
    assert find_slow_clock("p.csv", [speed(1.001 * k) for k in range(2000)]) is None
    assert find_slow_clock("p.csv", [*milliseconds, *(sample(k * PERIOD) for k in range(300, 400))]) is None
    assert find_slow_clock("p.csv", milliseconds[:8]) is None
    assert find_slow_clock("p.csv", []) is None
    head = iter([*(sample(k * PERIOD) for k in range(10)), *milliseconds])
    assert find_slow_clock("p.csv", head) is None
    assert len(list(head)) > 40  # no more than needed is read
