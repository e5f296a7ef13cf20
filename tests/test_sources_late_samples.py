"""Uncertainty by an unknown latency of the IMU, and estimates that are forgotten once it has been found."""

import math

import numpy as np
import pytest
from estimator_rig import Run, bends, steps, with_sensors, without
from filter_rig import index, new_filter, place, set_slow_state

from vehicled.estimator import Estimator
from vehicled.filter.states import ATTITUDE, POSITION, STEERING_OFFSET, VELOCITY
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX
from vehicled.sources.added_doubt import AddedDoubt
from vehicled.sources.gnss.fix_time import Latency
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.imu.imu import Imu
from vehicled.sources.imu.late_samples import correct_fixes, forget_falsified, move_ahead

SPEED, OFFSET, CHANGE = 15.0, 0.2, 0.02
CORRECTED = 3_508_000_000


def test_forgetting_the_antenna_makes_position_and_heading_less_certain():
    """Late samples made the antenna seem to be further ahead, and the car as much further back."""
    f = new_filter()
    place(f, np.array([0.0, 0.0, f.car.design_height]), 0.3, SPEED)
    set_slow_state(f, index(f, GNSS.antenna, "x"), OFFSET)
    before = f.variances
    forget_falsified(f, CHANGE)
    assert f.slow.get(GNSS.antenna) == pytest.approx(0.0)
    added = f.variances - before
    for element in ("x", "y"):
        assert added[index(f, POSITION, element)] == pytest.approx(OFFSET**2)
    turned = math.sqrt(added[index(f, ATTITUDE, "yaw")])
    assert 0.2 * CHANGE < turned < 0.5 * CHANGE
    assert math.sqrt(added[index(f, VELOCITY, "left")]) == pytest.approx(SPEED * turned, rel=0.01)


def test_a_late_estimate_is_less_certain_along_its_way_and_other_latencies_increase():
    f = new_filter()
    place(f, np.array([0.0, 0.0, f.car.design_height]), 0.3, SPEED)
    set_slow_state(f, index(f, GNSS.latency), 0.04)
    before = f.variances
    move_ahead(f, [GNSS.latency], CHANGE)
    assert f.slow.get(GNSS.latency) == pytest.approx(0.04 + CHANGE)
    added = f.variances - before
    assert added[index(f, POSITION, "x")] == pytest.approx((SPEED * CHANGE) ** 2)
    assert added[index(f, VELOCITY, "ahead")] > 0.01**2
    assert added[index(f, GNSS.latency)] == 0.0


def test_a_corrected_latency_of_fixes_makes_the_place_and_the_steering_less_certain():
    f = new_filter()
    place(f, np.array([0.0, 0.0, f.car.design_height]), 0.3, SPEED)
    unknown = f.get_variance(STEERING_OFFSET)
    set_slow_state(f, index(f, GNSS.latency), CHANGE)
    set_slow_state(f, index(f, STEERING_OFFSET), 0.01)
    f.set_variance(STEERING_OFFSET, "", 0.01 * unknown)
    before = f.variances
    correct_fixes(f, Latency(0.001, 1e-6))
    assert f.slow.get(GNSS.latency) == pytest.approx(0.001)
    assert f.get_variance(GNSS.latency) == pytest.approx(1e-6)
    assert f.slow.get(STEERING_OFFSET) == pytest.approx(0.01)
    assert f.get_variance(STEERING_OFFSET) == pytest.approx(unknown)
    gone = SPEED * (CHANGE - 0.001)
    assert f.variances[index(f, POSITION, "x")] - before[index(f, POSITION, "x")] == pytest.approx(gone**2)


def test_fixes_on_their_way_while_their_latency_is_corrected_leave_no_negative_variance():
    """Their past is that of the old latency, on which the place depends."""
    estimator = Estimator(with_sensors(vehicle_speed=None))
    f = estimator.filter
    for step in steps(bends(4.0).measurements(gnss="rtk")):
        estimator.step(step.t, step.measurements)
        if step.t == CORRECTED:
            correct_fixes(f, Latency(f.slow.get(GNSS.latency).item() + CHANGE, 1e-5))
            assert f.get_variance(GNSS.latency) == pytest.approx(1e-5)
    assert step.t > CORRECTED
    assert (f.variances >= 0.0).all()


@pytest.mark.parametrize("has_precise_fixes", [True, False])
@pytest.mark.parametrize("yaw_rate", [0.5, -0.5, 0.0])
def test_sigma_of_the_heading_includes_the_turn_within_the_latency(yaw_rate, has_precise_fixes):
    values = np.zeros(len(ESTIMATE_COLUMNS))
    values[ESTIMATE_INDEX["vx"]] = SPEED
    before = {"yaw": 0.003, "sideslip": 0.004, "vy": 0.05, "vx": 0.02, "x": 0.01}
    for name, sigma in before.items():
        values[ESTIMATE_INDEX[f"sigma.{name}"]] = sigma
    AddedDoubt(yaw_rate * CHANGE, has_precise_fixes=has_precise_fixes).add_to(values)
    turned = abs(yaw_rate) * CHANGE
    added = {"yaw": turned} | ({"sideslip": turned, "vy": SPEED * turned} if has_precise_fixes else {})
    for name, sigma in before.items():
        expected = math.hypot(sigma, added.get(name, 0.0))
        assert values[ESTIMATE_INDEX[f"sigma.{name}"]] == pytest.approx(expected)


def test_sigma_of_heading_and_sideslip_includes_what_gyroscope_and_course_differ_by():
    values = np.zeros(len(ESTIMATE_COLUMNS))
    values[ESTIMATE_INDEX["vx"]] = SPEED
    AddedDoubt(apart=0.02).add_to(values)
    added = {"yaw": 0.02, "sideslip": 0.02, "vy": SPEED * 0.02, "vx": 0.0, "x": 0.0}
    assert {name: values[ESTIMATE_INDEX[f"sigma.{name}"]] for name in added} == pytest.approx(added)


def test_sigma_of_the_sideslip_is_at_most_pi():
    values = np.zeros(len(ESTIMATE_COLUMNS))
    values[ESTIMATE_INDEX["sigma.sideslip"]] = math.pi
    AddedDoubt(0.01, has_precise_fixes=True).add_to(values)
    assert values[ESTIMATE_INDEX["sigma.sideslip"]] == math.pi


@pytest.mark.parametrize("lost", ["imu.w", "none"])
def test_an_unknown_latency_adds_to_sigma_of_the_heading_only_with_gyroscopes(lost):
    """Compares published estimates with a known and with an unknown latency."""
    given = steps(without(bends(3.0).measurements(gnss="conventional"), lost))
    known, unknown = (Run(with_sensors(imu=Imu(latency_sigma=s)), given) for s in (0.0, CHANGE))
    added = np.sqrt(unknown["sigma.yaw"] ** 2 - known["sigma.yaw"] ** 2)
    doubt = unknown.estimator.parameters()["imu_latency"].sigma if lost == "none" else 0.0
    assert added[250:] == pytest.approx(np.abs(known["wz"])[250:] * doubt, rel=0.01, abs=1e-6)
    assert np.array_equal(unknown["sigma.sideslip"], known["sigma.sideslip"])
