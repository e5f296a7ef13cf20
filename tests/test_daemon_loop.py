"""The estimator's thread: deadlines kept, missed and skipped; failures handled; results delivered."""

import gc
import os
import re
import sys
import threading
from itertools import pairwise
from unittest import mock

import pytest
from daemon_fakes import Collector, FakeClock, FakeEstimator
from hypothesis import given
from hypothesis import strategies as st

from vehicled.daemon.histogram import Histogram
from vehicled.daemon.loop import Loop, LoopOptions
from vehicled.daemon.queue import MeasurementQueue
from vehicled.errors import RunError
from vehicled.messages import Condition, Measurement, SlowState, SourceFault

PERIOD = 4_000_000
OPTIONS = LoopOptions(realtime_priority=0)


class Rig:
    """A loop on a fake clock, run for some steps; `during[n]` happens within step n (from 0)."""

    def __init__(self, during=None, options=OPTIONS, collector=None):
        self.clock = FakeClock()
        self.device_faults: list[SourceFault] = []
        self.collector = collector or Collector()
        self.queue = MeasurementQueue(["imu"])
        self.during = during or {}
        self.estimator = FakeEstimator(self._on_step)
        self.loop = Loop(
            self.estimator,
            self.queue,
            self.clock,
            options,
            self.collector,
            self.collector,
            lambda: {"x": 1},
            lambda: tuple(self.device_faults),
        )
        self.left = 0

    def _on_step(self, t):
        self.left -= 1
        if self.left == 0:
            self.loop.stop()
        action = self.during.get(len(self.estimator.steps) - 1)
        if action:
            action(self)

    def run(self, steps):
        self.left = steps
        self.loop.run()
        return self

    @property
    def times(self):
        return [t for t, _ in self.estimator.steps]


def busy(duration):
    def action(rig):
        rig.clock.time += duration

    return action


def fail(rig):
    raise FloatingPointError("diverged")


def test_steps_are_evenly_spaced_on_absolute_deadlines():
    rig = Rig({i: busy(1_000_000) for i in range(20)})
    rig.clock.oversleep = 60_000
    rig.run(20)
    assert [b - a for a, b in pairwise(rig.times)] == [PERIOD] * 19
    assert rig.clock.slept == rig.times
    counters = rig.loop.counters()
    assert (counters["steps"], counters["missed"], counters["skipped"]) == (20, 0, 0)
    assert counters["late_max_us"] == 60


def test_a_step_over_its_deadline_is_counted_and_the_next_follows_at_once():
    rig = Rig({3: busy(PERIOD + 1_500_000)}).run(6)
    assert [b - a for a, b in pairwise(rig.times)] == [PERIOD] * 5
    counters = rig.loop.counters()
    assert (counters["missed"], counters["skipped"]) == (1, 0)
    assert counters["late_max_us"] == 1500


def test_missed_ticks_are_skipped_without_a_burst():
    rig = Rig({3: busy(10 * PERIOD + 1_500_000)}).run(8)
    steps = [(b - a) // PERIOD for a, b in pairwise(rig.times)]
    assert steps == [1, 1, 1, 10, 1, 1, 1]
    counters = rig.loop.counters()
    # The slow step, and the nine that were skipped.
    assert (counters["missed"], counters["skipped"]) == (10, 9)


@given(st.lists(st.integers(0, 6 * PERIOD), min_size=1, max_size=30))
def test_the_loop_is_never_more_than_one_step_late(durations):
    rig = Rig({i: busy(d) for i, d in enumerate(durations)})
    lateness = []
    for i, action in list(rig.during.items()):
        rig.during[i] = lambda r, a=action: (lateness.append(r.clock.time - r.times[-1]), a(r))
    with mock.patch("gc.collect"):  # it would run for every example
        rig.run(len(durations) + 1)
    assert max(lateness) < PERIOD
    counters = rig.loop.counters()
    assert counters["steps"] + counters["skipped"] == (rig.times[-1] - rig.times[0]) // PERIOD + 1
    assert counters["missed"] >= counters["skipped"]


def test_each_step_gets_the_measurements_that_have_arrived_by_its_time():
    rig = Rig()
    start = rig.clock.time
    arrivals = [start + a for a in (1, PERIOD, PERIOD + 1, 3 * PERIOD - 1)]
    for a in arrivals:
        rig.queue.put(Measurement("imu", a, a, {"imu.ax": 0.0}))
    rig.run(3)
    assert [[m.arrival for m in ms] for _, ms in rig.estimator.steps] == [
        arrivals[:2],
        arrivals[2:3],
        arrivals[3:],
    ]
    assert [r[2] for r in rig.collector.recorded if r[0] == "step"] == [2, 1, 1]
    assert len(rig.collector.innovations) == 4
    assert [e["x"] for e in rig.collector.published] == [2.0, 3.0, 4.0]


def test_a_wrong_unit_is_logged_once(caplog):
    rig = Rig()
    status = rig.estimator.status()
    with mock.patch.object(
        rig.estimator, "status", return_value={**status, "units": {"steer.wheel": "in deg"}}
    ):
        rig.run(1000)
    assert len(rig.collector.statuses) > 2
    assert [r.getMessage() for r in caplog.records if r.levelname == "WARNING"] == ["steer.wheel: in deg"]


def test_a_failing_estimator_is_reset_and_continues(caplog):
    rig = Rig({2: fail, 3: fail}).run(6)
    assert len(rig.times) == 6
    assert rig.loop.counters()["estimator_errors"] == 2
    # The reset takes effect before the next step, and is recorded there, so that a replay does the same.
    events = [r[:3] for r in rig.collector.recorded if r[0] not in ("status", "parameters")]
    assert events[2:6] == [
        ("step", rig.times[2], 0),
        ("command", rig.times[3], "reset"),
        ("step", rig.times[3], 0),
        ("command", rig.times[4], "reset"),
    ]
    # Not every failure is logged, as there may be 250 a second.
    assert [r.getMessage() for r in caplog.records] == [
        "the estimator failed and is reset: FloatingPointError: diverged"
    ]


def test_an_estimator_that_keeps_failing_is_reset_after_growing_delays():
    """The third failure within a minute delays the reset by 2 s, the next one by 4 s; the status shows the delay.
    Meanwhile, commands are executed."""
    asked = []

    def ask_and_fail(rig):
        asked.append(rig.loop.submit("set_position", {"x": 1.0, "y": 2.0}))
        fail(rig)

    rig = Rig(dict.fromkeys(range(2, 9), fail) | {4: ask_and_fail}).run(8)
    commands = [(r[2], r[1]) for r in rig.collector.recorded if r[0] == "command"]
    resets = [t for name, t in commands if name == "reset"]
    waits = [(b - a) * 1e-9 for a, b in pairwise(resets)]
    assert waits == pytest.approx([0.004, 2.0, 4.0, 8.0], abs=0.01)
    failed = [s for s in rig.collector.statuses if s.state == "failed"]
    assert "diverged" in failed[0].reason
    assert {int(w) for s in failed for w in re.findall(r"restart in (\d+) s", s.reason)} == {2, 4, 8}
    assert all(s.since <= s.t for s in failed)
    assert asked[0].result(0) == {"executed": "set_position"}
    assert ("set_position", rig.times[4] + PERIOD) in commands


def test_the_status_is_published_at_the_step_of_a_change():
    def degrade(rig):
        rig.estimator.condition = Condition(
            "degraded", rig.times[-1], None, (SourceFault("imu.gyro", "silent", ("yaw",)),)
        )

    rig = Rig({100: degrade}).run(200)
    (at,) = [s for s in rig.collector.statuses if s.state == "degraded"]
    assert at.t == at.since == rig.times[100]
    assert [f.source for f in at.faults] == ["imu.gyro"]


def test_changes_are_reported_twenty_times_a_second_at_most():
    def change(rig):
        rig.estimator.condition = Condition("running", rig.times[-1])

    rig = Rig(dict.fromkeys(range(250), change)).run(250)
    assert 15 <= len(rig.collector.statuses) <= 22


def test_a_disconnected_device_is_a_fault_until_it_returns():
    gone = SourceFault("gnss", "disconnected", ())
    rig = Rig({50: lambda r: r.device_faults.append(gone), 100: lambda r: r.device_faults.clear()}).run(150)
    assert [(s.t, [f.source for f in s.faults]) for s in rig.collector.statuses[1:]] == [
        (rig.times[50], ["gnss"]),
        (rig.times[100], []),
    ]


def test_failing_outputs_do_not_affect_the_estimator():
    class Broken(Collector):
        def publish_step(self, *_):
            raise ValueError("cannot be encoded")

    rig = Rig(collector=Broken()).run(4)
    counters = rig.loop.counters()
    assert (counters["output_errors"], counters["estimator_errors"]) == (4, 0)
    assert rig.estimator.commands == []
    assert len([r for r in rig.collector.recorded if r[0] == "step"]) == 4


def test_commands_are_executed_before_a_step_and_recorded(caplog):
    rig = Rig()
    future = rig.loop.submit("set_position", {"x": 1.0, "y": 2.0})
    rejected = rig.loop.submit("set_position", {"x": 13.0, "y": 2.0})
    assert not future.done()
    rig.run(2)
    assert future.result(0) == {"executed": "set_position"}
    with pytest.raises(RunError, match="no luck"):
        rejected.result(0)
    (line,) = [r for r in caplog.records if "set_position" in r.getMessage()]
    assert (line.levelname, line.exc_info) == ("WARNING", None)
    assert line.getMessage() == "the command set_position was refused: no luck there"
    events = [r for r in rig.collector.recorded if r[0] not in ("status", "parameters")]
    assert events[0] == ("command", rig.times[0], "set_position", {"x": 1.0, "y": 2.0})
    assert [e[0] for e in events[1:]] == ["step", "step"]
    assert rig.collector.commands == [events[0][1:]]


def test_a_mark_is_published_and_recorded_but_not_passed_to_the_estimator():
    rig = Rig()
    future = rig.loop.submit("mark", {"text": "kerb"})
    rig.run(2)
    assert future.result(0) == {}
    assert rig.estimator.commands == []
    mark = (rig.times[0], "mark", {"text": "kerb"})
    assert ("command", *mark) in rig.collector.recorded
    assert rig.collector.commands == [mark]


def test_the_mailbox_is_bounded_and_every_future_completes():
    rig = Rig()
    futures = [rig.loop.submit("reset", {}) for _ in range(100)]
    assert 0 < sum(not a.done() for a in futures) < 100
    rig.run(1)
    late = rig.loop.submit("reset", {})
    for future in [*futures, late]:
        assert future.done()
    with pytest.raises(RuntimeError, match="too many"):
        futures[-1].result(0)
    with pytest.raises(RuntimeError, match="stopping"):
        late.result(0)


def test_a_status_with_all_counters_is_published_once_a_second():
    rig = Rig().run(751)
    times = [s.t for s in rig.collector.statuses]
    assert [b - a for a, b in pairwise(times)] == [1_000_000_000] * 3
    status = rig.loop.last_status
    assert status is rig.collector.statuses[-1]
    assert status.state == "waiting"
    assert set(status.counters) == {"x", "queue", "loop", "estimator"}
    assert status.counters["loop"]["steps"] == 751
    assert [r[0] for r in rig.collector.recorded].count("status") == 4
    assert [p.t for p in rig.collector.parameters] == times


def test_parameters_are_empty_while_nothing_is_estimated_and_the_last_ones_stay_to_be_kept():
    found = {"gyro_scale": SlowState(0.1, 0.01, "–")}
    rig = Rig({300: lambda r: setattr(r.estimator, "parameters", dict)})
    rig.estimator.parameters = lambda: found
    rig.run(751)
    assert [p.value for p in rig.collector.parameters] == [{"gyro_scale": 0.1}] * 2 + [{}] * 2
    assert rig.loop.last_parameters == found


def test_only_one_status_follows_a_long_gap():
    rig = Rig({10: busy(5_300_000_000)}).run(30)
    assert len(rig.collector.statuses) == 2


def test_a_status_is_published_even_if_that_of_the_estimator_fails():
    rig = Rig()
    rig.estimator.status = lambda: 1 / 0
    rig.run(1)
    assert rig.loop.last_status.state == "waiting"
    assert rig.loop.last_status.counters["estimator"] == {}


def test_garbage_collector_and_switch_interval_change_only_while_the_loop_runs():
    seen = []
    rig = Rig({0: lambda r: seen.append((gc.isenabled(), gc.get_freeze_count(), sys.getswitchinterval()))})
    switch_interval, frozen = sys.getswitchinterval(), gc.get_freeze_count()
    with mock.patch("gc.unfreeze") as unfreeze:
        rig.run(1)
    ((enabled, within, interval),) = seen
    assert not enabled
    assert within > frozen
    assert interval == pytest.approx(0.0002)
    assert gc.isenabled()
    unfreeze.assert_called_once()
    assert sys.getswitchinterval() == pytest.approx(switch_interval)


def test_the_loop_can_be_stopped_from_another_thread_on_the_real_clock():
    from vehicled.daemon.clock import MonotonicClock

    estimator, collector = FakeEstimator(), Collector()
    cpu = min(os.sched_getaffinity(0))
    loop = Loop(estimator, MeasurementQueue([]), MonotonicClock(), LoopOptions(cpu=cpu), collector)
    thread = threading.Thread(target=loop.run)
    thread.start()
    while loop.steps < 10:
        thread.join(0.01)
    loop.stop()
    thread.join(5)
    assert not thread.is_alive()
    times = [t for t, _ in estimator.steps]
    assert all((b - a) % PERIOD == 0 and b > a for a, b in pairwise(times))
    assert "SCHED_FIFO 30" in loop.counters()["scheduling"]
    assert f"on processors {cpu}" in loop.counters()["scheduling"]


def test_a_missing_processor_is_reported_and_logged(caplog):
    scheduling = []

    def run():
        rig = Rig(options=LoopOptions(realtime_priority=0, cpu=1023)).run(1)
        scheduling.append(rig.loop.counters()["scheduling"])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "processor 1023 refused: Invalid argument" in scheduling[0]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage() == f"the estimator's thread is {scheduling[0]}"


def test_a_refused_priority_is_logged(monkeypatch, caplog):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.sched_setscheduler", refuse)
    Rig(options=LoopOptions(realtime_priority=30)).run(1)
    (record,) = caplog.records
    assert "SCHED_FIFO 30 refused: Operation not permitted" in record.getMessage()


@given(st.lists(st.integers(0, 1 << 42), min_size=1, max_size=300), st.sampled_from([0.1, 0.5, 0.99, 1.0]))
def test_percentiles_are_accurate_to_a_sixteenth(durations, fraction):
    histogram = Histogram()
    for d in durations:
        histogram.add(d)
    clipped = sorted(min(d, (1 << 40) - 1) for d in durations)
    exact = clipped[max(0, -(-int(fraction * 1000) * len(clipped) // 1000) - 1)]
    assert exact <= histogram.percentile(fraction) <= exact * 17 / 16


def test_an_empty_histogram_has_no_percentiles():
    assert Histogram().summary_us() == {"median": None, "p99": None, "p999": None, "max": None}


def test_the_filter_is_reset_after_the_machine_was_suspended(caplog):
    def suspend(duration):
        def action(rig):
            rig.clock.away += duration

        return action

    rig = Rig({2: suspend(300_000_000), 5: suspend(7_500_000_000)}).run(6)  # the first one is too short
    assert rig.estimator.commands == []
    rig = Rig({2: suspend(300_000_000), 5: suspend(7_500_000_000)}).run(8)
    assert [name for name, _ in rig.estimator.commands] == ["reset"]
    assert "suspended for 7.5 s" in caplog.text
