"""Wheels that spin or slide: deviations from the tyre model are then not attributed to sensors."""

import pytest
from estimator_rig import Run, cruise, prototype, steps

from vehicled.messages import Measurement
from vehicled.sources.checks.lateral_vote import LateralVote
from vehicled.vehicle.arrays import AHEAD, LEFT

BEGINS, SNOW, ENDS = 3_000_000_000, 3_600_000_000, 4_500_000_000
SPIN = 25.0
"""rad/s, by which the rear wheels are too fast."""


def over_an_edge_of_ice(m: Measurement, spins: bool) -> Measurement:
    """The rear wheels spin if `spins`; at SNOW the acceleration steps by 1.5 m/s²."""
    if m.t < BEGINS:
        return m
    values = dict(m.values)
    until = min(m.t, ENDS) - BEGINS
    for channel in ("wheel.rl.angle", "wheel.rr.angle") if spins else ():
        if channel in values:
            values[channel] += SPIN * until * 1e-9
    if "imu.ax" in values and SNOW <= m.t < ENDS:
        values["imu.ax"] += 1.5
    return Measurement(m.source, m.t, m.arrival, values)


def find_stepped(spins: bool) -> set[str]:
    given = [over_an_edge_of_ice(m, spins) for m in cruise().begin(5.5).measurements(3)]
    run = Run(prototype(), steps(given))
    return {f.source for f in run.summary.faults if "stepped" in f.reason}


def test_a_step_of_acceleration_with_spinning_wheels_is_no_step_of_bias():
    assert find_stepped(spins=True) == set()


def test_a_step_of_acceleration_with_rolling_wheels_is_a_step_of_bias():
    assert find_stepped(spins=False) == {"imu.accel"}


def drifts(m: Measurement, spins: bool) -> Measurement:
    """The rear wheels spin if `spins`; the lateral accelerometer drifts by 1 m/s³."""
    since = 1e-9 * max(m.t - BEGINS, 0)
    values = dict(m.values)
    for channel in ("wheel.rl.angle", "wheel.rr.angle") if spins else ():
        if channel in values:
            values[channel] += SPIN * since
    if "imu.ay" in values:
        values["imu.ay"] += 1.0 * since
    return Measurement(m.source, m.t, m.arrival, values)


@pytest.mark.parametrize(("spins", "expected"), [(True, set()), (False, {"imu.accel"})])
def test_accelerometers_are_not_compared_with_the_tyre_model_while_wheels_spin(spins, expected, monkeypatch):
    monkeypatch.setattr(
        LateralVote, "take", lambda *_: None
    )  # which finds the drift in both cases, by the course
    given = [drifts(m, spins) for m in cruise().begin(7.5).measurements(3)]
    run = Run(prototype(), steps(given))
    assert {f.source for f in run.summary.faults if "estimated anew" in f.reason} == expected


def test_a_car_that_goes_sideways_counts_as_sliding():
    run = Run(prototype(), steps(cruise().begin(2.0).measurements(3)))
    estimator = run.estimator
    assert not estimator._updates.is_sliding
    before, t_ns = estimator._filter.pose[LEFT], run.summary.ended_ns
    estimator._filter.pose[LEFT] = 0.3 * estimator._filter.pose[AHEAD]
    estimator._screening._look_for_slides(estimator._filter, t_ns)
    assert estimator._updates.is_sliding
    estimator._filter.pose[LEFT] = before
    estimator._screening._look_for_slides(estimator._filter, t_ns + 700_000_000)
    assert not estimator._updates.is_sliding


def test_offsets_of_wheels_and_steering_are_not_updated_in_a_slide(monkeypatch):
    run = Run(prototype(), steps(cruise().begin(1.0).measurements(3)))
    screening, shown, m = run.estimator._screening, [], cruise().begin(1.0).measurements(3)[-1]
    sample = Measurement("imu", m.t, m.arrival, {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": 0.0})
    monkeypatch.setattr(screening._yaw, "take", lambda *given: shown.append(given[-1]) or True)
    for slides in (False, True):
        run.estimator._updates.is_sliding = slides
        screening.remove(sample, 15.0, 0.0)
    assert shown == [True, False]


def test_steering_is_not_compared_while_the_car_goes_sideways(monkeypatch):
    run = Run(prototype(), steps(cruise().begin(1.0).measurements(3)))
    estimator, compared = run.estimator, []
    monkeypatch.setattr(estimator._inputs.steering.health, "check", lambda *given: compared.append(given[-1]))
    for share in (0.0, 0.4):
        estimator._filter.pose[LEFT] = share * estimator._filter.pose[AHEAD]
        estimator._inputs.check(2.0 + share, estimator._filter, estimator._sources)
    assert compared == [False, True]


def test_positions_do_not_vote_on_the_speed_of_a_car_that_goes_sideways(monkeypatch):
    """At 25° of sideslip the speed over ground is a tenth higher, and would outvote a healthy sensor."""
    run = Run(prototype(), steps(cruise().begin(1.0).measurements(3)))
    estimator, voted = run.estimator, []
    screening = estimator._screening
    monkeypatch.setattr(screening._vote, "take", voted.append)
    for share in (0.0, 0.4):
        estimator._filter.pose[LEFT] = share * estimator._filter.pose[AHEAD]
        screening._look_for_slides(estimator._filter, estimator._updates.step_ns)
        sideways = screening._updates.step_ns < screening._sideways_until_ns
        screening._take_averages(0.0, 15.0, sideways)
    assert len(voted) == 1
