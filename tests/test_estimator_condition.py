"""The condition that an estimator reports: its state, the sources at fault, and since when."""

from __future__ import annotations

import math
from collections.abc import Callable

import filter_rig
import msgspec
import numpy as np
import pytest
from estimator_rig import SECOND, Drive, mixed, prototype, steps, without

from vehicled.backoff import Backoff
from vehicled.estimator import Estimator
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, Condition, Measurement, SourceFault
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.sources.limits import PER_BOUND, find_impossible
from vehicled.sources.start.restarts import Restarts
from vehicled.vehicle.arrays import CHART_SIZE, LEFT, ROOT_OUTPUTS, YAW_RATE

BEGIN, END, SECONDS = 3.0, 4.5, 7.0


@pytest.fixture(scope="module")
def bend() -> Drive:
    inputs = DriveInputs(rack=[(1.0, 0.0), (2.0, 0.004)], rear_torque=90.0)
    return Drive(Scenario(duration=SECONDS, initial=InitialMotion(speed=15.0), inputs=inputs))


def conditions(
    given: list[Measurement], during: Callable[[Estimator, float], None] = lambda *_: None
) -> list[Condition]:
    """All conditions of an estimator over a drive, in order."""
    estimator = Estimator(prototype())
    found = [estimator.condition]
    for step in steps(given):
        during(estimator, step.t * 1e-9)
        estimator.step(step.t, step.measurements)
        if estimator.condition is not found[-1]:
            found.append(estimator.condition)
    return found


def spoilt(
    given: list[Measurement], prefix: str, change: Callable[[float], float | None]
) -> list[Measurement]:
    """Measurements with the channels of a prefix changed from BEGIN to END, or left out where `change` gives None."""
    found = []
    for m in given:
        values: dict[str, float] = {}
        for c, v in m.values.items():
            changed = change(v) if c.startswith(prefix) and BEGIN * SECOND < m.t < END * SECOND else v
            if changed is not None:
                values[c] = changed
        if values:
            found.append(Measurement(m.source, m.t, m.arrival, values))
    return found


def test_a_healthy_drive_is_never_degraded():
    for gnss in ("rtk", "conventional"):
        states = [c.state for c in conditions(mixed(8.0).measurements(gnss=gnss))]
        assert states[-2:] == ["aligning", "running"]
        assert set(states[:-2]) <= {"waiting"}


@pytest.mark.parametrize(
    ("prefix", "change", "source"),
    [
        ("steer", lambda _: None, "steering"),
        ("torque", lambda _: None, "torques"),
        ("brake", lambda _: None, "brakes"),
        ("imu.w", lambda _: None, "imu.gyro"),
        ("imu.a", lambda _: 0.1, "imu.accel"),
        ("gnss.l", lambda _: None, "gnss.position"),
        ("gnss.speed", lambda v: v + 30.0, "gnss.speed"),
        ("wheel.rl.angle", lambda _: 7.0, "wheel.rl.angle"),
        ("vehicle.speed", lambda v: 0.5 * v, "vehicle.speed"),
        ("imu.wz", lambda v: v + 3.0, "imu.gyro"),
    ],
)
def test_a_source_that_fails_is_named_within_half_a_second(bend, prefix, change, source):
    found = conditions(spoilt(bend.measurements(gnss="conventional"), prefix, change))
    (first,) = [c for c in found if c.state == "degraded"][:1]
    assert source in [f.source for f in first.faults]
    assert all(f.less_certain for f in first.faults)
    assert BEGIN < first.since * 1e-9 < BEGIN + 0.5
    assert found[-1].state == "running"
    assert found[-1].faults == ()
    assert END < found[-1].since * 1e-9 < END + 2.0


def test_sources_that_never_measured_are_no_fault(bend):
    """The car has only a gyroscope and wheel sensors."""
    given = without(bend.measurements(), "gnss", "imu.a", "steer", "torque", "brake", "vehicle")
    assert {c.state for c in conditions(given)} == {"waiting", "running"}


def test_a_source_is_active_only_while_it_is_used(bend):
    seen: list[tuple[float, str]] = []

    def check(estimator: Estimator, t: float) -> None:
        seen.append((t, estimator.status()["sensors"]["wheel.fr.angle"]["state"]))

    conditions(spoilt(bend.measurements(), "wheel.fr.angle", lambda _: 7.0), check)
    assert {s for t, s in seen if BEGIN + 0.5 < t < END} == {"unused"}
    assert {s for t, s in seen if 1.0 < t < BEGIN or t > END + 1.0} == {"active"}


def test_repeated_restarts_become_a_failure_and_delay_the_next_start(bend):
    """The state of the filter is disturbed twice a second, so that it restarts each time."""
    thrown = [0.0]

    def throw(estimator: Estimator, t: float) -> None:
        if t > 2.0 and t - thrown[0] > 0.5 and estimator.condition.state != "waiting":
            thrown[0] = t
            change = np.zeros(CHART_SIZE)
            change[YAW_RATE], change[LEFT] = 6.0, 12.0
            estimator.filter.car.correct(change, carry=True)

    found = conditions(bend.measurements(), throw)
    assert [c.state for c in found].count("recovering") >= 1
    failed = [c for c in found if c.state == "failed"]
    assert "twice within a minute, next start in 2 s" in failed[0].reason
    after = found[found.index(failed[0]) + 1]
    assert (after.since - failed[0].since) * 1e-9 == pytest.approx(2.0, abs=0.01)


def test_a_fault_keeps_its_begin_when_only_numbers_in_its_reason_change():
    restarts, condition = Restarts(), Condition()
    for t, largest in enumerate((8, 59.5, "1e+03"), start=5):
        fault = SourceFault("steer.wheel", f"values up to {largest} seem to be in deg", ())
        condition = restarts.describe(condition, t, True, True, (fault,))
        assert (condition.since, condition.faults) == (5, (fault,))
    silent = SourceFault("steer.wheel", "silent", ())
    assert restarts.describe(condition, 9, True, True, (silent,)).since == 9


def test_waits_double_up_to_a_minute_and_are_reset_after_a_pause():
    backoff, t, waits = Backoff(), 0, []
    for _ in range(10):
        due = backoff.schedule(t)
        waits.append((due - t) * 1e-9)
        t = due
    assert waits[:6] == [0, 0, 2, 4, 8, 16]
    assert max(waits) <= 60
    assert backoff.schedule(t + 121 * SECOND) == t + 121 * SECOND


def test_impossible_estimates_are_found():
    values = np.zeros(len(ESTIMATE_COLUMNS))
    assert find_impossible(values) is None
    for column, value in (("vx", 201.0), ("tyre.fl.fz", np.inf), ("sigma.x", np.nan), ("wz", -101.0)):
        wrong = values.copy()
        wrong[ESTIMATE_INDEX[column]] = value
        assert column in find_impossible(wrong)
    values[ESTIMATE_INDEX["lat"]] = np.nan
    assert find_impossible(values) is None


@pytest.mark.parametrize(("speed", "is_within"), [(20.0, True), (201.0, False), (math.nan, False)])
def test_an_estimate_is_within_bounds_only_if_every_column_is(speed, is_within):
    f = filter_rig.new_filter()
    f.set_bounds(PER_BOUND)
    filter_rig.place(f, np.array([0.0, 0.0, f.car.design_height]), 0.3, 20.0)
    f.output()
    assert f.is_within_bounds
    values = f.output(lambda: f.car.view("outputs").__setitem__(ROOT_OUTPUTS.index("vx"), speed))
    assert values[ESTIMATE_INDEX["vx"]] == pytest.approx(speed, nan_ok=True)
    assert f.is_within_bounds == is_within


def test_measurements_that_waited_in_a_buffer_do_not_start_the_filter(bend):
    """After a pause of the PC, lines deliver buffered data. A start from these would use a past position."""
    estimator = Estimator(prototype())
    for step in steps(bend.measurements()):
        if step.t > SECOND:
            break
        estimator.step(step.t + 4 * SECOND, step.measurements)
    assert estimator.condition.state == "waiting"


@pytest.mark.parametrize(
    ("source", "late", "named"),
    [("steer", 0.1, None), ("steer", 0.4, "steering"), ("torque", 0.7, "torques"), ("brake", 0.7, "brakes")],
)
def test_an_input_that_comes_too_late_to_be_used_is_named(
    bend: Drive, source: str, late: float, named: str | None
) -> None:
    delayed = [
        msgspec.structs.replace(m, arrival=m.arrival + round(late * SECOND)) if m.source == source else m
        for m in bend.measurements(1)
    ]
    in_order = sorted(delayed, key=lambda m: m.arrival)
    found = {f for c in conditions([m for m in in_order if m.arrival < 5 * SECOND]) for f in c.faults}
    assert {(f.source, f.reason) for f in found} == (
        {(named, "arrives too late to be used")} if named else set()
    )
