"""The car in motion compared with closed forms: coasting, braking, accelerating, cornering."""

from dataclasses import replace

import numpy as np
import pytest
from vehicle_rig import G, Rig, ramp, vehicle

from vehicled.vehicle.kinematics import Corner, calc_rates
from vehicled.vehicle.model import AIR_DENSITY
from vehicled.vehicle.parameters import Aerodynamics, Axle, LinearTyre, Vehicle

NO_LIFT = {"aero.front_lift_area": 0.0, "aero.rear_lift_area": 0.0}


def wheels(rig: Rig) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Axial inertia, rolling radius and loaded radius of the wheels as they are now."""
    car = rig.car
    inertia = car.get_corner_parameter("wheel.axial")
    pressed = car.corner_output("tyre.fz") / car.get_corner_parameter("tyre.vertical_stiffness")
    return inertia, car.rolling_radius, car.get_corner_parameter("tyre.radius") - pressed


def effective_mass(rig: Rig) -> float:
    inertia, rolling, loaded = wheels(rig)
    return rig.vehicle.mass + float((inertia / (rolling * loaded)).sum())


def test_coasting_down_follows_air_and_rolling_resistance():
    v = vehicle("prototype")
    rig = Rig(v).set(NO_LIFT).roll(50.0)
    log = rig.drive(30.0)
    car = rig.car
    _, _, loaded = wheels(rig)
    rolling = car.get_corner_parameter("tyre.rolling_resistance") * car.corner_output("tyre.fz")
    force = float((rolling * car.get_corner_parameter("tyre.radius") / loaded).sum())
    drag, mass = 0.5 * AIR_DENSITY * v.aerodynamics.drag_area, effective_mass(rig)
    # m v̇ = −F − c v²
    phase = np.arctan(50.0 * np.sqrt(drag / force)) - log.t * np.sqrt(drag * force) / mass
    assert log["vx"] == pytest.approx(np.sqrt(force / drag) * np.tan(phase), rel=2e-3)
    assert np.abs(log["y"]).max() < 1e-3
    assert (log.iterations > 0).all()


def test_deceleration_follows_the_brake_torques():
    v = vehicle("prototype")
    rig = Rig(v).set(NO_LIFT | {"aero.drag_area": 0.0}, tyre__rolling_resistance=0.0).roll(30.0)
    log = rig.drive(2.0, brake=lambda t: 30e5)
    _, _, loaded = wheels(rig)
    torque = np.array([v.axle(w).brake.gain for w in ("fl", "fr", "rl", "rr")]) * 30e5
    steady = log.t > 1.0
    expected = -(torque / loaded).sum() / effective_mass(rig)
    assert log["ax"][steady] == pytest.approx(expected, rel=0.01)
    assert expected == pytest.approx(-3.6, abs=0.3)


def test_wheels_lock_at_the_friction_limit_and_not_before():
    v = vehicle("prototype")

    def locked(share: float) -> np.ndarray:
        """Whether wheels are locked after 1 s at a share of the pressure for the largest force of the front tyres."""
        rig = Rig(v).set(NO_LIFT | {"aero.drag_area": 0.0}, tyre__rolling_resistance=0.0).roll(30.0)
        log = rig.drive(1.0, brake=lambda t: share * limit * min(t / 0.3, 1.0))
        assert (log.iterations > 0).all()
        return np.abs(rig.car.corner_output("wheel.speed")) < 0.5

    # Front axle: load with transfer at deceleration d; all torques are proportional to pressure.
    a = v.front.hard_points.wheel_center[0] - v.center_of_mass()[0]
    base = a - v.rear.hard_points.wheel_center[0] + v.front.hard_points.wheel_center[0] - a
    tyre, height = v.front.tyre, v.center_of_mass()[2]
    radius = tyre.radius - 4000 / tyre.vertical_stiffness
    gains = v.front.brake.gain / radius, v.rear.brake.gain / radius

    def surplus(pressure: float) -> float:
        deceleration = 2 * sum(gains) * pressure / v.mass
        load = 0.5 * v.mass * (G * (base - a) + deceleration * height) / base
        one, two = tyre.longitudinal.fm
        ratio = load / tyre.nominal_load
        return gains[0] * pressure - ratio * (2 * one - 0.5 * two - (one - 0.5 * two) * ratio)

    low, high = 10e5, 200e5
    for _ in range(40):
        limit = 0.5 * (low + high)
        low, high = (limit, high) if surplus(limit) < 0 else (low, limit)
    assert not locked(0.95).any()
    assert locked(1.08)[:2].all()
    assert not locked(1.08)[2:].any()


def test_the_car_comes_to_rest_under_brakes_without_chatter():
    for pressure in (20e5, 60e5, 140e5):
        rig = Rig(vehicle("prototype")).roll(8.0)
        log = rig.drive(10.0, brake=lambda t, p=pressure: p)
        assert (log.iterations > 0).all()
        # After the stop the car pitches on its springs and tyres, and then stands.
        late = log.t > 8.0
        assert np.abs(log["vx"][late]).max() < 1e-3
        assert np.abs(log["wheel.speed"][late]).max() < 1e-2
        assert np.abs(np.diff(log["ax"][late])).max() < 0.02
        assert log["x"][-1] == pytest.approx(log["x"][log.t > 8.0][0], abs=1e-3)


def test_from_standstill_to_70_m_s_and_back_without_chatter():
    rig = Rig(vehicle("prototype"))
    power, greatest = 150e3, 1250.0

    def torque(t: float) -> float:
        spin = max(float(rig.car.corner_output("wheel.speed")[2:].mean()), 1.0)
        return min(greatest, power / 2 / spin) if t < 40.0 else 0.0

    log = rig.drive(52.0, torque=torque, brake=lambda t: 60e5 if t > 40.5 else 0.0)
    assert (log.iterations > 0).all()
    assert log.violation < 1e-8
    assert log["vx"].max() > 68.0
    assert abs(log["vx"][-1]) < 0.05
    # Except at the start, the change to the brakes and the stop, wheels do not oscillate at the rate of the steps.
    steady = ((log.t > 0.2) & (log.t < 39.9)) | ((log.t > 41.0) & (log["vx"] > 1.0))
    jerk = np.abs(np.diff(log["wheel.speed"], 2, axis=0))
    assert jerk[steady[2:]].max() < 0.05
    accelerating = (log.t > 0.5) & (log.t < 39.0)
    gain = np.diff(log["wheel.speed"][accelerating], axis=0)
    assert (gain[:, :2] > 0).all()
    # The rear wheels spin at the start and slow down as the tyres grip again, which makes the car pitch.
    assert (np.diff(np.sign(gain[:, 2:]), axis=0) != 0).sum(axis=0).max() <= 8


def test_the_start_at_full_throttle_is_smooth():
    """Spinning wheels from standstill, where the relaxation of the tyre is at its slowest."""
    rig = Rig(vehicle("prototype"))
    log = rig.drive(3.0, torque=lambda t: 1900.0 * min(t / 0.1, 1.0))
    assert (log.iterations > 0).all()
    slip = log["slip.ratio"][:, 2:]
    assert slip.max() > 0.3
    acceleration = np.diff(log["wheel.speed"][:, 2:], axis=0)
    turns = np.diff(np.sign(acceleration), axis=0) != 0
    assert turns.sum(axis=0).max() <= 2


@pytest.mark.parametrize("name", ["prototype", "ferrari_250lm"])
def test_every_step_converges_as_the_car_lands_from_jumps(name):
    """Wheels touch down one after the other, some driven, some steered, down to the bump stops."""
    rng = np.random.default_rng(3)
    rig = Rig(vehicle(name))
    for _ in range(12):
        rig.car.rest()
        change = np.zeros(12)
        change[2], change[10:] = 0.3, 0.2 * rng.normal(size=2)
        rig.roll(rng.uniform(0, 40)).car.correct(change)
        push = rng.uniform(-300, 600)
        log = rig.drive(1.5, rack=ramp(rng.uniform(-0.01, 0.01)), torque=lambda t, push=push: push)
        assert (log.iterations > 0).all()
        assert log.violation < 1e-8
        assert log["tyre.fz"].max() > 8000


@pytest.mark.parametrize("speed", [0.3, 1.0, 3.0, 10.0, 40.0, 70.0])
def test_constant_speed_is_free_of_oscillations(speed):
    """Free rolling with a little steering, from walking pace to high speed."""
    rig = Rig(vehicle("prototype")).roll(speed)
    log = rig.drive(4.0, rack=ramp(0.002 if speed < 20 else 0.0005))
    assert (log.iterations > 0).all()
    late = log.t > 2.0
    assert np.abs(np.diff(log["wheel.speed"][late], 2, axis=0)).max() < 1e-4
    assert np.abs(np.diff(log["wz"][late], 2)).max() < 1e-5


# -- cornering ------------------------------------------------------------------------------------


def cornering_stiffness(axle: Axle, load: float) -> float:
    """Cornering stiffness of an axle, N/rad, from its tyres' data."""
    if isinstance(axle.tyre, LinearTyre):
        return 2 * axle.tyre.slip_stiffness_y
    one, two = axle.tyre.lateral.df0
    ratio = load / axle.tyre.nominal_load
    return 2 * ratio * (2 * one - 0.5 * two - (one - 0.5 * two) * ratio)


def trail(axle: Axle, load: float) -> float:
    if isinstance(axle.tyre, LinearTyre):
        return 0.0
    t = axle.tyre
    return t.trail * 2 * np.sqrt(t.radius * load / t.vertical_stiffness)


def understeer_gradient(v: Vehicle) -> tuple[float, float]:
    """Wheelbase, and K of δ = L/R + K ay of the single-track model: slip angles of the forces that balance
    laterally and in yaw, acting a pneumatic trail behind each axle."""
    a = v.front.hard_points.wheel_center[0] - v.center_of_mass()[0]
    b = v.center_of_mass()[0] - v.rear.hard_points.wheel_center[0]
    loads = [0.5 * v.mass * G * x / (a + b) for x in (b, a)]
    to_front, to_rear = a - trail(v.front, loads[0]), b + trail(v.rear, loads[1])
    front, rear = (cornering_stiffness(x, n) for x, n in zip((v.front, v.rear), loads, strict=True))
    return a + b, v.mass / (to_front + to_rear) * (to_rear / front - to_front / rear)


def rolling_free(v: Vehicle, without_trail: bool = False) -> Vehicle:
    """The vehicle without air and rolling resistance, so that a corner is steady."""

    def axle(x: Axle) -> Axle:
        if isinstance(x.tyre, LinearTyre):
            return x
        change = {"rolling_resistance": 0.0} | ({"trail": 0.0} if without_trail else {})
        return replace(x, tyre=replace(x.tyre, **change))

    return replace(v, aerodynamics=Aerodynamics(), front=axle(v.front), rear=axle(v.rear))


def steered(v: Vehicle, speed: float, acceleration: float) -> tuple[float, float, Rig]:
    """δ − L/R and ay in a steady corner at small lateral acceleration."""
    base, gradient = understeer_gradient(v)
    per_rack = -calc_rates(Corner.of(v.front.hard_points), 0.0, 1.0).spin_axis[0]
    angle = acceleration * (base / speed**2 + gradient)
    rig = Rig(v).roll(speed)
    rig.drive(8.0, rack=ramp(angle / per_rack))
    reached = rig.car.output("wz") * rig.car.output("vx")
    return angle - base * rig.car.output("wz") / rig.car.output("vx"), reached, rig


@pytest.mark.parametrize(
    ("name", "without_trail", "within"),
    [
        ("ferrari_250lm", True, 4e-5),
        ("ferrari_250lm", False, 6e-5),
        ("prototype", True, 6e-5),
        ("prototype", False, 8e-5),
        ("reference_vehicle", False, 3e-6),
    ],
)
def test_steady_cornering_has_the_closed_form_understeer_gradient(name, without_trail, within):
    """`within`: rad/(m/s²); each axle has 5 to 9·10⁻³. The prototype has a little roll steer."""
    v = rolling_free(vehicle(name), without_trail)
    for speed in (12.0, 25.0):
        surplus, acceleration, _ = steered(v, speed, 0.3)
        assert surplus / acceleration == pytest.approx(understeer_gradient(v)[1], abs=within)


@pytest.mark.parametrize("rear", [40e3, 70e3])
def test_unequal_linear_tyres_give_the_closed_form_understeer_gradient(rear):
    """The reference vehicle is neutral; with other rear tyres it over- or understeers by a known amount."""
    v = vehicle("reference_vehicle")
    v = replace(v, rear=replace(v.rear, tyre=replace(v.rear.tyre, slip_stiffness_y=rear)))
    _, gradient = understeer_gradient(v)
    assert gradient * (rear - 50e3) > 0
    surplus, acceleration, _ = steered(v, 15.0, 0.3)
    assert surplus / acceleration == pytest.approx(gradient, rel=0.01)


def test_sideslip_of_a_steady_corner_has_its_closed_form():
    """β = b/R − α_rear at the centre of mass."""
    v = rolling_free(vehicle("ferrari_250lm"), True)
    _, acceleration, rig = steered(v, 25.0, 0.3)
    a = v.front.hard_points.wheel_center[0] - v.center_of_mass()[0]
    b = v.center_of_mass()[0] - v.rear.hard_points.wheel_center[0]
    slip = v.mass * acceleration * a / (a + b) / cornering_stiffness(v.rear, 0.5 * v.mass * G * a / (a + b))
    assert rig.car.output("sideslip") == pytest.approx(b * acceleration / 25.0**2 - slip, rel=0.02)
    # ISO 8855: in a bend to the left, wheels point to the left of their velocity, and slip angles are negative.
    assert rig.car.corner_output("slip.angle")[2:] == pytest.approx(-slip, rel=0.03)


def test_rack_to_the_left_steers_left_with_tie_rods_in_front():
    rig = Rig(vehicle("prototype")).roll(15.0)
    log = rig.drive(2.0, rack=ramp(0.005))
    assert log["wz"][-1] > 0.05
    assert log["y"][-1] > 0.5
    assert log["roll"][-1] > 0.001  # leans to the right, the outside


def test_left_and_right_mirror_each_other():
    logs = []
    for sign in (1.0, -1.0):
        rig = Rig(vehicle("prototype")).roll(20.0)
        logs.append(rig.drive(3.0, rack=ramp(sign * 0.01), brake=lambda t: 15e5 if t > 2 else 0.0))
    left, right = logs
    assert left["y"] == pytest.approx(-right["y"], abs=1e-7)
    assert left["wz"] == pytest.approx(-right["wz"], abs=1e-8)
    assert left["tyre.fz"] == pytest.approx(right["tyre.fz"][:, [1, 0, 3, 2]], abs=1e-3)
