"""Steering, torque and pressure as inputs of the model."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vehicle_rig import vehicle

from vehicled.filter.states import Group
from vehicled.sources.inputs.brakes import BrakePressure
from vehicled.sources.inputs.inputs import Inputs
from vehicled.sources.inputs.steering import Steering, SteeringInput
from vehicled.sources.inputs.torques import Torques, WheelTorques
from vehicled.sources.inputs.tracker import HORIZON, Tracker
from vehicled.sources.sensors import Sensors
from vehicled.vehicle.arrays import AHEAD, BRAKE_PRESSURE, DRIVE_TORQUE, LEFT, RACK
from vehicled.vehicle.car import Car
from vehicled.vehicle.differential import Differential
from vehicled.vehicle.sensor_models import SENSOR_KERNELS
from vehicled.vehicle.steering import SteeringGeometry


def track(times, signal, memory: float = 0.02) -> Tracker:
    tracker = Tracker(memory)
    for t in times:
        tracker.update(t, signal(t))
    return tracker


def test_a_ramp_is_followed_without_lag_and_its_rate_is_found():
    tracker = track(np.arange(0.0, 0.5, 0.01), lambda t: 3.0 + 0.7 * t)
    assert tracker.at(0.495) == pytest.approx((3.0 + 0.7 * 0.495, 0.7), rel=1e-6)


@given(st.lists(st.floats(1e-3, 0.05), min_size=20, max_size=60))
@settings(max_examples=30)
def test_samples_may_come_at_any_rate(intervals):
    """The memory is a time constant. After 20 of them, the initial error is gone."""
    times = np.cumsum(intervals)
    times *= 0.4 / times[-1]
    tracker = track(times, lambda t: 1.0 + 2.0 * t)
    assert tracker.at(times[-1])[0] == pytest.approx(1.0 + 2.0 * times[-1], abs=0.02)


def test_noise_is_reduced_by_less_than_half():
    rng = np.random.default_rng(0)
    tracker, error = Tracker(0.02), []
    for k in range(2000):
        tracker.update(k * 0.01, rng.normal())
        error.append(tracker.at(k * 0.01)[0])
    assert 0.5 < np.std(error[100:]) < 1.0


def test_after_the_horizon_the_extrapolated_value_is_held():
    tracker = track(np.arange(0.0, 0.5, 0.01), lambda t: t)
    last = 0.49
    assert tracker.at(last + HORIZON)[0] == pytest.approx(last + HORIZON, rel=1e-3)
    assert tracker.at(last + 5.0) == pytest.approx((last + HORIZON, 0.0), rel=1e-3)


def test_samples_that_are_not_newer_are_left_out():
    tracker = track(np.arange(0.0, 0.5, 0.01), lambda t: t)
    before = tracker.at(0.49)
    tracker.update(0.49, 77.0)
    tracker.update(0.2, 77.0)
    assert tracker.at(0.49) == before


def test_without_a_sample_value_and_rate_are_zero():
    assert Tracker(0.02).at(3.0) == (0.0, 0.0)


@pytest.fixture(scope="module")
def car() -> Car:
    return Car(vehicle("prototype"), (SENSOR_KERNELS,))


def make_inputs(
    car: Car, steering: SteeringInput | None = None, torques: WheelTorques | None = None
) -> Inputs:
    sensors = Sensors(steering=steering or SteeringInput(), wheel_torques=torques or WheelTorques())
    return Inputs(car, sensors)


def feed(inputs: Inputs, values: dict[str, float]) -> None:
    for k in range(30):
        inputs.take(k * 10_000_000, values)
    inputs.apply(0.29)


def test_each_source_of_steering_moves_the_same_rods(car):
    """Rack, steering wheel or road wheels, each with its offset."""
    rack = 0.012
    geometry = SteeringGeometry(car.vehicle)
    rods = geometry.sign * rack
    angles = {f"steer.{w}": geometry.angle(n, rods) for n, w in enumerate(("fl", "fr"))}
    given = {
        "rack": ({"steer.rack": rack + 0.001}, 0.001),
        "wheel": ({"steer.wheel": rack / geometry.ratio - 0.2}, -0.2),
        "road_wheels": ({c: a + 0.02 for c, a in angles.items()}, 0.02),
    }
    others = {"steer.rack": 0.5, "steer.wheel": 3.0, "steer.fl": 0.5, "steer.fr": 0.5}
    for source, (values, offset) in given.items():
        inputs = make_inputs(car, SteeringInput(source=source, offset=offset))
        feed(inputs, others | values)
        assert car.corner_inputs[0, :2] == pytest.approx([rods, rods], abs=1e-7), source
        assert car.inputs[0] == pytest.approx(rods, abs=1e-7)
        assert car.corner_inputs[1, :2] == pytest.approx([0.0, 0.0], abs=1e-6)


def test_a_road_wheel_that_is_not_measured_turns_with_the_other(car):
    geometry = SteeringGeometry(car.vehicle)
    inputs = make_inputs(car, SteeringInput(source="road_wheels"))
    feed(inputs, {"steer.fl": geometry.angle(0, 0.012)})
    assert car.corner_inputs[0, :2] == pytest.approx([0.012, 0.012], abs=1e-7)


def test_the_noise_of_an_unmeasured_steering_angle_depends_on_the_motion(car):
    """It is small at speed and larger in slow motion and after standstill. A new angle follows once at speed."""
    steering = make_inputs(car).steering
    assert not steering.check(1.0, 10.0, 0.2)
    rolling = steering.noise
    steering.check(2.0, 2.0, 0.2)
    assert steering.noise > 2.0 * rolling
    assert not steering.is_replaced_anew
    for t in (3.0, 9.0):
        steering.check(t, 0.0, 0.0)
        assert steering.noise == 0.0
    steering.check(9.1, 1.0, 0.2)
    assert steering.noise > 2.0 * rolling
    for t, is_new in ((10.0, True), (10.1, False)):
        steering.check(t, 10.0, 0.2)
        assert steering.noise == rolling
        assert steering.is_replaced_anew == is_new


def calc_added(steering: Steering, begin: float, way: float, speed: float) -> float:
    """Variance that the noise adds to the angle over a distance `way` (m) from `begin` (s) on, rad²."""
    dt, added = 0.004, 0.0
    for k in range(1, round(way / speed / dt) + 1):
        steering.check(begin + k * dt, speed, 0.0)
        added += steering.noise**2 * dt
    return added


@pytest.mark.parametrize("speed", [0.15, 1.0])
def test_an_angle_turned_at_standstill_is_found_over_a_distance_not_at_once(car, speed):
    """Otherwise noise would turn the wheels of the model to and fro as a car pulls off in a traffic jam."""
    steering = make_inputs(car).steering
    steering.check(1.0, 10.0, 0.2)
    for t in (2.0, 3.0, 4.0):
        steering.check(t, 0.0, 0.0)
    by_driver = 0.1**2 / speed
    """Per metre."""
    begin = calc_added(steering, 4.0, 0.1, speed)
    assert begin < 0.12 * 0.3**2 + 0.1 * by_driver
    rest = calc_added(steering, 4.0 + 0.1 / speed, 2.9, speed)
    assert begin + rest == pytest.approx(0.95 * 0.3**2 + 3.0 * by_driver, rel=0.05)


def test_a_measured_steering_angle_is_not_replaced_at_standstill(car):
    inputs = make_inputs(car)
    steering = inputs.steering
    for k in range(100):
        inputs.take(k * 10_000_000, {"steer.rack": 0.01})
        assert steering.check(0.01 * k, 0.0 if k < 50 else 1.0, 0.0)
        assert not steering.is_replaced_anew


def test_torque_and_pressure_are_held_and_negative_pressure_is_zero(car):
    inputs = make_inputs(car)
    inputs.take(0, {"torque.rl": 100.0, "torque.rr": -50.0, "brake.pressure": 2e6})
    inputs.take(400_000_000, {"imu.ax": 3.0})
    inputs.apply(0.4)
    assert car.corner_inputs[3].tolist() == [0.0, 0.0, 100.0, -50.0]
    assert car.corner_inputs[4].tolist() == [2e6] * 4
    inputs.take(400_000_000, {"brake.pressure": -1e4})
    inputs.apply(0.45)
    assert not car.corner_inputs[4].any()


def follow_pressure(car, pressure) -> np.ndarray:
    """Brake pressures (Pa) given to the model; `pressure`: function of time (s), measured and applied every 4 ms."""
    inputs, found = make_inputs(car), []
    for k in range(100):
        inputs.take(4_000_000 * k, {"brake.pressure": pressure(0.004 * k)})
        inputs.apply(0.004 * k)
        found.append(car.corner_inputs[4][0])
    return np.array(found)


def test_the_brake_pressure_is_followed_without_delay_in_an_emergency(car):
    """100 bar within 0.12 s."""
    ramp = lambda t: 1e7 * min(t / 0.12, 1.0)  # noqa: E731
    assert follow_pressure(car, ramp) == pytest.approx([ramp(0.004 * k) for k in range(100)])
    assert follow_pressure(car, lambda t: 2e6) == pytest.approx(2e6)  # at the start as well


def test_a_brake_pressure_that_jumps_is_followed_with_delay(car):
    """No real pressure rises so fast. A fall to zero is followed at once."""
    found = follow_pressure(car, lambda t: 2e6 if 0.1 < t < 0.3 else 0.0)
    assert np.diff(found).max() < 1e6
    assert found[40:75] == pytest.approx(2e6)
    assert not found[[*range(26), *range(75, 100)]].any()


def test_torque_and_pressure_are_unknown_half_a_second_after_their_last_sample(car):
    """Then the model gets zero, and the filter estimates the force instead."""
    inputs = make_inputs(car)
    assert not inputs.check_drive(0.0, 0.0, None)
    inputs.take(0, {"torque.rl": 100.0, "torque.rr": -50.0})
    assert not inputs.check_drive(0.1, 0.0, None)  # the pressure is not measured
    inputs.take(100_000_000, {"brake.pressure": 2e6})
    assert inputs.check_drive(0.1, 0.0, None)
    inputs.take(400_000_000, {"torque.rl": 100.0, "brake.pressure": 2e6})
    inputs.apply(0.49)
    assert inputs.check_drive(0.49, 0.0, None)
    assert car.corner_inputs[3:5].all(axis=0).tolist() == [False, False, True, True]
    # Both wheels have to be measured.
    inputs.apply(0.51)
    assert not inputs.check_drive(0.51, 0.0, None)
    assert not car.corner_inputs[3].any()
    assert car.corner_inputs[4].tolist() == [2e6] * 4
    inputs.apply(0.91)
    assert not car.corner_inputs[4].any()


def test_each_wheel_gets_its_measured_torque(car):
    inputs = make_inputs(car)
    torques = {"torque.fl": 10.0, "torque.fr": 20.0, "torque.rl": 30.0, "torque.rr": -40.0}
    inputs.take(0, torques)
    inputs.apply(0.0)
    assert car.corner_inputs[3].tolist() == [10.0, 20.0, 30.0, -40.0]


@pytest.mark.parametrize(
    ("driven", "channels", "known"),
    [
        ("rear", "rl rr", True),
        ("rear", "rear", True),
        ("rear", "fl fr", False),
        ("front", "fl fr", True),
        ("front", "rl rr", False),
        ("all", "rl rr", False),
        ("all", "front", False),
        ("all", "fl fr rl rr", True),
        ("all", "front rl rr", True),
        ("all", "front rear", True),
        ("all", "fl fr rl", False),
    ],
)
def test_the_drive_is_known_when_all_driven_wheels_are_measured(monkeypatch, car, driven, channels, known):
    monkeypatch.setattr(car, "vehicle", dataclasses.replace(car.vehicle, driven=driven))
    inputs = make_inputs(car)
    inputs.take(0, {"brake.pressure": 0.0} | {f"torque.{c}": 100.0 for c in channels.split()})
    assert inputs.check_drive(0.1, 0.0, None) == known
    inputs.apply(0.1)
    measured = set(channels.split())
    for axle, wheels, places in (("front", {"fl", "fr"}, slice(2)), ("rear", {"rl", "rr"}, slice(2, 4))):
        # Half of the torque of the axle; an axle that is only partly measured gets none.
        torque = 100.0 if wheels <= measured else 50.0 if axle in measured else 0.0
        assert car.corner_inputs[3, places].tolist() == [torque, torque]


def test_the_differential_acts_only_on_an_axle_without_torque_sensors_at_its_wheels(monkeypatch, car):
    """Torques measured at the wheels already include the effect of the differential."""
    limited = Differential(kind="limited_slip", preload=60.0, locking=0.5)
    rear = dataclasses.replace(car.vehicle.rear, differential=limited)
    monkeypatch.setattr(car, "vehicle", dataclasses.replace(car.vehicle, rear=rear))
    inputs = make_inputs(car)
    inputs.apply(0.0)
    assert car.corner_inputs[5].tolist() == [0.0, 0.0, 30.0, 30.0]
    inputs.take(0, {"torque.rear": -400.0})
    inputs.apply(0.0)
    assert car.corner_inputs[5].tolist() == [0.0, 0.0, 130.0, 130.0]
    assert car.corner_inputs[3].tolist() == [0.0, 0.0, -200.0, -200.0]
    inputs.take(200_000_000, {"torque.rl": 10.0, "torque.rr": 90.0})
    inputs.apply(0.2)
    assert not car.corner_inputs[5].any()
    assert car.corner_inputs[3].tolist() == [0.0, 0.0, 10.0, 90.0]
    # The last samples of the wheels and of the axle are too old.
    inputs.apply(0.71)
    assert car.corner_inputs[5].tolist() == [0.0, 0.0, 30.0, 30.0]
    assert not car.corner_inputs[3].any()


def test_the_gain_of_the_torque_sensor_is_applied(car):
    inputs = make_inputs(car, torques=WheelTorques(gain=1.02))
    inputs.take(0, {"torque.rl": 100.0, "torque.rr": -50.0})
    inputs.apply(0.0)
    assert car.corner_inputs[3].tolist() == [0.0, 0.0, 102.0, -51.0]


def test_new_settings_take_effect_with_the_next_samples(car):
    inputs = make_inputs(car)
    changed = Sensors(
        steering=SteeringInput(offset=0.001),
        wheel_torques=WheelTorques(gain=2.0),
        brake_pressure=BrakePressure(offset=1e5),
    )
    inputs.reconfigure(changed)
    feed(inputs, {"torque.rl": 100.0, "torque.rr": 100.0, "steer.rack": 0.001, "brake.pressure": 3e5})
    assert car.corner_inputs[3, 2] == 200.0
    assert car.corner_inputs[4].tolist() == [2e5] * 4
    assert car.corner_inputs[0, :2] == pytest.approx([0.0, 0.0], abs=1e-9)
    inputs.reset()
    inputs.apply(0.0)
    assert not car.corner_inputs[3:].any()
    assert not car.corner_inputs[:2].any()


def test_the_latency_of_torques_and_pressures_is_compensated(car):
    """A ramp that is 60 ms late is extrapolated to the present, and the sum of torques stays right."""
    late = 0.06
    sensors = Sensors(wheel_torques=WheelTorques(latency=late), brake_pressure=BrakePressure(latency=late))
    inputs, torque, pressure = Inputs(car, sensors), [], []
    for k in range(200):
        t = k * 0.01
        of = min(max(t - late - 0.3, 0.0), 0.8) / 0.8
        inputs.take(round(t * 1e9), {"torque.rl": 1000.0 * of, "torque.rr": 0.0, "brake.pressure": 5e6 * of})
        inputs.apply(t)
        torque.append(car.corner_inputs[DRIVE_TORQUE, 2])
        pressure.append(car.corner_inputs[BRAKE_PRESSURE, 0])
    true = np.clip((np.arange(200) * 0.01 - 0.3) / 0.8, 0.0, 1.0)
    assert torque[60] == pytest.approx(1000.0 * true[60], rel=0.01)
    assert pressure[60] == pytest.approx(5e6 * true[60], rel=0.01)
    assert sum(torque) == pytest.approx(1000.0 * true.sum(), rel=0.01)
    assert inputs._find(Torques).measured_at == pytest.approx(1.99)


@pytest.mark.parametrize(
    ("before", "after", "is_mirrored"),
    [(-1.2, 1.3, True), (1.3, -1.2, True), (-0.2, 0.2, False), (1.2, 1.3, False)],
)
def test_the_steering_angle_is_mirrored_if_the_speed_had_the_wrong_sign(car, before, after, is_mirrored):
    """The measured yaw rate stays the same. A car that passes through standstill keeps its steering angle."""
    inputs, yaw_rate = make_inputs(car), 0.3
    sources = SimpleNamespace(yaw_rate=yaw_rate, imu=None)
    offset = {"angle": car.vehicle.wheelbase * yaw_rate / before, "variance": 0.0}

    def move(group, by):
        offset["angle"] += by

    def add(group, element, variance):
        offset["variance"] += variance

    f = SimpleNamespace(
        is_drive_known=False,
        pose=np.zeros(LEFT + 1),
        set_drive_known=lambda known: None,
        set_steering_known=lambda known, noise: None,
        slow=SimpleNamespace(get=lambda group: np.array([offset["angle"]]), move=move),
        add_variance=add,
    )
    for k, speed in enumerate((before, before, after)):
        f.pose[AHEAD] = speed
        inputs.check(0.004 * k, f, sources)
    kept = car.vehicle.wheelbase * yaw_rate / before
    assert offset["angle"] == pytest.approx(-kept if is_mirrored else kept)
    assert (offset["variance"] > 0.0) == is_mirrored


@pytest.mark.parametrize("before", [-4.0, -2.5])
def test_a_steering_angle_by_rolling_is_mirrored_once(car, before):
    """Above 3 m/s, the angle by rolling already belongs to the new speed and is not mirrored again."""
    inputs, yaw_rate, after = make_inputs(car), 0.3, 4.0
    sources, wheelbase = SimpleNamespace(yaw_rate=yaw_rate, imu=None), car.vehicle.wheelbase
    offset = [0.0 if before < -3.0 else wheelbase * yaw_rate / before]

    def know_steering(known, noise):
        if known:
            offset[0] = 0.0  # that of the sensor, as before its loss

    def move(group, by):
        offset[0] += by

    f = SimpleNamespace(
        is_drive_known=False,
        pose=np.zeros(LEFT + 1),
        set_drive_known=lambda known: None,
        set_steering_known=know_steering,
        slow=SimpleNamespace(get=lambda group: np.array(offset), move=move),
        add_variance=lambda group, element, variance: None,
    )
    for k in range(100):
        f.pose[AHEAD] = before if k < 50 else after
        inputs.check(0.004 * k, f, sources)
    inputs.apply(0.4)
    angle = car.inputs[RACK] / inputs.steering.geometry.rack_per_angle + offset[0]
    assert angle == pytest.approx(wheelbase * yaw_rate / after, rel=0.02)


class Doubted:
    """Records which states of a filter become uncertain."""

    def __init__(self) -> None:
        self.pose, self.states, self.is_drive_known = np.zeros(64), (), True
        self.pose[AHEAD] = 10.0
        self.added: list[tuple[str, str, float]] = []

    def set_drive_known(self, known: bool) -> None: ...

    def set_steering_known(self, known: bool, noise: float) -> None: ...

    def add_variance(self, group: Group, element: str, variance: float) -> None:
        self.added.append((group.name, element, variance))


def test_a_wrong_angle_makes_the_lateral_velocity_that_has_followed_it_uncertain_once(car):
    """A rack that stays where it was, while the car begins to turn."""
    inputs, f = make_inputs(car), Doubted()
    steering = inputs.steering
    for k in range(200):
        t, yaw_rate = 0.01 * k, max(0.0, 0.01 * k - 0.5)
        inputs.take(round(t * 1e9), {"steer.rack": 0.0})
        inputs.check(t, f, SimpleNamespace(yaw_rate=yaw_rate, imu=None))
        if steering.found_off:
            found = steering.found_off
    assert steering.health.state == "distrusted"
    ((group, element, variance),) = f.added
    assert (group, element) == ("velocity", "left")
    assert variance == pytest.approx((0.5 * 10.0 * found) ** 2)
    assert 0.03 < found < 0.1
