"""Estimated errors of sensors and of the model, compared with sensors and cars that have these errors."""

import dataclasses
import math

import numpy as np
import pytest
from filter_rig import STEP_NS, H, index, linearise, new_filter, observation, place, slow_states, turn_left

from vehicled.filter.boundary import Mounting
from vehicled.filter.states import DRIVE_FORCE, TYRE_ERROR, TYRE_FORCE, UNMODELLED, Group
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import ESTIMATE_INDEX
from vehicled.sources.gnss.model import GNSS
from vehicled.sources.imu.model import ACCELEROMETER_SCALE, ALIGNMENT, GYRO_SCALE, MEAN_FORCES
from vehicled.sources.sensors import Sensors
from vehicled.sources.speeds.vehicle_speed import SPEED_LATENCY
from vehicled.sources.speeds.wheels import WHEEL_LATENCY
from vehicled.vehicle.arrays import AHEAD, CHART_SIZE, DRIVE_TORQUE, POSE, REAR, YAW_RATE

MOUNTED = Mounting((-0.4, 0.3, 1.1), (0.2, -0.15, 0.3))
BEND = 125 * STEP_NS
SIZES = {"gnss.position": 3, "gnss.speed": 1, "gnss.course": 1, "imu.gyro": 3, "imu.accel": 3}
RATES = {"wz": 1.2, "-wy": -0.9, "wx": 0.8}
"""rad/s, far above those from which scale and axes of gyroscopes are observable."""


@pytest.fixture(scope="module")
def whole() -> VehicleFilter:
    return new_filter("errorEKF_FE", MOUNTED)


@pytest.fixture
def bend(whole) -> VehicleFilter:
    """A filter at 15 m/s in a bend."""
    mount(whole, MOUNTED)
    drive(whole, BEND // STEP_NS)
    return whole


def mount(f: VehicleFilter, mounting: Mounting) -> None:
    f.configure(f.settings, dataclasses.replace(Sensors().make_setup(), mounting=mounting))


def drive(f: VehicleFilter, steps: int) -> None:
    slow_states(f)[:] = 0.0
    f.errors.x[:] = 0.0
    f.errors.matrix = np.eye(len(f.states)) * 1e-4
    place(f, np.zeros(3), 0.4, 15.0)
    f.car.inputs[0] = 0.0
    turn_left(f, steps)


def spin(f: VehicleFilter) -> None:
    """Give the car rates about all axes."""
    change = np.zeros(CHART_SIZE)
    pose = f.read_state()
    for name, rate in RATES.items():
        change[POSE.index(name)] = rate - pose[POSE.index(name)]
    f.car.correct(change, carry=True)
    f.restart_history(BEND)


def set_slow(f: VehicleFilter, group: Group, values) -> None:
    slow = np.zeros(len(f.states))
    slow[f.states[group]] = values
    slow_states(f)[:] = slow[-len(slow_states(f)) :]


def turned(angles: np.ndarray) -> np.ndarray:
    """(3, 3) rotation from the axes of a sensor to axes that are turned by small angles."""
    x, y, z = angles
    return np.eye(3) - np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


@pytest.mark.parametrize("removed", [False, True])
@pytest.mark.parametrize("kind", ["imu.gyro", "imu.accel"])
def test_an_estimated_alignment_acts_like_a_sensor_with_rotated_axes(bend, kind, removed):
    """Also for a sensor that subtracts gravity, in the true directions of its axes."""
    f = bend
    spin(f)
    angles = np.array([0.01, -0.02, 0.015])
    plain = dataclasses.replace(MOUNTED, gravity_removed=removed)
    mount(f, plain)
    nominal, _ = linearise(f, kind, BEND, 3)
    if kind == "imu.accel":  # lasting forces
        f.car.view(MEAN_FORCES)[:] = np.tile(nominal, 2)
    mount(f, dataclasses.replace(plain, R_imu_vehicle=turned(angles)))
    real, _ = linearise(f, kind, BEND, 3)
    mount(f, plain)
    before, rows = linearise(f, kind, BEND, 3, real)
    assert before == pytest.approx(nominal)
    set_slow(f, ALIGNMENT, angles)
    estimated, _ = linearise(f, kind, BEND, 3, real)
    assert np.abs(real - nominal).max() > 0.01
    # The alignment of gyroscopes applies to measured rates, which are rotated already: an error of second order.
    second = 0.027**2 * np.abs(real).max()
    assert estimated == pytest.approx(real, abs=second if kind == "imu.gyro" else 1e-6)
    # Vertical axes do not correct the alignment: curved roads lift cars, and the yaw rate depends on tyres.
    found = rows[:, f.states[ALIGNMENT]] @ angles
    assert found[:2] == pytest.approx((real - nominal)[:2], rel=0.03, abs=1e-3 + second)
    assert abs(found[2]) < 1e-9


def test_a_swaying_car_shows_neither_alignment_nor_scale_of_gyroscopes(bend):
    """The scale is not corrected; its variance counts, or the heading after a spin would seem far too certain."""
    f = bend
    spin(f)
    swaying, scale = f.car.view("swaying"), index(f, GYRO_SCALE)
    of_rates, corrected = {}, {}
    for square in (0.0, 0.02**2, 0.1**2):
        swaying[:] = square
        _, rows = linearise(f, "imu.gyro", BEND, 3)
        of_rates[square] = np.abs(rows[:, [*f.states.places(ALIGNMENT), scale]]).max(axis=0)
        before = f.save()
        f.update(observation("imu.gyro", BEND, [0.0, 0.0, 0.3], [1e-6] * 3), (math.inf, math.inf))
        corrected[square] = abs(f.errors.x[scale])
        f.restore(before)
    swaying[:] = 0.0
    assert of_rates[0.0][-1] > 0.2
    assert of_rates[0.02**2] == pytest.approx(of_rates[0.0])
    assert not of_rates[0.1**2][:-1].any()
    assert of_rates[0.1**2][-1] == pytest.approx(of_rates[0.0][-1])
    assert corrected[0.02**2] == pytest.approx(corrected[0.0]) != 0.0
    assert corrected[0.1**2] < 1e-12


def test_the_scale_of_gyroscopes_is_observable_at_large_rates_only(bend):
    f, place_of = bend, index(bend, GYRO_SCALE)
    before, small = linearise(f, "imu.gyro", BEND, 3)
    assert np.abs(before[:2]).max() < 0.03 < 0.2 < before[2]
    assert np.abs(small[:2, place_of]).max() < 0.003
    assert 0.8 * before[2] < small[2, place_of] < before[2]
    spin(f)
    before, rows = linearise(f, "imu.gyro", BEND, 3)
    assert before == pytest.approx([RATES["wx"], -RATES["-wy"], RATES["wz"]])
    set_slow(f, GYRO_SCALE, 0.01)
    after, _ = linearise(f, "imu.gyro", BEND, 3)
    assert after == pytest.approx(1.01 * before)
    assert rows[:, place_of] == pytest.approx((after - before) / 0.01, rel=0.02)


def test_the_lateral_accelerometer_scale_acts_like_additional_roll(bend):
    """The scale is a roll in proportion to the lateral acceleration; the published roll includes it."""
    f, scale = bend, 0.02
    before, rows = linearise(f, "imu.accel", BEND, 3)
    roll, ay = (f.output()[ESTIMATE_INDEX[name]] for name in ("roll", "ay"))
    set_slow(f, ACCELEROMETER_SCALE, scale)
    after, _ = linearise(f, "imu.accel", BEND, 3)
    turned_more = f.output()[ESTIMATE_INDEX["roll"]] - roll
    turn = float(f.pose[AHEAD] * f.pose[YAW_RATE])
    assert turn > 1.0
    assert after - before == pytest.approx([0.0, scale * turn, 0.0], abs=1e-3 * turn)
    assert 0.8 * turn < rows[1, index(f, ACCELEROMETER_SCALE)] < turn
    assert turned_more == pytest.approx(scale * ay / 9.81, rel=0.01)
    assert 9.81 * turned_more == pytest.approx((after - before)[1], rel=0.2)


@pytest.mark.parametrize("kind", ["gnss.position", "gnss.speed", "gnss.course"])
def test_an_estimated_antenna_position_acts_like_an_antenna_at_that_position(bend, kind):
    f, m, offset = bend, SIZES[kind], np.array([0.05, -0.08, 0.04])
    nominal, rows = linearise(f, kind, BEND, m)
    set_slow(f, GNSS.antenna, offset)
    estimated, _ = linearise(f, kind, BEND, m)
    set_slow(f, GNSS.antenna, 0.0)
    mount(f, dataclasses.replace(MOUNTED, antenna=tuple(np.add(MOUNTED.antenna, offset))))
    real, _ = linearise(f, kind, BEND, m)
    # Speed and course depend on the antenna position by the yaw rate only, nearly linearly.
    assert estimated == pytest.approx(real, abs=1e-5)
    assert rows[:, f.states[GNSS.antenna]] @ offset == pytest.approx(real - nominal, abs=1e-5)


@pytest.mark.parametrize("kind", ["gnss.position", "gnss.speed", "gnss.course"])
def test_rows_of_a_receiver_latency_agree_with_earlier_fixes(bend, kind):
    f, m, late = bend, SIZES[kind], 5 * STEP_NS
    (earlier, _), (_, rows), (later, _) = (linearise(f, kind, BEND - k * late, m) for k in (2, 1, 0))
    by_latency = (earlier - later) / (2e-9 * late)
    # Slow changes count less, as they do not determine a latency; all components of a reading by the same share.
    slow = {"gnss.position": 1.0, "gnss.speed": 0.2, "gnss.course": 0.05}[kind]
    counted = by_latency * np.clip(np.linalg.norm(by_latency) / slow - 1.0, 0.0, 1.0)
    least = {"gnss.position": 0.02, "gnss.speed": 0.02, "gnss.course": 0.005}[kind]
    assert rows[:, index(f, GNSS.latency)] == pytest.approx(counted, rel=0.02, abs=least)
    of_velocity = rows[:, index(f, GNSS.velocity_latency)]
    assert (
        not of_velocity.any() if kind == "gnss.position" else of_velocity == pytest.approx(counted, rel=0.02)
    )
    if kind == "gnss.course":
        assert by_latency[0] > 0.2  # clockwise from north, and the car turns left


@pytest.mark.parametrize(
    ("kind", "group"),
    [
        ("vehicle.speed", SPEED_LATENCY),
        ("wheel.fl.speed", WHEEL_LATENCY),
        ("wheel.fr.speed", WHEEL_LATENCY),
    ],
)
def test_an_estimated_latency_of_speeds_acts_like_earlier_readings(bend, kind, group):
    """The car accelerates: a constant speed shows no latency. The wheels are not driven.

    Their rates then change only with the speed and the yaw rate.
    """
    f, late = bend, 0.01
    _, steady = linearise(f, kind, BEND, 1)
    f.car.corner_inputs[DRIVE_TORQUE, REAR] = 800.0
    for k in range(1, 26):
        f.predict(BEND + k * STEP_NS, H)
    f.car.corner_inputs[DRIVE_TORQUE, REAR] = 0.0
    now = BEND + 25 * STEP_NS
    before, rows = linearise(f, kind, now, 1)
    earlier, _ = linearise(f, kind, now - round(late * 1e9), 1)
    set_slow(f, group, late)
    estimated, _ = linearise(f, kind, now, 1)
    assert abs(before - estimated) > 0.02
    assert estimated - before == pytest.approx(earlier - before, rel=0.25)
    assert rows[:, index(f, group)] == pytest.approx((estimated - before) / late, rel=0.02)
    assert abs(steady[0, index(f, group)]) < 0.5 * abs(rows[0, index(f, group)])


# -- unmodelled accelerations --------------------------------------------------------------------------------

LACKING = [(UNMODELLED, "ahead", 0), (UNMODELLED, "left", 1), (UNMODELLED, "yaw", None), (DRIVE_FORCE, "", 0)]


@pytest.mark.parametrize(("group", "element", "axis"), LACKING)
def test_a_late_sample_includes_a_force_that_was_estimated_since_once(bend, group, element, axis):
    f, size = bend, 0.3
    place_of = index(f, group, element)
    f.errors.matrix = np.zeros((len(f.states),) * 2)
    f.restart_history(BEND)
    f.set_variance(group, element, 1.0)
    before, rows = linearise(f, "imu.accel", BEND, 3)
    value = before + rows[:, place_of] * size
    f.update(observation("imu.accel", BEND, value, [1e-12] * 3), (np.inf, np.inf))
    f.apply_corrections()
    # After some steps the force acts on the simulated car.
    for k in (1, 2):
        f.predict(BEND + k * STEP_NS, H)
    assert linearise(f, "imu.accel", BEND, 3)[0] == pytest.approx(value, abs=1e-6)


@pytest.mark.parametrize("late", [0.0, 0.4])
@pytest.mark.parametrize(("group", "element", "axis"), LACKING)
def test_a_force_estimated_now_is_included_in_past_samples(bend, group, element, axis, late):
    """A sample before the correction is that of a car on which the force has acted all along, and follows its row."""
    f, size = bend, 0.3
    place_of, t = index(f, group, element), BEND - round(late * STEP_NS)
    start = BEND - STEP_NS
    before, rows = linearise(f, "imu.accel", t, 3)
    f.errors.x[place_of] = size
    f.apply_corrections()
    corrected, _ = linearise(f, "imu.accel", t, 3)
    assert corrected - before == pytest.approx(rows[:, place_of] * size, abs=1e-9)

    def drive_with(force: float) -> np.ndarray:
        drive(f, start // STEP_NS)
        slow = np.zeros(len(f.states))
        slow[place_of] = force
        slow_states(f)[:] = slow[-len(slow_states(f)) :]
        f.predict(start + STEP_NS, H)
        return linearise(f, "imu.accel", start + STEP_NS, 3)[0]

    real = drive_with(size) - drive_with(0.0)
    changed = corrected - before
    if axis is None:  # by the lever arm alone
        arm = np.array(MOUNTED.imu)
        axis, real_size = (0, -arm[1] * size) if abs(arm[1]) > abs(arm[0]) else (1, arm[0] * size)
        assert changed[axis] == pytest.approx(real_size, rel=0.1)
    # Rotating wheels act as 4 % more mass, and tyres reduce the change a little within a step. The motion of the body
    # on its springs is not in the row: with an unmeasured drive force it begins to pitch.
    assert real[axis] == pytest.approx(changed[axis], rel=0.16 if group is DRIVE_FORCE else 0.12)


def test_an_observation_later_than_the_last_step_is_extrapolated(bend):
    """A negative latency requires this: if it changed no prediction, its estimate would grow without limit."""
    lead = 0.02
    now, _ = linearise(bend, "gnss.position", BEND, 3)
    ahead, _ = linearise(bend, "gnss.position", BEND + round(lead * 1e9), 3)
    drive_on = bend.save()
    for k in range(1, round(lead / H) + 1):
        bend.predict(BEND + k * STEP_NS, H)
    later, _ = linearise(bend, "gnss.position", BEND + round(lead * 1e9), 3)
    bend.restore(drive_on)
    assert np.linalg.norm(later - now) == pytest.approx(15.0 * lead, rel=0.1)
    assert ahead == pytest.approx(later, abs=0.01)


def test_past_samples_after_the_correction_have_the_force_once(bend):
    """The force acts on the car from the next step on, and must not be added again to later samples."""
    f, place_of = bend, index(bend, UNMODELLED, "ahead")
    saved = f.save()
    readings = []
    for size in (0.0, 0.4):
        f.restore(saved)
        f.restart_history(BEND)
        f.errors.x[:] = 0.0
        f.errors.x[place_of] = size
        f.apply_corrections()
        for k in range(1, 6):
            f.predict(BEND + k * STEP_NS, H)
        readings.append([linearise(f, "imu.accel", BEND + k * STEP_NS, 3)[0][0] for k in (2, 4, 5)])
    changes = np.subtract(*readings[::-1])
    fading = np.exp(-H / f.settings.unmodelled.time) ** np.array([2, 4, 5])
    assert changes == pytest.approx(0.4 * fading, rel=0.08)


def test_accelerometers_observe_tyre_errors_through_tyre_forces(bend):
    _, rows = linearise(bend, "imu.accel", BEND, 3)
    assert rows[1, bend.states[TYRE_FORCE]].all()
    assert not rows[:, bend.states[TYRE_ERROR]].any()
    assert bend.calc_transition()[bend.states[TYRE_FORCE], bend.states[TYRE_ERROR]].any()
