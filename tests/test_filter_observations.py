"""Predicted observations and their rows, compared with observations of the car after a correction."""

import numpy as np
import pytest
from filter_rig import (
    STEP_NS,
    H,
    index,
    kernels,
    linearise,
    new_filter,
    observation,
    observe_tyres,
    place,
    propagate,
    set_slow_state,
    slow_states,
    turn_left,
)

from vehicled.filter.boundary import Mounting
from vehicled.filter.settings import Unmodelled
from vehicled.filter.states import (
    ANGULAR_RATE,
    ATTITUDE,
    CROSSFALL,
    DRIVE_FORCE,
    POSITION,
    STEERING_OFFSET,
    TYRE_ERROR,
    UNMODELLED,
    VELOCITY,
    WHEEL_ANGLE,
    WHEEL_SLIP,
)
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import ESTIMATE_INDEX, WHEELS
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.imu.model import (
    ACCELEROMETER_BIAS,
    ACCELEROMETER_SCALE,
    ALIGNMENT,
    GYRO_BIAS,
    GYRO_SCALE,
    MEAN_FORCES,
)
from vehicled.sources.speeds.vehicle_speed import SPEED_LATENCY, SPEED_SCALE
from vehicled.vehicle.arrays import CHART, CHART_SIZE, POSE

SENSORS = {
    "gnss_position": ("gnss.position", 3),
    "gnss_speed": ("gnss.speed", 1),
    "gnss_course": ("gnss.course", 1),
    "imu_gyro": ("imu.gyro", 3),
    "imu_accelerometer": ("imu.accel", 3),
    "body_velocity": ("vehicle.speed", 1),
}
"""For each sensor model, the observation in the filter, and the number of its components."""
ACCELERATIONS = slice(POSE.index("ax"), len(POSE))
ANGLES = (0.1, -0.2, 0.4)
AT_ANTENNA, IMU = (-0.4, 0.3, 1.1), (0.2, -0.15, 0.3)


IN_CHART = (POSITION, ATTITUDE, VELOCITY, ANGULAR_RATE)
"""The groups whose errors are those of the chart and of its rates, in their order."""
SLOW = (
    *(GYRO_BIAS, ACCELEROMETER_BIAS, GYRO_SCALE, ACCELEROMETER_SCALE, ALIGNMENT, CROSSFALL),
    *(
        GNSS.wander,
        GNSS.antenna,
        GNSS.latency,
        GNSS.velocity_latency,
        SPEED_SCALE,
        SPEED_LATENCY,
        UNMODELLED,
        STEERING_OFFSET,
        TYRE_ERROR,
    ),
)
BY_OTHER_MEANS = {
    "gnss": (GNSS.latency, GNSS.velocity_latency),  # they change the time of the observation
    "imu_gyro": (GYRO_SCALE, ALIGNMENT, CROSSFALL),  # small rates count less
    "body_velocity": (SPEED_LATENCY,),  # slow changes count less
    "imu_accelerometer": (
        DRIVE_FORCE,
        ACCELEROMETER_SCALE,
    ),  # acts through the simulation; small forces count less
}
"""Slow errors whose rows are not the change of the prediction; see test_filter_sensor_errors.py."""
T_NOW = 125 * STEP_NS


def turned(angles: tuple[float, float, float]) -> np.ndarray:
    """Rows: axes of an IMU turned by roll, pitch, yaw, in vehicle axes."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(angles), np.sin(angles)
    rx = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    ry = np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]])
    rz = np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]])
    return (rz @ ry @ rx).T


def in_chart(f: VehicleFilter) -> list[int]:
    """(12,) indices of the errors of the chart and of its rates among the states."""
    return [i for group in IN_CHART for i in f.states.places(group)]


def calc_tyre_rows(f: VehicleFilter) -> np.ndarray:
    """(3, n) rows of the tyres' response to velocities, as accelerations at the IMU."""
    steady, _, acceleration = observe_tyres(f)
    damping, arm = acceleration @ steady[:, :3], IMU
    rows = np.zeros((3, len(f.states)))
    at_imu = np.stack([damping[0] - damping[2] * arm[1], damping[1] + damping[2] * arm[0], np.zeros(3)])
    speeds = [index(f, VELOCITY, "ahead"), index(f, VELOCITY, "left"), index(f, ANGULAR_RATE, "yaw")]
    rows[:, speeds] = turned(ANGLES) @ at_imu
    return rows


@pytest.fixture(scope="module")
def whole() -> VehicleFilter:
    return new_filter(mounting=Mounting(AT_ANTENNA, IMU, turned(ANGLES)))


@pytest.fixture
def drive(whole) -> VehicleFilter:
    corner(whole)
    return whole


def corner(f: VehicleFilter) -> None:
    """Cornering at 17 m/s on a slope with bank, up to T_NOW."""
    place(f, np.array([30.0, -20.0, 2.0]), 0.7, 17.0)
    tilt = np.zeros(CHART_SIZE)
    tilt[4:6] = 0.05, -0.03
    f.car.correct(tilt, carry=True)
    slow_states(f)[:] = 0.0
    f.errors.matrix = np.eye(len(f.states)) * 1e-4
    f.errors.x[:] = 0.0
    f.restart_history(0)
    turn_left(f, 125)


def test_driving_once_more_gives_the_same_state(drive):
    saved = drive.save()
    corner(drive)
    assert np.array_equal(drive.save(), saved)


@pytest.mark.parametrize("sensor", SENSORS)
def test_rows_are_the_change_of_the_reading_when_the_car_is_corrected(drive, sensor):
    """Each state is changed in turn; the accelerations of the car are kept."""
    f, (kind, m) = drive, SENSORS[sensor]
    predicted, rows = linearise(f, kind, T_NOW, m)
    car, saved, models = f.car, f.save(), kernels(f).sensors
    car.call(models.observe_pose)
    accelerations = car.view("pose")[ACCELERATIONS].copy()
    car.call(getattr(models, sensor))
    assert predicted == pytest.approx(car.view("predicted")[:m], abs=1e-9)
    differences = np.zeros((m, len(f.states)))
    step = 1e-5
    for j, state in enumerate(in_chart(f)):
        seen = []
        for sign in (1.0, -1.0):
            f.restore(saved)
            change = np.zeros(CHART_SIZE)
            change[j] = sign * step
            car.correct(change, carry=True)
            car.call(models.observe_pose)
            car.view("pose")[ACCELERATIONS] = accelerations
            car.call(getattr(models, sensor))
            seen.append(car.view("predicted")[:m].copy())
        differences[:, state] = (seen[0] - seen[1]) / (2 * step)
    f.restore(saved)
    # Only accelerometers observe the tyres' response. Rows of slow errors and of the drive force are tested below.
    if sensor == "imu_accelerometer":
        differences += calc_tyre_rows(f)
    # Rows have the vertical velocity by slope and speed to first order of the slope, 0.06 here; of these sensors
    # only the velocity in vehicle axes depends on it.
    tolerance = 0.06**2 if sensor == "body_velocity" else 1e-6
    fast = f.states[WHEEL_SLIP].stop
    assert rows[:, :fast] == pytest.approx(differences[:, :fast], rel=1e-5, abs=tolerance)


@pytest.mark.parametrize("sensor", SENSORS)
def test_rows_of_slow_errors_are_the_change_of_the_reading(drive, sensor):
    f, (kind, m) = drive, SENSORS[sensor]
    slow = np.random.default_rng(2).normal(size=len(slow_states(f))) * 0.1
    slow_states(f)[:] = 0.0
    if sensor == "imu_accelerometer":  # lasting forces, by which the alignment is observed
        f.car.view(MEAN_FORCES)[:] = np.tile(linearise(f, kind, T_NOW, m)[0], 2)
    slow_states(f)[:] = slow
    before, rows = linearise(f, kind, T_NOW, m)
    drive_force = rows[:, index(f, DRIVE_FORCE)].copy()
    others = [g for prefix, groups in BY_OTHER_MEANS.items() if sensor.startswith(prefix) for g in groups]
    left_out = {i for g in others for i in f.states.places(g)}
    for k in range(len(slow)):
        if len(f.states) - len(slow) + k in left_out:
            continue
        slow_states(f)[:] = slow + 1e-3 * (np.arange(len(slow)) == k)
        after, _ = linearise(f, kind, T_NOW, m)
        by = (after - before) / 1e-3
        if sensor == "imu_accelerometer" and len(f.states) - len(slow) + k in f.states.places(ALIGNMENT):
            by *= 1 - turned(ANGLES)[:, 2] ** 2  # vertical parts do not correct the alignment
        assert by == pytest.approx(rows[:, k - len(slow)], abs=1e-9)
    ahead = turned(ANGLES)[:, 0]
    assert drive_force == pytest.approx(ahead if sensor == "imu_accelerometer" else np.zeros(m))


def test_each_slow_error_is_observed_by_its_own_sensor_alone(drive):
    observed = {}
    for kind, m in SENSORS.values():
        _, rows = linearise(drive, kind, T_NOW, m, [0.5] * m)
        observed[kind] = {g.name for g in SLOW if rows[:, drive.states[g]].any()}
    assert observed == {
        "gnss.position": {"gnss_wander", "antenna", "gnss_latency"},
        "gnss.speed": {"antenna", "gnss_latency", "gnss_velocity_latency"},
        "gnss.course": {"antenna", "gnss_latency", "gnss_velocity_latency"},
        "imu.gyro": {"gyro_bias", "gyro_scale", "imu_alignment", "crossfall"},
        # Errors of steering and tyres are observed only in the kinds that apply them to the simulated car.
        "imu.accel": {"accelerometer_bias", "accelerometer_scale", "imu_alignment", "unmodelled"},
        "vehicle.speed": {"speed_scale", "speed_latency"},
    }


@pytest.mark.parametrize("kind", ["gnss.speed", "gnss.course", "gnss.velocity"])
def test_antennas_move_with_the_measured_roll_and_pitch_rates(drive, kind):
    """Rates of the model are not used: their rows are zero. Antennas do not correct errors of gyroscopes."""
    f, m = drive, 3 if kind == "gnss.velocity" else 1
    measured = np.array([0.3, -0.2, 9.0])  # the yaw rate is the model's
    f.measured_rates[:] = (1.0, *(turned(ANGLES) @ measured))
    predicted, rows = linearise(f, kind, T_NOW, m)
    pose = f.pose
    yaw, wz = pose[POSE.index("yaw")], pose[POSE.index("wz")]
    v1 = np.array([np.cos(yaw) * np.sqrt(1 - pose[4] ** 2), np.sin(yaw) * np.sqrt(1 - pose[4] ** 2), pose[4]])
    v2 = f.car.view("q")[6:9]
    R = np.column_stack([v1, v2, np.cross(v1, v2)])
    velocity = f.car.view("qd")[:3] + R @ np.cross([*measured[:2], wz], AT_ANTENNA)
    expected = {
        "gnss.speed": [np.hypot(*velocity[:2])],
        "gnss.course": [np.arctan2(velocity[0], velocity[1])],
        "gnss.velocity": velocity,
    }[kind]
    assert predicted == pytest.approx(expected, abs=1e-6)
    assert rows[:, index(f, ANGULAR_RATE, "v1z")] == pytest.approx(np.zeros(m), abs=1e-12)
    assert rows[:, index(f, ANGULAR_RATE, "v2z")] == pytest.approx(np.zeros(m), abs=1e-12)
    assert not rows[:, f.states[GYRO_BIAS]].any()
    assert not rows[:, f.states[ALIGNMENT]].any()
    f.measured_rates[:] = 0.0


def test_accelerometers_include_angular_accelerations_at_their_position(drive):
    f = drive
    still, _ = linearise(f, "imu.accel", T_NOW, 3)
    roll, pitch = 1.5, -0.7
    f.car.view("shaking")[:] = roll, pitch
    shaken, _ = linearise(f, "imu.accel", T_NOW, 3)
    f.car.view("shaking")[:] = 0.0
    assert shaken - still == pytest.approx(turned(ANGLES) @ np.cross([roll, pitch, 0.0], IMU), abs=1e-9)


@pytest.mark.parametrize("late", [0.0, 0.2, 0.6])
@pytest.mark.parametrize("sensor", SENSORS)
def test_a_correction_made_now_changes_a_past_reading_by_its_rows(drive, sensor, late):
    f, (kind, m) = drive, SENSORS[sensor]
    back = round(late * STEP_NS) + (STEP_NS // 3 if late else 0)
    t = T_NOW - back
    # Rows use the past speed and heading, corrections the present ones: the difference is of second order.
    pose = f.read_state()
    tolerance = 1e-6 + abs(pose[POSE.index("ahead")] * pose[POSE.index("wz")]) * (back * 1e-9) ** 2
    tyres = calc_tyre_rows(f)
    for j in in_chart(f):
        corner(f)
        before, rows = linearise(f, kind, t, m)
        step = 1e-4
        f.errors.x[j] = step
        f.apply_corrections()
        after, _ = linearise(f, kind, t, m)
        change = (after - before) / step
        expected = rows[:, j]
        if sensor == "imu_accelerometer" and j >= f.states[VELOCITY].start:
            # The tyres respond in the next step of the simulation, not before.
            expected = expected - tyres[:, j]
        assert change == pytest.approx(expected, abs=tolerance), f.states.names[j]


def test_rows_of_a_past_fix_give_its_error_by_the_present_errors(drive):
    """A car is changed, then drives on for a step. The rows of a fix before that step apply to errors after it.

    In the step, errors of velocity and heading become errors of position; the rows subtract this.
    """
    f, states = drive, in_chart(drive)
    step = 1e-3
    outcomes = {}
    for j in (None, "x", "y", "yaw", "ahead", "left"):
        corner(f)
        if j is not None:
            change = np.zeros(CHART_SIZE)
            change[POSE.index(j)] = step
            f.car.correct(change, carry=True)
        f.restart_history(T_NOW)
        start, _ = linearise(f, "gnss.position", T_NOW, 3)
        f.predict(T_NOW + STEP_NS, H)
        state = f.read_state()[:CHART_SIZE].copy()
        _, rows = linearise(f, "gnss.position", T_NOW + 1, 3)
        outcomes[j] = (start[:2], state, rows[:2])
    reference, state, rows = outcomes.pop(None)
    for j, (there, moved, _) in outcomes.items():
        error = np.zeros(len(f.states))
        error[states] = moved - state
        assert (there - reference) / step == pytest.approx(rows @ error / step, abs=5e-4), j


@pytest.mark.parametrize("late", [0.0, 0.7])
@pytest.mark.parametrize("rate", [False, True])
def test_wheels_follow_corrections_of_angle_slip_speed_and_yaw_rate(drive, rate, late):
    f, t = drive, T_NOW - round(late * STEP_NS)
    for n, wheel in enumerate(WHEELS):
        for j in (
            index(f, WHEEL_ANGLE, wheel),
            index(f, WHEEL_SLIP, wheel),
            index(f, VELOCITY, "ahead"),
            index(f, ANGULAR_RATE, "yaw"),
            index(f, WHEEL_ANGLE, WHEELS[(n + 1) % 4]),
        ):
            corner(f)
            kind = f"wheel.{wheel}.{'speed' if rate else 'angle'}"
            before, rows = linearise(f, kind, t, 1)
            f.errors.x[j] = 1e-3
            f.apply_corrections()
            after, _ = linearise(f, kind, t, 1)
            assert (after - before) / 1e-3 == pytest.approx(rows[:, j], abs=1e-6)


def test_rolling_wheels_turn_faster_outside():
    f = new_filter()
    place(f, np.zeros(3), 0.0, 10.0)
    rows = np.array([linearise(f, f"wheel.{w}.speed", 0, 1)[1][0] for w in WHEELS])
    radius = f.car.rolling_radius
    assert rows[:, index(f, VELOCITY, "ahead")] == pytest.approx(1 / radius)
    left = f.car.get_corner_parameter("wheel.centre.y")
    by_yaw_rate = rows[:, index(f, ANGULAR_RATE, "yaw")]
    assert by_yaw_rate == pytest.approx(-left / radius)
    assert by_yaw_rate[WHEELS.index("fr")] > 0 > by_yaw_rate[WHEELS.index("fl")]


@pytest.mark.parametrize("force", [2.0, -4.0])
def test_an_unmeasured_drive_force_changes_wheel_speeds_by_their_rows(force):
    by, rates = 0.1, []
    for more in (0.0, by):
        f = new_filter()
        f.set_drive_known(False)
        place(f, np.zeros(3), 0.0, 15.0)
        set_slow_state(f, index(f, DRIVE_FORCE), force + more)
        f.predict(STEP_NS, H)
        found = [linearise(f, f"wheel.{w}.speed", STEP_NS, 1) for w in WHEELS]
        rates.append([value[0] for value, _ in found])
    rows = np.array([row[0] for _, row in found])
    change = np.subtract(rates[1], rates[0]) / by
    by_force = rows[:, index(f, DRIVE_FORCE)]
    # The body begins to pitch, which changes loads, and so the radii of the wheels, within the step.
    assert change == pytest.approx(by_force, rel=0.02, abs=3e-3)
    is_driven = np.array([False, False, True, True]) | (force < 0.0)
    assert np.all(by_force[is_driven] > 0.05)
    assert not by_force[~is_driven].any()


def test_a_correction_changes_the_car_and_the_slow_states(drive):
    f = drive
    before, slow, wheels = f.read_state().copy(), slow_states(f).copy(), f.car.view("now_wheels").copy()
    x = np.random.default_rng(3).normal(size=len(f.states)) * 1e-3
    f.errors.x[:] = x
    f.apply_corrections()
    after = f.read_state()
    coordinates = [*f.states.places(POSITION), *f.states.places(ATTITUDE)]
    assert (after - before)[: len(CHART)] == pytest.approx(x[coordinates], abs=1e-9)
    assert slow_states(f) - slow == pytest.approx(x[f.states[WHEEL_SLIP].stop :])
    assert not f.errors.x.any()
    assert (f.car.view("now_wheels") - wheels)[0] == pytest.approx(x[f.states[WHEEL_ANGLE]])
    assert f.car.constraint_violation() < 1e-8


def test_the_innovation_covariance_is_that_of_state_and_noise(drive):
    f = drive
    f.errors.matrix = np.eye(len(f.states)) * 0.01
    predicted, rows = linearise(f, "gnss.position", T_NOW, 3)
    noise = np.array([0.1, 0.2, 0.3])
    s = 0.01 * rows @ rows.T + np.diag(noise)
    nu = np.array([0.2, -0.1, 0.3])
    nis = f.evaluate(observation("gnss.position", T_NOW, predicted + nu, noise))
    assert nis == pytest.approx(nu @ np.linalg.solve(s, nu))


def test_variances_of_road_slopes_settle_at_their_configured_value():
    """Without measurements, from above and from below: √(Qr) = σ²."""
    f = new_filter(ground_slope=0.02, ground_slope_time=5.0)
    slopes = [index(f, ATTITUDE, "v1z"), index(f, ATTITUDE, "v2z")]
    for start in (1e-2, 1e-6):
        place(f, np.zeros(3), 0.3, 0.0)
        f.errors.matrix = np.eye(len(f.states)) * 1e-9
        for i in slopes:
            f.errors.set_variance(i, start)
        for group in (VELOCITY, ANGULAR_RATE, WHEEL_SLIP):
            f.car.view("density")[f.states[group]] = 0.0
        f.car.view("h")[0] = 0.1
        for _ in range(300):
            propagate(f)
            f.update_road(0.1)
            f.errors.x[:] = 0.0
        assert np.sqrt(f.variances[slopes]) == pytest.approx([0.02, 0.02], rel=0.05)


@pytest.mark.parametrize(
    ("tilt", "adaptive", "speed", "sigma"),
    [(0.1, True, 10.0, 0.1), (0.1, True, 0.0, 0.01), (0.02, True, 10.0, 0.01), (0.1, False, 10.0, 0.01)],
)
def test_a_road_slope_beyond_its_standard_deviation_increases_it(tilt, adaptive, speed, sigma):
    """Slope and bank are `tilt` for a minute: 10 σ increase σ, but not at standstill; 2 σ do not."""
    f = new_filter(ground_slope=0.01, unmodelled=Unmodelled(adaptive=adaptive))
    place(f, np.zeros(3), 0.0, speed)
    places = [index(f, ATTITUDE, "v1z"), index(f, ATTITUDE, "v2z")]
    f.car.view("ground")[:3] = np.array([-tilt, -tilt, 1.0]) / np.hypot(1.0, np.hypot(tilt, tilt))
    for _ in range(600):
        f.update_road(0.1)
        f.errors.x[:] = 0.0
    found = np.sqrt(0.5 * f.settings.ground_slope_time * f.car.view("density")[places])
    assert found == pytest.approx([sigma, sigma], rel=0.05)


@pytest.mark.parametrize("speed", [0.0, 20.0])
def test_output_sigmas_are_those_of_body_velocity_and_sideslip(speed):
    f = new_filter()
    place(f, np.zeros(3), 1.0, speed)
    f.errors.matrix = np.eye(len(f.states)) * 1e-12
    f.set_variance(VELOCITY, "ahead", 0.3**2)
    f.set_variance(VELOCITY, "left", 0.1**2)
    estimate = f.output()
    vx, vy, sideslip = (estimate[ESTIMATE_INDEX[f"sigma.{n}"]] for n in ("vx", "vy", "sideslip"))
    assert (vx, vy) == pytest.approx((0.3, 0.1), rel=1e-3)
    assert sideslip == pytest.approx(0.1 / speed if speed else np.pi, rel=1e-2)
