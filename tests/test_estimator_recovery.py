"""A filter with a wrong state recovers by a restart; a car that really spins is followed without one."""

import cmath
import math
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, bends, only, prototype, rms, steps, without

from vehicled.estimator import Estimator
from vehicled.messages import Measurement, SlowState, Step
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.simulation.sensor_settings import RTK
from vehicled.sources.gnss.receiver_motion import ReceiverMotion
from vehicled.sources.imu.lateral import LateralKinematics
from vehicled.vehicle.arrays import AHEAD, CHART_SIZE, LEFT, YAW_RATE

LOST_AT = 6.0


@pytest.fixture(scope="module")
def bend() -> Drive:
    rack = [(1.0, 0.0), (2.0, 0.004), (9.0, 0.004)]
    inputs = DriveInputs(rack=rack, rear_torque=90.0)
    return Drive(Scenario(duration=10.0, initial=InitialMotion(speed=15.0), inputs=inputs))


@pytest.fixture(scope="module")
def spin() -> Drive:
    """High torque and a large steering angle at 20 m/s: the car spins, and is braked."""
    inputs = DriveInputs(
        rack=[(3.0, 0.0), (3.3, 0.035), (6.5, 0.035), (6.8, 0.0)],
        rear_torque=[(3.2, 100.0), (3.3, 1800.0), (5.2, 1800.0), (5.3, 0.0)],
        brake_pressure=[(7.5, 0.0), (7.6, 6e6)],
    )
    return Drive(Scenario(duration=10.0, initial=InitialMotion(speed=20.0), inputs=inputs))


def test_an_estimated_spin_that_sensors_contradict_ends_within_half_a_second(bend):
    estimator = Estimator(prototype())
    states: list[tuple[float, str, str | None]] = []

    def spoil(given: Iterable[Step]) -> Iterator[Step]:
        for step in given:
            t = step.t * 1e-9
            if states and states[-1][0] <= LOST_AT < t:
                change = np.zeros(CHART_SIZE)
                change[YAW_RATE], change[LEFT] = 4.0, 8.0
                estimator.filter.car.correct(change, carry=True)
            yield step
            status = estimator.status()
            states.append((t, status["state"], status["reason"]))

    run = Run(prototype(), spoil(steps(bend.measurements(gnss="conventional"))), estimator=estimator)
    recovering = [s for s in states if s[1] == "recovering"]
    assert LOST_AT < recovering[0][0] < LOST_AT + 0.5
    assert "impossible" in recovering[0][2]
    assert states[-1][1:] == ("running", None)
    later = run.t > (LOST_AT + 1.5) * SECOND
    for column, bound in (("sideslip", 0.5), ("wz", 0.5)):
        assert rms(run.error(bend, column)[later]) < math.radians(bound), column


def lose(given: Iterable[Measurement], turn: float = 4.0, most: int = 1) -> Run:
    """A run whose estimate is made to spin at LOST_AT, by `turn` rad/s, and restarts up to `most` times."""
    estimator = Estimator(prototype())

    def spoil(given: Iterable[Step]) -> Iterator[Step]:
        lost = False
        for step in given:
            if not lost and step.t > LOST_AT * SECOND:
                change, lost = np.zeros(CHART_SIZE), True
                change[YAW_RATE], change[LEFT] = turn, 8.0
                estimator.filter.car.correct(change, carry=True)
            yield step

    run = Run(prototype(), spoil(steps(given)), estimator=estimator)
    assert 1 <= estimator.status()["restarts"] <= most
    return run


def test_a_reversing_car_is_estimated_to_reverse_after_a_restart():
    """Speeds of receivers have no sign; without the previous state a start would assume forwards."""
    inputs = DriveInputs(rear_torque=[(0.5, 0.0), (1.0, -400.0), (4.0, -400.0), (4.5, -40.0)])
    drive = Drive(Scenario(duration=9.0, initial=InitialMotion(yaw=0.8), inputs=inputs))
    run = lose(only(drive.measurements(gnss="conventional"), "imu.", "gnss.", "steer."))
    later = run.t > (LOST_AT + 0.6) * SECOND
    assert run["vx"][later].max() < -3.0
    assert np.abs(run.error(drive, "vx")[later]).max() < 0.5
    assert np.abs(run.error(drive, "yaw")[run.t > 8 * SECOND]).max() < 0.1


def test_the_receiver_shows_that_the_estimate_goes_the_other_way():
    """No measured speed has a sign here: gyroscope, steering and speeds all agree with the wrong estimate."""
    drive = Drive(
        Scenario(duration=10.0, initial=InitialMotion(speed=15.0), inputs=DriveInputs(rear_torque=90.0))
    )
    estimator = Estimator(prototype())
    reasons: dict[str | None, float] = {}

    def spoil(given: Iterable[Step]) -> Iterator[Step]:
        turned = False
        for step in given:
            if not turned and step.t > LOST_AT * SECOND:
                change, turned = np.zeros(CHART_SIZE), True
                change[AHEAD] = -2.0 * estimator.speed
                estimator.filter.car.correct(change, carry=True)
            yield step
            reasons.setdefault(estimator.status()["reason"], step.t * 1e-9)

    given = only(drive.measurements(gnss="conventional"), "imu.", "gnss.", "steer.")
    run = Run(prototype(), spoil(steps(given)), estimator=estimator)
    assert LOST_AT < reasons["a receiver shows that the car goes the other way"] < LOST_AT + 1.0
    assert estimator.status()["restarts"] == 1
    later = run.t > (LOST_AT + 1.5) * SECOND
    assert np.abs(run.error(drive, "vx")[later]).max() < 0.5
    assert np.abs(run.error(drive, "yaw")[later]).max() < math.radians(3.0)


@pytest.mark.parametrize("receiver", ["conventional", "rtk"])
def test_a_wrong_heading_is_detected_by_the_motion_over_ground(bend, receiver):
    """The heading jumps, as on a turntable. Its σ is small: without a restart, fixes would be rejected for ever."""
    estimator = Estimator(prototype())

    def spoil(given: Iterable[Step]) -> Iterator[Step]:
        turned = False
        for step in given:
            if not turned and step.t > LOST_AT * SECOND:
                turned = True
                estimator.filter.turn(1.2)
            yield step

    run = Run(prototype(), spoil(steps(bend.measurements(gnss=receiver))), estimator=estimator)
    assert estimator.status()["restarts"] == 1
    later = run.t > (LOST_AT + 2.0) * SECOND
    assert np.abs(run.error(bend, "yaw")[later]).max() < math.radians(3.0)
    assert np.hypot(run.error(bend, "x"), run.error(bend, "y"))[later].max() < 3.0


def test_a_restart_in_a_spin_takes_the_velocity_of_the_receiver(spin):
    run = lose(spin.measurements(gnss="conventional"), turn=0.0, most=2)
    true_left, soon = spin.truth(run.t, "vy"), (run.t > 6.25 * SECOND) & (run.t < 6.45 * SECOND)
    assert np.abs(true_left[soon]).min() > 4.0
    for column in ("vx", "vy"):
        assert np.abs(run.error(spin, column)[soon]).max() < 2.5, column
    assert np.abs(run.error(spin, "yaw")[run.t > 6.2 * SECOND]).max() < math.radians(3.0)


def test_a_restart_has_the_present_speed_not_that_of_a_silent_sensor():
    """The bus falls silent before the car brakes; afterwards only the receiver measures the speed."""
    brakes = [(2.0, 0.0), (2.2, 30e5), (4.2, 30e5), (4.4, 0.0)]
    inputs = DriveInputs(brake_pressure=brakes)
    drive = Drive(Scenario(duration=8.0, initial=InitialMotion(speed=20.0), inputs=inputs))
    given = drive.measurements(gnss="conventional", outages={"vehicle": [(1.5, 99.0)]})
    run = lose(without(given, "wheel.", "torque."))
    later = run.t > (LOST_AT + 0.6) * SECOND
    assert np.abs(run.error(drive, "vx")[later]).max() < 0.5
    assert np.abs(run.error(drive, "x")[later]).max() < 3.0


def test_a_real_spin_is_followed(spin):
    truth_t = np.arange(0, 10 * 250, dtype=np.int64) * 4_000_000
    yaw = spin.truth(truth_t, "yaw")
    assert np.ptp(yaw) > math.pi
    assert np.abs(spin.truth(truth_t, "vy")).max() > 10.0
    run = Run(prototype(), steps(spin.measurements(gnss="conventional")))
    assert run.estimator.status()["restarts"] == 0
    assert np.abs(run.error(spin, "vy")).max() < 0.5
    assert np.abs(run.error(spin, "wz")).max() < math.radians(10.0)
    assert np.abs(run.error(spin, "yaw")[run.t > 3 * SECOND]).max() < math.radians(3.0)


def turn(m: Measurement) -> Measurement:
    """The measurement of an IMU whose x axis points to the left."""
    swapped = {
        "imu.ax": ("imu.ay", 1),
        "imu.ay": ("imu.ax", -1),
        "imu.wx": ("imu.wy", 1),
        "imu.wy": ("imu.wx", -1),
    }
    found = {c: sign * m.values[of] for c, (of, sign) in swapped.items() if of in m.values}
    return Measurement(m.source, m.t, m.arrival, m.values | found)


def test_errors_due_to_a_rotated_imu_are_removed_by_a_restart():
    """The mounting error is found in the first bend; half a second later the estimate has recovered."""

    drive = bends()
    estimator = Estimator(prototype())
    run = Run(prototype(), steps(map(turn, drive.measurements())), estimator=estimator)
    restarted = next(i.step for i in run.innovations if i.reason == "mounting") / SECOND
    assert restarted < 2.5
    assert estimator.status()["restarts"] <= 2  # an impossible motion may have caused one restart before
    later = (run.t > (restarted + 0.5) * SECOND) & (run.t < 6.5 * SECOND)  # where the truth ends
    assert rms(run.error(drive, "sideslip")[later]) < math.radians(0.5)
    for column in ("x", "y"):
        assert (np.abs(run.error(drive, column)) < 4.0 * run[f"sigma.{column}"])[later].all()


def test_parameters_estimated_with_a_rotated_imu_are_reset():
    """Latencies and tyre errors have their initial σ again, and only the IMU is reported as faulty."""
    inputs = DriveInputs(rack=[(2.5, 0.0), (3.2, 0.008)], rear_torque=150.0)
    drive = Drive(Scenario(duration=5.0, initial=InitialMotion(speed=15.0), inputs=inputs))
    estimator, initial, restarted, blamed = Estimator(prototype()), {}, math.inf, set()
    for step in steps(map(turn, drive.measurements(gnss=RTK))):
        estimator.step(step.t, step.measurements)
        found = {k: p.sigma for k, p in estimator.parameters().items() if k.startswith(("gnss_", "tyre_"))}
        initial = initial or found
        if restarted == math.inf and "mounted" in (estimator.condition.reason or ""):
            restarted = step.t
            assert found == pytest.approx(initial, rel=0.05)
        if step.t > restarted + 0.3 * SECOND:
            blamed |= {fault.source for fault in estimator.condition.faults}
    assert 3.0 * SECOND < restarted < 4.0 * SECOND
    assert blamed == {"imu.gyro", "imu.accel"}


def test_lateral_kinematics_allow_consistent_motion_and_deny_jumps():
    lateral, speed, rate = LateralKinematics(), 15.0, 0.4
    velocity, impossible = 0.0, []
    for k in range(500):
        acceleration = 6.0 - 2.0 * k / 500
        lateral.take(rate, acceleration)
        velocity += 0.004 * (acceleration - speed * rate)
        impossible.append(lateral.advance(0.004, speed, velocity, rate))
    assert not any(impossible)
    found = []
    for _ in range(100):
        lateral.take(rate, 4.0)
        velocity += 0.004 * (4.0 - speed * rate)
        found.append(lateral.advance(0.004, speed, velocity + 4.0, rate))
    assert any(found)
    assert not any(found[:40])


@pytest.mark.parametrize(("banked", "is_denied"), [(-7.0, False), (0.0, True)])
def test_gravity_on_a_banked_road_is_not_taken_for_a_jump(banked, is_denied):
    """On the bank of a test track the accelerometer measures only about a fifth of the centripetal acceleration."""
    lateral, found = LateralKinematics(), []
    for _ in range(250):
        lateral.take(0.26, 35.0 * 0.26 - 7.0)
        found.append(lateral.advance(0.004, 35.0, 0.0, 0.26, banked))
    assert any(found) == is_denied


def test_the_noise_of_a_broken_gyroscope_denies_no_motion():
    random, found = np.random.default_rng(1), []
    lateral = LateralKinematics()
    for _ in range(5000):
        lateral.take(random.normal(), 0.0)
        found.append(lateral.advance(0.004, 20.0, 0.0, 0.0))
    assert not any(found)


def test_a_silent_gyroscope_denies_no_motion():
    lateral = LateralKinematics()
    lateral.take(0.5, None)
    found = [lateral.advance(0.004, 10.0, 0.0, 0.5 + 0.01 * k) for k in range(400)]
    assert not any(found)
    assert lateral.yaw_rate is None


def test_what_happens_while_the_gyroscope_is_silent_denies_no_motion_afterwards():
    lateral, found = LateralKinematics(), []
    for k in range(750):
        measures, left = not 250 <= k < 500, min(max(0.02 * (k - 250), 0.0), 5.0)
        lateral.take(0.0 if measures else None, 0.0)
        found.append(lateral.advance(0.004, 15.0, left, 0.0))
    assert not any(found)


def test_a_restart_keeps_a_parameter_and_its_sigma(bend):
    """A parameter that has been found to a small σ must not return to its prior with the full variance."""
    estimator = Estimator(prototype())
    shown = {"antenna.x": SlowState(-0.5, 0.02, "m")}
    found: list[float] = []

    def spoil(steps_given: Iterable[Step]) -> Iterator[Step]:
        before = 0.0
        for step in steps_given:
            t = step.t * 1e-9
            if before <= LOST_AT - 3.0 < t:  # kept copies are up to two seconds old
                estimator.filter.slow.set_parameters(shown, age=0.0)
            if before <= LOST_AT < t:
                change = np.zeros(CHART_SIZE)
                change[YAW_RATE], change[LEFT] = 4.0, 8.0
                estimator.filter.car.correct(change, carry=True)
            before = t
            yield step
            if t > LOST_AT - 3.0 and (parameters := estimator.parameters()):
                found.append(parameters["antenna.x"].value)
                assert parameters["antenna.x"].sigma < 0.1

    Run(prototype(), spoil(steps(bend.measurements(gnss="conventional"))), estimator=estimator)
    assert estimator.status()["restarts"] == 1
    assert np.abs(np.array(found) + 0.5).max() < 0.1


@pytest.mark.parametrize(
    ("measured", "estimated", "found"),
    [
        (15.0, -15.0, "opposite"),
        (15.0, -12.0, "opposite"),
        (15.0, -15.0j, "turned"),
        (15.0, 14.0 + 6.0j, "turned"),
        (15.0, 15.0 + 2.0j, ""),
        (15.0, 5.0j, ""),
        (1.0, -1.0, ""),  # too slow for a course
    ],
)
def test_a_lasting_difference_of_direction_contradicts_the_estimate(measured, estimated, found):
    motion, east = ReceiverMotion(), cmath.rect(1.0, 0.4)
    for k in range(8):
        motion.take(0.2 * k, measured * east, estimated * east)
        assert motion.is_opposite == (found == "opposite" and k >= 3)
        assert motion.is_turned == (found == "turned" and k >= 6)
    assert motion.find(1.5) == (pytest.approx(0.1), measured * east)
    assert motion.find(2.0) is None
    motion.take(1.6, measured * east, measured * east)
    assert not motion.is_opposite
    assert not motion.is_turned


def test_a_difference_of_direction_that_changes_is_a_skid_and_no_wrong_heading():
    motion = ReceiverMotion()
    for k in range(20):
        motion.take(0.2 * k, 10.0, 10.0 * cmath.rect(1.0, 0.4 + 0.15 * k))
        assert not motion.is_turned
