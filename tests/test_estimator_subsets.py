"""Any subset of sensors works: without errors, with finite estimates, as accurate as the subset allows."""

import numpy as np
import pytest
from estimator_rig import (
    Run,
    bends,
    cruise,
    mixed,
    only,
    parked,
    prototype,
    rms,
    steps,
    with_known_time,
    with_sensors,
    without,
)

from vehicled.estimator import Estimator
from vehicled.messages import ESTIMATE_INDEX, Measurement

INPUTS = ("steer", "brake", "torque")
SECONDS = 8.0


def drive(measurements, configuration=None) -> Run:
    run = Run(configuration or prototype(), steps(measurements))
    assert run.summary.errors == 0, run.summary.last_error
    known = [i for n, i in ESTIMATE_INDEX.items() if n not in ("lat", "lon", "alt")]
    assert np.isfinite(run.values[:, known]).all()
    return run


def within(run: Run, seconds: float) -> Run:
    """The part of a run that lies within the drive."""
    keep = run.t <= seconds * 1e9
    run.t, run.values = run.t[keep], run.values[keep]
    return run


def horizontal(run: Run, what) -> float:
    return rms(np.hypot(run.error(what, "x"), run.error(what, "y")))


# Missing channels, and bounds of the RMS errors: horizontal (m), yaw (degrees), speed (m/s).
LEFT = {
    "everything": ((), 0.02, 0.15, 0.03),
    "no imu": (("imu",), 0.02, 0.3, 0.03),
    "no accelerometers": (("imu.a",), 0.02, 0.15, 0.03),
    "no gyroscopes": (("imu.w",), 0.02, 0.3, 0.03),
    "no yaw gyroscope": (("imu.wz",), 0.02, 0.3, 0.03),
    "no lateral axis": (("imu.ay",), 0.02, 0.3, 0.03),
    "vertical axes missing": (("imu.az", "imu.wz"), 0.02, 0.3, 0.03),
    "only gnss and inputs": (("imu", "wheel", "vehicle"), 0.03, 0.4, 0.05),
    "position alone of the gnss": (("gnss.speed", "gnss.course"), 0.03, 0.3, 0.05),
    "no height": (("gnss.alt", "gnss.v_acc"), 0.02, 0.15, 0.03),
    "no accuracy and no quality": (("gnss.h_acc", "gnss.v_acc", "gnss.quality"), 0.03, 0.3, 0.05),
    "no wheels": (("wheel",), 0.02, 0.15, 0.03),
    "two wheels": (("wheel.fl", "wheel.rr"), 0.02, 0.15, 0.03),
}


SLOW = (
    *("no accelerometers", "no gyroscopes", "no yaw gyroscope", "no lateral axis", "no height", "no wheels"),
    *("imu and speed", "speed"),
)
"""Cases that other cases include: `no imu`, `vertical axes missing`, `no accuracy and no quality`, `only gnss and
inputs`, and `imu, wheels, speed`."""


def mostly_often(names):
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]


@pytest.mark.parametrize("name", mostly_often(LEFT))
def test_with_gnss_other_sensors_may_be_missing(name):
    missing, position, yaw, speed = LEFT[name]
    # The first heading follows from a course, or from the way since a standstill.
    truth, seconds = (mixed(SECONDS), SECONDS) if "gnss.course" in missing else (bends(5.0), 5.0)
    run = within(drive(without(truth.measurements(), *missing), with_known_time()), seconds)
    assert horizontal(run, truth) < position
    moving = run["vx"] > 2.0
    assert np.degrees(rms(run.error(truth, "yaw")[moving])) < yaw
    assert rms(run.error(truth, "vx")) < speed


# Without GNSS: sensors beside the inputs, and bounds of the RMS errors of speed (m/s) and position (m) over the 8 s
# from standstill to 17 m/s. Without wheels and vehicle speed, the speed follows from torque and mass alone, and the
# mass is 5 % off. Otherwise it has a part of the errors of rolling radii (2 %, in common) and vehicle speed (0.5 %).
DEAD_RECKONING = {
    "imu, wheels, speed": (("imu", "wheel", "vehicle"), 0.1, 0.5),
    "imu and speed": (("imu", "vehicle"), 0.2, 0.5),
    "speed": (("vehicle",), 0.2, 0.5),
    "imu": (("imu",), 2.0, 7.0),
    "wheels": (("wheel",), 0.08, 0.4),
    "inputs alone": ((), 1.5, 6.0),
}


@pytest.mark.parametrize("name", mostly_often(DEAD_RECKONING))
def test_without_gnss_the_estimate_is_in_a_local_frame(name):
    left, speed, distance = DEAD_RECKONING[name]
    truth = mixed(SECONDS)
    run = within(drive(only(truth.measurements(), *left, *INPUTS), with_sensors(gnss=None)), SECONDS)
    assert rms(run.error(truth, "vx")) < speed
    assert horizontal(run, truth) < distance
    # Without a gyroscope the heading follows from the model, whose tyres are 10 % too stiff.
    assert np.degrees(rms(run.error(truth, "yaw"))) < (0.3 if "imu" in left else 0.6)


def test_channels_that_are_not_configured_are_ignored():
    """Wheel speeds are not configured for the prototype."""
    measurements = parked(2.0).measurements()
    for m in measurements:
        if m.source == "vehicle":
            m.values["wheel.fl.speed"] = 3.0
    run = drive(measurements)
    assert not run.of("wheel.fl.speed")
    assert np.abs(run["vx"]).max() < 0.1


def test_the_start_waits_for_a_measurement_and_then_a_limited_time_for_gnss():
    """There are no measurements, then only those of a steering sensor, which give neither position nor speed."""
    without_any = [(k * 4_000_000, [], ()) for k in range(1000)]
    assert len(Run(prototype(), without_any).t) == 0
    steering_alone = [
        (k * 4_000_000, [Measurement("steer", k * 4_000_000, k * 4_000_000, {"steer.rack": 0.0})], ())
        for k in range(1250)
    ]
    run = Run(prototype(), steering_alone)
    assert run.summary.errors == 0
    assert run.t[0] * 1e-9 == pytest.approx(prototype().filter.start.wait_for_gnss, abs=0.01)
    assert rms(run["vx"]) < 1e-3


def test_a_moving_start_with_all_sensors_is_accurate():
    truth = cruise()
    run = within(drive(truth.measurements()), 8.0)
    assert run.t[0] < 0.1e9
    # At 15 m/s; the latency of the receiver, with a σ of 20 ms, is observable in the bend only.
    assert horizontal(run, truth) < 0.2
    assert rms(run.error(truth, "vx")) < 0.05
    assert np.degrees(rms(run.error(truth, "yaw"))) < 0.2


def test_a_moving_start_without_gnss_takes_the_speed_from_the_bus():
    truth = cruise()
    run = within(drive(without(truth.measurements(), "gnss"), with_sensors(gnss=None)), 8.0)
    assert run.t[0] < 0.1e9
    # The σ of the speed is 0.5 % of 15 m/s by the vehicle speed, and 1 % by each wheel.
    assert rms(run.error(truth, "vx")) < 0.15
    # The first heading is the configured one, 0, in a local frame. Changes are measured, except for the bias of
    # the gyroscope: without a standstill it cannot be distinguished from a bend.
    turned = run["yaw"] - run["yaw"][0]
    true = truth.truth(run.t, "yaw") - truth.truth(run.t[:1], "yaw")
    assert np.degrees(rms(turned - true)) < 2.0


def test_a_moving_start_takes_the_speed_from_wheel_angles():
    truth = cruise()
    run = within(drive(without(truth.measurements(), "gnss", "vehicle"), with_sensors(gnss=None)), 8.0)
    assert rms(run.error(truth, "vx")[-500:]) < 0.5


def test_a_parked_car_keeps_its_position():
    truth = parked(3.0)
    run = within(drive(truth.measurements()), 3.0)
    assert horizontal(run, truth) < 0.02
    assert np.abs(run["vx"]).max() < 0.1
    assert (run["sigma.yaw"] == prototype().filter.start.yaw_sigma).all()  # the heading is not yet known
    assert run.estimator.status()["state"] == "aligning"


@pytest.mark.parametrize("missing", [("imu.wx", "imu.wy"), ("imu.wx", "imu.wy", "imu.az"), ("imu.w",)])
def test_without_roll_and_pitch_gyroscopes_a_parked_car_does_not_oscillate(missing):
    """Accelerometers measure roll only together with lateral motion; springs and dampers hold the body."""
    truth = parked(4.0)
    run = within(drive(without(truth.measurements(), *missing)), 4.0)
    assert rms(run["vy"]) < 0.01
    assert np.degrees(rms(run["roll"])) < 0.3


@pytest.mark.parametrize("missing", [("imu.wx", "imu.wy", "imu.az"), ("imu.w",)])
def test_a_sensor_cluster_of_a_production_car_finds_sideslip(missing):
    """With yaw rate and two accelerations, and with three accelerations alone. σ is consistent."""
    truth = bends(6.0)
    run = within(drive(without(truth.measurements(), *missing), with_known_time()), 6.0)
    moving = run["vx"] > 2.0
    error = run.error(truth, "sideslip")[moving]
    assert np.degrees(rms(error)) < 0.15
    assert np.mean((error / run["sigma.sideslip"][moving]) ** 2) < 2.0


def test_a_receiver_of_one_fix_per_second_is_never_reported_as_faulty():
    kept = [m for m in bends().measurements() if m.source != "gnss" or m.t % 1_000_000_000 == 0]
    estimator, blamed = Estimator(prototype()), set()
    for t, measurements, *_ in steps(kept):
        estimator.step(t, measurements)
        blamed |= {fault.source for fault in estimator.condition.faults}
    assert estimator.status()["sensors"]["gnss.position"]["fused"] >= 5
    assert not {source for source in blamed if source.startswith("gnss")}


@pytest.mark.slow
def test_positions_alone_show_the_scale_of_the_gyroscopes():
    truth, scale = mixed(40.0), 0.01
    scaled = [
        Measurement(
            m.source,
            m.t,
            m.arrival,
            {c: v * (1.0 + scale) if c.startswith("imu.w") else v for c, v in m.values.items()},
        )
        for m in without(truth.measurements(1, gnss="rtk"), "gnss.speed", "gnss.course")
    ]
    run = drive(scaled)
    found = run.estimator.parameters()["gyro_scale"]
    assert abs(found.value - scale) < 3.0 * found.sigma < 0.003
    later = (run.t > 20e9) & (run.t < 40e9)
    assert rms((run.error(truth, "yaw") / run["sigma.yaw"])[later]) < 1.5
