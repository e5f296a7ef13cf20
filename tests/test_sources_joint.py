"""The angles of all wheels as one compiled call: it does what updates with one after the other do."""

import pytest
from estimator_rig import SECOND, Run, bends, prototype, steps

from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import WHEELS, Measurement
from vehicled.sources.joint import JointUpdates

ANGLES = [f"wheel.{w}.angle" for w in WHEELS]


def with_outliers(m: Measurement) -> Measurement:
    """Every tenth of a second a counter is far off for one sample, each in turn."""
    tenth, rest = divmod(m.t, SECOND // 10)
    channel = ANGLES[tenth % len(ANGLES)]
    if channel not in m.values or rest >= SECOND // 50:
        return m
    return Measurement(m.source, m.t, m.arrival, m.values | {channel: m.values[channel] + 2.0})


def without_some(m: Measurement) -> Measurement:
    """Every second sample lacks two of the counters."""
    if ANGLES[0] not in m.values or m.t // (SECOND // 50) % 2:
        return m
    return Measurement(m.source, m.t, m.arrival, {c: v for c, v in m.values.items() if c not in ANGLES[1:3]})


@pytest.mark.parametrize("change", [lambda m: m, with_outliers, without_some])
def test_one_call_gives_the_same_bytes_as_single_updates(monkeypatch, change):
    given = steps(map(change, bends(3.0).measurements()))
    done: list[tuple[int, int]] = []
    run = JointUpdates.run

    def count(joint: JointUpdates, t_ns: int, kinds: tuple[str, ...], numbers: list[float]) -> list:
        updates = run(joint, t_ns, kinds, numbers)
        done.append((len(updates), len(kinds)))
        return updates

    monkeypatch.setattr(JointUpdates, "run", count)
    jointly = Run(prototype(), given)
    assert done.count((len(ANGLES), len(ANGLES))) > 0.3 * len(done) > 30
    if change is with_outliers:
        assert {0, 1, 2, 3} <= {some for some, of in done if some < of}
    if change is without_some:
        assert done.count((2, 2)) > 0.3 * len(done)
    monkeypatch.setattr(VehicleFilter, "chains", False)
    one_by_one = Run(prototype(), given)
    assert jointly.values.tobytes() == one_by_one.values.tobytes()
    assert [repr(i) for i in jointly.innovations] == [repr(i) for i in one_by_one.innovations]
