"""What the filter says about observations, against the real thing: correct the car, and look again."""

import copy
import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from vehicle_rig import vehicle
from vehicled.filter.vehicle_errors import (
    CHART_PAIRS,
    DRIVE,
    GYRO_BIAS,
    PAIRS,
    RATES,
    WHEEL_ANGLE,
    WHEEL_RATE,
)

from vehicled.filter.history import History
from vehicled.filter.settings import Filter
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import WHEELS
from vehicled.vehicle.chart import CHART
from vehicled.vehicle.sensor_models import POSE

STEP_NS = 4_000_000
SENSORS = {
    "gnss_position": ("gnss.position", 3),
    "gnss_speed": ("gnss.speed", 1),
    "gnss_course": ("gnss.course", 1),
    "imu_gyro": ("imu.gyro", 3),
    "imu_accelerometer": ("imu.accel", 3),
    "body_velocity": ("vehicle.speed", 1),
}
"""Sensor model to what the filter sees by it, and components."""
ACCELERATIONS = slice(POSE.index("ax"), len(POSE))
ANGLES = (0.1, -0.2, 0.4)
MOUNTING = [-0.4, 0.3, 1.1, 0.2, -0.15, 0.3]


def turned(angles: tuple[float, float, float]) -> np.ndarray:
    """Rows: axes of an IMU turned by roll, pitch, yaw, in vehicle axes."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(angles), np.sin(angles)
    rx = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    ry = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    rz = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return (rz @ ry @ rx).T


def sight(f: VehicleFilter, observation: str, t: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """What an observation should read (m,), and its rows (m, n)."""
    f.ekf.x[:] = 0.0
    zero = [0.0] * m
    assert f.judge(observation, t, zero, [1.0] * m) is not None
    return -f.ekf.innovation[:m], f.ekf.rows[:m].copy()


def pushed(damping: np.ndarray, n: int) -> np.ndarray:
    """(3, n) what the tyres' answer to speeds, as accelerations (ẍ, ÿ, α_z), is at the IMU."""
    rows, arm = np.zeros((3, n)), MOUNTING[3:]
    at_imu = np.stack([damping[0] - damping[2] * arm[1], damping[1] + damping[2] * arm[0], np.zeros(3)])
    rows[:, [PAIRS, PAIRS + 1, PAIRS + 3]] = turned(ANGLES) @ at_imu
    return rows


@pytest.fixture(scope="module")
def driven() -> tuple[VehicleFilter, np.ndarray, History, int]:
    """Cornering at 17 m/s on a slope with bank; with workspace, history and time then."""
    f = VehicleFilter(vehicle("prototype"), Filter())
    f.car.view("mounting")[:] = [*MOUNTING, *turned(ANGLES).ravel()]
    f.place(np.array([30.0, -20.0, 2.0]), 0.7, 17.0)
    tilt = np.zeros(12)
    tilt[4:6] = 0.05, -0.03
    f.car.correct(tilt, carry=True)
    f.ekf.covariance = np.eye(f.ekf.size) * 1e-4
    f.remember(0)
    for k in range(1, 126):
        f.car.corner_inputs[0, :2] = min(k / 50, 1.0) * 0.008
        f.car.inputs[0] = f.car.corner_inputs[0, 0]
        f.advance(k * STEP_NS, STEP_NS * 1e-9)
    return f, f.car.workspace.copy(), f.history, 125 * STEP_NS


@pytest.fixture
def drive(driven) -> Iterator[tuple[VehicleFilter, np.ndarray, int]]:
    """The filter as it was then, its car's workspace, and the time, ns."""
    f, workspace, history, t = driven
    restore(f, workspace, history, t)
    yield f, workspace, t
    restore(f, workspace, history, t)


def restore(f: VehicleFilter, workspace: np.ndarray, history: History, t: int) -> None:
    f.car.workspace[:] = workspace
    f.history, f._t_ns, f._seen = copy.deepcopy(history), t, None
    f.ekf.x[:] = 0.0
    f.look()


@pytest.mark.parametrize("sensor", SENSORS)
def test_rows_are_the_change_of_the_reading_when_the_car_is_corrected(drive, sensor):
    """For each state in turn, with the accelerations that the car has kept as they are."""
    f, workspace, t_now = drive
    (observation, m), car = SENSORS[sensor], f.car
    predicted, rows = sight(f, observation, t_now, m)
    car.workspace[:] = workspace
    car.call("observe_pose")
    accelerations = car.view("pose")[ACCELERATIONS].copy()
    differences = np.zeros((m, f.ekf.size))
    step = 1e-5
    for j in range(2 * CHART_PAIRS):
        seen = []
        for sign in (1.0, -1.0):
            car.workspace[:] = workspace
            change = np.zeros(2 * CHART_PAIRS)
            change[j] = sign * step
            car.correct(change, carry=True)
            car.call("observe_pose")
            car.view("pose")[ACCELERATIONS] = accelerations
            car.call(sensor)
            seen.append(car.view("predicted")[:m].copy())
        place = j if j < CHART_PAIRS else PAIRS + j - CHART_PAIRS
        differences[:, place] = (seen[0] - seen[1]) / (2 * step)
    car.workspace[:] = workspace
    car.call("observe_pose")
    car.call(sensor)
    assert predicted == pytest.approx(car.view("predicted")[:m], abs=1e-9)
    # Slow errors are seen as they are, tyres and drive force by accelerometers alone: tested below.
    if sensor == "imu_accelerometer":
        car.call("observe_tyres")
        differences += pushed(car.view("tyre_damping").reshape(3, 3), f.ekf.size)
    # How the vertical velocity follows from slope and speed is known to first order of the slope, 0.06 here;
    # of these sensors only the velocity in vehicle axes sees it.
    tolerance = 0.06**2 if sensor == "body_velocity" else 1e-6
    assert rows[:, :GYRO_BIAS] == pytest.approx(differences[:, :GYRO_BIAS], rel=1e-5, abs=tolerance)


@pytest.mark.parametrize("sensor", SENSORS)
def test_rows_of_slow_errors_are_the_change_of_the_reading(drive, sensor):
    f, _, t_now = drive
    observation, m = SENSORS[sensor]
    f.extra[:] = np.random.default_rng(2).normal(size=len(f.extra)) * 0.1
    before, rows = sight(f, observation, t_now, m)
    drive_force = rows[:, DRIVE].copy()
    rows[:, DRIVE] = 0.0  # acts through the simulation
    for k in range(len(f.extra)):
        f.extra[k] += 1e-3
        after, _ = sight(f, observation, t_now, m)
        f.extra[k] -= 1e-3
        assert (after - before) / 1e-3 == pytest.approx(rows[:, GYRO_BIAS + k], abs=1e-9)
    ahead = turned(ANGLES)[:, 0]
    assert drive_force == pytest.approx(ahead if sensor == "imu_accelerometer" else np.zeros(m))


@pytest.mark.parametrize("late", [0, 3, 20])
@pytest.mark.parametrize("sensor", SENSORS)
def test_a_correction_made_now_moves_a_past_reading_by_its_rows(drive, sensor, late):
    f, workspace, t_now = drive
    (observation, m), history = SENSORS[sensor], f.history
    back = late * STEP_NS + (STEP_NS // 3 if late else 0)
    t = t_now - back
    # Rows take speed and heading of then, corrections those of now: the difference is of second order.
    pose = f.look()
    tolerance = 1e-6 + abs(pose[6] * pose[9]) * (back * 1e-9) ** 2
    f.car.call("observe_tyres")
    tyres = pushed(f.car.view("tyre_damping").reshape(3, 3), f.ekf.size)
    for j in (*range(CHART_PAIRS), *range(PAIRS, PAIRS + CHART_PAIRS)):
        restore(f, workspace, history, t_now)
        before, rows = sight(f, observation, t, m)
        step = 1e-4
        f.ekf.x[j] = step
        f.correct()
        after, _ = sight(f, observation, t, m)
        change = (after - before) / step
        expected = rows[:, j]
        if sensor == "imu_accelerometer" and j >= PAIRS:
            # The tyres answer in the next step of the simulation, not before.
            expected = expected - tyres[:, j]
        assert change == pytest.approx(expected, abs=tolerance), CHART[j % PAIRS]


def test_position_now_follows_from_errors_then_as_the_rows_say(drive):
    """A car that is corrected, then drives on for 40 ms: where it is then, seen back through the rows.

    Position errors come of velocity and heading errors while it drives; the rows of a past fix take that back.
    """
    f, workspace, t_now = drive
    steps, step = 10, 1e-3
    begin, history = t_now, f.history
    positions = {}
    for j in (None, 0, 1, 3, PAIRS, PAIRS + 1):
        restore(f, workspace, history, begin)
        if j is not None:
            change = np.zeros(12)
            change[j if j < CHART_PAIRS else CHART_PAIRS + j - PAIRS] = step
            f.car.correct(change, carry=True)
        f.remember(begin)
        start, _ = sight(f, "gnss.position", begin, 3)
        for k in range(1, steps + 1):
            f.advance(begin + k * STEP_NS, STEP_NS * 1e-9)
        state = f.look()[:12].copy()
        _, rows = sight(f, "gnss.position", begin, 3)
        positions[j] = (start[:2], state, rows[:2])
    reference, state, rows = positions.pop(None)
    for j, (seen, moved, _) in positions.items():
        error = np.zeros(f.ekf.size)
        error[:CHART_PAIRS] = moved[:CHART_PAIRS] - state[:CHART_PAIRS]
        error[RATES] = moved[CHART_PAIRS:] - state[CHART_PAIRS:]
        # The tyres change a disturbed velocity a little during these 40 ms, and no row can know.
        assert (seen - reference) / step == pytest.approx(rows @ error / step, abs=0.02), j


@pytest.mark.parametrize("late", [0, 5])
@pytest.mark.parametrize("rate", [False, True])
def test_wheels_follow_corrections_of_angle_slip_speed_and_yaw_rate(drive, rate, late):
    f, _, t_now = drive
    for k in range(1, 11):
        f.advance(t_now + k * STEP_NS, STEP_NS * 1e-9)
    t_now += 10 * STEP_NS
    saved, history, t = f.car.workspace.copy(), f.history, t_now - late * STEP_NS
    for wheel in range(4):
        for j in (WHEEL_ANGLE + wheel, WHEEL_RATE + wheel, PAIRS, PAIRS + 3, WHEEL_ANGLE + (wheel + 1) % 4):
            restore(f, saved, history, t_now)
            observation = f"wheel.{WHEELS[wheel]}.{'speed' if rate else 'angle'}"
            before, rows = sight(f, observation, t, 1)
            f.ekf.x[j] = 1e-3
            f.correct()
            after, _ = sight(f, observation, t, 1)
            assert (after - before) / 1e-3 == pytest.approx(rows[:, j], abs=1e-6)


def test_rolling_wheels_turn_faster_outside():
    f = VehicleFilter(vehicle("prototype"), Filter())
    f.place(np.zeros(3), 0.0, 10.0)
    f.remember(0)
    rows = [sight(f, f"wheel.{w}.speed", 0, 1)[1][0] for w in WHEELS]
    radius = f.car.rolling_radius
    assert [r[PAIRS] for r in rows] == pytest.approx(1 / radius)
    left = [f.car.get_corner_parameter("wheel.centre.y")[n] for n in range(4)]
    assert [r[PAIRS + 3] for r in rows] == pytest.approx(-np.array(left) / radius)
    assert rows[1][PAIRS + 3] > 0 > rows[0][PAIRS + 3]


def test_correct_gives_the_car_the_change_and_the_extra_states_theirs(drive):
    f = drive[0]
    before, extra = f.look().copy(), f.extra.copy()
    rng = np.random.default_rng(3)
    x = rng.normal(size=f.ekf.size) * 1e-3
    f.ekf.x[:] = x
    f.correct()
    after = f.look()
    assert after[:CHART_PAIRS] - before[:CHART_PAIRS] == pytest.approx(x[:CHART_PAIRS], abs=1e-9)
    assert f.extra - extra == pytest.approx(x[GYRO_BIAS:])
    assert not f.ekf.x.any()
    wheels = len(after) - 8
    assert after[wheels : wheels + 4] - before[wheels : wheels + 4] == pytest.approx(x[WHEEL_ANGLE:PAIRS])
    assert f.car.constraint_violation() < 1e-8


def test_judge_counts_noise_and_covariance(drive):
    f, _, t_now = drive
    f.ekf.covariance = np.eye(f.ekf.size) * 0.01
    f.ekf.x[:] = 0.0
    predicted, rows = sight(f, "gnss.position", t_now, 3)
    noise = np.array([0.1, 0.2, 0.3])
    s = 0.01 * rows @ rows.T + np.diag(noise)
    nu = np.array([0.2, -0.1, 0.3])
    assert f.judge("gnss.position", t_now, predicted + nu, noise) == pytest.approx(
        nu @ np.linalg.solve(s, nu)
    )


def test_reminders_of_level_ground_settle_at_the_roads_standard_deviation():
    """Without other measurements: √(Qr) = σ², from above and from below."""
    settings = dataclasses.replace(Filter(), ground_slope=0.02, ground_slope_time=5.0)
    for start in (1e-2, 1e-6):
        f = VehicleFilter(vehicle("prototype"), settings)
        f.place(np.zeros(3), 0.3, 0.0)
        f.ekf.covariance = np.eye(f.ekf.size) * 1e-9
        f.ekf.set_variance(4, start)
        f.ekf.set_variance(5, start)
        f.plant[PAIRS : 2 * PAIRS] = 0.0
        f.car.view("h")[0] = 0.1
        for _ in range(300):
            f.car.call("spread")
            f.expect_level_ground(0.1)
            f.ekf.x[:] = 0.0
        assert np.sqrt(f.ekf.variances[4:6]) == pytest.approx([0.02, 0.02], rel=0.05)


@pytest.mark.parametrize("speed", [0.0, 20.0])
def test_output_sigmas_are_those_of_body_velocity_and_sideslip(speed):
    f = VehicleFilter(vehicle("prototype"), Filter())
    f.place(np.zeros(3), 1.0, speed)
    f.remember(0)
    p = np.diag(np.full(f.ekf.size, 1e-12))
    p[PAIRS, PAIRS], p[PAIRS + 1, PAIRS + 1] = 0.3**2, 0.1**2
    f.ekf.covariance = p
    f.look()
    f.tell()
    vx, vy, sideslip = f.sigmas[4:]
    assert (vx, vy) == pytest.approx((0.3, 0.1), rel=1e-3)
    assert sideslip == pytest.approx(0.1 / speed if speed else np.pi, rel=1e-2)
