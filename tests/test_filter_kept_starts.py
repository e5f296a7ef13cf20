"""What was learned in an earlier drive, and what happens when the car has changed since."""

import math

import pytest
from estimator_rig import Run, mixed, prototype, steps
from filter_rig import index, make_moving, set_slow_state

from vehicled.estimator import Estimator
from vehicled.filter.kept_starts import KeptStarts, RecentStart
from vehicled.filter.states import STEERING_OFFSET, STEERING_RATIO, Group
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import Measurement, SlowState
from vehicled.vehicle.steering import SteeringGeometry

BEFORE, SIGMA = 0.05, 0.001
"""rad: found in the drive before."""


def find(change: float, shown: float, calls: int = 10, added: float = 0.0) -> dict[int, tuple[float, float]]:
    """Starts of 0 ± 1 that are contradicted after a number of calls.

    Measurements have shown `shown` of the variance, and changed the estimate.
    """
    starts, found = KeptStarts(), {}
    starts.note(1, 0.0, 1.0)
    for _ in range(calls):
        assert not found
        found = starts.find([0.0, change], [1.0, 1.0 - shown], [0.0, added], 1.0, lambda i, change: True)
    return found


def test_a_start_is_contradicted_by_five_standard_deviations_that_last():
    assert find(2.6, 0.25) == {1: (0.0, 1.0)}
    assert not find(2.4, 0.25)
    assert not find(2.6, 0.25, calls=9)


def test_without_information_nothing_is_contradicted():
    assert not find(0.5, 1e-4)
    assert not find(2.6, -0.25)


def test_what_a_state_may_have_changed_by_contradicts_no_start():
    assert not find(2.6, 0.25, added=0.1)


def measure(f: VehicleFilter, group: Group, value: float, sigma: float, before: float) -> None:
    """As measurements of a state as `value` ± `sigma` leave it, after a start with `BEFORE` ± `before`."""
    variance = 1.0 / (before**-2 + sigma**-2)
    set_slow_state(f, index(f, group), variance * (BEFORE / before**2 + value / sigma**2))
    f.set_variance(group, "", variance)


def doubt(f: VehicleFilter) -> None:
    """As long as a contradiction must last."""
    for _ in range(12):
        f.widen_parameters({}, 0.1)
        f.apply_corrections()


@pytest.mark.parametrize("group", [STEERING_OFFSET, STEERING_RATIO])
def test_of_a_changed_car_is_left_what_this_drive_alone_shows(group, caplog):
    f = make_moving()
    f.slow.set_parameters({group.name: SlowState(BEFORE, SIGMA, group.unit)}, age=0.0)
    measure(f, group, 0.0, SIGMA, SIGMA)
    assert f.slow.get(group)[0] == pytest.approx(0.5 * BEFORE)
    doubt(f)
    assert f.slow.get(group)[0] == pytest.approx(0.0, abs=0.05 * BEFORE)
    assert math.sqrt(f.get_variance(group)) == pytest.approx(SIGMA, rel=0.1)
    assert caplog.text.count(f"{group.name}: measurements contradict the value from before") == 1


def test_what_agrees_with_the_drive_before_stays():
    f = make_moving()
    f.slow.set_parameters({"steering_ratio": SlowState(BEFORE, SIGMA, "–")}, age=0.0)
    measure(f, STEERING_RATIO, BEFORE + 3.0 * SIGMA, SIGMA, SIGMA)
    doubt(f)
    assert f.slow.get(STEERING_RATIO)[0] == pytest.approx(BEFORE + 1.5 * SIGMA)


@pytest.mark.slow
def test_a_steering_that_was_realigned_between_two_drives_turns_no_heading():
    """By 3° within ten minutes; without the test, heading and sideslip were 1° off, at 11 σ."""
    drive, estimator = mixed(40.0), Estimator(prototype())
    given = {"steering_offset": {"value": BEFORE, "sigma": 5e-4, "unit": "rad"}}
    estimator.command("set_parameters", {"parameters": given, "age": 600.0})
    run = Run(prototype(), steps(drive.measurements(gnss="rtk")), estimator=estimator)
    late = run.t > run.t[0] + 20_000_000_000
    for quantity in ("yaw", "sideslip"):
        nees = (run.error(drive, quantity) / run[f"sigma.{quantity}"])[late] ** 2
        assert nees.mean() < 4.0
    assert estimator.parameters()["steering_offset"].value == pytest.approx(0.0, abs=0.003)


def find_steps(*calls: tuple[float, float], density: float = 0.0) -> list[bool]:
    """Whether `RecentStart` is contradicted in calls with estimate and variance, 0.1 s apart."""
    recent = RecentStart()
    return [recent.is_contradicted(x, p, density, 0.1, 1.0) for x, p in calls]


def test_a_step_within_ten_seconds_is_found_once():
    found = find_steps((0.0, 1.0), *[(2.6, 0.75)] * 50)
    assert found.index(True) == 10
    assert sum(found) == 1
    assert not any(find_steps((0.0, 1.0), *[(2.4, 0.75)] * 50))


def test_what_changes_within_minutes_is_no_step():
    rising = [(0.02 * k, 0.75) for k in range(600)]
    assert not any(find_steps((0.0, 0.75), *rising, density=0.05))


def hit_a_kerb(m: Measurement, offsets: dict[str, float], at: float) -> Measurement:
    """The measurement of a car whose steering sensor reads more from then on (s)."""
    if m.t * 1e-9 < at or offsets.keys().isdisjoint(m.values):
        return m
    return Measurement(m.source, m.t, m.arrival, {c: v + offsets.get(c, 0.0) for c, v in m.values.items()})


@pytest.mark.parametrize("gnss", ["rtk", pytest.param("conventional", marks=pytest.mark.slow)])
def test_a_zero_of_the_steering_that_a_kerb_has_turned_is_found_anew(gnss, caplog):
    """By 1.5° at 20 s; 25 s later, 0.2° of it were found, at 22 σ."""
    configuration, angle, at = prototype(), math.radians(1.5), 20.0
    geometry = SteeringGeometry(configuration.vehicle)
    rack = geometry.sign * geometry.rack_per_angle * angle
    offsets = {"steer.fl": angle, "steer.fr": angle, "steer.rack": rack}
    run = Run(configuration, steps([hit_a_kerb(m, offsets, at) for m in mixed(45.0).measurements(gnss=gnss)]))
    assert run.estimator.parameters()["steering_offset"].value == pytest.approx(-angle, abs=0.003)
    assert caplog.text.count("steering_offset: it has changed within seconds") == 1
