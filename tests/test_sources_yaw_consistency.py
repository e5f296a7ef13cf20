"""The gyroscope is checked by wheels and steering."""

import dataclasses
import math
from collections import deque
from collections.abc import Callable

import numpy as np
import pytest
from estimator_rig import prototype

from vehicled.messages import Measurement
from vehicled.sources.checks.yaw_consistency import YawConsistency

SPEED, FAILS = 15.0, 12.0


def turning(t: float) -> float:
    return 0.3 * math.sin(0.7 * t)


def run(
    gyroscope: Callable[[float], float] = turning,
    wheels: Callable[[float], float] = turning,
    steering: Callable[[float], float | None] = turning,
    until: float = 25.0,
    counters: bool = True,
    made: Callable[[float, YawConsistency], None] = lambda t, yaw: None,
    course: Callable[[float], float] | None = None,
    late: float = 0.0,
    speed: float = SPEED,
    estimated: Callable[[float], float] = lambda t: math.inf,
    accelerometers: tuple[str, ...] = ("ax", "ay", "az"),
    course_agrees: Callable[[float], bool] = lambda t: True,
    locked: Callable[[float], bool] = lambda t: False,
    slips: Callable[[float], tuple[float, float]] = lambda t: (0.0, 0.0),
    jitter: float = 0.0,
) -> list[tuple[float, bool]]:
    """Time and whether the gyroscope is plausible, every 4 ms; radii are 1 and 2 % off, counters have 48 teeth.

    `course`: rate of the course, rad/s, which the accelerometers measure with the body's roll and a bank of 0.03
    rad. `late`: delay of the wheels relative to the gyroscope, s. `slips`: shares by which wheels turn slower than
    without slip. `jitter`: of the wheels' times, 1 σ, s.
    """
    random = np.random.default_rng(1)
    configuration = prototype()
    imu = dataclasses.replace(configuration.sensors.imu, rotation=(0.0, 0.0, 0.0))
    yaw = YawConsistency(imu, configuration.vehicle)
    axle = configuration.vehicle.front
    radius, half = axle.tyre.radius, axle.hard_points.wheel_center[1]
    angles, found, tooth = [0.0, 0.0], [], 2.0 * math.pi / 48
    waiting: deque[Measurement] = deque()
    for k in range(round(until / 0.004)):
        t = 0.004 * k
        rates = [(speed - half * wheels(t)) / radius / 1.01, (speed + half * wheels(t)) / radius / 1.02]
        rates = [rate * (1.0 - slip) for rate, slip in zip(rates, slips(t), strict=True)]
        if locked(t):
            rates = [0.0, 0.0]
        angles = [a + 0.004 * r for a, r in zip(angles, rates, strict=True)]
        values = {"imu.wx": 0.0, "imu.wy": 0.0, "imu.wz": gyroscope(t)}
        if course is not None:
            forces = {"ax": 0.0, "ay": 1.07 * speed * course(t) + 0.3, "az": 9.81}
            values |= {f"imu.{axis}": forces[axis] for axis in accelerometers}
        by_steering = steering(t)
        offset = None if by_steering is None else by_steering + 0.03
        t_ns = round(t * 1e9)
        if k % 5 == 0:
            rolled: dict[str, float] = {}
            for n, w in enumerate(("fl", "fr")):
                rolled |= (
                    {f"wheel.{w}.angle": math.floor(angles[n] / tooth) * tooth}
                    if counters
                    else {f"wheel.{w}.speed": rates[n]}
                )
            at = t_ns + round(jitter * 1e9 * random.standard_normal()) if jitter else t_ns
            waiting.append(Measurement("car", at, round((t + late) * 1e9), rolled))
        while waiting and waiting[0].arrival <= t_ns:
            yaw.take(waiting.popleft(), speed, offset, course_agrees(t))
        ahead = min(speed, estimated(t))
        sound = yaw.take(Measurement("car", t_ns, t_ns, values), ahead, offset, course_agrees(t))
        found.append((t, sound))
        made(t, yaw)
    return found


def after(otherwise: Callable[[float], float], until: float = math.inf) -> Callable[[float], float]:
    return lambda t: otherwise(t) if FAILS < t < until else turning(t)


@pytest.mark.parametrize("counters", [True, False])
def test_a_healthy_gyroscope_is_plausible(counters):
    assert all(sound for _, sound in run(counters=counters))


@pytest.mark.parametrize("counters", [True, False])
@pytest.mark.parametrize(
    ("wrong", "within"), [(lambda t: turning(t) + 0.3, 0.8), (lambda t: turning(t) + 3.0, 0.004)]
)
def test_a_gyroscope_that_wheels_and_steering_contradict_is_implausible(counters, wrong, within):
    found = run(after(wrong), counters=counters)
    assert all(sound for t, sound in found if t <= FAILS)
    assert not any(sound for t, sound in found if t > FAILS + within)


@pytest.mark.parametrize("counters", [True, False])
@pytest.mark.parametrize("late", [0.25, 0.8])
def test_late_wheels_are_compared_with_the_gyroscope_of_their_own_time(counters, late):
    assert all(sound for _, sound in run(lambda t: turning(t) + 0.02, counters=counters, late=late))
    found = run(after(lambda t: turning(t) + 0.6), counters=counters, late=late)
    assert all(sound for t, sound in found if t < FAILS)
    assert not any(sound for t, sound in found if t > FAILS + late + 1.0)


def test_wheels_that_come_too_late_are_not_compared():
    assert all(sound for _, sound in run(after(lambda t: turning(t) + 0.3), late=1.2))


def test_only_the_sample_with_a_spike_is_implausible():
    found = run(lambda t: 5.0 if 12.0 <= t < 12.004 else turning(t))
    assert [t for t, sound in found if not sound] == [pytest.approx(12.0)]


def test_a_rate_that_has_jumped_far_away_is_not_sound_because_time_has_passed():
    """In deg/s. Late wheels seem to slip, so that they do not contradict it."""
    factor = lambda t: 57.3 * turning(t)  # noqa: E731
    followed: list[float] = []

    def note(t: float, yaw: YawConsistency) -> None:
        if t > FAILS and not yaw.is_plausible:
            followed.append(yaw.jump.followed)

    slips = lambda t: (0.08, 0.08) if t > FAILS else (0.0, 0.0)  # noqa: E731
    found = run(after(factor), course=turning, slips=slips, until=FAILS + 3.0, made=note)
    assert all(sound for t, sound in found if t <= FAILS)
    assert not any(sound for t, sound in found if t > FAILS + 0.01)
    assert abs(followed[0]) < 0.2  # none of these samples has been used: 0.15 rad are by slip and teeth


def test_a_gyroscope_that_has_jumped_is_used_once_others_confirm_it():
    wrong = after(lambda t: turning(t) + 3.0, FAILS + 1.0)
    found = run(wrong, steering=lambda t: None, course=turning)
    assert not any(sound for t, sound in found if FAILS < t < FAILS + 1.0)
    assert all(sound for t, sound in found if t > FAILS + 2.5)


def test_without_steering_wheels_and_lateral_acceleration_contradict_a_gyroscope():
    wrong = after(lambda t: turning(t) + 0.4)
    found = run(wrong, steering=lambda t: None, course=turning, until=FAILS + 3.0)
    assert all(sound for t, sound in found if t <= FAILS)
    assert not any(sound for t, sound in found if t > FAILS + 0.9)
    spins = after(lambda t: 0.6)
    assert all(sound for _, sound in run(spins, spins, steering=lambda t: None, course=turning))


def test_late_samples_are_plausible():
    """A device may deliver samples that it has held back, and that are older than the one before."""
    configuration = prototype()
    yaw = YawConsistency(configuration.sensors.imu, configuration.vehicle)
    for t in (0.0, 0.1, 0.02, 0.04, 0.06, 0.08, 0.12):
        values = dict.fromkeys(("imu.wx", "imu.wy"), 0.0) | {"imu.wz": 0.1 * t}
        assert yaw.take(Measurement("car", round(t * 1e9), round(0.12e9), values), SPEED, 0.0)


def test_a_gyroscope_that_only_wheels_or_only_steering_contradict_is_plausible():
    assert all(sound for _, sound in run(wheels=after(lambda t: turning(t) + 0.5)))
    assert all(sound for _, sound in run(steering=after(lambda t: turning(t) + 0.5)))
    assert all(sound for _, sound in run(after(lambda t: 0.6), steering=lambda t: None))


def test_a_gyroscope_that_the_lateral_acceleration_confirms_is_plausible():
    """Under hard braking in a turn, wheels slip and the car understeers: wheels and steering show more yaw rate."""
    further = after(lambda t: turning(t) + 0.5)
    assert not all(sound for _, sound in run(wheels=further, steering=further))
    assert all(sound for _, sound in run(wheels=further, steering=further, course=turning))


def test_lateral_acceleration_without_other_axes_confirms_the_gyroscope():
    """Stability control units have such sensors. The vertical axis of the accelerometers is not needed."""
    further = after(lambda t: turning(t) + 0.5)
    assert all(s for _, s in run(wheels=further, steering=further, course=turning, accelerometers=("ay",)))
    assert not all(
        s for _, s in run(wheels=further, steering=further, course=turning, accelerometers=("az",))
    )


def test_in_a_fast_bend_wheels_and_steering_that_show_more_yaw_rate_do_not_contradict():
    """At 25 m/s and 7 m/s², wheels under load and steering of this car show twice the yaw rate."""

    def bends(t: float) -> float:
        return 0.288 * math.sin(0.7 * t)

    def by_wheels(t: float) -> float:
        return 0.569 / 0.288 * bends(t)

    def by_steering(t: float) -> float:
        return 0.541 / 0.288 * bends(t)

    assert all(sound for _, sound in run(bends, by_wheels, by_steering, speed=25.0))
    wrong = run(lambda t: 0.0 if t > FAILS else bends(t), by_wheels, by_steering, speed=25.0)
    assert not all(sound for t, sound in wrong if t > FAILS + 1.0)


@pytest.mark.parametrize("wrong", [lambda t: turning(t) + 0.3, lambda t: 0.0, lambda t: -turning(t)])
def test_a_gyroscope_that_the_lateral_acceleration_contradicts_too_is_implausible(wrong):
    found = run(after(wrong), course=turning, until=FAILS + 3.0)
    assert all(sound for t, sound in found if t <= FAILS)
    assert sum(not sound for _, sound in found) > 250


def test_a_gyroscope_is_used_again_once_its_error_has_ended():
    found = run(after(lambda t: turning(t) + 0.3, 15.0))
    again = next(t for t, sound in found if t > 15.0 and sound)
    assert 15.9 < again < 19.5
    assert all(sound for t, sound in found if t > again)


@pytest.mark.parametrize(("wheels", "agree"), [(turning, True), (lambda t: turning(t) + 0.1, False)])
def test_wheels_show_whether_the_gyroscope_has_a_false_angle(wheels, agree):
    """0.1 rad within a second: by a jump of its bias, or by a true turn that only the course does not show."""
    shown: list[bool | None] = []

    def note(t: float, yaw: YawConsistency) -> None:
        if FAILS + 0.9 < t < FAILS + 1.1:
            shown.append(yaw.confirm(0.1, 1.0))

    run(after(lambda t: turning(t) + 0.1), wheels=after(wheels), until=FAILS + 1.2, made=note)
    # The resolution of a tooth is 0.025 rad.
    assert shown.count(True) > 0.7 * len(shown) if agree else True not in shown


def test_locked_wheels_do_not_confirm_a_jump_of_the_gyroscope():
    """If a car slides straight on in a bend, its course differs from the gyroscope."""
    found: list[bool | None] = []

    def note(t: float, yaw: YawConsistency) -> None:
        if t > FAILS + 0.5:
            found.append(yaw.confirm(0.3, 1.0))

    run(locked=lambda t: t > FAILS, until=FAILS + 2.0, made=note)
    assert set(found) == {False}


@pytest.mark.parametrize("slips", [(0.08, 0.02), (-0.02, -0.08), (0.0, -0.06)])
def test_wheels_that_slip_by_brakes_or_engine_do_not_confirm_a_jump(slips):
    """ABS and wheel spin on snow make them show 0.6 rad of turn, as does the steering of a car that understeers."""
    shown: list[bool | None] = []

    def note(t: float, yaw: YawConsistency) -> None:
        if FAILS + 1.0 < t < FAILS + 3.0:
            shown.extend(yaw.confirm(angle, 1.0) for angle in (-0.6, 0.6, -0.1, 0.1))

    further = after(lambda t: turning(t) + 0.5)
    slide = lambda t: slips if t > FAILS else (0.0, 0.0)  # noqa: E731
    found = run(steering=further, slips=slide, until=FAILS + 3.0, made=note)
    assert all(sound for _, sound in found)
    assert True not in shown
    assert shown[2:4] == [None, None]


def test_wheels_that_slip_do_not_make_a_wrong_gyroscope_plausible():
    """Brakes, or an estimate made wrong by the gyroscope, make wheels slip relative to the estimated speed."""
    wrong = after(lambda t: turning(t) + 0.4)
    found = run(wrong, slips=lambda t: (0.05, 0.05) if t > FAILS + 1.0 else (0.0, 0.0), until=FAILS + 2.5)
    assert not any(sound for t, sound in found if t > FAILS + 0.9)


def test_wheels_that_slip_for_a_while_are_compared_again_afterwards():
    wrong = after(lambda t: turning(t) + 0.3)
    found = run(wrong, slips=lambda t: (0.08, 0.02) if FAILS - 4.0 < t < FAILS - 1.0 else (0.0, 0.0))
    assert all(sound for t, sound in found if t <= FAILS)
    assert not any(sound for t, sound in found if FAILS + 0.8 < t < FAILS + 2.0)


@pytest.mark.parametrize(("angle", "expected"), [(0.1, None), (-0.1, None), (0.2, True), (-0.2, True)])
def test_without_wheels_an_angle_beyond_any_sideslip_is_a_jump(angle, expected):
    configuration = prototype()
    assert YawConsistency(configuration.sensors.imu, configuration.vehicle).confirm(angle, 1.0) is expected


def test_a_gyroscope_that_is_right_again_is_used_even_if_the_steering_is_silent():
    wrong = after(lambda t: turning(t) + 0.6, FAILS + 3.0)
    found = run(wrong, steering=lambda t: turning(t) if t < FAILS + 2.0 else None)
    assert not any(sound for t, sound in found if FAILS + 1.0 < t < FAILS + 2.0)
    assert all(sound for t, sound in found if t > FAILS + 4.5)


def test_a_gyroscope_that_was_implausible_in_a_spin_is_used_once_the_car_is_slow():
    """A slow car is not compared, so no later comparison would make the gyroscope plausible again."""
    spins = 14.0

    def slow(t: float) -> float:
        return SPEED if t < spins else 2.0

    found = run(after(lambda t: turning(t) + 0.6, until=spins), estimated=slow, until=20.0)
    assert not any(sound for t, sound in found if FAILS + 1.0 < t < spins)
    assert all(sound for t, sound in found if t > spins + 2.5)


def test_wheels_confirm_the_part_of_an_angle_gained_within_their_window_of_a_second():
    """The bias grows by 0.1 rad/s², which is 0.15 rad within the last of two seconds."""
    found: list[tuple[bool | None, ...]] = []

    def note(t: float, yaw: YawConsistency) -> None:
        if FAILS + 1.9 < t < FAILS + 2.0:
            found.append(tuple(yaw.confirm(angle, 2.0) for angle in (0.2, 0.3, 0.7)))
            assert yaw.excess == pytest.approx(0.15, abs=0.04)

    def drift(t: float) -> float:
        return turning(t) + 0.1 * max(t - FAILS, 0.0)

    run(drift, until=FAILS + 2.0, made=note, course_agrees=lambda t: t < FAILS)
    assert set(found) == {(True, True, None)}


def test_wheels_show_an_excess_at_all_times_although_their_own_times_are_uneven():
    """As those of an adapter. The comparison of a second must not end where two samples are closer together."""
    found: list[float] = []

    def note(t: float, yaw: YawConsistency) -> None:
        if t > FAILS + 1.1:
            found.append(yaw.excess)

    wrong = after(lambda t: turning(t) + 0.1)
    run(wrong, until=FAILS + 4.0, made=note, counters=False, jitter=0.001, course_agrees=lambda t: t < FAILS)
    assert min(found) > 0.01


def test_a_drift_that_the_course_contradicts_is_not_learned_as_an_offset():
    """The bias grows by 0.02 rad/s². Averages over 5 s would follow it; without them it becomes implausible."""

    def drift(t: float) -> float:
        return turning(t) + 0.02 * max(t - FAILS, 0.0)

    followed, found = (
        run(drift, until=FAILS + 12.0, course_agrees=lambda t, agrees=agrees: agrees or t < FAILS)
        for agrees in (True, False)
    )
    assert all(sound for _, sound in followed)
    assert not all(sound for _, sound in found)
