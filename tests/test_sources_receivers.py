"""Receivers that give more than fixes, speed and course: vector velocity, heading by two antennas; two receivers."""

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
from estimator_rig import (
    SECOND,
    Drive,
    Run,
    bends,
    cruise,
    equipped,
    mixed,
    parked,
    prototype,
    rms,
    steps,
    with_known_time,
    with_sensors,
)

from vehicled.configuration import Configuration
from vehicled.errors import UsageError
from vehicled.estimator import Estimator
from vehicled.filter.state_table import make_table
from vehicled.messages import Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.simulation.sensor_settings import RTK, SimulatedSignal
from vehicled.sources.gnss.fixes import SINGLE, Baseline
from vehicled.sources.gnss.gnss2 import Gnss2
from vehicled.sources.gnss.model import GNSS2

SEEDS = (31, pytest.param(32, marks=pytest.mark.slow))
VECTOR = dataclasses.replace(RTK, vector=True, heading=None)
TWO_ANTENNAS = dataclasses.replace(VECTOR, heading=0.005)
SECOND_RECEIVER = Gnss2(antenna=(-1.2, 0.3, 0.7), heading=Baseline())
OUTAGE = (3.0, 6.0)
SECONDS = 6.5
SETTLED = 4.0
"""s: parameters have been found by then."""


def two_antennas(angle: float = 0.0, **settings: float) -> Configuration:
    return with_known_time(equipped(Baseline(angle=angle, **settings), gnss2=SECOND_RECEIVER))


def driven() -> Drive:
    return bends(SECONDS).mounted(two_antennas())


def changed(measurements: list[Measurement], channel: str, change) -> list[Measurement]:
    return [
        Measurement(
            m.source, m.t, m.arrival, {c: change(v) if c == channel else v for c, v in m.values.items()}
        )
        for m in measurements
    ]


def nis(run: Run, kind: str) -> np.ndarray:
    """Per component: mean of the squared innovations over their variances."""
    found = [i for i in run.of(kind) if i.fused]
    assert len(found) > 80
    return np.mean([np.square(i.innovation) / np.array(i.variance) for i in found], axis=0)


def during(run: Run, drive: Drive, column: str, begin: float, end: float) -> np.ndarray:
    chosen = (run.t > begin * SECOND) & (run.t < end * SECOND)
    return run.error(drive, column)[chosen]


# Vector velocity


@pytest.mark.parametrize("seed", SEEDS)
def test_a_velocity_vector_replaces_speed_and_course(seed):
    drive = driven()
    configured = with_known_time()
    one = Run(configured, steps(drive.measurements(seed, gnss="rtk")))
    run = Run(configured, steps(drive.measurements(seed, gnss=VECTOR)))
    assert run.fused("gnss.course") == 0
    # Less than 1, as for the course: its noise includes sideslip errors, which the simulated car does not have.
    assert ((nis(run, "gnss.velocity") > 0.4) & (nis(run, "gnss.velocity") < 1.5)).all()
    for column in ("yaw", "sideslip", "x", "y"):
        end = during(run, drive, column, 2.0, SECONDS), during(one, drive, column, 2.0, SECONDS)
        assert rms(end[0]) < 1.1 * rms(end[1]) + 1e-3
    assert run.estimator.condition.state == "running"
    assert run.estimator.condition.faults == ()


def test_a_moving_car_is_aligned_by_its_first_velocity_vector():
    moving = Drive(Scenario(duration=2.0, initial=InitialMotion(speed=15.0, yaw=2.0), inputs=DriveInputs()))
    run = Run(prototype(), steps(moving.measurements(31, gnss=VECTOR)))
    assert run.t[0] < 0.1 * SECOND
    assert np.abs(run.error(moving, "yaw")).max() < 0.02
    assert run.estimator.status()["alignments"] == 0  # known before the first estimate


def test_a_vector_without_vertical_component_is_used_with_its_reported_accuracy():
    drive = driven()
    poor = dataclasses.replace(VECTOR, velocity=0.2)
    given = drive.measurements(31, gnss=poor)
    level = [
        Measurement(m.source, m.t, m.arrival, {c: v for c, v in m.values.items() if c != "gnss.vd"})
        for m in given
    ]
    run = Run(prototype(), steps(level))
    assert {len(i.value) for i in run.of("gnss.velocity") if i.reason != "too old"} == {2}
    # By the accuracy that the receiver reports, not by the 0.02 m/s of the settings.
    assert nis(run, "gnss.velocity") == pytest.approx(1.0, abs=0.25)
    assert np.degrees(rms(during(run, drive, "yaw", SETTLED, SECONDS))) < 0.3


def test_noise_increases_with_the_dilution_where_no_accuracy_is_reported():
    """A receiver with errors three times the configured ones, as its HDOP of 3 shows."""
    drive, hdop = driven(), 3.0
    noise = {"horizontal": hdop * 0.02, "vertical": hdop * 0.03, "velocity": hdop * 0.02}
    diluted = dataclasses.replace(VECTOR, **noise)
    given = []
    for m in drive.measurements(31, gnss=diluted):
        values = {c: v for c, v in m.values.items() if not c.endswith("_acc")}
        more = {"gnss.hdop": hdop} if "gnss.lat" in values else {}
        given.append(Measurement(m.source, m.t, m.arrival, values | more))
    run = Run(prototype(), steps(given))
    assert nis(run, "gnss.position") == pytest.approx(1.0, abs=0.25)
    assert nis(run, "gnss.velocity") == pytest.approx(1.0, abs=0.25)


def test_a_dilution_below_1_is_that_of_many_satellites_and_changes_nothing():
    for hdop in (0.6, 1.0, math.nan):
        assert SINGLE.dilute(hdop) == SINGLE
    assert SINGLE.dilute(2.0).wander == 2.0 * SINGLE.wander


def test_a_velocity_beyond_any_car_does_not_reach_the_filter():
    drive = parked(2.0)
    given = changed(drive.measurements(31, gnss=VECTOR), "gnss.vn", lambda v: 1e4)
    run = Run(prototype(), steps(given))
    assert {i.reason for i in run.of("gnss.vn")} == {"absurd"}
    assert run.of("gnss.velocity") == []
    assert np.abs(run["vx"]).max() < 0.2


@pytest.mark.parametrize(
    "damage",
    [
        lambda v: v | {"gnss.vn": 180.0, "gnss.ve": 180.0},  # each is possible, both together are not
        lambda v: v | {"gnss.speed": 1e9, "gnss.course": math.nan},
    ],
)
def test_an_impossible_vector_or_speed_does_not_disturb_the_estimate(damage):
    drive = mixed(6.0)
    given = [
        Measurement(m.source, m.t, m.arrival, damage(m.values))
        if "gnss.vn" in m.values and 4 * SECOND <= m.t < 5 * SECOND
        else m
        for m in drive.measurements(31, gnss=VECTOR)
    ]
    run = Run(prototype(), steps(given))
    assert len([i for i in run.of("gnss.velocity") if 4 * SECOND <= i.t < 5 * SECOND]) == 50
    assert rms(during(run, drive, "vx", 4.0, 6.0)) < 0.12


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda v: v | {"gnss.vn": 180.0, "gnss.ve": 180.0}, "absurd"),
        (lambda v: v | {"gnss.vn": 2.0 * v["gnss.vn"], "gnss.ve": 2.0 * v["gnss.ve"]}, "gate"),
    ],
)
def test_a_velocity_that_contradicts_the_positions_for_long_is_not_followed(damage, reason):
    """Persistent rejection would reset the filter's velocity, but here the receiver's own fixes contradict it."""
    drive, begin, end = bends(), 3.0, 5.5
    given = [
        Measurement(m.source, m.t, m.arrival, damage(m.values))
        if "gnss.vn" in m.values and begin * SECOND <= m.t < end * SECOND
        else m
        for m in drive.measurements(31, gnss=VECTOR)
    ]
    run = Run(prototype(), steps(given))
    inside = [i.reason for i in run.of("gnss.velocity") if begin * SECOND <= i.t < end * SECOND]
    assert inside.count(reason) > 0.9 * len(inside)
    assert sum(not i.fused for i in run.of("gnss.position")) < 25
    assert np.abs(during(run, drive, "vx", begin, 6.5)).max() < 0.15
    assert np.degrees(rms(during(run, drive, "yaw", begin, 6.5))) < 0.3


# Heading by two antennas


def test_heading_at_standstill_is_within_its_sigma():
    drive, errors, sigmas = parked(1.5), [], []
    for seed in range(31, 39):
        run = Run(two_antennas(angle_sigma=1e-4), steps(drive.measurements(seed, gnss=TWO_ANTENNAS)))
        assert run.estimator.condition.state == "running"
        assert run.t[0] < 0.1 * SECOND
        errors.append(run.error(drive, "yaw")[-1])
        sigmas.append(run["sigma.yaw"][-1])
    assert max(sigmas) < 0.2 * TWO_ANTENNAS.heading
    assert 0.3 < rms(np.array(errors) / sigmas) < 1.7


def test_at_standstill_sigma_of_the_heading_is_that_of_the_baseline():
    sigma = 0.02
    drive = parked(1.5)
    for angle in (-0.02, 0.03):
        given = changed(drive.measurements(31, gnss=TWO_ANTENNAS), "gnss.heading", lambda v, a=angle: v - a)
        run = Run(two_antennas(angle_sigma=sigma), steps(given))
        assert 0.8 * sigma < run["sigma.yaw"][-1] < 1.1 * sigma
        assert abs(run.error(drive, "yaw")[-1]) < 2.0 * run["sigma.yaw"][-1]


@pytest.mark.parametrize("angle", [-2.5, pytest.param(1.57, marks=pytest.mark.slow)])
def test_the_baseline_may_point_anywhere(angle):
    """The second antenna is obliquely behind the first, or across the car."""
    configured = two_antennas(angle)
    drive = bends(SECONDS).mounted(configured)
    run = Run(configured, steps(drive.measurements(31, gnss=TWO_ANTENNAS)))
    error, driven = run.error(drive, "yaw"), run.t <= SECONDS * SECOND
    assert np.all((np.abs(error) < 3.0 * run["sigma.yaw"])[driven])
    assert np.degrees(rms(error[driven])) < 0.15
    assert nis(run, "gnss.heading")[0] == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("degrees", [-5.0, pytest.param(2.0, marks=pytest.mark.slow)])
def test_a_small_error_of_the_baseline_is_found(degrees):
    drive = driven()
    given = changed(
        drive.measurements(31, gnss=TWO_ANTENNAS), "gnss.heading", lambda v: v - np.radians(degrees)
    )
    run = Run(two_antennas(), steps(given))
    found = run.estimator.parameters()["gnss_baseline"]
    assert abs(found.value - np.radians(degrees)) < max(4.0 * found.sigma, 0.003)
    assert np.degrees(rms(during(run, drive, "yaw", SETTLED, SECONDS))) < 0.3


@pytest.mark.parametrize("degrees", [30.0, *(pytest.param(d, marks=pytest.mark.slow) for d in (90.0, 180.0))])
def test_a_large_error_of_the_baseline_is_rejected_and_reported(degrees):
    drive = driven()
    given = changed(
        drive.measurements(31, gnss=TWO_ANTENNAS), "gnss.heading", lambda v: v - np.radians(degrees)
    )
    run = Run(two_antennas(), steps(given))
    assert run.of("gnss.heading")[-1].reason == "mounting"
    assert [f.source for f in run.estimator.condition.faults] == ["gnss.heading"]
    assert np.degrees(rms(during(run, drive, "yaw", SETTLED, SECONDS))) < 0.5
    assert rms(np.hypot(*(during(run, drive, c, SETTLED, SECONDS) for c in "xy"))) < 0.1


def test_a_heading_without_a_baseline_is_recorded_but_not_used():
    run = Run(prototype(), steps(parked(2.0).measurements(31, gnss=TWO_ANTENNAS)))
    assert {i.reason for i in run.of("gnss.heading")} == {"no baseline"}
    assert run.estimator.status()["sensors"]["gnss.heading"]["reasons"] == {
        "no baseline": len(run.of("gnss.heading"))
    }
    assert run.estimator.condition.state == "aligning"


def test_the_end_of_a_heading_without_a_baseline_is_not_a_fault():
    """The heading has never been used."""
    given = [
        Measurement(
            m.source,
            m.t,
            m.arrival,
            {c: v for c, v in m.values.items() if m.t < 2 * SECOND or not c.startswith("gnss.heading")},
        )
        for m in bends(5.0).measurements(31, gnss=TWO_ANTENNAS)
    ]
    run = Run(prototype(), steps(given))
    assert {i.reason for i in run.of("gnss.heading")} == {"no baseline"}
    assert run.estimator.condition.faults == ()


# Two receivers


@pytest.mark.parametrize("seed", SEEDS)
def test_the_second_receiver_bridges_an_outage_of_the_first(seed):
    drive = driven()
    configured = two_antennas()
    errors = {}
    for second in ("rtk", None):
        given = drive.measurements(seed, gnss="rtk", gnss2=second, outages={"gnss": [OUTAGE]})
        run = Run(configured, steps(given))
        errors[second] = rms(np.hypot(*(during(run, drive, c, *OUTAGE) for c in "xy")))
        if second is not None:
            for kind in ("gnss.position", "gnss2.position"):
                assert nis(run, kind) == pytest.approx(1.0, abs=0.2)
            assert run.sensors["gnss2.position"]["state"] == "active"
    assert errors["rtk"] < 0.02
    assert errors[None] > 2 * errors["rtk"]


def test_the_second_receiver_alone_initialises_the_filter():
    drive = driven()
    configured = two_antennas()
    run = Run(configured, steps(drive.measurements(31, gnss=None, gnss2="rtk")))
    assert run.t[0] < 0.1 * SECOND
    assert rms(np.hypot(*(during(run, drive, c, SETTLED, SECONDS) for c in "xy"))) < 0.03
    # Parameters that need courses are estimated with those of either receiver.
    assert run.estimator.filter.slow.parameters()["gyro_scale"].sigma > 0.0


def test_a_receiver_that_jumps_is_not_followed_if_the_other_one_does_not():
    drive = driven()
    configured = two_antennas()
    given = [
        Measurement(
            m.source,
            m.t,
            m.arrival,
            {c: v + 3e-4 * (c == "gnss.lat" and m.t > 3 * SECOND) for c, v in m.values.items()},
        )
        for m in drive.measurements(31, gnss="rtk", gnss2="rtk")
    ]
    run = Run(configured, steps(given))
    assert run.sensors["gnss.position"]["resets"] == 0
    assert [f.source for f in run.estimator.condition.faults] == ["gnss.position"]
    assert rms(np.hypot(*(during(run, drive, c, SETTLED, SECONDS) for c in "xy"))) < 0.05


def test_a_car_without_a_second_receiver_has_no_states_for_it():
    without, second = (
        make_table(prototype().filter, sensors.make_setup().states)
        for sensors in (prototype().sensors, with_sensors(gnss2=Gnss2()).sensors)
    )
    assert not any("gnss2" in group.name for group in without.groups)
    assert sum(len(g.elements) for g in second.groups) == sum(len(g.elements) for g in without.groups) + 8
    with pytest.raises(UsageError, match="reload_noise: adds or removes the states gnss2_antenna"):
        Estimator(prototype()).command("reload_noise", with_sensors(gnss2=Gnss2()).noise_arguments())


@pytest.mark.parametrize(
    "value", [math.nan, 1e9, *(pytest.param(v, marks=pytest.mark.slow) for v in (-math.inf, 1e300))]
)
def test_any_number_in_any_channel_is_survived(value):
    """Three samples of each channel, while the car drives."""
    drive = cruise(3.0)
    hit: Counter[str] = Counter()
    damaged = []
    for m in drive.measurements(
        31, gnss=TWO_ANTENNAS, gnss2=TWO_ANTENNAS, velocity=SimulatedSignal(noise=0.05)
    ):
        values = dict(m.values)
        for c in values:
            if m.t > SECOND and c.startswith(("gnss", "velocity")) and hit[c] < 3:
                hit[c] += 1
                values[c] = value
                break
        damaged.append(Measurement(m.source, m.t, m.arrival, values))
    assert {"gnss.vn", "gnss.heading_acc", "gnss2.ve", "gnss2.s_acc", "velocity.y"} <= hit.keys()
    run = Run(two_antennas(), steps(damaged))
    assert run.summary.errors == 0, run.summary.last_error
    assert np.isfinite(run.values).all()
    assert run.estimator.status()["restarts"] == 0
    assert np.abs(during(run, drive, "yaw", 2.0, 3.0)).max() < 0.01


def test_a_reference_does_not_change_the_estimate():
    given = parked(1.5).measurements(31, gnss="rtk")
    reference = {"reference.lat": 95.0, "reference.yaw": 1e9, "reference.vn": 1e6}
    beside = [Measurement(m.source, m.t, m.arrival, m.values | reference) for m in given]
    one, other = Run(prototype(), steps(given)), Run(prototype(), steps(beside))
    assert one.values.tobytes() == other.values.tobytes()
    assert not any("reference" in i.sensor for i in other.innovations)


@pytest.mark.slow
def test_false_fixes_are_not_followed_if_courses_come_without_a_speed() -> None:
    """The receiver gives courses but no speed, and its fixes jump by 300 m."""
    drive, jump = mixed(22.0), 300.0 / 111_000

    def change(m: Measurement) -> Measurement:
        values = {c: v for c, v in m.values.items() if c != "gnss.speed"}
        if "gnss.lat" in values and m.t > 18 * SECOND:
            values["gnss.lat"] += jump
        return Measurement(m.source, m.t, m.arrival, values)

    run = Run(prototype(), steps([change(m) for m in drive.measurements()]))
    assert run.estimator.status()["sensors"]["gnss.position"]["resets"] == 0
    assert np.abs(run.error(drive, "y")).max() < 10.0


@pytest.mark.slow
def test_positions_that_drift_against_the_velocity_are_not_followed():
    """They drift by 0.5 m/s for 14 s. The estimate follows by less than 0.2 m, and within 4 σ."""
    drive = mixed()
    given = drive.measurements(5, gnss=RTK)

    def drifting(m: Measurement) -> Measurement:
        values = dict(m.values)
        if "gnss.lat" in values:
            values["gnss.lat"] += 0.5 * max(m.t / SECOND - 11.0, 0.0) / 111_320.0
        return Measurement(m.source, m.t, m.arrival, values)

    run = Run(prototype(), steps([drifting(m) for m in given]))
    assert [f.source for f in run.estimator.condition.faults] == ["gnss.position"]
    assert run.sensors["gnss.position"]["resets"] == 0
    found = (run.t > 13 * SECOND) & (run.t < 24.9 * SECOND)
    for axis in "xy":
        off = np.abs(run.error(drive, axis))[found]
        assert off.max() < 0.2
        assert (off / run[f"sigma.{axis}"][found]).max() < 4.0


@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.slow)])
def test_fixes_off_by_metres_are_not_followed_if_the_velocity_is_good(seed):
    """As between buildings: 7 m within four seconds, and back at once after ten."""
    drive = mixed()

    def wrong(m: Measurement) -> Measurement:
        values, t = dict(m.values), m.t / SECOND - 11.0
        if "gnss.lat" in values and 0.0 < t < 10.0:
            values["gnss.lat"] += 7.0 * min(0.25 * t, 1.0) / 111_320.0
        return Measurement(m.source, m.t, m.arrival, values)

    run = Run(prototype(), steps([wrong(m) for m in drive.measurements(seed, gnss="conventional")]))
    assert run.sensors["gnss.position"]["resets"] == 0
    assert not run.estimator.condition.faults
    found = (run.t > 11 * SECOND) & (run.t < 24.9 * SECOND)
    for axis in "xy":
        off = np.abs(run.error(drive, axis))[found]
        assert off.max() < 2.0
        assert (off / run[f"sigma.{axis}"][found]).max() < 4.0


def test_a_claimed_accuracy_that_varies_does_not_renew_the_slow_error_of_fixes():
    """Otherwise each fix after a change would count as independent of those before."""

    def claiming(m: Measurement) -> Measurement:
        values = dict(m.values)
        if "gnss.lat" in values:
            values["gnss.h_acc"] = 0.75 if (m.t // SECOND) % 2 else 1.25
        return Measurement(m.source, m.t, m.arrival, values)

    run = Run(prototype(), steps([claiming(m) for m in cruise().measurements(gnss="conventional")]))
    for axis in "xy":
        assert run[f"sigma.{axis}"].min() > 0.4


# Two receivers that differ


@pytest.fixture(scope="module")
def leaving() -> Drive:
    """The car stands with a heading other than the assumed one, then pulls off."""
    inputs = DriveInputs(rear_torque=[(1.5, 0.0), (1.8, 600.0)], rack=[(5.0, 0.0), (6.0, 0.01)])
    return Drive(Scenario(duration=8.0, initial=InitialMotion(yaw=0.7), inputs=inputs))


def run_both(drive: Drive, east: float = 0.0) -> Run:
    """`east`: offset of the second receiver's base station, m."""
    configuration = equipped(gnss=prototype().sensors.gnss, gnss2=Gnss2(antenna=(-1.2, 0.0, 0.7)))
    given = drive.mounted(configuration).measurements(5, gnss=RTK, gnss2=RTK)
    degrees = east / (111_320.0 * math.cos(math.radians(43.33)))
    return Run(configuration, steps(changed(given, "gnss2.lon", lambda v: v + degrees)))


def find_worst(run: Run, drive: Drive) -> float:
    """Largest error of position and heading, in standard deviations, once the heading is known."""
    later = (run["sigma.yaw"] < 0.1) & (run.t < 8 * SECOND)
    return max(
        np.max(np.abs(run.error(drive, c))[later] / run[f"sigma.{c}"][later]) for c in ("x", "y", "yaw")
    )


def test_two_receivers_do_not_contradict_each_other_while_the_heading_is_unknown(leaving):
    run = run_both(leaving)
    assert {i.reason for i in run.of("gnss2.position") if i.t < SECOND} == {"not aligned"}
    antenna = run.estimator.parameters()["antenna.x"]
    assert abs(antenna.value) < 4.0 * antenna.sigma
    assert find_worst(run, leaving) < 4.0


def test_the_offset_of_a_receiver_with_another_base_station_is_estimated(leaving):
    """Both claim 2 cm, and are 0.9 m apart."""
    run = run_both(leaving, east=0.9)
    assert run.estimator.status()["restarts"] == 0
    assert run.sensors["gnss.position"]["resets"] == 0
    assert run.estimator.filter.slow.get(GNSS2.wander)[0] == pytest.approx(0.9, abs=0.1)
    assert find_worst(run, leaving) < 4.0
