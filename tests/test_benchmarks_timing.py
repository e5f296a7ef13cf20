"""How benchmarks time calls, on a simulated clock."""

import time
from itertools import chain

import pytest

from vehicled.studies.benchmarks.timing import CallTimes


@pytest.fixture
def make_times(monkeypatch):
    """Makes the times of turns of calls that last so many ns each."""

    def make(turns):
        clock = iter([x for took in chain.from_iterable(turns) for x in (0, took[1])])
        monkeypatch.setattr(time, "process_time_ns", lambda: next(clock))
        times = CallTimes()
        for turn in turns:
            times.begin_turn()
            for kind, _ in turn:
                assert times.call(kind, lambda x: 2 * x, 21) == 42
        return times

    return make


def turns(count, factor):
    """Every tenth call has a reading and takes 100 µs, others take 10 µs, times `factor`; one call takes a second.
    The second half of the turns is three times as slow."""
    found = []
    for n in range(count):
        slow = factor * (1 if n < count / 2 else 3)
        turn = [(k % 10 == 9, slow * (100_000 if k % 10 == 9 else 10_000)) for k in range(20)]
        if n == 1:
            turn[5] = (False, 10**9)
        found.append(turn)
    return found


def test_interruptions_do_not_count_in_the_time_of_a_call(make_times):
    usual = (2 * 100 + 18 * 10) / 20
    assert make_times(turns(1, 1)).calc_us_per_call() == pytest.approx(usual)
    disturbed = [turns(1, 1)[0], turns(1, 1)[0]]
    disturbed[1][5] = (False, 10**9)
    assert make_times(disturbed).calc_us_per_call() == pytest.approx(usual)


def test_a_machine_that_slows_down_does_not_change_the_cost(make_times):
    assert make_times(turns(4, 5)).calc_cost(make_times(turns(4, 2))) == pytest.approx(2.5)


def test_turns_without_calls_are_left_out_of_the_cost(make_times):
    """The reference has no calls in a turn after it failed."""
    assert make_times(turns(2, 5)).calc_cost(make_times([turns(2, 2)[0], []])) == pytest.approx(2.5)


def test_times_are_kept_by_kind_of_call(make_times):
    assert make_times(turns(1, 1)).get_us(True) == pytest.approx([100.0, 100.0])


def test_a_call_that_raises_counts(monkeypatch):
    clock = iter((0, 3000))
    monkeypatch.setattr(time, "process_time_ns", lambda: next(clock))
    times = CallTimes()
    times.begin_turn()
    with pytest.raises(ZeroDivisionError):
        times.call("step", lambda: 1 / 0)
    assert times.in_turn == 1
    assert times.get_us("step") == pytest.approx([3.0])
