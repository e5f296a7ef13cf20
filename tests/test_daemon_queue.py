"""The measurement queue: order, bounds, and counts of lost measurements."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.daemon.queue import MeasurementQueue
from vehicled.messages import Measurement

SOURCES = ("imu", "gnss", "can")


def sample(source: str, arrival: int, number: float = 0.0) -> Measurement:
    return Measurement(source, arrival - 1, arrival, {"imu.ax": number})


arrivals = st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(0, 50)), max_size=60)


@given(arrivals, st.lists(st.integers(0, 60), max_size=8))
def test_every_measurement_comes_out_once_in_order_and_in_time(puts, ticks):
    queue = MeasurementQueue(SOURCES)
    for number, (source, arrival) in enumerate(puts):
        queue.put(sample(source, arrival, number))
    out = []
    for tick in sorted(ticks):
        taken = queue.drain(tick)
        assert all(m.arrival <= tick for m in taken)
        out += taken
    out += queue.drain(1000)
    assert sorted(m.values["imu.ax"] for m in out) == list(range(len(puts)))
    keys = [(m.arrival, SOURCES.index(m.source), m.values["imu.ax"]) for m in out]
    assert keys == sorted(keys)


@given(st.permutations([(s, a) for s in SOURCES for a in (5, 6, 7)]))
def test_order_does_not_depend_on_which_thread_was_first(puts):
    queue = MeasurementQueue(SOURCES)
    for source, arrival in puts:
        queue.put(sample(source, arrival))
    out = [(m.arrival, m.source) for m in queue.drain(10)]
    assert out == [(a, s) for a in (5, 6, 7) for s in SOURCES]


@given(arrivals, st.integers(1, 10))
def test_full_queue_drops_the_oldest_and_counts_it(puts, capacity):
    queue = MeasurementQueue(SOURCES, capacity)
    for source, arrival in puts:
        queue.put(sample(source, arrival))
    counters = queue.counters()
    out = queue.drain(1000)
    newest = sorted((arrival for _, arrival in puts), reverse=True)[:capacity]
    assert [m.arrival for m in out] == sorted(newest)
    assert counters["put"] == len(puts) == len(out) + sum(counters["dropped"].values())
    assert counters["high_water"] == min(capacity, len(puts))
    for source in SOURCES:
        put = sum(s == source for s, _ in puts)
        assert put == sum(m.source == source for m in out) + counters["dropped"].get(source, 0)


def test_a_measurement_put_late_gets_an_arrival_after_the_last_step():
    queue = MeasurementQueue(SOURCES)
    queue.put(sample("imu", 90))
    assert [m.arrival for m in queue.drain(100)] == [90]
    queue.put(sample("gnss", 95))
    queue.put(sample("imu", 150))
    late, punctual = queue.drain(200)
    assert (late.source, late.arrival, late.t) == ("gnss", 101, 94)
    assert (punctual.source, punctual.arrival) == ("imu", 150)
    assert queue.counters()["late"] == 1


def test_measurements_that_arrive_later_stay_in_the_queue():
    queue = MeasurementQueue(SOURCES)
    queue.put(sample("imu", 300))
    assert queue.drain(299) == []
    assert len(queue.drain(300)) == 1


def test_unknown_sources_come_last():
    queue = MeasurementQueue(SOURCES)
    queue.put(sample("stranger", 5))
    queue.put(sample("can", 5))
    assert [m.source for m in queue.drain(5)] == ["can", "stranger"]


def test_a_queue_without_capacity_is_rejected():
    with pytest.raises(ValueError, match="at least one"):
        MeasurementQueue(SOURCES, 0)


def test_many_threads_lose_nothing():
    queue = MeasurementQueue(SOURCES, 100_000)
    each = 2000

    def drive(source: str) -> None:
        for i in range(each):
            queue.put(sample(source, i, i))

    threads = [threading.Thread(target=drive, args=(s,)) for s in SOURCES]
    for thread in threads:
        thread.start()
    out = []
    while any(t.is_alive() for t in threads):
        out += queue.drain(each)
    out += queue.drain(1 << 62)
    for source in SOURCES:
        assert [m.values["imu.ax"] for m in out if m.source == source] == list(range(each))
