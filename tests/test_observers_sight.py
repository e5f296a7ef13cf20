"""What the filter says about observations, against the real thing: correct the car, and look again."""

import copy
import dataclasses
from collections.abc import Iterator

import numpy as np
import pytest
from vehicle_rig import vehicle

from vehicled.observers.history import History
from vehicled.observers.settings import Filter
from vehicled.observers.vehicle_filter import (
    CHART_PAIRS,
    GYRO_BIAS,
    PAIRS,
    RATES,
    WHEEL_ANGLE,
    WHEEL_RATE,
    VehicleFilter,
)
from vehicled.sensors.kernels import POSE
from vehicled.vehicle.chart import CHART

STEP_NS = 4_000_000
SENSORS = {"gnss_position": 3, "gnss_speed": 1, "gnss_course": 1, "imu_gyro": 3, "imu_accelerometer": 3}
SENSORS |= {"body_velocity": 2}
ACCELERATIONS = slice(POSE.index("ax"), len(POSE))
MOUNTING = [-0.4, 0.3, 1.1, 0.2, -0.15, 0.3]


def turned(angles: tuple[float, float, float]) -> np.ndarray:
    """Rows: axes of an IMU turned by roll, pitch, yaw, in vehicle axes."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(angles), np.sin(angles)
    rx = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    ry = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    rz = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return (rz @ ry @ rx).T


@pytest.fixture(scope="module")
def driven() -> tuple[VehicleFilter, np.ndarray, History, int]:
    """Cornering at 17 m/s on a slope with bank; with workspace, history and time then."""
    f = VehicleFilter(vehicle("prototype"), Filter())
    f.car.view("mounting")[:] = [*MOUNTING, *turned((0.1, -0.2, 0.4)).ravel()]
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
    f.history, f._t_ns = copy.deepcopy(history), t
    f.ekf.x[:] = 0.0
    f.observe()


@pytest.mark.parametrize("sensor", SENSORS)
def test_rows_are_the_change_of_the_reading_when_the_car_is_corrected(drive, sensor):
    """For each state in turn, with the accelerations that the car has kept as they are."""
    f, workspace, t_now = drive
    m, car = SENSORS[sensor], f.car
    sight = f.sight(sensor, t_now, m)
    assert sight is not None
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
    assert sight.predicted == pytest.approx(car.view("predicted")[:m], abs=1e-9)
    # How the vertical velocity follows from slope and speed is known to first order of the slope, 0.06 here;
    # of these sensors only the velocity in vehicle axes sees it.
    tolerance = 0.06**2 if sensor == "body_velocity" else 1e-6
    assert sight.rows == pytest.approx(differences, rel=1e-5, abs=tolerance)


@pytest.mark.parametrize("late", [0, 3, 20])
@pytest.mark.parametrize("sensor", SENSORS)
def test_a_correction_made_now_moves_a_past_reading_by_its_rows(drive, sensor, late):
    f, workspace, t_now = drive
    m, history = SENSORS[sensor], f.history
    back = late * STEP_NS + (STEP_NS // 3 if late else 0)
    t = t_now - back
    # Rows take speed and heading of then, corrections those of now: the difference is of second order.
    pose = f.observe()
    tolerance = 1e-6 + abs(pose[6] * pose[9]) * (back * 1e-9) ** 2
    for j in (*range(CHART_PAIRS), *range(PAIRS, PAIRS + CHART_PAIRS)):
        restore(f, workspace, history, t_now)
        before = f.sight(sensor, t, m)
        assert before is not None
        step = 1e-4
        f.ekf.x[j] = step
        f.correct()
        after = f.sight(sensor, t, m)
        assert after is not None
        change = (after.predicted - before.predicted) / step
        assert change == pytest.approx(before.rows[:, j], abs=tolerance), CHART[j % PAIRS]


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
        start = f.sight("gnss_position", begin, 2)
        for k in range(1, steps + 1):
            f.advance(begin + k * STEP_NS, STEP_NS * 1e-9)
        state = f.observe()[:12].copy()
        past = f.sight("gnss_position", begin, 2)
        positions[j] = (start.predicted, state, past.rows)
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
            before = f.sight_wheel(wheel, t, rate)
            f.ekf.x[j] = 1e-3
            f.correct()
            after = f.sight_wheel(wheel, t, rate)
            change = (after.predicted - before.predicted) / 1e-3
            assert change == pytest.approx(before.rows[:, j], abs=1e-6)


def test_rolling_wheels_turn_faster_outside():
    f = VehicleFilter(vehicle("prototype"), Filter())
    f.place(np.zeros(3), 0.0, 10.0)
    f.remember(0)
    rows = [f.sight_wheel(n, 0, True).rows[0] for n in range(4)]
    radius = f.car.rolling_radius
    assert [r[PAIRS] for r in rows] == pytest.approx(1 / radius)
    left = [f.car.get_corner_parameter("wheel.centre.y")[n] for n in range(4)]
    assert [r[PAIRS + 3] for r in rows] == pytest.approx(-np.array(left) / radius)
    assert rows[1][PAIRS + 3] > 0 > rows[0][PAIRS + 3]


def test_correct_gives_the_car_the_change_and_the_extra_states_theirs(drive):
    f = drive[0]
    before, extra = f.observe().copy(), f.extra.copy()
    rng = np.random.default_rng(3)
    x = rng.normal(size=f.ekf.size) * 1e-3
    f.ekf.x[:] = x
    f.correct()
    after = f.observe()
    assert after[:CHART_PAIRS] - before[:CHART_PAIRS] == pytest.approx(x[:CHART_PAIRS], abs=1e-9)
    assert f.extra - extra == pytest.approx(x[GYRO_BIAS:])
    assert not f.ekf.x.any()
    wheels = len(POSE)
    assert after[wheels : wheels + 4] - before[wheels : wheels + 4] == pytest.approx(x[WHEEL_ANGLE:PAIRS])
    assert f.car.constraint_violation() < 1e-8


def test_judge_counts_noise_and_covariance(drive):
    f, _, t_now = drive
    f.ekf.covariance = np.eye(f.ekf.size) * 0.01
    f.ekf.x[:] = 0.0
    sight = f.sight("gnss_position", t_now, 3)
    noise = np.array([0.1, 0.2, 0.3])
    s = 0.01 * sight.rows @ sight.rows.T + np.diag(noise)
    nu = np.array([0.2, -0.1, 0.3])
    assert f.judge(sight, sight.predicted + nu, noise) == pytest.approx(nu @ np.linalg.solve(s, nu))


def test_reminders_of_level_ground_settle_at_the_roads_standard_deviation():
    """Without other measurements: √(Qr) = σ², from above and from below."""
    settings = dataclasses.replace(Filter(), ground_slope=0.02, ground_slope_time=5.0)
    for start in (1e-2, 1e-6):
        f = VehicleFilter(vehicle("prototype"), settings)
        f.place(np.zeros(3), 0.3, 0.0)
        f.ekf.covariance = np.eye(f.ekf.size) * 1e-9
        f.ekf.set_variance(4, start)
        f.ekf.set_variance(5, start)
        f.ekf.rate_noise[:] = 0.0
        for _ in range(300):
            f.ekf.predict(0.1)
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
    vx, vy, sideslip = f.output_sigmas()
    assert (vx, vy) == pytest.approx((0.3, 0.1), rel=1e-3)
    assert sideslip == pytest.approx(0.1 / speed if speed else np.pi, rel=1e-2)
