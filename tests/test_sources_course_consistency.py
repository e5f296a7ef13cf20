"""Jumps of the gyroscope's bias are detected by the course; sideslip, skids and latencies are not jumps."""

import dataclasses
import math

import numpy as np
import pytest
from estimator_rig import prototype

from vehicled.messages import Measurement
from vehicled.sources.checks.course_consistency import CourseConsistency
from vehicled.vehicle.sideslip import SteadySideslip

SPEED, REAR = 15.0, 1.3
STEADY = SteadySideslip(1.5, 0.006)


def run(
    bias=lambda t: 0.0,
    scale: float = 1.0,
    late: float = 0.0,
    noise: float = 0.0013,
    rate: float = 50.0,
    seconds=30.0,
    silent=lambda t: False,
    speed: float = SPEED,
    amplitude: float = 0.35,
    known: float = 0.0,
    slip: float = 0.003,
    slide=lambda t: 0.0,
    slides=lambda t: False,
):
    """Times (s) at which a jump was found on a winding road, where the sideslip is in proportion to the yaw rate.

    `known`: bias that the filter knows, rad/s; `slip`: slip angle of the rear tyres per lateral acceleration, rad
    per m/s²; `slide`: additional sideslip, rad; `slides`: whether tyres are known to slide.
    """
    random, check, found, yaw = (
        np.random.default_rng(1),
        CourseConsistency(prototype().sensors.imu, None, STEADY),
        [],
        0.0,
    )
    check.set_bias((0.0, 0.0, known), 0.0005)
    f = 0.35
    for k in range(round(100 * seconds)):
        t = 0.01 * k
        wz = amplitude * math.sin(2 * math.pi * f * t)
        at = round(t * 1e9)
        gyro = {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": scale * wz + bias(t)}
        if not silent(t):
            check.take(Measurement("imu", at, at, gyro), speed, slides=slides(t))
        if k % round(100 / rate) == 0:
            s = t - late
            yaw = amplitude / (2 * math.pi * f) * (1 - math.cos(2 * math.pi * f * s))
            beta = (REAR / speed - slip * speed) * amplitude * math.sin(2 * math.pi * f * s)
            course = (math.pi / 2 - yaw - beta - slide(s) + noise * random.standard_normal()) % (2 * math.pi)
            if (
                check.take(
                    Measurement(
                        "gnss", at, at + 50_000_000, {"gnss.course": course, "gnss.s_acc": noise * speed}
                    ),
                    speed,
                )
                is not None
            ):
                found.append(t)
                check.begin_anew()
    return found


@pytest.mark.parametrize("late", [-0.1, 0.0, 0.1])
@pytest.mark.parametrize("scale", [0.99, 1.01])
def test_constant_errors_of_scale_and_latency_are_not_jumps(late, scale):
    assert run(scale=scale, late=late) == []


def test_a_lane_change_on_a_motorway_is_not_a_jump():
    """At 50 m/s slip of the rear tyres gives a sideslip of −0.25 s times the yaw rate. Courses are 0.1 s late."""
    assert run(speed=50.0, amplitude=0.15, slip=0.0055, late=0.1) == []


@pytest.mark.parametrize(("height", "is_jump"), [(2.6, False), (0.0, True)])
def test_an_antenna_that_sways_as_a_van_rolls_is_not_a_jump(height, is_jump):
    """In a bend at 7 m/s the van rolls by 5° within half a second, 2.6 m below its antenna."""
    gnss = dataclasses.replace(prototype().sensors.gnss, antenna=(0.0, 0.0, height))
    check, found, speed = CourseConsistency(prototype().sensors.imu, gnss, STEADY), [], 7.0
    check.set_bias((0.0, 0.0, 0.0), 0.0005)
    for k in range(600):
        t, at = 0.01 * k, 10_000_000 * k
        rolling = 0.35 * math.sin(2 * math.pi * (t - 3.0)) ** 2 if 3.0 < t < 3.5 else 0.0
        check.take(Measurement("imu", at, at, {"imu.wx": rolling, "imu.wy": 0.0, "imu.wz": 0.4}), speed)
        if k % 10 == 0:
            course = (math.pi / 2 - 0.4 * t + 2.6 * rolling / speed) % (2 * math.pi)
            fix = Measurement("gnss", at, at, {"gnss.course": course, "gnss.s_acc": 0.01})
            found.append(check.take(fix, speed))
    assert any(jump is not None for jump in found) == is_jump


def test_a_bend_after_accelerating_is_not_a_jump():
    """Turning as fast as before, from 9 m/s in a town to 22 m/s: the sideslip is 2.6° less."""
    check = CourseConsistency(prototype().sensors.imu, None, STEADY)
    check.set_bias((0.0, 0.0, 0.0), 0.0005)
    yaw = 0.0
    for k in range(800):
        t, at = 0.01 * k, 10_000_000 * k
        wz = 0.3 if t < 2.0 or t > 6.0 else 0.0
        yaw += 0.01 * wz
        speed = 9.0 + 13.0 * min(max((t - 2.0) / 4.0, 0.0), 1.0)
        check.take(Measurement("imu", at, at, {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": wz}), speed)
        course = (math.pi / 2 - yaw - (REAR / speed - 0.005 * speed) * wz) % (2 * math.pi)
        fix = Measurement("gnss", at, at, {"gnss.course": course, "gnss.s_acc": 0.02})
        assert check.take(fix, speed) is None, t


def test_the_end_of_a_slide_after_a_fast_bend_is_not_a_jump():
    """Bends of 12 m/s² with 0.2 rad of slide, which ends 0.1 s after the lateral acceleration is below 8 m/s²."""
    period = 1 / 0.35

    def slide(t: float) -> float:
        """With the sign of the bend. 8 m/s² are exceeded from 0.116 to 0.384 periods after a change of the sign."""
        half, within = divmod(t, period / 2)
        begun = min(max((within - 0.116 * period) / 0.1, 0.0), 1.0)
        over = min(max((within - 0.384 * period) / 0.1, 0.0), 1.0)
        return 0.2 * (-1) ** int(half) * (begun - over)

    assert run(amplitude=0.8, slide=slide, late=0.08) == []


def test_a_swing_on_snow_is_not_a_jump_if_tyres_are_known_to_slide():
    """By 0.15 rad to both sides, with hardly any lateral acceleration."""

    def swing(t: float) -> float:
        return 0.15 * math.sin(2.0 * t) if t > 10.0 else 0.0

    gentle = {"amplitude": 0.05, "slide": swing, "seconds": 20.0}
    assert run(**gentle) != []
    assert run(**gentle, slides=lambda t: t > 9.9) == []


def test_a_jump_after_a_slide_is_found():
    found = run(lambda t: 0.1 if t > 15.0 else 0.0, slides=lambda t: 5.0 < t < 12.0)
    assert 15.0 < found[0] < 16.5


def test_a_constant_bias_that_the_filter_knows_is_not_a_jump():
    assert run(lambda t: 0.01, known=0.01) == []


@pytest.mark.parametrize(("rate", "noise"), [(50.0, 0.0013), (5.0, 0.007)])
def test_a_jump_is_found_within_a_second_and_a_half(rate, noise):
    found = run(lambda t: 0.1 if t > 10.0 else 0.0, rate=rate, noise=noise)
    assert 10.0 < found[0] < 11.5


@pytest.mark.parametrize(("drift", "within"), [(0.2, 1.0), (0.05, 1.7), (0.02, 2.5)])
def test_a_drifting_bias_is_found_by_the_angle_it_adds(drift, within):
    """The drifts add an angle of 0.03 rad in 0.5, 1.1 and 1.7 s. An angle counts only once."""
    found = run(lambda t: drift * max(t - 10.0, 0.0), seconds=10.0 + within)
    assert found
    assert min(found) > 10.3
    assert len(found) < 3


def test_a_bias_with_a_large_sigma_is_not_a_jump():
    check = CourseConsistency(prototype().sensors.imu, None, STEADY)
    check.set_bias((0.0, 0.0, 0.0), 0.01)
    for k in range(600):
        at = 10_000_000 * k
        check.take(Measurement("imu", at, at, {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": 0.02}), SPEED)
        assert (
            check.take(Measurement("gnss", at, at, {"gnss.course": 1.0, "gnss.s_acc": 0.02}), SPEED) is None
        )
        assert check.agrees


def test_a_constant_bias_on_a_straight_road_at_the_start_is_not_a_jump():
    """The first courses come before the filter's bias is given: it is not known to be zero then."""
    check = CourseConsistency(prototype().sensors.imu, None, STEADY)
    for k in range(600):
        at = 10_000_000 * k
        check.take(Measurement("imu", at, at, {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": 0.0065}), SPEED)
        assert (
            check.take(Measurement("gnss", at, at, {"gnss.course": 1.0, "gnss.s_acc": 0.02}), SPEED) is None
        )
        if k % 10 == 5:
            check.set_bias((0.0, 0.0, 0.0065 * min(k / 300, 1.0)), max(0.01 - 0.0001 * k, 0.0006))


def test_a_gap_of_the_gyroscope_is_not_a_jump():
    """The course turns further during the gap."""
    assert run(silent=lambda t: 10.0 < t < 16.0) == []
    assert run(silent=lambda t: t > 10.0 and round(t * 100) % 100 > 5) == []


def test_noise_of_a_conventional_receiver_is_not_a_jump():
    """0.1 m/s of noise, which is about one degree at 6.2 m/s."""
    assert run(rate=10.0, noise=0.1 / 6.2, speed=6.2, amplitude=0.0, seconds=150.0) == []


def test_noise_of_courses_at_low_speed_is_no_jump_once_the_car_is_fast():
    """0.1 m/s of noise are 0.017 rad of course at 6 m/s, and 0.005 rad at 20 m/s: both belong to a difference."""
    found = []
    for seed in range(60):
        random, check = np.random.default_rng(seed), CourseConsistency(prototype().sensors.imu, None, STEADY)
        check.set_bias((0.0, 0.0, 0.0), 0.0002)
        for k in range(500):
            at, speed = 10_000_000 * k, min(5.5 + 0.03 * k, 20.0)
            check.take(Measurement("imu", at, at, dict.fromkeys(("imu.wx", "imu.wy", "imu.wz"), 0.0)), speed)
            if k % 20 == 0:
                values = {"gnss.course": 1.0 + 0.1 / speed * random.standard_normal(), "gnss.s_acc": 0.1}
                found.append(check.take(Measurement("gnss", at, at + 50_000_000, values), speed))
    assert [jump for jump in found if jump is not None] == []


def test_a_course_without_speed_is_not_compared() -> None:
    """As when the filter restarts in a bend."""
    check = CourseConsistency(prototype().sensors.imu, None, STEADY)
    for k in range(100):
        at = 10_000_000 * k
        speed = SPEED if k < 90 else 0.0
        values = {"imu.wz": 0.3} if k < 90 else {}
        check.take(Measurement("imu", at, at, values | {"gnss.course": -0.003 * k}), speed)
    assert check.take(Measurement("gnss", at, at, {"gnss.course": 2.0}), 0.0) is None


def drive_hard(excess: float) -> list[float]:
    """Times of jumps in a bend of 7 m/s², with a bias of 0.1 rad/s; `excess`: gyroscope less other sensors, rad/s."""
    check, found, rate = CourseConsistency(prototype().sensors.imu, None, STEADY), [], 7.0 / SPEED
    check.set_bias((0.0, 0.0, 0.0), 0.0005)
    for k in range(400):
        t, at = 0.01 * k, 10_000_000 * k
        check.take(
            Measurement("imu", at, at, {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": rate + 0.1}), SPEED, excess
        )
        course = (math.pi / 2 - rate * t) % (2 * math.pi)
        if check.take(
            Measurement("gnss", at, at, {"gnss.course": course, "gnss.s_acc": 0.02}), SPEED, excess
        ):
            found.append(t)
    return found


def test_a_bias_in_a_hard_bend_is_found_if_other_sensors_show_it_too():
    """By the gyroscope alone the lateral acceleration is 8.5 m/s², at which the car may skid."""
    assert drive_hard(excess=0.0) == []
    assert drive_hard(excess=0.1)[0] < 1.0


@pytest.mark.parametrize(("drift", "least", "most"), [(0.0, 0.0, 0.0), (0.02, 0.015, 0.045)])
def test_a_drift_is_doubted_before_it_counts_as_a_jump(drift, least, most):
    """Straight ahead, with courses as noisy as those of RTK: 1.9 s after its beginning it has turned by 0.036 rad."""
    check, random = CourseConsistency(prototype().sensors.imu, None, STEADY), np.random.default_rng(3)
    check.set_bias((0.0, 0.0, 0.0), 0.0005)
    for k in range(990):
        t, at = 0.01 * k, 10_000_000 * k
        gyro = {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": drift * max(t - 8.0, 0.0)}
        check.take(Measurement("imu", at, at, gyro), SPEED)
        if k % 10 == 0:
            course = math.pi / 2 + 0.0013 * random.standard_normal()
            fix = Measurement("gnss", at, at, {"gnss.course": course, "gnss.s_acc": 0.0013 * SPEED})
            check.take(fix, SPEED)
    assert least <= check.apart <= most
