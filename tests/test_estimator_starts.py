"""Starts of an estimator, also while the car moves: estimates are soon accurate and consistent with σ."""

import math
from dataclasses import replace

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, parked, prototype, steps, without

from replay.problems import Problems
from replay.steps import make_steps
from vehicled.configuration import load_configuration
from vehicled.estimator import Estimator
from vehicled.filter.boundary import InitialPose
from vehicled.filter.settling import hold_motion
from vehicled.filter.states import ATTITUDE, InitialConditions
from vehicled.messages import ESTIMATE_INDEX, Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.simulation.sensor_settings import UsualReceiver
from vehicled.studies.faults.drives import START, make_drive
from vehicled.studies.robustness.wrongs import WRONGS, apply_wrongs
from vehicled.vehicle.arrays import AHEAD, LEFT, PLACE, YAW, YAW_RATE

PERIOD = 4_000_000
SEED = 7


def split_imu(m: Measurement) -> list[Measurement]:
    """Gyroscopes and accelerometers in separate measurements."""
    parts = [
        {c: v for c, v in m.values.items() if c.startswith("imu.w") == is_rate} for is_rate in (True, False)
    ]
    return [Measurement(m.source, m.t, m.arrival, part) for part in parts if part]


@pytest.mark.parametrize(
    ("drive", "within", "apart"),
    [
        ("corner", 0.2, False),
        pytest.param("slalom", 0.2, False, marks=pytest.mark.slow),
        ("reverse", 0.7, False),
        pytest.param("skid", 0.6, False, marks=pytest.mark.slow),
        ("skid", 0.6, True),
        pytest.param("straight", 0.2, False, marks=pytest.mark.slow),
    ],
)
def test_the_estimator_starts_with_the_motion_of_the_car(drive: str, within: float, apart: bool) -> None:
    """`within`: s until the first estimate; `apart`: gyroscopes and accelerometers are in separate messages."""
    configuration = load_configuration("prototype")
    driven = make_drive(configuration, drive, "rtk", SEED, START + 3.1)
    estimator = Estimator(configuration)
    t = round(START * 1e9)
    waiting = [m for m in driven.measurements if m.t >= t]
    if apart:
        waiting = [part for m in waiting for part in split_imu(m)]
    begun = None
    while t < (START + 3.0) * 1e9:
        t += PERIOD
        arrived = [m for m in waiting[:40] if m.arrival <= t]
        waiting = [m for m in waiting[:40] if m.arrival > t] + waiting[40:]
        estimate = estimator.step(t, arrived)
        if estimate is not None and begun is None:
            begun = t * 1e-9
    assert begun is not None
    assert begun - START < within
    assert estimate is not None
    assert estimator.status()["restarts"] == 0
    truth = driven.truth[int(np.searchsorted(driven.t, t))]
    for column in ("yaw", "vx", "vy"):
        error = estimate[column] - truth[ESTIMATE_INDEX[column]]
        error = math.remainder(error, 2 * math.pi) if column == "yaw" else error
        assert abs(error) < 5.0 * estimate[f"sigma.{column}"], column
    assert abs(math.remainder(estimate["yaw"] - truth[ESTIMATE_INDEX["yaw"]], 2 * math.pi)) < math.radians(
        1.0
    )
    north, east = (
        math.radians(estimate[c] - truth[ESTIMATE_INDEX[c]]) * 6.37e6 * scale
        for c, scale in (("lat", 1.0), ("lon", math.cos(math.radians(estimate["lat"]))))
    )
    # The latency of the receiver has a σ of 20 ms, at up to 25 m/s.
    assert math.hypot(north, east) < min(0.5, 4.0 * math.hypot(estimate["sigma.x"], estimate["sigma.y"]))


@pytest.mark.parametrize("torque", [-450.0, 450.0])
def test_a_large_steering_angle_does_not_delay_the_start(torque: float) -> None:
    """The model starts with straight wheels, and its first step does not converge. This is not taken for a skid."""
    inputs = DriveInputs(rack=[(0.0, 0.0), (1.0, -0.045)], rear_torque=torque)
    drive, begin = Drive(Scenario(duration=5.0, inputs=inputs)), 4.0
    speed, yaw_rate = (abs(drive.truth(np.array([begin]) * SECOND, c)[0]) for c in ("vx", "wz"))
    assert speed * yaw_rate > 1.0
    run = Run(prototype(), steps(m for m in drive.measurements(SEED) if m.t > begin * SECOND))
    assert run.t[0] < (begin + 0.13) * SECOND  # until the wheels have shown the direction of travel
    inside = run.t < 5.0 * SECOND
    for column in ("yaw", "vy"):
        assert (
            np.max(np.abs(run.error(drive, column)) / run[f"sigma.{column}"], where=inside, initial=0.0) < 5.0
        )


def test_fixes_are_accepted_while_the_heading_is_unknown() -> None:
    """The car pulls off to the south-west, 2.3 rad from the initial heading of the filter."""
    inputs = DriveInputs(rear_torque=[(0.5, 0.0), (0.7, 900.0)])
    drive = Drive(Scenario(duration=3.5, initial=InitialMotion(yaw=-2.3), inputs=inputs))
    run = Run(prototype(), steps(drive.measurements(gnss="rtk")))
    assert run.estimator.status()["alignments"] == 1
    positions = run.of("gnss.position")
    assert len(positions) > 150
    # The fix under way when the first course aligns the car is too old; with a latency, the next one as well.
    assert sum(not i.fused for i in positions) <= 2
    assert np.mean([i.reason == "weighted" for i in positions]) < 0.03


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(("ahead", "sigma"), [(0.05, 0.01), (0.4, 0.0396), (3.0, 0.06)])
def test_sigma_of_the_initial_pitch_allows_for_the_measured_acceleration(
    ahead: float, sigma: float, apart: bool
) -> None:
    """`ahead`: m/s², by a slope or by a car that gains speed. σ is at least 0.01 rad for the slopes of roads."""
    estimator = Estimator(prototype())
    values = {
        "gnss.lat": 43.33,
        "gnss.lon": -8.41,
        "gnss.alt": 0.0,
        "gnss.quality": 4.0,
        "vehicle.speed": 0.0,
    }
    values |= dict.fromkeys(("imu.wx", "imu.wy", "imu.wz", "imu.ay"), 0.0) | {"imu.ax": ahead, "imu.az": 9.81}
    whole = Measurement("car", PERIOD, PERIOD, values)
    estimator.step(PERIOD, split_imu(whole) if apart else [whole])
    f = estimator.filter
    assert math.sqrt(f.variances[f.states.index(ATTITUDE, "v1z")]) == pytest.approx(sigma, rel=0.02)
    assert math.sqrt(f.variances[f.states.index(ATTITUDE, "v2z")]) == pytest.approx(0.01, rel=0.02)


def test_with_an_uncertain_imu_alignment_lateral_acceleration_is_hardly_taken_for_a_bank() -> None:
    settings = prototype()
    imu = replace(settings.sensors.imu, rotation_sigma=math.radians(3.0))
    estimator = Estimator(replace(settings, sensors=replace(settings.sensors, imu=imu)))
    values = dict.fromkeys(("imu.wx", "imu.wy", "imu.wz", "imu.ax"), 0.0) | {"imu.ay": 0.5, "imu.az": 9.8}
    fix = {"gnss.lat": 43.33, "gnss.lon": -8.41, "gnss.alt": 0.0, "gnss.quality": 4.0, "vehicle.speed": 0.0}
    for k in range(1, 501):
        estimate = estimator.step(k * PERIOD, [Measurement("car", k * PERIOD, k * PERIOD, values | fix)])
    assert estimate is not None
    assert 0.0 < abs(estimate["roll"]) < 0.2 * 0.5 / 9.8


def test_a_car_that_stands_on_a_bank_stays_banked() -> None:
    """The bank is 10 %, for 12 s: the estimate must not become level while the car stands."""
    estimator, random, g = Estimator(prototype()), np.random.default_rng(5), 9.81
    bank = math.atan(0.1)
    for k in range(600):
        t = 20_000_000 * (k + 1)
        forces = np.array([0.0, g * math.sin(bank), g * math.cos(bank)]) + 0.05 * random.standard_normal(3)
        rates = 0.002 * random.standard_normal(3)
        values = dict(zip(("imu.ax", "imu.ay", "imu.az"), forces.tolist(), strict=True))
        values |= dict(zip(("imu.wx", "imu.wy", "imu.wz"), rates.tolist(), strict=True))
        fix = {"gnss.lat": 43.33, "gnss.lon": -8.41, "gnss.alt": 0.0, "gnss.quality": 4.0}
        estimate = estimator.step(t, [Measurement("car", t, t, values | fix | {"vehicle.speed": 0.0})])
    assert estimate is not None
    assert math.degrees(estimate["roll"] - bank) == pytest.approx(0.0, abs=1.0)


@pytest.mark.parametrize("rolled", ["IMU rolled +3°", "IMU rolled -3°"])
def test_lateral_acceleration_at_standstill_is_shared_by_several_states(rolled: str) -> None:
    """Slope, bias and alignment share it. The tyres of the model take the load of a slope within some 0.1 s."""
    configuration, measurements = apply_wrongs([WRONGS[rolled]], prototype(), parked(1.5).measurements())
    run = Run(configuration, steps(measurements))
    parameters = run.estimator.filter.slow.parameters()
    found = parameters["imu_alignment.x"]
    before = prototype().sensors.imu.rotation_sigma
    # Without turns the alignment is hardly observable: its estimate is uncertain, but has the right sign.
    assert 0.6 * before < found.sigma < before
    sign = 1.0 if "+" in rolled else -1.0
    assert 0.2 * before < sign * found.value < 1.5 * before
    # The scale describes the roll in turns, which is not observable at standstill.
    assert abs(parameters["accelerometer_scale"].value) < 0.2 * prototype().sensors.imu.accelerometers.scale


@pytest.mark.parametrize(
    ("speed", "left", "yaw_rate"), [(12.0, -5.0, 0.8), (-6.0, 2.0, 0.4), (200.0, 200.0, 100.0)]
)
def test_a_possible_motion_is_held_and_an_impossible_one_changes_nothing(
    speed: float, left: float, yaw_rate: float
) -> None:
    f = Estimator(load_configuration("prototype")).filter
    pose = InitialPose(np.array([0.0, 0.0, f.car.design_height]), 0.3, speed)
    f.initialise(0, pose, InitialConditions(speed, False, 1e-4))
    hold_motion(f, left, yaw_rate)
    found = f.read_state()
    assert f.is_sound
    possible = speed < 100.0
    assert found[[AHEAD, LEFT, YAW_RATE]] == pytest.approx(
        [speed, left, yaw_rate] if possible else [speed, 0.0, 0.0], abs=1e-6
    )
    assert (*found[PLACE][:2], found[YAW]) == pytest.approx((0.0, 0.0, 0.3), abs=1e-6)


@pytest.mark.parametrize(
    ("drive", "at", "imu_after", "steering"),
    [
        pytest.param("corner", 9.0, 0.05, True, id="corner, IMU soon", marks=pytest.mark.slow),
        pytest.param("corner", 9.0, 0.3, False, id="corner, IMU later, no steering"),
        pytest.param("corner", 9.0, math.inf, True, id="corner, no IMU"),
        pytest.param("slalom", 7.1, 0.0, True, id="slalom", marks=pytest.mark.slow),
        pytest.param("slalom", 5.3, 0.3, True, id="slalom, IMU later"),
    ],
)
def test_a_start_is_consistent_if_devices_are_connected_one_after_the_other(
    drive: str, at: float, imu_after: float, steering: bool
) -> None:
    """All devices begin in the middle of a manoeuvre, the IMU `imu_after` s later than the others."""
    configuration = load_configuration("prototype")
    driven = make_drive(configuration, drive, "rtk", SEED, at + 4.1)
    first = driven.measurements[0].arrival
    estimator = Estimator(configuration)
    worst = 0.0
    given = []
    for m in driven.measurements:
        since = (m.arrival - first) * 1e-9 - at
        is_steering = any(channel.startswith("steer") for channel in m.values)
        if since >= 0.0 and (m.source != "imu" or since >= imu_after) and (steering or not is_steering):
            given.append(m)
    for step in make_steps(given, PERIOD, Problems("drive")):
        estimate = estimator.step(step.t, step.measurements)
        if estimate is None or step.t > driven.t[-1]:
            continue
        truth = driven.truth[int(np.searchsorted(driven.t, step.t))]
        for column in ("x", "y", "yaw", "vx", "vy", "sideslip"):
            error = estimate[column] - truth[ESTIMATE_INDEX[column]]
            error = math.remainder(error, 2 * math.pi) if column in ("yaw", "sideslip") else error
            worst = max(worst, abs(error) / estimate[f"sigma.{column}"])
    assert estimator.status()["restarts"] == 0
    assert worst < 4.0


def test_a_start_by_the_imu_alone_is_repeated_with_the_first_speed() -> None:
    """The car drives. The receiver begins 6 s after the IMU, all other devices 4 s after the receiver."""
    configuration = load_configuration("prototype")
    driven = make_drive(configuration, "slalom", "rtk", SEED, 16.0)
    first, estimator, states, worst = driven.measurements[0].arrival, Estimator(configuration), [], 0.0
    given = [
        m
        for m in driven.measurements
        if (m.arrival - first) * 1e-9 > (4.0 if m.source == "imu" else 10.0 if m.source == "gnss" else 14.0)
    ]
    for step in make_steps(given, PERIOD, Problems("drive")):
        estimate = estimator.step(step.t, step.measurements)
        since = (step.t - first) * 1e-9
        if estimate is None or step.t > driven.t[-1]:
            continue
        if since < 10.0:
            states.append(estimator.condition.state)
        if since < 11.0:
            restarts = estimator.status()["restarts"]
        if since > 11.0:
            truth = driven.truth[int(np.searchsorted(driven.t, step.t))]
            for column in ("vx", "vy", "sideslip"):
                error = abs(estimate[column] - truth[ESTIMATE_INDEX[column]])
                worst = max(worst, error / estimate[f"sigma.{column}"])
    assert set(states) == {"aligning"}
    assert 0 < restarts == estimator.status()["restarts"]
    assert worst < 4.0


@pytest.mark.parametrize("seed", [5, pytest.param(6, marks=pytest.mark.slow)])
def test_the_position_of_a_creeping_car_with_unknown_heading_is_consistent_with_sigma(seed: int) -> None:
    """The car is too slow for courses, and its heading is about opposite to the assumed one."""
    inputs = DriveInputs(rear_torque=[(2.0, 0.0), (2.5, 170.0), (5.0, 170.0), (5.5, 20.0)])
    drive = Drive(Scenario(duration=11.0, initial=InitialMotion(yaw=2.8), inputs=inputs))
    run = Run(prototype(), steps(drive.measurements(seed, gnss="conventional")))
    creeping = (run["sigma.yaw"] > 3.0) & (run.t > 5 * SECOND)
    assert 0.8 < run["vx"][creeping].mean() < 2.0
    assert creeping.sum() > 1000
    squares = [(run.error(drive, c) / run[f"sigma.{c}"])[creeping] ** 2 for c in ("x", "y")]
    assert 0.1 < np.mean(squares) < 2.0


@pytest.mark.parametrize("receiver", ["rtk", pytest.param("conventional", marks=pytest.mark.slow)])
def test_the_position_is_consistent_with_sigma_if_the_receiver_gives_positions_alone(
    receiver: UsualReceiver,
) -> None:
    """Fixes align the car some metres after it has pulled off; its heading is about opposite to the assumed one."""
    inputs = DriveInputs(rear_torque=[(1.0, 0.0), (1.5, 500.0)])
    drive = Drive(Scenario(duration=7.0, initial=InitialMotion(yaw=2.8), inputs=inputs))
    run = Run(prototype(), steps(without(drive.measurements(5, gnss=receiver), "gnss.speed", "gnss.course")))
    assert run.estimator.status()["alignments"] == 1
    assert run.sensors["gnss.position"]["resets"] == 0
    squares = [(run.error(drive, c) / run[f"sigma.{c}"])[run.t > 1.5 * SECOND] ** 2 for c in ("x", "y")]
    assert 0.1 < np.mean(squares) < 4.0


def test_a_constant_speed_in_whole_metres_per_second_is_not_stuck_at_the_start() -> None:
    """It repeats itself while the estimate changes from zero, before the filter has started, to the speed."""
    configuration = load_configuration("prototype")
    driven = make_drive(configuration, "straight", "rtk", SEED, START + 3.1)
    waiting = []
    for m in driven.measurements:
        if m.t >= START * 1e9:
            values = {c: float(round(v)) if c == "vehicle.speed" else v for c, v in m.values.items()}
            waiting.append(Measurement(m.source, m.t, m.arrival, values))
    estimator = Estimator(configuration)
    for t, measurements, _ in make_steps(waiting, PERIOD, Problems("drive")):
        estimator.step(t, measurements)
    status = estimator.status()
    assert status["steps"] > 500
    assert status["stuck"] == 0
